"""What `featavg.robustness.exact.deep` offers. Its files are known inside the folder only."""

from featavg.robustness.exact.deep.ball_search import BallSearch as BallSearch
from featavg.robustness.exact.deep.goals import Goal as Goal
from featavg.robustness.exact.deep.goals import argmax_goals as argmax_goals
from featavg.robustness.exact.deep.goals import decision_goals as decision_goals
from featavg.robustness.exact.deep.layered_network import Layered as Layered
from featavg.robustness.exact.deep.layered_network import layered as layered
from featavg.robustness.exact.deep.search import DeepSearch as DeepSearch
