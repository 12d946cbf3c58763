"""Attacks: upper bounds on a radius, each with a witness."""

from featavg.robustness.attacks.attack import Attack as Attack
from featavg.robustness.attacks.attack import AttackEnd as AttackEnd
from featavg.robustness.attacks.attack import AttackProblem as AttackProblem
from featavg.robustness.attacks.attack import AttackResult as AttackResult
from featavg.robustness.attacks.attack import FeatureDirections as FeatureDirections
from featavg.robustness.attacks.ddn import DDN as DDN
from featavg.robustness.attacks.ddn import FMN as FMN
from featavg.robustness.attacks.deepfool import DeepFool as DeepFool
from featavg.robustness.attacks.directions import Directions as Directions
from featavg.robustness.attacks.directions import RandomStarts as RandomStarts
from featavg.robustness.attacks.foolbox_bridge import Foolbox as Foolbox
from featavg.robustness.attacks.multi_start_ddn import MultiStartDDN as MultiStartDDN
from featavg.robustness.attacks.pgd import APGD as APGD
from featavg.robustness.attacks.pgd import PGD as PGD
from featavg.robustness.attacks.polish import Polish as Polish
