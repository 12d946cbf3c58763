"""Steppers: how parameters move in one step. Any other file here is a stepper, its name the file's."""

from featavg.training.parts import Proposal as Proposal
from featavg.training.parts import Start as Start
from featavg.training.parts import Stepper as Stepper
from featavg.training.steppers._descent import Adam as Adam
from featavg.training.steppers._descent import GradientDescent as GradientDescent
from featavg.training.steppers._descent import Momentum as Momentum
from featavg.training.steppers._descent import SignDescent as SignDescent
from featavg.training.steppers._descent import StochasticGradientDescent as StochasticGradientDescent
from featavg.training.steppers._descent import WeightDecay as WeightDecay
from featavg.training.steppers.flow import GradientFlow as GradientFlow
