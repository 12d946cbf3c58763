"""Lattice, manifold, usefulness, best margin and planes: fast formulas against slow ones."""

import itertools

import numpy as np
import pytest

from featavg.data.clusters import MultiCluster
from featavg.data.lattice import Lattice
from featavg.data.manifold import OnSubspace
from featavg.errors import InputError
from featavg.experiments.connections.on_manifold import split
from featavg.experiments.connections.plane_view import Shown, through
from featavg.measures.best_margin import best_margin, normalized_margin
