"""Any torch classifier as a model that can be attacked; torch is imported only inside calls."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from featavg.boundary.kinds import Count
from featavg.boundary.public import public
from featavg.errors import InputError, torch_needed
from featavg.nets.readouts._readout import ReadOut
from featavg.robustness.models.decision import Decision
from featavg.robustness.models.model import Covector, Model, checked_bounds, checked_points, space_of
from featavg.robustness.models.norms import Bounds

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False)
class TorchModel(Model):
    """A torch module behind its normalisation, F((x - mean)/std), read in batches.

    Attributes:
        module: read in evaluation mode, left in its own; returns logits of shape (n, c), or (n,) for
            one logit, alone or as the first of a tuple or the `logits` of a table or an object.
        mean, std: what the module expects subtracted and divided, broadcast over the image.
        shape: the shape of one input.
        batch: how many points go through the module at a time; on a CPU more is slower, because
            activations then leave the cache (here by half at 512).
    """

    module: torch.nn.Module = field(kw_only=True)
    mean: torch.Tensor = field(kw_only=True)
    std: torch.Tensor = field(kw_only=True)
    shape: tuple[int, ...] | None = field(default=None, kw_only=True)
    batch: int = field(default=128, kw_only=True)

    def shaped(self, x: ndarray) -> TorchModel:
        """The same model with the input shape of a given batch; the cost is shared."""
        shape = tuple(np.shape(x)[1:])
        mean, std = _by_coordinate(self.mean, shape), _by_coordinate(self.std, shape)
        for name, value in (("mean", mean), ("std", std)):
            if not _stays(shape, tuple(value.shape)):
                problem = f"has {value.numel()} numbers for inputs of shape {shape}"
                raise InputError(name, problem, "give one number, or one for each channel")
        return replace(self, shape=shape, mean=mean, std=std)

    def rows(self, x: ndarray) -> Float[ndarray, "n D"]:
        """Points as flat rows in the precision of the module."""
        rows = np.asarray(x, dtype=str(self.mean.dtype).removeprefix("torch."))
        return checked_points(rows.reshape(len(rows), -1), self.bounds)

    def _forward(self, x: torch.Tensor) -> torch.Tensor:
        from featavg.nets.torch.outputs import answering, unwrapped

        with answering(x, "module"):
            return unwrapped(self.module((x - self.mean) / self.std), len(x), "module")

    def _batches(self, x: Float[ndarray, "n D"]) -> list[torch.Tensor]:
        import torch

        if self.shape is None:
            raise InputError("model", "does not know the shape of its input", "call shaped(x)")
        whole = torch.as_tensor(np.ascontiguousarray(x), dtype=self.mean.dtype)
        whole = whole.reshape(len(x), *self.shape).to(self.mean.device)
        return list(torch.split(whole, self.batch))

    def _outputs(self, x: Float[ndarray, "n D"]) -> Float[ndarray, "n c"]:
        import torch

        from featavg.nets.torch.inference import evaluating

        with evaluating(self.module), torch.no_grad():
            outputs = [self._forward(part).cpu().double().numpy() for part in self._batches(x)]
        return np.concatenate(outputs)

    def _pull(
        self, x: Float[ndarray, "n D"], covector: Covector
    ) -> tuple[Float[ndarray, "n c"], Float[ndarray, "n D"]]:
        import torch

        from featavg.nets.torch.inference import evaluating
        from featavg.nets.torch.outputs import answering

        outputs, gradients, start = [], [], 0
        for part in self._batches(x):
            # A caller may have switched gradients off; inside a backward pass torch does so itself.
            with evaluating(self.module), torch.enable_grad():
                f = self._forward(part.requires_grad_())
            outputs.append(f.detach().cpu().double().numpy())
            v = torch.as_tensor(covector(outputs[-1], slice(start, start + len(part)))).to(f)
            start += len(part)
            g = None
            if f.requires_grad:
                with answering(part, "module"):
                    (g,) = torch.autograd.grad(f, part, v, allow_unused=True)
            g = torch.zeros_like(part) if g is None else g
            gradients.append(g.reshape(len(part), -1).detach().cpu().numpy())
        return np.concatenate(outputs), np.concatenate(gradients).astype(x.dtype, copy=False)


@public
def torch_model(
    module: Any,
    bounds: Bounds = (0.0, 1.0),
    mean: float | Sequence[float] | ndarray = 0.0,
    std: float | Sequence[float] | ndarray = 1.0,
    readout: str | ReadOut = "probability",
    positive: Sequence[bool] | Bool[ndarray, " c"] | None = None,
    groups: Sequence[int] | Int[ndarray, " c"] | None = None,
    batch: Count = 128,
) -> TorchModel:
    """Wrap a torch classifier with its input bounds, normalisation and coarse read-out.

    A radius is measured on the input before normalisation, so with bounds (0, 1) its unit is pixels
    in [0,1] whatever `mean` and `std` are. Accepted outputs: one logit (class +1 where it is
    positive; leave out `positive` and `groups`), or more (with `positive`, a truth value an
    output, for labels -1 and +1; or `groups`, the coarse class of each output, for labels 0..C-1).

    Args:
        module: asked in evaluation mode and left in the mode it was in; its parameters receive no
            gradients. A module in half precision (bfloat16, float16) is evaluated in float32, on a copy.
        bounds: of the input, or None for raw inputs.
        mean, std: numbers, or one for each channel.
        readout: a name from `fa.readouts.NAMES`, or a read-out of your own.
        positive: which outputs belong to the class +1.
        groups: the coarse class of each output.
        batch: how many points go through the module at a time; on a CPU more is slower, because
            activations then leave the cache (here by half at 512).

    >>> import featavg as fa
    >>> import torch
    >>> module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3))
    >>> fa.torch_model(module, groups=[0, 0, 1]).unit("l2")
    'l2, pixels in [0,1]'
    """
    torch_needed("featavg.torch_model")
    import torch

    from featavg.nets.torch.inference import check_readable

    if not isinstance(module, torch.nn.Module):
        raise InputError("module", f"is a {type(module).__name__}", "give a torch.nn.Module")
    check_readable(module, "module")
    tensors: list[Any] = [*module.parameters(), *module.buffers()]
    like = next((t for t in tensors if t.is_floating_point()), torch.zeros(()))
    if not all(bool(torch.isfinite(t).all()) for t in tensors if t.is_floating_point()):
        raise InputError("module", "holds a NaN or an infinity", "give trained, finite weights")
    if like.dtype in (torch.bfloat16, torch.float16):
        # Half precision rounds every output by up to 0.4%, so that a nearby flip is a toss; NumPy
        # has no bfloat16 at all. The same weights are evaluated in float32, on a copy.
        module, like = copy.deepcopy(module).float(), like.float()
    shift, scale = (_channels(value, like) for value in (mean, std))
    for name, value in (("mean", shift), ("std", scale)):
        if not bool(torch.isfinite(value).all()):
            raise InputError(name, "holds a number that is not finite", "give finite numbers")
    if not bool((scale > 0).all()):
        raise InputError("std", "is not positive", "give what the inputs are divided by")
    decision = Decision.of(positive, groups, readout)
    box = checked_bounds(bounds)
    slack = 32 * float(torch.finfo(shift.dtype).eps)
    return TorchModel(decision, box, space_of(box), slack, module=module, mean=shift, std=scale, batch=batch)


def _stays(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether arithmetic with an array of shape `other` leaves the shape of an input alone."""
    try:
        return np.broadcast_shapes(shape, other) == shape
    except ValueError:
        return False


def _channels(value: float | Sequence[float] | ndarray, like: torch.Tensor) -> torch.Tensor:
    """A number, or numbers of shape (channels, 1, 1)."""
    import torch

    tensor = torch.as_tensor(np.asarray(value, dtype=float)).to(like)
    return tensor[:, None, None] if tensor.ndim == 1 else tensor


def _by_coordinate(value: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Of flat inputs every coordinate is a channel."""
    return value[:, 0, 0] if len(shape) == 1 and tuple(value.shape) == (*shape, 1, 1) else value
