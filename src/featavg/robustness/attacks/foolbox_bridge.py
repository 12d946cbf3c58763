"""foolbox's attacks on the same decision, by name: an outside opinion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.errors import InputError
from featavg.robustness.attacks.attack import Attack, AttackEnd, AttackProblem, FeatureDirections
from featavg.robustness.models.model import Model

PREFIX = "foolbox:"


@dataclass(frozen=True, repr=False)
class Foolbox(Attack):
    """`foolbox.attacks.<attack>` on the coarse decision of a model.

    In `attack_suite` it can also be asked for as "foolbox:<attack>".

    Attributes:
        attack: the class, such as "DDNAttack" or "L2PGD".
        settings: passed to the class, such as {"steps": 100}.
        radii: for attacks that need an epsilon: how many radii are tried, evenly spaced up to the
            largest radius that other attacks found.

    >>> import featavg as fa
    >>> fa.attacks.Foolbox("DDNAttack", {"steps": 100})
    Foolbox('DDNAttack', {'steps': 100})
    """

    attack: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    radii: int = 20

    name: ClassVar[str] = "foolbox"

    def obstacle(self, model: Model, norm: str = "l2", features: FeatureDirections | None = None) -> InputError | None:
        """foolbox must be there, know the attack, and measure in the same norm."""
        attack = _foolbox_class(self.attack)(**self.settings)
        power = {"l2": 2.0, "linf": float("inf")}[norm]
        if float(getattr(getattr(attack, "distance", None), "p", power)) == power:
            return None
        return InputError("attacks", f"name {self}, which is not {norm}", "choose another")

    def __call__(self, problem: AttackProblem) -> AttackEnd:
        """Run it; what it returns is evaluated here and not taken on trust."""
        known = problem.reached
        largest = float(np.max(known[np.isfinite(known)], initial=0.0))
        largest = largest or float(np.abs(problem.x).max())
        return foolbox_attack(
            problem.model,
            problem.x,
            problem.label,
            self.attack,
            np.linspace(0, largest, self.radii + 1)[1:],
            problem.seed,
            **self.settings,
        )

    def __repr__(self) -> str:
        return f"Foolbox({self.attack!r}, {dict(self.settings)})"

    def __str__(self) -> str:
        return PREFIX + self.attack


def foolbox_attack(
    model: Model,
    x: Float[ndarray, "n D"],
    label: Int[ndarray, " n"],
    name: str,
    radii: Float[ndarray, " q"] | None = None,
    seed: int = 0,
    **settings: Any,
) -> AttackEnd:
    """Run `foolbox.attacks.<name>` on the coarse scores; points that it leaves unflipped are marked.

    foolbox differentiates a torch function; here that function asks our model for its coarse scores
    and for their gradient, so both sides attack the very same numbers. An attack at fixed radii
    (PGD) is run at each of `radii` and the smallest that flips is kept. torch's global random
    state, which foolbox draws from, is seeded for the call and put back after it.

    Args:
        name: such as "DDNAttack" or "L2PGD".
        radii: for attacks that need an epsilon.
        seed: for its random starts.
        settings: passed to the attack, such as steps=100.
    """
    foolbox = _load()
    attack = _foolbox_class(name)(**settings)
    import torch

    wrapped = foolbox.PyTorchModel(scores_module(model), bounds=model.bounds or _wide(x), device="cpu")
    fixed = isinstance(attack, foolbox.attacks.base.FixedEpsilonAttack)
    if fixed and radii is None:
        raise InputError("radii", f"are missing for foolbox:{name}", "give the radii to try")
    epsilons = [float(r) for r in radii] if fixed and radii is not None else None
    with _own_random_state(seed):
        _, clipped, _ = attack(wrapped, torch.as_tensor(x), torch.as_tensor(label), epsilons=epsilons)
    best, flipped = x.copy(), np.zeros(len(x), dtype=bool)
    for points in [clipped] if epsilons is None else clipped:
        moved = points.detach().cpu().numpy().astype(x.dtype)
        # Its own success flag is not taken on trust: the point is evaluated here.
        hit = ~flipped & (model.margins(moved, label) <= 0)
        best[hit], flipped[hit] = moved[hit], True
    return AttackEnd(best, flipped)


@contextmanager
def _own_random_state(seed: int) -> Iterator[None]:
    """Seed the global generators that foolbox draws from, and put them back as they were."""
    import torch

    before = np.random.get_state()  # noqa: NPY002 (foolbox's own choice)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002
        try:
            yield
        finally:
            np.random.set_state(before)  # noqa: NPY002


def _foolbox_class(name: str) -> Any:
    attacks = _load().attacks
    if not hasattr(attacks, name):
        known = sorted(n for n in dir(attacks) if n[0].isupper())
        raise InputError("attacks", f"name foolbox:{name}", f"foolbox has {', '.join(known)}")
    return getattr(attacks, name)


def _load() -> ModuleType:
    try:
        import_module("torch")
        return import_module("foolbox")
    except ImportError as error:
        raise InputError(
            "attacks", f"name foolbox, and {error.name} is not installed", "pip install foolbox torch"
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
            _, gradient = model.pull(x.detach().cpu().numpy(), lambda f, at: model.decision.pull(f, weights[at]))
            return torch.as_tensor(gradient).to(x)

    class Module(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scores: torch.Tensor = Scores.apply(x)  # type: ignore[no-untyped-call]
            return scores

    return Module().eval()
