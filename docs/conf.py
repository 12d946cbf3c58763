"""Sphinx settings; generated pages are written by `tools/docs.py` before this is read."""

import sys
from pathlib import Path

import featavg
from featavg.figures.palette import DARK, LIGHT

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "featavg"
author = "The featavg authors"
project_copyright = "2026, the featavg authors"
version = release = featavg.__version__

extensions = ["myst_parser", "mathml", "sphinx_copybutton"]
html_math_renderer = "mathml"
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "gallery/*.py"]

html_theme = "furo"
html_title = "featavg"
html_static_path = ["_static"]
html_css_files = ["style.css"]
html_extra_path = ["playground.html"]
html_show_sphinx = False
html_copy_source = False
# A page opened from the disk may not read the others, of which a summary is made.
html_show_search_summary = False


def _colours(palette):
    """The palette of the report and the playground, and the theme's own names for some of it."""
    own = {
        "color-brand-primary": palette["decoupled"],
        "color-brand-content": palette["decoupled"],
        "color-foreground-primary": palette["ink"],
        "color-background-primary": palette["paper"],
        "color-background-secondary": palette["raised"],
        "color-background-border": palette["line"],
    }
    return palette | own


html_theme_options = {
    "light_css_variables": _colours(LIGHT),
    "dark_css_variables": _colours(DARK),
}


# The theme has scripts and styles of its own in every page; its search is the one form.
POLICY = "object-src 'none'; base-uri 'none'; form-action 'self'"


def _protect(app, pagename, templatename, context, doctree):
    meta = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    context["metatags"] = meta + context.get("metatags", "")


def setup(app):
    """Called by Sphinx."""
    app.connect("html-page-context", _protect)
