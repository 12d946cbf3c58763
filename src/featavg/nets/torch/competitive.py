"""Neurons of a class that compete for a point, as plain modules for a network of yours (torch)."""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Bool
from numpy import ndarray
from torch import Tensor, nn

from featavg.errors import InputError, finite, whole
from featavg.nets.readouts._readout import Mean, readout_of
from featavg.nets.readouts.soft import Soft
from featavg.nets.readouts.top import Top
from featavg.nets.two_layer import TwoLayer, grouped_head

POOLED = ("max", "mean", "top", "soft")


class Compete(nn.Module):
    """Pools groups of channels, (n, C, ...) to (n, groups, ...): by `max` only the winner learns.

    Args:
        groups: how many; neighbours are in one group, and C must be a multiple of it.
        pooling: `max`, `mean`, `top:q=3` or `soft:temperature=0.5`.

    >>> Compete(2)(torch.tensor([[1.0, 4.0, 2.0, 3.0]]))
    tensor([[4., 3.]])
    """

    def __init__(self, groups: int, pooling: str = "max") -> None:
        super().__init__()
        if pooling.partition(":")[0] not in POOLED:
            raise InputError("pooling", f"is {pooling!r}", "choose max, mean, top or soft")
        self.groups, self.pooling = whole("groups", groups, least=1), pooling
        self.rule = readout_of(pooling)

    def forward(self, x: Tensor) -> Tensor:
        """The pooled channels."""
        if x.ndim < 2:
            raise InputError("x", f"has shape {tuple(x.shape)}", "give points x channels")
        channels = x.shape[1]
        if channels % self.groups:
            remedy = f"give a multiple of {self.groups}, so that groups are of one size"
            raise InputError("x", f"has {channels} channels", remedy)
        size = channels // self.groups
        return self._pooled(x.reshape(len(x), self.groups, size, *x.shape[2:]), size)

    def _pooled(self, x: Tensor, size: int) -> Tensor:
        rule = self.rule
        if isinstance(rule, Soft):
            t = rule.temperature
            return t * (torch.logsumexp(x / t, dim=2) - math.log(size))
        if isinstance(rule, Top):
            if rule.q > size:
                raise InputError("q", f"is {rule.q} for groups of {size}", f"give at most {size}")
            return x.topk(rule.q, dim=2).values.mean(dim=2)
        # `max` over a dimension gives the gradient to one winner; `amax` would share it.
        return x.mean(dim=2) if isinstance(rule, Mean) else x.max(dim=2).values

    def extra_repr(self) -> str:
        """Groups and pooling."""
        return f"groups={self.groups}, pooling={self.pooling!r}"


class CompetitiveHead(nn.Module):
    """f_c(x) = pool over r of relu(<w_{c,r}, x> + b_{c,r}): a last layer whose neurons compete.

    On flat inputs it is a two-layer network of its own, and `exact` gives it to `fa.radii`.

    Args:
        features: inputs; more than one axis is flattened.
        classes: outputs, at least two.
        neurons: of each class.
        pooling: as for `Compete`.
        scale: standard deviation of the initial weights; None for torch's own start. Small starts let
            the neurons specialise before the loss is small.

    >>> CompetitiveHead(784, classes=2, neurons=50)(torch.zeros(3, 1, 28, 28)).shape
    torch.Size([3, 2])
    """

    def __init__(
        self, features: int, classes: int, neurons: int, pooling: str = "max", scale: float | None = None
    ) -> None:
        super().__init__()
        whole("features", features, least=1)
        whole("neurons", neurons, least=1)
        if whole("classes", classes, least=1) < 2:
            raise InputError("classes", f"is {classes}", "a decision needs two or more")
        self.linear = nn.Linear(features, classes * neurons)
        self.compete = Compete(classes, pooling)
        if isinstance(self.compete.rule, Top) and self.compete.rule.q > neurons:
            problem = f"is {self.compete.rule.q} for {neurons} neurons a class"
            raise InputError("q", problem, f"give at most {neurons}")
        if scale is not None:
            with torch.no_grad():
                self.linear.weight.normal_(std=finite("scale", scale, least=0))
                self.linear.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        """The output of each class."""
        flat = x.flatten(1)
        if flat.shape[1] != self.linear.in_features:
            remedy = f"give {self.linear.in_features}, the features of this head"
            raise InputError("x", f"has {flat.shape[1]} numbers a point", remedy)
        pooled: Tensor = self.compete(torch.relu(self.linear(flat)))
        return pooled

    def exact(self) -> tuple[TwoLayer, Bool[ndarray, " M"]]:
        """One output a neuron and the neurons of class 1, for `fa.radii(..., readout=pooling)`.

        For two classes, with the label +1 for the class 1.
        """
        weights, bias = (np.asarray(p.detach().cpu().double().numpy()) for p in (self.linear.weight, self.linear.bias))
        if self.compete.groups != 2:
            problem = f"are {self.compete.groups}"
            raise InputError("classes", problem, "exact radii of a pooled head are for two")
        count = len(weights)
        return TwoLayer(weights, bias, grouped_head(count, 1)), np.arange(count) >= count // 2
