"""The gradient at a layer with every unit of the next activation weighed by how strongly it fires (torch)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor


def effective_gradient(
    output: Tensor, covector: Tensor, layer: Tensor, activations: Sequence[Tensor]
) -> Tensor | None:
    r"""The gradient of <covector, output> at `layer`, weighed by the activations a behind it.

        sum over units m of  |a_m| * d<covector, output>/da_m * grad a_m.

    The gradient itself counts a unit that barely fires on noise as much as one that carries the
    decision: a network with one neuron per feature and no biases has most of its mean gradient from
    neurons of foreign features, half of which fire at any point.

    Where a path leads around the next activations, as in a residual network, or none is left, this is
    the gradient itself; None if nothing depends on `layer`.
    """
    behind = next_activations(output, layer, activations)
    if not behind:
        return torch.autograd.grad(output, layer, covector, retain_graph=True, allow_unused=True)[0]
    slopes = torch.autograd.grad(output, behind, covector, retain_graph=True)
    strengths = [slope * unit.detach().abs() for slope, unit in zip(slopes, behind, strict=True)]
    return torch.autograd.grad(behind, layer, strengths, retain_graph=True)[0]


def next_activations(output: Tensor, layer: Tensor, activations: Sequence[Tensor]) -> list[Tensor]:
    """The activations that `layer` reaches directly, if everything behind it passes them once."""
    later = {a.grad_fn: a for a in activations if a is not layer and a.grad_fn is not None}
    met = {node: _met(_before(node), layer, later) for node in later}
    around = _met([output.grad_fn], layer, later)
    if None in around:
        return []
    used, left = set[Any](), list(around)
    while left:
        node = left.pop()
        if node not in used:
            used.add(node)
            left += met[node] - {None}
    first = [node for node in later if node in used and None in met[node]]
    # Of one that follows another the gradient would be counted twice.
    if any(_follows(other, met) for node in first for other in met[node] - {None}):
        return []
    return [later[node] for node in first]


def _follows(node: Any, met: dict[Any, set[Any]]) -> bool:
    """Whether the layer is somewhere before `node`."""
    left, seen = [node], set[Any]()
    while left:
        one = left.pop()
        if None in met[one]:
            return True
        seen.add(one)
        left += met[one] - seen
    return False


def _met(start: Iterable[Any], layer: Tensor, stops: dict[Any, Tensor]) -> set[Any]:
    """What one meets first on all ways back through the graph: nodes of `stops`, None for `layer`."""
    met, seen, open_nodes = set[Any](), set[Any](), list(start)
    while open_nodes:
        node = open_nodes.pop()
        if node in seen:
            continue
        seen.add(node)
        if node is layer.grad_fn or getattr(node, "variable", None) is layer:
            met.add(None)
        elif node in stops:
            met.add(node)
        else:
            open_nodes += _before(node)
    return met


def _before(node: Any) -> list[Any]:
    return [given for given, _ in node.next_functions if given is not None]
