"""One network, the images it is audited on, and what is asked of the audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy import ndarray

from featavg.audit.classifier import Classifier
from featavg.audit.labels import AuditData
from featavg.errors import InputError
from featavg.robustness.models.decision import Decision


@dataclass(frozen=True, eq=False)
class Subject:
    """One network, the images it is audited on, and what is asked; see `audit`."""

    network: Classifier
    data: AuditData
    readout: str
    groups: ndarray | None
    layer: str
    radii: int
    gradients: int
    seed: int
    folder: Path | None
    clusters: int | None
    embedding: ndarray | None
    names: Sequence[str] | None

    def kept(self, name: str) -> Path | None:
        """Where a finished part of that name is kept."""
        return None if self.folder is None else self.folder / f"{name}.json"

    @cached_property
    def decision(self) -> Decision:
        """Outputs are classes, sub-classes, what `groups` says, or one logit; others are refused."""
        outputs, classes, known = self.network.outputs, self.data.classes, self.data.groups
        groups: ndarray | None
        if outputs == 1:
            if classes != 2:
                raise InputError("model", "has one logit", f"there are {classes} classes")
            groups = None
        elif outputs == classes:
            groups = np.arange(classes)
        elif self.groups is not None:
            groups = self.groups
            if len(groups) != outputs or set(groups.tolist()) != set(range(classes)):
                problem = f"are {groups.tolist()} for {outputs} outputs and {classes} classes"
                raise InputError("groups", problem, "give the class of each output, 0 to C-1")
        elif known is not None and outputs == len(known):
            groups = known
        else:
            labels = f"{classes} classes"
            labels += "" if known is None else f" and {len(known)} sub-classes"
            remedy = f"the labels have {labels}; give `groups`, the class of each output"
            raise InputError("model", f"has {outputs} outputs", remedy)
        return Decision.of(groups=groups, readout=self.readout)
