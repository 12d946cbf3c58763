"""Everything that decides a simulation, in one flat table that TOML can hold."""

from __future__ import annotations

import difflib
import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from featavg.boundary.kinds import MOST
from featavg.data.clusters import MultiCluster
from featavg.data.memory import require
from featavg.data.user_points import own_points, read_matrix
from featavg.errors import InputError, finite, one_of
from featavg.nets.readouts import NAMES as READOUT_NAMES
from featavg.nets.readouts.registry import READOUTS
from featavg.registry import CONTROLLERS, LOSSES, STEPPERS
from featavg.simulate import toml
from featavg.training.train import LABELS, Recipe

TASK = ("k", "d", "alpha", "sigma", "positive", "cosine", "norms", "probabilities", "gram")
# What a file of the user's own points says already.
_SAID_BY_DATA = tuple(name for name in (*TASK, "orientation", "n", "n_test") if name != "positive")
# TOML and NumPy count in 64 bits.
_LARGEST = 10**18
_DEEP = ("depth", "residual", "activation", "biases", "head", "inner_scale")
_NETWORK = ("m", "h", "sigma_w", "sigma_b", "lr", "steps", "layers", *_DEEP)
_SECTIONS = {
    "what is trained, on how many points": ("labels", "n", "seeds"),
    "the task": (*TASK, "orientation", "data"),
    "the networks": ("m", "h", *_DEEP, "sigma_w", "sigma_b", "layers", "loss", "readout"),
    "the training": ("stepper", "controller", "lr", "beta", "tolerance", "steps", "time"),
    "the end of it, and what is kept": ("target_loss", "coordinates", "save_every", "n_test"),
}


class Setting(BaseModel):
    """A task, the networks, their training, and the seeds; the defaults are the paper's.

    The fields of the task are those of `MultiCluster`, those of the networks and their training are
    those of `Recipe`. Others:

    Args:
        labels: "coarse", "fine", or "both" on one sample.
        n, n_test: training and test points.
        seeds: one run each, all in one batched computation.
        gram: a matrix, or a CSV, JSON or npy file that holds one.
        data: an npz file with points of yours, `x` and `clusters`, instead of a task.
        loss, stepper, controller: names of `LOSSES`, `STEPPERS`, `CONTROLLERS`, perhaps with options:
            "momentum:beta=0.5". Not said, the loss follows the labels and the controller the stepper.
        beta, tolerance, lr: options of every stepper, or every controller (its `rate`), that has them.
        target_loss: stop at this loss.
        readout: from the fine outputs to a class: a name from READOUTS.
        save_every: keep the weights every so many steps, not only the first and the last.

    >>> import featavg as fa
    >>> fa.Setting(k=4, d=100).task().positive_count
    2
    >>> fa.Setting(k=-3)
    Traceback (most recent call last):
        ...
    featavg.errors.InputError: k is -3: give at least two clusters, one for each class.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    labels: Literal["coarse", "fine", "both"] = "both"
    n: int = 1000
    seeds: tuple[int, ...] = (0,)

    k: int = 10
    d: int = 3072
    alpha: float = 1.0
    sigma: float = 1.0
    positive: int | tuple[int, ...] | None = None
    cosine: float = 0.0
    norms: float | tuple[float, ...] | None = None
    probabilities: tuple[float, ...] | None = None
    gram: tuple[tuple[float, ...], ...] | None = None
    orientation: Literal["axes", "random"] = "axes"
    data: str | None = None

    m: int = 5
    h: int = 1
    sigma_w: float = 1e-5
    sigma_b: float = 1e-5
    depth: int = 2
    residual: bool = False
    activation: str = "relu"
    biases: bool | None = None
    head: str = "theory"
    inner_scale: float = 1.0
    layers: str = "first"
    loss: str | None = None
    readout: str = READOUT_NAMES[0]

    stepper: str = "gd"
    controller: str | None = None
    lr: float = 1e-3
    beta: float = 0.9
    tolerance: float = 1e-3
    steps: int = 100
    time: float | None = None

    target_loss: float | None = None
    coordinates: Literal["auto", "compressed", "ambient"] = "auto"
    save_every: int | None = None
    n_test: int = 1000

    def __init__(self, **values: Any) -> None:
        known = type(self).model_fields
        for name, value in values.items():
            # pydantic would read `alpha = true` as 1.0.
            if (
                isinstance(value, bool)
                and name in known
                and known[name].annotation not in (bool, bool | None)
            ):
                problem = f"is {str(value).lower()}"
                raise InputError(name, problem, "give a number or a text")
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise _in_one_sentence(error, values, type(self).model_fields) from None
        self._check()

    @field_validator("gram", mode="before")
    @classmethod
    def _read_gram(cls, value: Any) -> Any:
        given = read_matrix(Path(value), "gram") if isinstance(value, str | Path) else value
        rows = given.tolist() if hasattr(given, "tolist") else given
        if isinstance(rows, list | tuple) and len({len(row) for row in map(_row, rows)}) > 1:
            raise InputError("gram", "has rows of different lengths", "give a square matrix")
        return rows

    @field_validator("readout")
    @classmethod
    def _known_readout(cls, value: str) -> str:
        return one_of("readout", value, READOUTS)

    @field_validator("data", mode="before")
    @classmethod
    def _absolute(cls, value: Any) -> Any:
        return str(Path(value).absolute()) if isinstance(value, str | Path) else value

    def _check(self) -> None:
        """Refuse what the types allow and the theory does not, before any work."""
        for name in ("k", "d", "n", "m", "h", "steps", "n_test", "save_every", "depth"):
            if (getattr(self, name) or 0) > MOST:
                raise InputError(name, "is beyond counting", f"give at most {MOST:.0e}")
        for name, least in (("n", 1), ("n_test", 1), ("steps", 0), ("save_every", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(name, f"is {value}", f"give {least} or more")
        if not self.seeds or min(self.seeds) < 0 or len(set(self.seeds)) < len(self.seeds):
            problem = ", ".join(map(str, self.seeds)) or "empty"
            raise InputError("seeds", f"are {problem}", "give different numbers, zero or more")
        if (self.target_loss or 0) < 0:
            raise InputError("target_loss", f"is {self.target_loss}", "give 0 or more")
        # Refused even where the stepper has no use for them.
        finite("beta", self.beta, least=0, below=1)
        finite("tolerance", self.tolerance, above=0, below=1)
        stepper = STEPPERS.build(self.stepper, beta=self.beta, tolerance=self.tolerance)
        if self.coordinates == "compressed" and not stepper.keeps_rotations:
            problem = f"are compressed with stepper {self.stepper}, which looks at single ones"
            raise InputError("coordinates", problem, "use ambient or auto")
        if self.loss and self.labels == "both" and not LOSSES.build(self.loss).one_output:
            remedy = "with both, it is the loss of the coarse labels"
            raise InputError("loss", f"is {self.loss} for both", remedy)
        beside = [name for name in _SAID_BY_DATA if name in self.model_fields_set]
        if self.data is not None and beside:
            remedy = "the data says it already, leave it out"
            raise InputError(", ".join(beside), "is given beside data", remedy)
        for labels in self.each_labels:
            self.recipe(labels)
        if self.data is None:
            if self.d > _LARGEST:
                raise InputError("d", f"is {self.d:.3g}", "give at most 10^18")
            require(32.0 * max(self.k, 0) ** 2, "k", "lower k")  # the Gram matrix and its factor
            self.task()

    @property
    def each_labels(self) -> tuple[str, ...]:
        """The networks to train: ("coarse",), ("fine",), or both."""
        return LABELS if self.labels == "both" else (self.labels,)

    def task(self) -> MultiCluster:
        """The distribution; for points of the user's, the one with their means and shares."""
        if self.data is not None:
            return own_points(Path(self.data), self.positive).task
        return MultiCluster(**{name: getattr(self, name) for name in (*TASK, "orientation")})

    def recipe(self, labels: str) -> Recipe:
        """The network for `labels` and how it is trained."""
        return Recipe(
            labels=labels,
            time=math.inf if self.time is None else self.time,
            target_log_loss=math.log(self.target_loss) if self.target_loss else -math.inf,
            # With both networks the loss is the coarse one's; the fine one has its own.
            loss=None if self.labels == "both" and labels == "fine" else self.loss,
            stepper=STEPPERS.build(self.stepper, beta=self.beta, tolerance=self.tolerance),
            controller=None
            if self.controller is None
            else CONTROLLERS.build(self.controller, rate=self.lr, steps=self.steps),
            **{name: getattr(self, name) for name in _NETWORK},
        )

    @classmethod
    def from_toml(cls, path: str | Path) -> Setting:
        """Read what `to_toml` wrote, or a table like it; what is not said is the paper's."""
        return cls(**toml.read_table(Path(path)))

    def to_toml(self) -> str:
        """All of it as TOML that reads back to an equal setting."""
        values = self.model_dump(mode="json", exclude_none=True)
        if self.data is not None:
            values = {name: v for name, v in values.items() if name not in _SAID_BY_DATA}
        return toml.write(values, _SECTIONS)

    @property
    def key(self) -> str:
        """Eight letters that two different settings do not share.

        Only what differs from the paper's values counts, so that a new field changes no old key.
        """
        said = self.model_dump(mode="json", exclude_defaults=True)
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:8]


def _row(row: Any) -> Any:
    return row if isinstance(row, list | tuple) else ()


def _in_one_sentence(
    error: ValidationError, values: Mapping[str, Any], known: Iterable[str]
) -> InputError:
    """What pydantic has to say, in one sentence of ours: the first thing wrong with `values`.

    Args:
        error: what pydantic found.
        values: what was given.
        known: the keys there are.
    """
    first = error.errors()[0]
    told = first.get("ctx", {}).get("error")
    if isinstance(told, InputError):
        return told
    name = str(first["loc"][0]) if first["loc"] else "setting"
    if first["type"] == "extra_forbidden":
        return _unknown_key(name, list(known))
    return InputError(name, f"is {repr(values.get(name))[:60]}", _expected(first))


def _unknown_key(name: str, known: list[str]) -> InputError:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    remedy = f"did you mean {near[0]}" if near else f"choose from {', '.join(known)}"
    return InputError(name, "is not a setting", remedy)


def _expected(error: Any) -> str:
    """What pydantic would have liked, in the words of a user."""
    kind = error["type"]
    if kind == "literal_error":
        return (
            f"choose one of {error['ctx']['expected'].replace(' or ', ', ').replace(chr(39), '')}"
        )
    for beginning, remedy in (
        ("int", "give a whole number"),
        ("float", "give a number"),
        ("tuple", "give a list"),
        ("string", "give a text"),
    ):
        if kind.startswith(beginning):
            return remedy
    return str(error["msg"]).replace("Input should be ", "give ").split(",", maxsplit=1)[0]
