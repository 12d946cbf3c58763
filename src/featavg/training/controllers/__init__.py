"""Controllers: the size of a step, and whether it is accepted. Any other file here is a controller."""

from featavg.training.controllers._rules import Constant as Constant
from featavg.training.controllers._rules import Cosine as Cosine
from featavg.training.controllers._rules import ErrorControl as ErrorControl
from featavg.training.controllers._rules import LossBased as LossBased
from featavg.training.controllers._rules import StepDecay as StepDecay
from featavg.training.controllers._rules import WarmUp as WarmUp
from featavg.training.parts import Controller as Controller
from featavg.training.parts import Judgement as Judgement
from featavg.training.parts import Schedule as Schedule
