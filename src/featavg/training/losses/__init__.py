"""Losses, kept as logarithms. A file here is a loss, its name the file's."""

from featavg.training.losses.cross_entropy import CrossEntropy as CrossEntropy
from featavg.training.losses.exponential import Exponential as Exponential
from featavg.training.losses.logistic import Logistic as Logistic
from featavg.training.losses.partial_cross_entropy import PartialCrossEntropy as PartialCrossEntropy
from featavg.training.losses.pooled_logistic import PooledLogistic as PooledLogistic
from featavg.training.losses.smoothed_cross_entropy import (
    SmoothedCrossEntropy as SmoothedCrossEntropy,
)
from featavg.training.losses.smoothed_logistic import SmoothedLogistic as SmoothedLogistic
from featavg.training.parts import Loss as Loss
from featavg.training.parts import LossValue as LossValue
from featavg.training.parts import from_margins as from_margins
