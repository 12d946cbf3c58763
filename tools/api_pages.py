"""The API: a page per public name, from its docstring, with an example that runs."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property, lru_cache
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from textwrap import fill
from typing import Any

from tools.docstrings import Pages, as_markdown, flowing, without_marks

import featavg
from featavg.registry import Registry

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "src" / "featavg" / "__init__.pyi"


@lru_cache
def surface() -> list[tuple[str, list[str]]]:
    """The public names by stage, in the order of `__init__.pyi`; `attacks.DDN` after the others."""
    stages: list[tuple[str, list[str]]] = [("everywhere", [])]
    spaces: list[tuple[str, list[str]]] = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            stages.append((line[2:], []))
        elif line.startswith("from featavg"):
            name = line.split(" as ")[-1].strip()
            parts = _parts_of(getattr(featavg, name))
            if parts is None:
                stages[-1][1].append(name)
            else:
                spaces.append((f"fa.{name}", [f"{name}.{part}" for part in parts]))
    return [(stage, names) for stage, names in [*stages, *spaces] if names]


def _parts_of(thing: object) -> list[str] | None:
    """The public names of a namespace such as `fa.attacks`; None of anything else."""
    if not inspect.ismodule(thing):
        return None
    stated = Path(str(thing.__file__)).read_text(encoding="utf-8")
    imported = re.findall(r" import (\w+) as \1$", stated, re.M)
    written = re.findall(r"^(?:class|def) ([A-Za-z]\w*)", stated, re.M)
    return imported or written


@lru_cache
def names() -> list[str]:
    return [name for _, listed in surface() for name in listed]


@lru_cache
def thing_of(name: str) -> Any:
    """The thing that `fa.NAME` is."""
    return attrgetter(name)(featavg)


def written_in(name: str) -> str:
    """The module that its docstring is in."""
    thing = inspect.unwrap(thing_of(name))
    spoken = inspect.isclass(thing) or inspect.isroutine(thing)
    return str(thing.__module__ if spoken else type(thing).__module__)


def docstring(name: str) -> str:
    """What `help(fa.NAME)` says."""
    thing = thing_of(name)
    if isinstance(thing, Registry):
        return _of_registry(thing)
    if inspect.isclass(thing):
        return inspect.cleandoc(thing.__dict__.get("__doc__") or "")
    return inspect.getdoc(thing) or ""


def _of_registry(parts: Registry[Any]) -> str:
    """That of the class, with the kind in the place of "one kind"; how to make one is left out."""
    said = inspect.cleandoc(Registry.__doc__ or "")
    said = said.replace("The parts of one kind, by name.", f"What `{parts.kind}` may be, by name.", 1)
    return re.sub(r"Args:\n(?: .*\n)+\n", "", said)


def makers() -> dict[str, list[str]]:
    """For each public class the public functions that return it."""
    classes = [name for name in names() if inspect.isclass(thing_of(name))]
    made: dict[str, list[str]] = {name: [] for name in classes}
    for name in names():
        thing = thing_of(name)
        if inspect.isclass(thing) or not callable(thing):
            continue
        returned = str(inspect.signature(thing).return_annotation)
        for other in classes:
            if re.search(rf"\b{other.rpartition('.')[2]}\b", returned):
                made[other].append(name)
    return made


def examples(name: str, made: dict[str, list[str]]) -> list[tuple[str, list[doctest.Example]]]:
    """The examples of a name: its own, else those of the functions that make it."""
    for source in (name, *made.get(name, [])):
        found = doctest.DocTestParser().get_examples(docstring(source))
        if found:
            return [(source, found)]
    return []


@contextmanager
def without_torch() -> Iterator[None]:
    """Where PyTorch is not installed: a stand-in, so that what needs it can still be described."""
    if find_spec("torch") is not None:
        yield
        return
    from sphinx.ext.autodoc.mock import mock

    with mock(["torch"]):
        # SciPy asks of every array whether it is one of torch's, and needs a class to ask for.
        import_module("torch").Tensor = type("Tensor", (), {})
        yield


def write(folder: Path) -> None:
    """The pages and their index."""
    folder.mkdir()
    made = makers()
    lines = ["# API", "", "Every public name, in the order of the stages; all are in `featavg`."]
    lines += ["`help(fa.NAME)` says the same.", ""]
    entries = []
    for stage, listed in surface():
        lines += [f"## {stage}", ""]
        for name in listed:
            first = docstring(name).split("\n\n")[0].replace("\n", " ")
            entries.append(file_of(name, thing_of(name)))
            lines.append(f"- [`{name}`]({entries[-1]}.md): {flowing(first)}")
            text = _page(name, thing_of(name), made)
            (folder / f"{entries[-1]}.md").write_text(text, encoding="utf-8")
        lines.append("")
    (folder / "index.md").write_text("\n".join(lines), encoding="utf-8")


def file_of(name: str, thing: object) -> str:
    """Names that differ only in their letters' size are different pages on every disk."""
    name = name.lower().replace(".", "-")
    if inspect.isclass(thing):
        return f"{name}-class"
    return f"{name}-{'function' if callable(thing) else 'value'}"


def _page(name: str, thing: Any, made: dict[str, list[str]]) -> str:
    signature = name
    if callable(thing) and not (inspect.isclass(thing) and issubclass(thing, Exception)):
        signature = _signature(name, thing)

    def page_of(other: str) -> str | None:
        return f"{_file(other)}.md" if other != name and other in names() else None

    # Not in the menu, which would make every page slow to write.
    parts = ["---", "orphan: true", "---", f"# {name}", ""]
    parts += ["```python", f"fa.{signature}", "```", ""]
    parts += [as_markdown(docstring(name), page_of), *_parts_by_name(thing, page_of)]
    shown = examples(name, made)
    if shown and shown[0][0] != name:
        parts += ["```pycon", without_marks(_as_typed(shown[0][1])), "```", ""]
    members = list(_members(thing)) if inspect.isclass(thing) else []
    if members:
        parts += ["## Methods and properties", ""]
    for called, doc in members:
        parts += [f"### `{called}`", "", as_markdown(doc, page_of)]
    return "\n".join([*parts, f"Defined in `{written_in(name)}`. All names: [API](index.md).", ""])


@lru_cache
def _file(name: str) -> str:
    return file_of(name, thing_of(name))


def _parts_by_name(thing: object, page_of: Pages) -> list[str]:
    """What a registry holds, each with its sentence."""
    if not isinstance(thing, Registry):
        return []
    lines = ["**What there is**", ""]
    for name in thing:
        part = thing[name]
        first = (inspect.getdoc(part) or "").split("\n\n")[0].replace("\n", " ")
        page = page_of(part.__name__)
        lines.append(f"- {f'[`{name}`]({page})' if page else f'`{name}`'}: {flowing(first)}")
    return [*lines, ""]


def _members(thing: type) -> Iterator[tuple[str, str]]:
    """The public methods and properties of a class that say what they are, as they are called."""
    for member, value in vars(thing).items():
        plain = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        attribute = isinstance(plain, (property, cached_property))
        doc = inspect.getdoc(plain) or ""
        if member.startswith("_") or not doc or not (attribute or callable(plain)):
            continue
        if attribute:
            yield member, doc
            continue
        arguments = list(inspect.signature(plain).parameters.values())
        given = arguments if isinstance(value, staticmethod) else arguments[1:]
        yield f"{member}({', '.join(_short(one) for one in given)})", doc


def _short(parameter: inspect.Parameter) -> str:
    """An argument with its default and without its type."""
    return _readable(str(parameter.replace(annotation=inspect.Parameter.empty)))


class _Type:
    """An annotation that shows itself as it was written."""

    def __init__(self, written: object) -> None:
        self.written = written

    def __repr__(self) -> str:
        return self.written if isinstance(self.written, str) else inspect.formatannotation(self.written)


def _signature(name: str, thing: Any) -> str:
    """As it would be called, one argument a line where it does not fit one."""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return name
    empty = inspect.Parameter.empty
    arguments = [
        one if one.annotation is empty else one.replace(annotation=_Type(one.annotation))
        for one in signature.parameters.values()
    ]
    made_by_class = inspect.isclass(thing) or signature.return_annotation is empty
    returned = empty if made_by_class else _Type(signature.return_annotation)
    text = _readable(f"{name}{inspect.Signature(arguments, return_annotation=returned)}")
    if len(text) <= 90:
        return text
    listed = "".join(f"{_wrapped(_readable(str(one)))},\n" for one in arguments)
    return f"{name}(\n{listed})" + (f" -> {returned!r}" if returned is not empty else "")


def _wrapped(argument: str) -> str:
    """An argument on a line of its own; a default may take several."""
    lines = {"initial_indent": " " * 4, "subsequent_indent": " " * 8}
    return fill(argument, 92, **lines, break_long_words=False, break_on_hyphens=False)


def _readable(text: str) -> str:
    text = re.sub(r"<function (\w+) at 0x[0-9a-f]+>", r"\1", text)
    return text.replace("<factory>", "...")


def _as_typed(found: list[doctest.Example]) -> str:
    lines = []
    for example in found:
        source = example.source.rstrip("\n").splitlines()
        lines += [f">>> {source[0]}", *(f"... {line}" for line in source[1:])]
        lines += example.want.rstrip("\n").splitlines() if example.want else []
    return "\n".join(lines)
