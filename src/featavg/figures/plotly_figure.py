"""From a figure's description to plotly's JSON, written directly: no plotly package is needed.

Colours are names of the palette with an "@" ("@averaged", "@averaged:0.5" half way to the paper,
"@averaged/0.2" see-through); the page's script puts in the colours of the current theme, so that
one description serves light and dark. Each panel is a plot of its own, which the page sets side by
side or one below the other; the legend is HTML and shared by the panels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

import numpy as np

from featavg.figures.marks import (
    PLOTLY,
    Axis,
    Bar,
    Drawable,
    Json,
    Label,
    Note,
    Number,
    Numbers,
    Pair,
    Points,
    Rule,
    Series,
)
from featavg.figures.palette import DIVERGING, strength
from featavg.figures.panels import Bars, Heatmap, Lines, Plane
from featavg.figures.typeset import number, without_tags

DASHES = {"solid": "solid", "dashed": "dash", "dotted": "dot", "line+markers": "solid"}
EDGE = {"color": "@paper", "width": 1}
# Side by side below a panel as many signs have room.
MOST_SIGNS = 42
MARKERS = {"o": "circle", "x": "x-thin", "+": "cross-thin", "s": "square", "*": "star"}


def plotly_panels(figure: Drawable) -> list[Json]:
    """One `{data, layout, aspect}` per panel; `aspect` is the height to ask for by width."""
    return [PLOTLY[type(panel)](panel) for panel in figure.panels]


def _lines(panel: Lines) -> Json:
    data: list[Json] = []
    for one in panel.series:
        data += _band(one)
    pairs = zip(panel.series, panel.markers, strict=True)
    data += [_curve(one, marker) for one, marker in pairs]
    xs = [v for one in panel.series for v in one.x]
    ys = [v for one in panel.series for part in (one.y, one.lo, one.hi) for v in part or ()]
    layout = axes(panel.x, panel.y, xs, ys) | overlays(panel.x, panel.y, panel.rules, panel.notes)
    return {"data": data, "layout": layout, "aspect": 0.68}


def _scatter(label: str, x: Numbers, y: Numbers, mode: str) -> Json:
    hover = "%{x:.4~g}, %{y:.4~g}<extra>%{fullData.name}</extra>"
    named = {"type": "scatter", "name": label, "legendgroup": label, "hovertemplate": hover}
    return named | {"x": rounded(x), "y": rounded(y), "mode": mode}


def _curve(one: Series, marker: str) -> Json:
    colour = colour_of(one.role, one.shade)
    mode = {"markers": "markers", "line+markers": "lines+markers"}.get(one.style, "lines")
    trace = _scatter(one.label, one.x, one.y, mode)
    trace["marker"] = {"color": colour, "size": 8, "symbol": marker, "line": EDGE}
    if one.style != "markers":
        trace["line"] = {"color": colour, "width": 2.25, "dash": DASHES[one.style]}
    return trace


def _band(one: Series) -> list[Json]:
    """The band as polygons, one per run without gaps; error bars where there are only markers."""
    if one.lo is None or one.hi is None:
        return []
    points = list(zip(one.x, one.lo, one.hi, strict=True))
    look: Json = {"type": "scatter", "legendgroup": one.label, "hoverinfo": "skip", "mode": "lines"}
    colour = colour_of(one.role, one.shade)
    if one.style == "markers":
        x = [v for px, _, _ in points for v in (px, px, math.nan)]
        y = [v for _, low, high in points for v in (low, high, math.nan)]
        line = {"color": colour, "width": 1.5}
        return [look | {"x": rounded(x), "y": rounded(y), "line": line}]
    runs = groupby(points, key=lambda p: not (math.isnan(p[1]) or math.isnan(p[2])))
    traces = []
    for whole, run in runs:
        part = list(run)
        if whole and len(part) > 1:
            x = [p[0] for p in part] + [p[0] for p in reversed(part)]
            y = [p[1] for p in part] + [p[2] for p in reversed(part)]
            fill = {"fill": "toself", "fillcolor": f"{colour}/0.18", "line": {"width": 0}}
            traces.append(look | {"x": rounded(x), "y": rounded(y)} | fill)
    return traces


def _heatmap(panel: Heatmap) -> Json:
    stops = [[i / 4, f"@{name}"] for i, name in enumerate(DIVERGING)]
    rows, columns = len(panel.rows), len(panel.columns)
    trace: Json = {
        "type": "heatmap",
        "z": [rounded(row) for row in panel.values],
        "x": list(range(columns)),
        "y": list(range(rows)),
        "customdata": [[[row, column] for column in panel.columns] for row in panel.rows],
        "zmin": -panel.scale,
        "zmax": panel.scale,
        "colorscale": stops,
        "xgap": int(columns <= 24),
        "ygap": int(rows <= 24),
        "hoverongaps": False,
        "showscale": not panel.shows_values,
        "colorbar": {"thickness": 10, "outlinewidth": 0, "title": {"text": panel.label}},
        "hovertemplate": "%{customdata[0]}, %{customdata[1]}: %{z:.3f}<extra></extra>",
    }
    if panel.shows_values:
        trace |= {"text": [[short(v) for v in r] for r in panel.values], "texttemplate": "%{text}"}
    breaks = [("x", b - 0.5) for b in panel.column_breaks]
    breaks += [("y", b - 0.5) for b in panel.row_breaks]
    layout: Json = {
        "xaxis": ticks(panel.columns) | {"title": {"text": panel.column_label}},
        "yaxis": ticks(panel.rows, upright=True) | {"title": {"text": panel.row_label}, "autorange": "reversed"},
        "shapes": [across(axis, at, {"color": "@ink", "width": 1.5}) for axis, at in breaks],
    }
    return {"data": [trace], "layout": layout, "aspect": min(max(rows / columns, 0.3), 1.3) * 0.92}


def _bars(panel: Bars) -> Json:
    positions = list(range(len(panel.groups)))
    data = [_bar(bar, positions) | {"customdata": list(panel.groups)} for bar in panel.bars]
    values = [v for bar in panel.bars for part in (bar.values, bar.lo, bar.hi) for v in part or ()]
    layout = axes(Axis(panel.x_label), panel.y, [], [v for v in values if not math.isnan(v)])
    layout["xaxis"] |= ticks(panel.groups)
    layout |= overlays(Axis(""), panel.y, panel.rules, ()) | {"barmode": "group", "bargap": 0.3}
    return {"data": data, "layout": layout, "aspect": 0.68}


def _bar(bar: Bar, x: Sequence[int]) -> Json:
    trace: Json = {
        "type": "bar",
        "name": bar.label,
        "legendgroup": bar.label,
        "x": list(x),
        "y": rounded(bar.values),
        "marker": {"color": colour_of(bar.role, bar.shade)},
        "hovertemplate": "%{customdata}: %{y:.4~g}<extra>%{fullData.name}</extra>",
    }
    if bar.lo is not None and bar.hi is not None:
        values, low, high = (np.asarray(part, float) for part in (bar.values, bar.lo, bar.hi))
        ends = {"array": rounded(high - values), "arrayminus": rounded(values - low)}
        look = {"type": "data", "symmetric": False, "color": "@ink", "thickness": 1.2, "width": 4}
        trace["error_y"] = look | ends
    return trace


def _plane(panel: Plane) -> Json:
    data: list[Json] = []
    for field in panel.contours:
        grid: Json = {
            "type": "contour",
            "x": rounded(field.x),
            "y": rounded(field.y),
            "z": [rounded(row) for row in field.z],
            "showscale": False,
            "legendgroup": field.label,
            "name": field.label,
            "hoverinfo": "skip",
            "autocontour": False,
        }
        if field.fill:
            # One level at zero makes two bands, each of one tint.
            tint = [[0, "@low/0.16"], [0.5, "@low/0.16"], [0.5, "@high/0.16"], [1, "@high/0.16"]]
            sides = {"start": 0, "end": 0, "size": 1, "coloring": "fill"}
            look = {"zmin": -1, "zmax": 1, "colorscale": tint, "line": {"width": 0}}
            data.append(grid | look | {"contours": sides})
        line = {"color": colour_of(field.role, field.shade), "width": 2.25, "smoothing": 0}
        for level in field.levels:
            at = {"start": level, "end": level, "size": 1, "coloring": "none"}
            data.append(grid | {"contours": at, "line": line})
    data += [_cloud(cloud) for cloud in panel.points]
    xs = [v for cloud in panel.points for v in cloud.x]
    ys = [v for cloud in panel.points for v in cloud.y]
    layout = axes(panel.x, panel.y, xs, ys) | overlays(panel.x, panel.y, panel.rules, panel.notes)
    layout["shapes"] += [draw_circle(c.center, c.radius, c.role) for c in panel.circles]
    for circle in panel.circles:
        if circle.label:
            top = (circle.center[0], float(circle.center[1]) + float(circle.radius))
            layout["annotations"].append(text_at(top, circle.label, circle.role))
    for arrow in panel.arrows:
        layout["annotations"] += draw_arrow(arrow.start, arrow.end, arrow.label, arrow.role)
    for field in panel.contours[:1]:  # a circle that leaves the field must not shrink it
        for name, axis, values in (("xaxis", panel.x, field.x), ("yaxis", panel.y, field.y)):
            if axis.range is None and not axis.log:
                layout[name]["range"] = [float(min(values)), float(max(values))]
    if panel.equal:
        layout["yaxis"] |= {"scaleanchor": "x", "scaleratio": 1, "constrain": "domain"}
        layout["xaxis"] |= {"constrain": "domain"}
    return {"data": data, "layout": layout, "aspect": 0.92 if panel.equal else 0.72}


def _cloud(cloud: Points) -> Json:
    colour = colour_of(cloud.role, cloud.shade)
    thin = cloud.marker in "x+"
    edge = {"color": colour if thin else "@paper", "width": 1.75 if thin else 0.75}
    marker = {"color": colour, "size": float(cloud.size) + 1, "symbol": MARKERS[cloud.marker]}
    trace = _scatter(cloud.label, cloud.x, cloud.y, "markers")
    return trace | {"marker": marker | {"line": edge}}


PLOTLY.update({Lines: _lines, Heatmap: _heatmap, Bars: _bars, Plane: _plane})


def legend(figure: Drawable) -> list[Label]:
    """The legend that all panels share, which the page draws as HTML: the first look of each label."""
    entries: dict[str, Label] = {}
    for panel in figure.panels:
        for entry in panel.labels():
            entries.setdefault(entry.label, entry)
    return list(entries.values())


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
    return {"type": "line", f"{axis}ref": axis, f"{other}ref": f"{other} domain", "line": line} | ends


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
            # 1, 2 and 5 of a decade, in full: without a format of ours 200 reads "2".
            plain = min(known) >= -3 and max(known) < 6
            described |= {"dtick": "D2", "tickformat": "~g" if plain else "~e"}
    if axis.range is not None:
        described["range"] = [_place(axis, end) for end in axis.range]
    if axis.ticks is not None:
        described |= {"tickmode": "array", "tickvals": rounded(axis.ticks)}
        described["ticktext"] = list(axis.tick_labels or (number(t) for t in axis.ticks))
    return described


def ticks(labels: Sequence[str], upright: bool = False) -> Json:
    """An axis of categories at 0, 1, 2, ..., as many of them named as fit."""
    look: Json = {"tickmode": "array", "showgrid": False, "zeroline": False, "ticks": ""}
    longest = max(len(without_tags(label)) for label in labels)
    step = -(-len(labels) // 16)
    if longest <= 4:
        look["tickangle"] = 0
        step = step if upright else max(step, -(-len(labels) * (longest + 1) // MOST_SIGNS))
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
