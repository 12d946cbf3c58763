"""A ReLU family, a box and a grid that several tests of bounds share."""

import numpy as np

from featavg.robustness.exact.flipped_set import Family
from featavg.robustness.exact.relaxation import Box

UP, DOWN = np.array([[1.0, 0.5, 0.0]]), np.array([[0.0, 0.0, 2.0]])
FAMILY = Family(UP, DOWN, np.array([0.25]))
WIDE = Box(-np.ones(3), 2.0 * np.ones(3), -np.full(3, np.inf), np.full(3, np.inf), None)


def points(box, steps=9):
    """A grid over the box."""
    axes = [np.linspace(lo, hi, steps) for lo, hi in zip(box.lo, box.hi, strict=True)]
    return np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, len(box.lo))
