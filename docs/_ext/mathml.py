"""Mathematics as MathML, which every current browser sets itself: no script, no font, no network."""

import re

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

FENCE = re.compile("<mo>([‖⟨⟩])</mo>")


def _element(node, display):
    text = node.astext().strip()
    # Browsers stretch fences to the height of what they stand beside; around letters they should not.
    return FENCE.sub(
        r'<mo stretchy="false">\1</mo>', tex2mathml(text, as_block=display)
    )


def visit_inline(writer, node):
    writer.body.append(_element(node, display=False))
    raise nodes.SkipNode


def visit_block(writer, node):
    writer.body.append(f'<div class="math">{_element(node, display=True)}</div>')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
