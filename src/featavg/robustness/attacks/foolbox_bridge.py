"""foolbox's attacks on the same decision, by name: an outside opinion."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.errors import InputError
from featavg.robustness.attacks.ddn import Found
from featavg.robustness.models.model import Model

PREFIX = "foolbox:"


def foolbox_attack(
    model: Model,
    x: Float[ndarray, "n D"],
    label: Int[ndarray, " n"],
    name: str,
    norm: str,
    radii: Float[ndarray, " q"] | None = None,
    **settings: Any,
) -> Found:
    """Run `foolbox.attacks.<name>` on the coarse scores; points it leaves unflipped say so.

    foolbox differentiates a torch function; here that function asks our model for its coarse scores
    and for their gradient, so both sides attack the very same numbers. An attack at fixed radii
    (PGD) is run at each of `radii` and the smallest that flips is kept.

    Args:
        name: such as "DDNAttack" or "L2PGD".
        radii: for attacks that need an epsilon.
        settings: passed to the attack, such as steps=100.
    """
    foolbox = _load()
    attack_class = getattr(foolbox.attacks, name, None)
    if attack_class is None:
        known = sorted(n for n in dir(foolbox.attacks) if n[0].isupper())
        raise InputError("attacks", f"name foolbox:{name}", f"foolbox has {', '.join(known)}")
    import torch

    attack = attack_class(**settings)
    distance = getattr(attack, "distance", None)
    measured = {"l2": "2", "linf": "inf"}[norm]
    if distance is not None and str(getattr(distance, "p", measured)) not in (
        measured,
        f"{measured}.0",
    ):
        raise InputError("attacks", f"name foolbox:{name}, which is not {norm}", "choose another")
    bounds = model.bounds or _wide(x)
    wrapped = foolbox.PyTorchModel(scores_module(model), bounds=bounds, device="cpu")
    points = torch.as_tensor(x)
    targets = torch.as_tensor(label)
    fixed = isinstance(attack, foolbox.attacks.base.FixedEpsilonAttack)
    if fixed and radii is None:
        raise InputError("radii", f"are missing for foolbox:{name}", "give the radii to try")
    epsilons = [float(r) for r in radii] if fixed and radii is not None else None
    _, clipped, success = attack(wrapped, points, targets, epsilons=epsilons)
    if epsilons is None:
        clipped, success = [clipped], success[None]
    best, flipped = x.copy(), np.zeros(len(x), dtype=bool)
    for found, _ in zip(clipped, success, strict=True):
        new = found.detach().cpu().numpy().astype(x.dtype)
        # Its own success flag is not taken on trust: the point is evaluated here.
        hit = ~flipped & (model.margins(new, label) <= 0)
        best[hit], flipped[hit] = new[hit], True
    return Found(best, flipped)


def _load() -> ModuleType:
    try:
        import_module("torch")
        return import_module("foolbox")
    except ImportError as error:
        raise InputError(
            "attacks",
            f"name foolbox, and {error.name} is not installed",
            "pip install foolbox torch",
        ) from error


def _wide(x: Float[ndarray, "n D"]) -> tuple[float, float]:
    """foolbox cannot attack without bounds: these are far enough away to mean none."""
    reach = 1e3 * max(1.0, float(np.abs(x).max()))
    return -reach, reach


def scores_module(model: Model) -> Any:
    """A torch module whose outputs are the coarse scores of `model`, gradients included."""
    import torch

    class Scores(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            outputs = model.outputs(x.detach().cpu().numpy())
            return torch.as_tensor(model.decision.scores(outputs)).to(x)

        @staticmethod
        def backward(ctx: Any, up: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            weights = up.detach().cpu().numpy().astype(float)
            _, gradient = model.pull(
                x.detach().cpu().numpy(), lambda f, at: model.decision.pull(f, weights[at])
            )
            return torch.as_tensor(gradient).to(x)

    class Module(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = Scores.apply(x)  # type: ignore[no-untyped-call]
            return found

    return Module().eval()
