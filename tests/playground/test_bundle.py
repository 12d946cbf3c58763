"""Modules become one script, and mistakes are noticed when the page is made."""

import re

import pytest

from featavg.playground import page as bundle


def write(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.js").write_text(text)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(bundle, "HERE", tmp_path)
    return tmp_path


def test_a_module_comes_after_what_it_imports(folder):
    write(folder, a='import { two } from "./b.js";\nexport const four = two * two;\n', b="export const two = 2;\n")
    assert bundle.modules("a.js") == ["b.js", "a.js"]
    text = bundle.script("a.js")
    assert "const { two } = $b;" in text
    assert "export" not in text
    assert "return { four };" in text


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"a": 'import { b } from "./b.js";\n', "b": 'import { a } from "./a.js";\n'}, "each other"),
        ({"a": 'import { b } from "./b.js";\n', "b": "export const c = 1;\n"}, "does not have"),
        ({"a": "export default 3;\n"}, "another form"),
    ],
)
def test_mistakes_are_named(folder, files, problem):
    write(folder, **files)
    with pytest.raises(ValueError, match=problem):
        bundle.script("a.js")


def test_buttons_that_save_say_what_and_as_what():
    buttons = re.findall(r'<button[^>]*data-save="(svg|png)"[^>]*>', bundle.page())
    names = re.findall(r'<button[^>]*data-save="\w+" aria-label="Save [^"]+ as (SVG|PNG)"', bundle.page())
    assert [name.lower() for name in names] == buttons
    assert len(buttons) >= 6
