"""Everything that decides a simulation, in one flat table that TOML can hold; settings with a name."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from featavg.boundary.public import public
from featavg.errors import InputError, one_of
from featavg.fields import TaskFields, about, fit_fields
from featavg.registry import CONTROLLERS, LOSSES, READOUTS, STEPPERS, spec
from featavg.training.recipe import LABELS, Recipe, RecipeFields

if TYPE_CHECKING:
    from featavg.data.clusters import MultiCluster
    from featavg.data.labels import Labels

# The headings of TOML and of the help, in their order.
SECTIONS = ("What to run", "The task", "The networks", "The training", "The result")
_what, _nets, _training, _result = (partial(about, section=SECTIONS[i]) for i in (0, 2, 3, 4))
COORDINATES = ("auto", "compressed", "ambient")


@dataclass(frozen=True, init=False, kw_only=True)
class Setting(TaskFields, RecipeFields):
    """A task, the networks, their training, and the seeds; the defaults are the paper's.

    The fields of the task are those of `MultiCluster`, those of the networks and their training are
    those of `Recipe`. A field that is None, or not given, has its default. Others:

    Args:
        labels: "coarse", "fine", or "both" on one sample.
        label_share, label_groups, label_wrong, label_per_cluster: what is known of the points of the fine
            network: the fields of `Labels` (share, groups, wrong, per_cluster).
        n, n_test: training and test points.
        seeds: one run each, all in one batched computation.
        gram: a matrix, or a CSV, JSON or npy file that holds one.
        data: an npz file with points of yours, `x` and `clusters`, instead of a task.
        loss, stepper, controller: names of `LOSSES`, `STEPPERS`, `CONTROLLERS`, perhaps with options:
            "momentum:beta=0.5". With both labels, the loss is that of the coarse ones.
        beta, tolerance, lr: options of every stepper, or every controller (its `rate`), that has them.
        target_loss: stop at this loss.
        readout: from the fine outputs to a class: a name from READOUTS.
        save_every: keep the weights after each `save_every` steps, not only the first and the last.

    >>> import featavg as fa
    >>> fa.Setting(k=4, d=100).task().positive_count
    2
    >>> fa.Setting(k=-3)
    Traceback (most recent call last):
        ...
    featavg.errors.InputError: k is -3: give at least two clusters, one for each class.
    """

    labels: str = _what("both", "Labels; both share one sample", choices=(*LABELS, "both"))
    label_share: float = _what(1.0, "Share of points with a fine label", least=0, most=1)
    label_groups: int | None = _what(None, "Fine labels of each class", least=1, unset="one for each cluster")
    label_wrong: float = _what(0.0, "Share of fine labels that are wrong", least=0, most=1)
    label_per_cluster: int | None = _what(
        None, "Points with a fine label of each cluster", least=0, unset="by the share"
    )
    n: int = _what(1000, "Training points", least=1)
    seeds: tuple[int, ...] = _what((0,), "Seeds")
    data: str | None = _what(None, "Your points: npz with x and clusters", file=True)
    readout: str = _nets(READOUTS[0], "How cluster outputs become a class", choices=READOUTS)
    beta: float = _training(0.9, "Momentum", least=0, below=1)
    tolerance: float = _training(1e-3, "Local error of the flow", above=0, below=1)
    target_loss: float | None = _training(None, "Stop at this loss", least=0)
    coordinates: str = _training("auto", "Coordinates", choices=COORDINATES)
    n_test: int = _result(1000, "Test points", least=1)
    save_every: int | None = _result(None, "Steps between saved weights", least=1, unset="first and last only")

    _given: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, /, **values: Any) -> None:
        given = {name: value for name, value in values.items() if value is not None}
        for name in given:
            if name not in FIELDS:
                near = difflib.get_close_matches(name, FIELDS, n=1, cutoff=0.6)
                remedy = f"did you mean {near[0]}" if near else f"choose from {', '.join(FIELDS)}"
                raise InputError(name, "is not a setting", remedy)
        if "gram" in given:
            given["gram"] = _rows(given["gram"])
        if isinstance(given.get("data"), str | Path):
            given["data"] = str(Path(given["data"]).absolute())
        for name, value in given.items():
            choices = FIELDS[name].metadata["choices"]
            if hasattr(choices, "build") and not isinstance(value, str):
                given[name] = spec(choices.build(value))
            elif hasattr(value, "tolist"):
                given[name] = value.tolist()
        held = {name: one.default for name, one in FIELDS.items()} | given
        # Frozen: not for others to set. What was given is needed where defaults must not count.
        self.__dict__.update(held, _given=frozenset(given))
        fit_fields(self)
        self._check()

    def _check(self) -> None:
        """Refuses combinations of values that make no sense."""
        if not self.seeds or min(self.seeds) < 0 or len(set(self.seeds)) < len(self.seeds):
            problem = ", ".join(map(str, self.seeds)) or "empty"
            raise InputError("seeds", f"are {problem}", "give different numbers, zero or more")
        if self.coordinates == "compressed" and not self._stepper.keeps_rotations:
            problem = f"are compressed with stepper {self.stepper}, which looks at single ones"
            raise InputError("coordinates", problem, "use ambient or auto")
        if self.loss and self.labels == "both" and not LOSSES.build(self.loss).one_output:
            remedy = "with both, it is the loss of the coarse labels"
            raise InputError("loss", f"is {self.loss} for both", remedy)
        if self.labels == "coarse" and not isinstance(self._fine_labels, str):
            named = next(n for n in LATER if getattr(self, n) != FIELDS[n].default)
            raise InputError(named, "is given for class labels", "set labels to fine or both")
        if self.labels == "fine" and self.pooling != "mean":
            remedy = "it is about class labels, leave it out"
            raise InputError("pooling", f"is {self.pooling} for fine labels", remedy)
        beside = [name for name in _SAID_BY_DATA if name in self._given]
        if self.data is not None and beside:
            remedy = "the data says it already, leave it out"
            raise InputError(", ".join(beside), "is given beside data", remedy)
        for labels in self.each_labels:
            self.recipe(labels)
        if not isinstance(self._fine_labels, str):
            try:
                self._fine_labels.outputs(self.task())
            except InputError as error:  # in the words of `Labels`
                raise InputError(f"label_{error.argument}", error.problem, error.remedy) from None
        if self.data is None:
            from featavg.machine import require

            require(32.0 * self.k**2, "k", "lower k")  # the Gram matrix and its factor
            self.task()

    @property
    def given(self) -> dict[str, Any]:
        """The fields that were given, those at their default included."""
        return {name: getattr(self, name) for name in self._given}

    @property
    def each_labels(self) -> tuple[str, ...]:
        """The networks to train: ("coarse",), ("fine",), or both."""
        return LABELS if self.labels == "both" else (self.labels,)

    @property
    def _fine_labels(self) -> Labels | str:
        """What is known of the points of the fine network."""
        given = {name: getattr(self, name) for name in LATER if name.startswith("label_")}
        if all(value == FIELDS[name].default for name, value in given.items()):
            return "fine"
        from featavg.data.labels import Labels

        return Labels(**{name.removeprefix("label_"): value for name, value in given.items()})

    @property
    def _stepper(self) -> Any:
        return STEPPERS.build(self.stepper, beta=self.beta, tolerance=self.tolerance)

    def task(self) -> MultiCluster:
        """The distribution; for a file of points, the one with their means and shares."""
        from featavg.data.clusters import MultiCluster
        from featavg.data.user_points import own_points

        if self.data is not None:
            return own_points(Path(self.data), self.positive).task
        return MultiCluster(**{one.name: getattr(self, one.name) for one in fields(TaskFields)})

    def recipe(self, labels: str) -> Recipe:
        """The network for `labels` and how it is trained."""
        shared = {one.name: getattr(self, one.name) for one in fields(RecipeFields)}
        shared["stepper"] = self._stepper
        if self.controller is not None:
            shared["controller"] = CONTROLLERS.build(self.controller, rate=self.lr, steps=self.steps)
        if self.labels == "both" and labels == "fine":
            shared["loss"] = None  # the loss is the coarse network's; the fine one has its own
        target = math.log(self.target_loss) if self.target_loss else -math.inf
        known = labels if labels == "coarse" else self._fine_labels
        return Recipe(labels=known, target_log_loss=target, **shared)

    def to_json(self) -> dict[str, Any]:
        """Plain values: lists for tuples, None for what is not set; not what a file of points says."""
        left_out = _SAID_BY_DATA if self.data is not None else ()
        held = {name: getattr(self, name) for name in FIELDS if name not in left_out}
        held = {n: v for n, v in held.items() if n not in LATER or v != FIELDS[n].default}
        return {name: None if value == math.inf else _listed(value) for name, value in held.items()}

    @classmethod
    def from_toml(cls, path: str | Path) -> Setting:
        """Reads what `to_toml` wrote, or any table of fields; others have the paper's values."""
        return cls(**read_table(Path(path)))

    def to_toml(self) -> str:
        """All of it as TOML that reads back to an equal setting."""
        values = {name: value for name, value in self.to_json().items() if value is not None}
        parts = []
        for section in SECTIONS:
            names = [n for n, one in FIELDS.items() if one.metadata["section"] == section]
            lines = [f"{name} = {json.dumps(values[name], ensure_ascii=False)}" for name in names if name in values]
            parts += ["\n".join([f"# {section}", *lines])] if lines else []
        return "\n\n".join(parts) + "\n"

    @property
    def key(self) -> str:
        """Eight letters that two different settings do not share.

        Only what differs from the paper's values counts, so that a new field changes no old key.
        """
        import hashlib  # a tenth of the time that the help of commands takes

        plain = self.to_json()
        said = {n: plain[n] for n, one in FIELDS.items() if getattr(self, n) != one.default}
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:8]


# Fields that came later: left out of JSON at their default, so that runs keep their ids.
LATER = ("label_share", "label_groups", "label_wrong", "label_per_cluster", "pooling")
FIELDS = {one.name: one for section in SECTIONS for one in fields(Setting) if one.metadata["section"] == section}
# Fields that a file of points decides.
_SAID_BY_DATA = (*(one.name for one in fields(TaskFields) if one.name != "positive"), "n", "n_test")


def read_table(path: Path) -> dict[str, Any]:
    """The table in a TOML file; a relative path in it (`gram`, `data`) is beside the file."""
    from featavg.storage.reading import read_toml

    try:
        table = read_toml(path)
    except InputError as error:
        raise InputError("config", f"({path}) {error.problem}", error.remedy) from None
    for name in ("gram", "data"):
        if isinstance(table.get(name), str):
            table[name] = str(path.parent / table[name])
    return table


def _rows(gram: Any) -> Any:
    """A matrix as a list of rows of one length; or read from the file of that name."""
    if isinstance(gram, str | Path):
        from featavg.data.user_points import read_matrix

        gram = read_matrix(Path(gram), "gram")
    rows = gram.tolist() if hasattr(gram, "tolist") else gram
    several = rows if isinstance(rows, list | tuple) else ()
    if len({len(row) for row in several if isinstance(row, list | tuple)}) > 1:
        raise InputError("gram", "has rows of different lengths", "give a square matrix")
    return rows


def _listed(value: Any) -> Any:
    return [_listed(item) for item in value] if isinstance(value, tuple) else value


@dataclass(frozen=True)
class Preset:
    """A name for some values of a setting.

    Args:
        summary: what it is, in one line.
        values: from what else was given (some values follow d or k) to the preset's values.
    """

    summary: str
    values: Callable[[Mapping[str, Any]], dict[str, Any]]


def preset_values(name: str, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The values of a preset, where they follow from d or k for those of `given`.

    >>> preset_values("talk", {"d": 10_000})["sigma_w"]
    0.01
    """
    return PRESETS[one_of("preset", name, PRESETS)].values(given or {})


@public
def compose(preset: str | None = None, config: str | Path | None = None, **given: Any) -> Setting:
    """A setting from a preset, over which a TOML file has its way, over which `given` has.

    Args:
        preset: "paper" unless `config` has a key `preset`.
        config: a TOML file.
        given: single values.

    >>> import featavg as fa
    >>> fa.compose("theorem", k=2).d
    1024
    """
    merged = (read_table(Path(config)) if config is not None else {}) | given
    named = merged.pop("preset", "paper")
    name = preset if preset is not None else named
    if not isinstance(name, str):
        raise InputError("preset", f"is {name!r}", f"choose one of {', '.join(PRESETS)}")
    if merged.get("data") is not None:
        if name != "paper":
            remedy = "it is about a task of its own, leave it out"
            raise InputError("preset", f"is {name} beside data", remedy)
        return Setting(**merged)
    return Setting(**(preset_values(name, merged) | merged))


def _whole(given: Mapping[str, Any], name: str, default: int = Setting.d) -> int:
    # Anything else than a number is for the setting to refuse, with a sentence of its own.
    value = given.get(name, default)
    return value if isinstance(value, int) and value > 0 else default


def _paper(given: Mapping[str, Any]) -> dict[str, Any]:
    names = ("k", "d", "m", "h", "n", "alpha", "sigma", "lr", "sigma_w", "sigma_b", "steps")
    return {name: FIELDS[name].default for name in names}


def _talk(given: Mapping[str, Any]) -> dict[str, Any]:
    d = _whole(given, "d")
    return _paper(given) | {"sigma_w": 1 / math.sqrt(d), "sigma_b": 1 / d}


def _theorem(given: Mapping[str, Any]) -> dict[str, Any]:
    k = _whole(given, "k", 3)
    d = _whole(given, "d", k**10)
    # sigma^2 = eta k^-5 with the learning rate eta = d^-2 that the flow stands for.
    scale = math.sqrt(k**-5) / d
    values = {"k": k, "d": d, "n": k**7, "m": k, "h": 1, "alpha": 1.0, "sigma": 1.0}
    # The end is the time; the flow takes tens of steps, so 100,000 only stop a run gone wrong.
    training = {"stepper": "flow", "time": float(k**8), "steps": 100_000}
    return values | {"sigma_w": scale, "sigma_b": scale} | training


PRESETS: dict[str, Preset] = {
    "paper": Preset("the synthetic experiments of the paper", _paper),
    "talk": Preset("the same from larger weights: sigma_w^2 = 1/d, sigma_b^2 = 1/d^2", _talk),
    "theorem": Preset(
        "the theorems' regime, d = k^10, n = k^7, m = k, as gradient flow to time k^8 (k = 2, 3 or 4; 3 by default)",
        _theorem,
    ),
}
