"""What a step of training makes small: cross-entropy, alone or with the gradient under control (torch)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from featavg.errors import InputError

# From a network and a batch to the loss and the logits that it was computed from. The `repr` of one
# says all that a result depends on.
Objective = Callable[[nn.Module, Tensor, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class CrossEntropy:
    """The mean of -log softmax(f(x))_y."""

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of a batch, and its logits."""
        logits = net(x).float()
        return functional.cross_entropy(logits, y), logits


@dataclass(frozen=True)
class PartialCrossEntropy:
    r"""The mean of -log of the summed softmax of the outputs that an image may belong to.

    A target below the number c of outputs is a fine label, c + g says "of class g" and no more.

    Attributes:
        groups: the class of each output.

    >>> import torch
    >>> import featavg as fa
    >>> partial = fa.objectives.PartialCrossEntropy((1, 1, 0))
    >>> loss, _ = partial(torch.nn.Identity(), torch.zeros(1, 3), torch.tensor([4]))
    >>> round(float(loss), 4)  # two of three outputs
    0.4055
    """

    groups: tuple[int, ...]

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of a batch, and its logits."""
        logits = net(x).float()
        count, groups = logits.shape[1], torch.tensor(self.groups, device=logits.device)
        if int(y.max()) < count:
            return functional.cross_entropy(logits, y), logits
        classes = torch.arange(int(groups.max()) + 1, device=logits.device)
        own = torch.eye(count, dtype=torch.bool, device=logits.device)
        inside = torch.cat([own, classes[:, None] == groups])[y]
        allowed = logits.masked_fill(~inside, -torch.inf)
        return (logits.logsumexp(1) - allowed.logsumexp(1)).mean(), logits


@dataclass(frozen=True)
class GradientPenalty:
    r"""Cross-entropy plus `strength` times the mean of |d loss_i / d x_i|^2 (Drucker and LeCun, 1992).

    >>> import torch
    >>> from torch import nn
    >>> import featavg as fa
    >>> net, x, y = nn.Linear(3, 2), torch.rand(4, 3), torch.tensor([0, 1, 0, 1])
    >>> plain = nn.functional.cross_entropy(net(x), y)
    >>> penalised, logits = fa.objectives.GradientPenalty(1.0)(net, x, y)
    >>> bool(penalised > plain)
    True
    """

    strength: float

    def __post_init__(self) -> None:
        if not self.strength >= 0:
            raise InputError("strength", f"is {self.strength}", "give zero or more")

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of a batch, and its logits."""
        x = x.detach().requires_grad_()
        logits = net(x).float()
        losses = functional.cross_entropy(logits, y, reduction="none")
        # With batch norm the loss of one image depends on the others, by about 1 / batch: left in.
        (gradient,) = torch.autograd.grad(losses.sum(), x, create_graph=True)
        return losses.mean() + self.strength * gradient.flatten(1).square().sum(1).mean(), logits


@dataclass(frozen=True)
class Adversarial:
    """Cross-entropy at points that `steps` of projected gradient descent found (Madry et al., 2018).

    Attributes:
        radius: l2, of the ball in pixels in [0, 1].
        steps: each of length 1.5 radius / steps, from the image itself.

    >>> import featavg as fa
    >>> fa.objectives.Adversarial(radius=0.5)
    Adversarial(radius=0.5, steps=3)
    """

    radius: float
    steps: int = 3

    def __post_init__(self) -> None:
        if not self.radius > 0 or self.steps < 1:
            raise InputError("radius", "or steps are not above zero", "give more than zero")

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The loss at the attacked batch, and its logits."""
        return CrossEntropy()(net, self.attacked(net, x, y), y)

    def attacked(self, net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        """The points; batch norm uses its running statistics meanwhile, and does not learn from them."""
        training = net.training
        net.eval()
        delta = torch.zeros_like(x)
        for _ in range(self.steps):
            delta.requires_grad_()
            loss = functional.cross_entropy(net(x + delta).float(), y, reduction="sum")
            (gradient,) = torch.autograd.grad(loss, delta)
            lengths = _lengths(gradient).clamp_min(1e-12)
            delta = delta.detach() + (1.5 * self.radius / self.steps) * gradient / lengths
            delta = delta * (self.radius / _lengths(delta).clamp_min(1e-12)).clamp_max(1.0)
            delta = (x + delta).clamp(0.0, 1.0) - x
        net.train(training)
        return (x + delta).detach()


class GroupRobust:
    r"""The loss of the worst group: sum over g of q_g * loss_g, with q_g grown by exp(rate * loss_g).

    Group distributionally robust optimisation (Sagawa et al., 2020), as GEORGE uses it. Labels are
    groups; the loss is cross-entropy of the *class* of each group. The weights q live as long as the
    object: one object trains one network.

    Args:
        groups: the class of each group.
        rate: of the weights.
    """

    def __init__(self, groups: tuple[int, ...], rate: float = 0.01) -> None:
        self.groups, self.rate = groups, rate
        self.weights = torch.full((len(groups),), 1.0 / len(groups))

    def __repr__(self) -> str:
        return f"GroupRobust({self.groups}, {self.rate})"

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The weighted loss of a batch, and one logit per group (that of its class)."""
        logits = net(x).float()
        classes = torch.tensor(self.groups, device=logits.device)
        first = [self.groups.index(c) for c in range(max(self.groups) + 1)]
        losses = functional.cross_entropy(logits[:, first], classes[y], reduction="none")
        counts = torch.bincount(y, minlength=len(self.groups))
        sums = torch.zeros(len(self.groups), device=logits.device).index_add(0, y, losses)
        means = sums / counts.clamp_min(1)
        self.weights = self.weights.to(means.device) * (self.rate * means.detach()).exp()
        self.weights = self.weights / self.weights.sum()
        return (self.weights * means).sum(), logits


class RepeatedOutputs(nn.Module):
    """A network with one output per class, read once per group: output g is that of its class.

    Args:
        groups: the class of each group.
    """

    def __init__(self, net: nn.Module, groups: tuple[int, ...]) -> None:
        super().__init__()
        self.net, self.groups = net, list(groups)

    def forward(self, x: Tensor) -> Tensor:
        """One logit per group."""
        out: Tensor = self.net(x)[:, self.groups]
        return out


def _lengths(rows: Tensor) -> Tensor:
    """The l2 length of each image, shaped so that it divides them."""
    return rows.flatten(1).norm(dim=1).view(-1, *[1] * (rows.ndim - 1))
