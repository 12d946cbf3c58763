"""The parts of a plotly layout that panels share: axes, rules, notes, arrows, circles, colours."""

from __future__ import annotations

import math
from collections.abc import Sequence

from featavg.figures.marks import Axis, Json, Note, Number, Numbers, Pair, Rule
from featavg.figures.palette import strength
from featavg.figures.typeset import number, without_tags


def draw_circle(center: Pair, radius: Number, role: str) -> Json:
    """A dashed circle."""
    (x, y), r = center, float(radius)
    box = {"x0": float(x) - r, "x1": float(x) + r, "y0": float(y) - r, "y1": float(y) + r}
    line = {"color": f"@{role}", "width": 1.5, "dash": "dash"}
    return {"type": "circle", "xref": "x", "yref": "y", "line": line} | box


def draw_arrow(start: Pair, end: Pair, label: str, role: str) -> list[Json]:
    """An arrow and its label, half way along."""
    head: Json = {"x": end[0], "y": end[1], "ax": start[0], "ay": start[1], "text": ""}
    head |= {"axref": "x", "ayref": "y", "xref": "x", "yref": "y", "showarrow": True}
    head |= {"arrowhead": 2, "arrowsize": 1.1, "arrowwidth": 2, "arrowcolor": f"@{role}"}
    middle = tuple((float(a) + float(b)) / 2 for a, b in zip(start, end, strict=True))
    return [head, text_at((middle[0], middle[1]), label, role)] if label else [head]


def text_at(at: Pair, text: str, role: str) -> Json:
    """A text at a point."""
    place: Json = {"x": float(at[0]), "y": float(at[1]), "xref": "x", "yref": "y"}
    look = {"showarrow": False, "text": text, "yanchor": "bottom", "font": {"color": f"@{role}"}}
    return place | look


def overlays(x: Axis, y: Axis, rules: Sequence[Rule], notes: Sequence[Note]) -> Json:
    """The shapes and annotations of reference lines and notes."""
    shapes, annotations = [], []
    for rule in rules:
        line = {"color": f"@{rule.role}", "width": 1.4, "dash": "dash"}
        shapes.append(across(rule.axis, rule.at, line))
        if rule.label:
            annotations.append(_rule_label(rule, x if rule.axis == "x" else y))
    for note in notes:
        at = (_place(x, note.x), _place(y, note.y))
        annotations.append(text_at(at, note.text, note.role))
    return {"shapes": shapes, "annotations": annotations}


def _rule_label(rule: Rule, axis: Axis) -> Json:
    """A horizontal line is named at its right end, a vertical one at its top, both beside it."""
    at = _place(axis, rule.at)
    look: Json = {"showarrow": False, "text": rule.label, "font": {"color": f"@{rule.role}"}}
    look |= {"bgcolor": "@paper/0.7", "borderpad": 1}  # readable where a curve passes
    if rule.axis == "y":
        place = {"xref": "x domain", "x": 1, "xanchor": "right", "yref": "y", "y": at}
        return look | place | {"yanchor": "bottom"}
    place = {"yref": "y domain", "y": 1, "yanchor": "top", "xref": "x", "x": at}
    return look | place | {"xanchor": "left", "xshift": 3}


def across(axis: str, at: Number, line: Json) -> Json:
    """A line across the whole panel."""
    other = "y" if axis == "x" else "x"
    ends = {f"{axis}0": float(at), f"{axis}1": float(at), f"{other}0": 0, f"{other}1": 1}
    return {
        "type": "line",
        f"{axis}ref": axis,
        f"{other}ref": f"{other} domain",
        "line": line,
    } | ends


def _place(axis: Axis, at: Number) -> float:
    """Annotations on a logarithmic axis are placed by the logarithm; shapes are not."""
    return math.log10(float(at)) if axis.log else float(at)


def axes(x: Axis, y: Axis, xs: Numbers, ys: Numbers) -> Json:
    """Both axes; the values tell how many decades a logarithmic one spans."""
    return {"xaxis": _axis(x, xs), "yaxis": _axis(y, ys)}


def _axis(axis: Axis, values: Numbers) -> Json:
    described: Json = {"title": {"text": axis.text}, "type": "log" if axis.log else "linear"}
    if axis.log:
        described |= {"exponentformat": "power"}
        known = [math.log10(float(v)) for v in values if not math.isnan(float(v))]
        decades = max(known, default=0.0) - min(known, default=0.0)
        if decades > 1.5:
            described["dtick"] = math.ceil(decades / 7)
        elif decades > 0.7:
            described["dtick"] = "D2"  # 1, 2 and 5 of a decade
    if axis.range is not None:
        described["range"] = [_place(axis, end) for end in axis.range]
    if axis.ticks is not None:
        described |= {"tickmode": "array", "tickvals": rounded(axis.ticks)}
        described["ticktext"] = list(axis.tick_labels or (number(t) for t in axis.ticks))
    return described


def ticks(labels: Sequence[str]) -> Json:
    """An axis of categories at 0, 1, 2, ..."""
    look: Json = {"tickmode": "array", "showgrid": False, "zeroline": False, "ticks": ""}
    step = -(-len(labels) // 16)  # more names than that do not fit
    if max(len(without_tags(label)) for label in labels) <= 4:
        look["tickangle"] = 0
    shown = range(0, len(labels), step)
    return look | {"tickvals": list(shown), "ticktext": [labels[i] for i in shown]}


def colour_of(role: str, shade: Number) -> str:
    """The placeholder of a role's colour in a shade."""
    return f"@{role}" if float(shade) == 1 else f"@{role}:{strength(shade):.3g}"


def short(value: Number) -> str:
    """A value for a cell of a heat map: two decimals, nothing for a gap."""
    if math.isnan(float(value)):
        return ""
    text = f"{float(value):.2f}"
    return "0.00" if text == "-0.00" else text.replace("-", "−")


def rounded(values: Numbers) -> list[float | None]:
    """Six significant digits are more than a screen shows; null is a gap."""
    return [None if math.isnan(float(v)) else float(f"{float(v):.6g}") for v in values]
