"""Controllers: the size of a step, and whether it is accepted. A file here is a controller."""

from featavg.training.controllers.constant import Constant as Constant
from featavg.training.controllers.cosine import Cosine as Cosine
from featavg.training.controllers.error import ErrorControl as ErrorControl
from featavg.training.controllers.loss_based import LossBased as LossBased
from featavg.training.controllers.step_decay import StepDecay as StepDecay
from featavg.training.controllers.warmup import WarmUp as WarmUp
from featavg.training.parts import Controller as Controller
from featavg.training.parts import Judgement as Judgement
from featavg.training.parts import Schedule as Schedule
