"""Losses, kept as logarithms. Any other file here is a loss, its name the file's."""

from featavg.training.losses._binary import Exponential as Exponential
from featavg.training.losses._binary import Logistic as Logistic
from featavg.training.losses._binary import PooledLogistic as PooledLogistic
from featavg.training.losses._binary import SmoothedLogistic as SmoothedLogistic
from featavg.training.losses._outputs import CrossEntropy as CrossEntropy
from featavg.training.losses._outputs import PartialCrossEntropy as PartialCrossEntropy
from featavg.training.losses._outputs import SmoothedCrossEntropy as SmoothedCrossEntropy
from featavg.training.parts import Loss as Loss
from featavg.training.parts import LossValue as LossValue
from featavg.training.parts import from_margins as from_margins
