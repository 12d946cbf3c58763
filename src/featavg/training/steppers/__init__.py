"""Steppers: how parameters move in one step. A file here is a stepper, its name the file's."""

from featavg.training.parts import Proposal as Proposal
from featavg.training.parts import Start as Start
from featavg.training.parts import Stepper as Stepper
from featavg.training.steppers.adam import Adam as Adam
from featavg.training.steppers.flow import GradientFlow as GradientFlow
from featavg.training.steppers.gd import GradientDescent as GradientDescent
from featavg.training.steppers.momentum import Momentum as Momentum
from featavg.training.steppers.sgd import StochasticGradientDescent as StochasticGradientDescent
from featavg.training.steppers.sign import SignDescent as SignDescent
from featavg.training.steppers.weight_decay import WeightDecay as WeightDecay
