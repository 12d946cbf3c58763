"""What `featavg.experiments.questions` offers. Its files are known inside the folder only."""

from featavg.experiments.questions.adversarial import AdversarialStudy as AdversarialStudy
from featavg.experiments.questions.adversarial import adversarial_study as adversarial_study
from featavg.experiments.questions.angle import EqualAngles as EqualAngles
from featavg.experiments.questions.angle import equal_angles as equal_angles
from featavg.experiments.questions.borders import BorderMap as BorderMap
from featavg.experiments.questions.borders import border_map as border_map
from featavg.experiments.questions.borders import lazy_border as lazy_border
from featavg.experiments.questions.depth_index import DepthAveraging as DepthAveraging
from featavg.experiments.questions.depth_index import depth_averaging as depth_averaging
from featavg.experiments.questions.depth_planes import DepthBoundary as DepthBoundary
from featavg.experiments.questions.depth_planes import depth_boundary as depth_boundary
from featavg.experiments.questions.depth_kkt import DepthMargin as DepthMargin
from featavg.experiments.questions.depth_kkt import depth_margin as depth_margin
from featavg.experiments.questions.depth_networks import Architecture as Architecture
from featavg.experiments.questions.depth_networks import Learned as Learned
from featavg.experiments.questions.depth_layers import DepthProbe as DepthProbe
from featavg.experiments.questions.depth_layers import depth_probe as depth_probe
from featavg.experiments.questions.depth_exponents import DepthScaling as DepthScaling
from featavg.experiments.questions.depth_exponents import depth_scaling as depth_scaling
from featavg.experiments.questions.geometry import GeometryStudy as GeometryStudy
from featavg.experiments.questions.geometry import geometry_study as geometry_study
from featavg.experiments.questions.optimizers import COORDINATE_WISE as COORDINATE_WISE
from featavg.experiments.questions.optimizers import OptimizerStudy as OptimizerStudy
from featavg.experiments.questions.optimizers import optimizer_study as optimizer_study
