"""What an attack is: an object with a name, norms, a model it applies to, and a call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from featavg.errors import InputError, whole
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.progress import Progress, silent
from featavg.robustness.models.decision import ALL
from featavg.robustness.models.model import Model
from featavg.robustness.models.norms import NORMS, length, steepest


@dataclass(frozen=True, eq=False)
class FeatureDirections:
    """Feature vectors and the class of each: of a task, of a network's weights, or class means.

    Attributes:
        vectors: mu_j.
        classes: the class number of each, 0..C-1.
        nearest_samples: a vector for each class to move against, sum of own minus sum of other
            samples with the smallest margin; or None.

    >>> import numpy as np
    >>> import featavg as fa
    >>> fa.attacks.FeatureDirections(np.eye(3), np.array([0, 1, 1])).classes.tolist()
    [0, 1, 1]
    """

    vectors: Float[ndarray, "k D"]
    classes: Int[ndarray, " k"]
    nearest_samples: Float[ndarray, "C D"] | None = None

    def __post_init__(self) -> None:
        if len(self.vectors) != len(self.classes):
            raise InputError("features", "and their classes differ in number", "give one each")
        if not np.all(np.isfinite(self.vectors)):
            raise InputError("features", "hold a NaN or an infinity", "give finite vectors")

    def mapped(self, change: Callable[[ndarray], ndarray]) -> FeatureDirections:
        """The same features in other coordinates."""
        samples = None if self.nearest_samples is None else change(self.nearest_samples)
        return FeatureDirections(change(self.vectors), self.classes, samples)

    def at(self, x: Float[ndarray, "n D"], label: Int[ndarray, " n"]) -> dict[str, Float[ndarray, "n D"]]:
        r"""The theory's directions for each point, each a unit vector.

        - `universal`: -sum of the own class's features + sum of the others', one vector per class;
        - `own-down-rivals-up`: -mu_own + sum of the rivals', mu_own the own feature x has most of;
        - `swap`: -mu_own + mu_j for the rival feature x has most of;
        - `smallest-margin`: against the samples of smallest margin, if they are known.
        """
        vectors = self.vectors.astype(x.dtype)
        same = (self.classes == label[:, None]).astype(x.dtype)
        most = (x @ vectors.T) / np.maximum(np.linalg.norm(vectors, axis=1), 1e-300)
        own = vectors[np.where(same > 0, most, -np.inf).argmax(axis=1)]
        rival = vectors[np.where(same > 0, -np.inf, most).argmax(axis=1)]
        up = (1 - same) @ vectors
        vectors_of = {"universal": up - same @ vectors, "own-down-rivals-up": up - own, "swap": rival - own}
        if self.nearest_samples is not None:
            vectors_of["smallest-margin"] = -self.nearest_samples.astype(x.dtype)[label]
        return {name: steepest(vector, "l2") for name, vector in vectors_of.items()}


@dataclass(frozen=True, eq=False)
class AttackProblem:
    """Points that are decided rightly and are to be flipped, and what is known about them so far.

    Attributes:
        model: what is attacked.
        x: the points, flat rows inside the model's bounds.
        label: their class numbers.
        margin: of x, positive.
        norm: what a radius is measured in.
        features: directions that the theory names, if any are known.
        budget: gradients per point for an attack that does not state its own.
        seed: for random starts.
        ends: what the attacks before this one ended at.
        progress: called with the share done, from 0 to 1, and a note.

    >>> import numpy as np
    >>> import featavg as fa
    >>> model = fa.network_model(fa.binary(np.eye(2)))
    >>> problem = fa.attacks.AttackProblem(model, np.array([[3.0, 1.0]]), np.array([1]), np.array([2.0]))
    >>> problem.norm, problem.budget
    ('l2', 120)
    """

    model: Model
    x: Float[ndarray, "n D"]
    label: Int[ndarray, " n"]
    margin: Float[ndarray, " n"]
    norm: str = "l2"
    features: FeatureDirections | None = None
    budget: int = 120
    seed: int = 0
    ends: tuple[AttackEnd, ...] = ()
    progress: Progress = silent

    @property
    def nearest(self) -> AttackEnd:
        """The nearest flipped points so far."""
        best = AttackEnd.nothing(self.x)
        for end in self.ends:
            best = nearer(self.x, best, end, self.norm)
        return best

    @property
    def reached(self) -> Float[ndarray, " n"]:
        """The radii of `nearest`, infinite where nothing flipped yet."""
        return self.nearest.radii(self.x, self.norm)

    def take(self, rows: Int[ndarray, " m"]) -> AttackProblem:
        """The same for some of the points, with nothing known about them."""
        x, label, margin = self.x[rows], self.label[rows], self.margin[rows]
        return replace(self, x=x, label=label, margin=margin, ends=())


class Attack(ABC):
    """An attack: given points that are decided rightly, look for near points that are not.

    To write one, derive a frozen dataclass, give it a `name`, and return the flipped points from
    `__call__`; pass an instance to `attack_suite`. Its settings are its fields. What it returns
    is shortened and re-checked there by plain evaluation, so an attack cannot claim what is not so.

    Attributes:
        name: for tables, and to ask for the attack by name.
        norms: the norms it can measure in.
        default: whether `attack_suite` runs it by default.
        refines: it works on what others found, and therefore runs after them.

    >>> import featavg as fa
    >>> fa.attacks.DDN().name, fa.attacks.DDN().norms
    ('ddn', ('l2', 'linf'))
    """

    name: ClassVar[str]
    norms: ClassVar[tuple[str, ...]] = NORMS
    default: ClassVar[bool] = False
    refines: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse counts that are not 1, 2, ..., or None: no steps would call everything robust."""
        for name in ("steps", "starts", "restarts", "rounds"):
            if getattr(self, name, None) is not None:
                whole(name, getattr(self, name), least=1)

    def usual_for(self, model: Model) -> bool:
        """Whether a suite without a list of attacks runs this one on `model`."""
        return self.default

    @abstractmethod
    def __call__(self, problem: AttackProblem) -> AttackEnd:
        """The nearest flipped points that this attack sees."""

    def expected_gradients(self, budget: int) -> float:
        """Gradients per point, about, for the time left: its own `steps` if it has any, or the budget."""
        return getattr(self, "steps", None) or budget

    def obstacle(self, model: Model, norm: str = "l2", features: FeatureDirections | None = None) -> InputError | None:
        """Why this attack cannot be used here, as the error to raise; None if it can."""
        if norm in self.norms:
            return None
        return InputError("attacks", f"name {self}, which is not {norm}", "choose another")

    def applies_to(self, model: Model, norm: str = "l2", features: FeatureDirections | None = None) -> bool:
        """Whether this attack can be used on a model."""
        return self.obstacle(model, norm, features) is None

    def _changed(self) -> dict[str, Any]:
        """The settings that differ from their defaults."""
        # Typed as anything: this class is none, but those derived from it are dataclasses.
        attack: Any = self
        if not is_dataclass(attack):
            return {}
        values = {f.name: (getattr(attack, f.name), f.default) for f in fields(attack)}
        return {name: value for name, (value, usual) in values.items() if value != usual}

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self._changed().items())
        return f"{type(self).__name__}({settings})"

    def __str__(self) -> str:
        return repr(self) if self._changed() else self.name


def targets(problem: AttackProblem, most: int = 9) -> Int[ndarray, "n r"]:
    """The rivals of each point: ALL, then the `most` outputs of other classes that are highest."""
    groups, every = problem.model.decision.groups, np.full((len(problem.x), 1), ALL)
    outputs = problem.model.outputs(problem.x)
    if groups is None or len(groups) == 2:
        return every
    outputs = np.where(groups == problem.label[:, None], -np.inf, outputs)
    # Classes may differ in size: a row with fewer rivals repeats ALL.
    order = np.argsort(-outputs, axis=1, kind="stable")[:, : min(most, outputs.shape[1])]
    known = np.isfinite(np.take_along_axis(outputs, order, axis=1))
    rivals = np.where(known, order, ALL)[:, known.any(axis=0)]
    return np.concatenate([every, rivals], axis=1)


def gradient_is_dead(problem: AttackProblem) -> Bool[ndarray, " n"]:
    """Where the gradient towards every rival is zero, so that no descent can begin."""
    model, x, label = problem.model, problem.x, problem.label
    dead = np.ones(len(x), dtype=bool)
    for aims in targets(problem).T:
        rows = np.flatnonzero(dead)
        if len(rows) == 0:
            break
        gradient = model.descend(x[rows], label[rows], aims[rows])[2]
        dead[rows] = ~np.any(gradient != 0, axis=1)
    return dead


@dataclass(frozen=True, eq=False)
class AttackEnd:
    """The nearest flipped point that one attack saw for each of n points, and where there is one.

    The point rather than the perturbation, because x + (point - x) need not be the same float.

    Attributes:
        point: a point that the model decides otherwise; anything where `flipped` is False.
        flipped: where the attack succeeded.

    >>> import numpy as np
    >>> import featavg as fa
    >>> end = fa.attacks.AttackEnd(np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([True, False]))
    >>> end.radii(np.zeros((2, 2)), "l2")
    array([ 5., inf])
    """

    point: Float[ndarray, "n D"]
    flipped: Bool[ndarray, " n"]

    @staticmethod
    def nothing(x: Float[ndarray, "n D"]) -> AttackEnd:
        """The end of an attack that flipped none of the points x."""
        return AttackEnd(x.copy(), np.zeros(len(x), dtype=bool))

    @staticmethod
    def of(point: Float[ndarray, "n D"]) -> AttackEnd:
        """The end of an attack that claims that all its points are flipped."""
        return AttackEnd(point, np.ones(len(point), dtype=bool))

    def radii(self, x: Float[ndarray, "n D"], norm: str) -> Float[ndarray, " n"]:
        """|point - x|, infinite where nothing flipped."""
        return np.where(self.flipped, length(self.point - x, norm), np.inf)

    def take(self, rows: Int[ndarray, " m"]) -> AttackEnd:
        """The ends of some of the points."""
        return AttackEnd(self.point[rows], self.flipped[rows])

    def put(self, rows: Int[ndarray, " m"], other: AttackEnd) -> AttackEnd:
        """The same with the ends of some of the points replaced where `other` flipped them."""
        point, flipped = self.point.copy(), self.flipped.copy()
        point[rows[other.flipped]] = other.point[other.flipped]
        flipped[rows] |= other.flipped
        return AttackEnd(point, flipped)


def nearer(x: Float[ndarray, "n D"], first: AttackEnd, second: AttackEnd, norm: str) -> AttackEnd:
    """Row by row, the nearer of two flipped points; the first where both are as near."""
    closer = second.radii(x, norm) < first.radii(x, norm)
    point = np.where(closer[:, None], second.point, first.point)
    return AttackEnd(point, first.flipped | second.flipped)


NOT_FOUND = "not found"


@dataclass(frozen=True, eq=False, repr=False)
class AttackResult:
    """Upper bounds on the radii of n points, each with a point that shows it.

    An infinite radius means that no flip was found. That is not robustness, which no attack shows.

    Attributes:
        radii: |witness - x|; 0 where x itself is decided wrongly, infinite where nothing flipped.
        witness: the nearest flipped point known, re-checked by plain evaluation; NaN without one.
        attack: the name of the attack that found it: "misclassified" or "not found" without one.
        unit: of the radii.
        attacks: what was run.
        gradients, evaluations: asked of the model, per point, on average.

    Returned by `fa.attack_suite`, which has an example.
    """

    radii: Float[ndarray, " n"]
    witness: Float[ndarray, "n D"]
    attack: list[str]
    norm: str
    unit: str
    attacks: tuple[str, ...]
    gradients: float
    evaluations: float

    def __len__(self) -> int:
        return len(self.radii)

    def __repr__(self) -> str:
        missing = int(self.stuck.sum())
        lines = [
            f"AttackResult: {len(self)} points, {self.accuracy:.1%} right without an attack",
            f"median radius {np.median(self.radii):.4g} ({self.unit})",
            f"no flip found for {missing}: not answered, which is not robust" if missing else "",
            "nearest by " + ", ".join(f"{name} {count}" for name, count in self.wins.items()),
            f"{self.gradients:.0f} gradients and {self.evaluations:.0f} evaluations per point",
        ]
        return "\n  ".join(line for line in lines if line)

    def figure(self) -> Figure:
        """The share of points that the attacks leave right within each radius."""
        left = Series.survival("under attack", self.radii)
        panel = Lines(Axis("radius", self.unit), Axis("share of points that stay right"), (left,))
        caption = f"{len(self)} points under {', '.join(self.attacks)}: an upper bound."
        return Figure("attacks", "Accuracy under attack", caption, (panel,))

    @property
    def stuck(self) -> Bool[ndarray, " n"]:
        """Where nothing flipped the point: the question is not answered."""
        return np.isinf(self.radii)

    @property
    def accuracy(self) -> float:
        """The share of points decided rightly without any attack."""
        return float(np.mean(self.radii > 0))

    @property
    def wins(self) -> dict[str, int]:
        """How many points each attack was the nearest for."""
        return {name: self.attack.count(name) for name in dict.fromkeys(self.attack)}
