"""The public surface of featavg, stated once. What is not listed here is private."""

from featavg.errors import InputError as InputError
from featavg.progress import ProgressBar as ProgressBar

# data
from featavg.data.clusters import MultiCluster as MultiCluster
from featavg.data.clusters import Sample as Sample
from featavg.data.compress import TrainingSet as TrainingSet
from featavg.data.compress import draw as draw
from featavg.data.compress import draw_many as draw_many
from featavg.paper.theorems.packed import draw_packed as draw_packed
from featavg.data.images import Images as Images
from featavg.data.images import ImageTask as ImageTask
from featavg.data.image_sets.loading import load_images as load_images
from featavg.data.user_points import read_labelled as read_labelled
from featavg.paper.connections.lattice import Lattice as Lattice
from featavg.paper.connections.manifold import OnSubspace as OnSubspace
from featavg.paper.connections.slabs import Slabs as Slabs

# parts that are chosen by name
from featavg.registry import ACTIVATIONS as ACTIVATIONS
from featavg.registry import CONTROLLERS as CONTROLLERS
from featavg.registry import LOSSES as LOSSES
from featavg.registry import STEPPERS as STEPPERS

# nets
from featavg.nets.two_layer import TwoLayer as TwoLayer
from featavg.nets.two_layer import binary as binary
from featavg.nets.grouped import grouped as grouped
from featavg.nets.deep import Deep as Deep
from featavg.nets.readouts.readout import ReadOut as ReadOut
from featavg.nets.readouts.registry import READOUTS as READOUTS
from featavg.nets.readouts.registry import score as score
from featavg.nets.ideal import biased_robust as biased_robust
from featavg.nets.ideal import feature_averaging as feature_averaging
from featavg.nets.ideal import feature_decoupling as feature_decoupling
from featavg.nets.activations.leaky_relu import LeakyReLU as LeakyReLU
from featavg.paper.connections.power_relu import PowerReLU as PowerReLU
from featavg.paper.connections.power_relu import Shallow as Shallow
from featavg.paper.connections.power_relu import averaged_limit as averaged_limit
from featavg.paper.connections.power_relu import decoupled_limit as decoupled_limit

# training
from featavg.training.train import Recipe as Recipe
from featavg.training.train import train as train
from featavg.training.driver import SaveAt as SaveAt
from featavg.training.driver import Stop as Stop
from featavg.training.driver import run as run
from featavg.training.steppers.adam import Adam as Adam
from featavg.training.steppers.gd import GradientDescent as GradientDescent
from featavg.training.steppers.flow import GradientFlow as GradientFlow
from featavg.training.steppers.momentum import Momentum as Momentum
from featavg.training.steppers.sgd import StochasticGradientDescent as StochasticGradientDescent
from featavg.training.steppers.sign import SignDescent as SignDescent
from featavg.training.steppers.weight_decay import WeightDecay as WeightDecay
from featavg.training.controllers.constant import Constant as Constant
from featavg.training.controllers.error import ErrorControl as ErrorControl
from featavg.training.controllers.loss_based import LossBased as LossBased
from featavg.training.controllers.cosine import Cosine as Cosine
from featavg.training.controllers.step_decay import StepDecay as StepDecay
from featavg.training.controllers.warmup import WarmUp as WarmUp
from featavg.training.checkpoint import Checkpoint as Checkpoint
from featavg.training.heads import HeadRecipe as HeadRecipe
from featavg.training.heads import train_head as train_head
from featavg.training.torch.dense import DenseRecipe as DenseRecipe
from featavg.training.torch.dense import train_dense as train_dense
from featavg.training.torch.recipe import ImagePreset as ImagePreset
from featavg.training.torch.recipe import ImageRecipe as ImageRecipe
from featavg.training.torch.recipe import image_presets as image_presets
from featavg.training.torch.image_network import ImageNetwork as ImageNetwork
from featavg.training.torch.objectives import Adversarial as Adversarial
from featavg.training.torch.objectives import GradientPenalty as GradientPenalty
from featavg.training.torch.image_network import load_trained as load_trained
from featavg.training.torch.image_network import train_images as train_images
from featavg.paper.margins.network.settings import MarginSettings as MarginSettings
from featavg.paper.margins.network.settings import SupportRule as SupportRule
from featavg.training.trajectory import Trajectory as Trajectory
from featavg.training.trajectory import load_trajectory as load_trajectory
from featavg.simulate.setting import Setting as Setting
from featavg.simulate.presets import compose as compose
from featavg.simulate.run import Simulation as Simulation
from featavg.simulate.run import load_simulation as load_simulation
from featavg.simulate.run import simulate as simulate
from featavg.simulate.radius import RadiusReport as RadiusReport
from featavg.simulate.radius import radius_report as radius_report

# measures
from featavg.measures.averaging import AveragingIndex as AveragingIndex
from featavg.measures.averaging import averaging_index as averaging_index
from featavg.measures.averaging import averaging_index_of as averaging_index_of
from featavg.measures.alignment import block_cosines as block_cosines
from featavg.measures.alignment import cosines as cosines
from featavg.measures.alignment import equivalent_weights as equivalent_weights
from featavg.measures.effective_weights import effective_weights as effective_weights
from featavg.measures.effective_weights import gradient_cosines as gradient_cosines
from featavg.measures.effective_weights import gradient_index as gradient_index
from featavg.measures.decomposition import Coefficients as Coefficients
from featavg.measures.decomposition import projected_coefficients as projected_coefficients
from featavg.measures.dynamics import Activations as Activations
from featavg.measures.dynamics import LossBalance as LossBalance
from featavg.measures.dynamics import UngatedUpdates as UngatedUpdates
from featavg.measures.power_law import power_law_exponent as power_law_exponent
from featavg.measures.margin import margins as margins
from featavg.measures.svm import max_margin as max_margin
from featavg.measures.kkt import kkt as kkt
from featavg.measures.shared_gradient import SharedGradient as SharedGradient
from featavg.measures.shared_gradient import shared_gradient as shared_gradient
from featavg.measures.collapse import collapse as collapse
from featavg.measures.collapse import subclass_collapse as subclass_collapse
from featavg.measures.accuracy import accuracy as accuracy
from featavg.measures.accuracy import fine_accuracy as fine_accuracy
from featavg.paper.connections.best_margin import best_margin as best_margin
from featavg.paper.connections.sphere_distance import sphere_distance as sphere_distance
from featavg.paper.connections.usefulness import UsefulFeature as UsefulFeature
from featavg.paper.connections.usefulness import robust_usefulness as robust_usefulness
from featavg.paper.connections.block_shuffle import shuffled_auc as shuffled_auc

# robustness
from featavg.robustness.radii import radii as radii
from featavg.robustness.exact.result import Radii as Radii
from featavg.robustness.exact.budget import Budget as Budget
from featavg.robustness.certify import Certificate as Certificate
from featavg.robustness.certify import Certificates as Certificates
from featavg.robustness.certify import certify as certify
from featavg.robustness.models.model import network_model as network_model
from featavg.robustness.models.torch_model import torch_model as torch_model
from featavg.robustness.attacks.suite import attack_suite as attack_suite
from featavg.robustness.attacks.result import AttackEnd as AttackEnd
from featavg.robustness.attacks.result import AttackResult as AttackResult
from featavg.robustness.attacks.attack import Attack as Attack
from featavg.robustness.attacks.attack import AttackProblem as AttackProblem
from featavg.robustness.attacks.attack import FeatureDirections as FeatureDirections
from featavg.robustness.attacks.multi_start_ddn import MultiStartDDN as MultiStartDDN
from featavg.robustness.attacks.ddn import DDN as DDN
from featavg.robustness.attacks.deepfool import DeepFool as DeepFool
from featavg.robustness.attacks.directions import Directions as Directions
from featavg.robustness.attacks.fmn import FMN as FMN
from featavg.robustness.attacks.apgd import APGD as APGD
from featavg.robustness.attacks.pgd import PGD as PGD
from featavg.robustness.attacks.random_starts import RandomStarts as RandomStarts
from featavg.robustness.attacks.polish import Polish as Polish
from featavg.robustness.attacks.foolbox_bridge import Foolbox as Foolbox
from featavg.robustness.curve import curve as curve
from featavg.robustness.curve import pgd_curve as pgd_curve

# experiments on images
from featavg.paper.images.features import FeatureSet as FeatureSet
from featavg.paper.images.features import embed as embed
from featavg.paper.images.heads import HeadRadii as HeadRadii
from featavg.paper.images.heads import HeadStudy as HeadStudy
from featavg.paper.images.heads import head_radii as head_radii
from featavg.paper.images.heads import study_heads as study_heads
from featavg.paper.images.superclasses import SuperclassStudy as SuperclassStudy
from featavg.paper.images.superclasses import study_superclasses as study_superclasses
from featavg.paper.images.attack_comparison import AttackComparison as AttackComparison
from featavg.paper.images.foolbox_comparison import compare_attacks as compare_attacks
from featavg.paper.images.curve_result import ImageCurves as ImageCurves
from featavg.paper.images.curves import CurveSettings as CurveSettings
from featavg.paper.images.curves import image_curve as image_curve

# the audit of a network of yours
from featavg.audit.run import audit as audit
from featavg.audit.result import Audit as Audit
from featavg.paper.images.label_study import LabelTable as LabelTable
from featavg.paper.images.label_study import label_table as label_table
from featavg.audit.verdict import AuditVerdict as AuditVerdict
from featavg.audit.remedies import Rehead as Rehead
from featavg.audit.remedies import discover_labels as discover_labels
from featavg.audit.remedies import rehead as rehead
from featavg.audit.remedies import retrain as retrain
from featavg.audit.page import write_audit as write_audit

# experiments: margins
from featavg.paper.margins.homogeneous_nets import HomogeneousFlow as HomogeneousFlow
from featavg.paper.margins.homogeneous_nets import homogeneous_flow as homogeneous_flow
from featavg.paper.margins.kkt_robustness import KKTRadius as KKTRadius
from featavg.paper.margins.kkt_robustness import kkt_radius as kkt_radius
from featavg.paper.margins.kkt_runs import KKTRun as KKTRun
from featavg.paper.margins.kkt_runs import kkt_run as kkt_run
from featavg.paper.margins.linear_classifiers import LinearDrift as LinearDrift
from featavg.paper.margins.linear_classifiers import linear_drift as linear_drift
from featavg.paper.margins.linear_classifiers import linear_limits as linear_limits
from featavg.paper.margins.mnist_margins import MarginTable as MarginTable
from featavg.paper.margins.mnist_margins import margin_table as margin_table
from featavg.paper.margins.mnist_margins import train_margin_network as train_margin_network
from featavg.paper.margins.rate_comparison import RateComparison as RateComparison
from featavg.paper.margins.rate_comparison import compare_rates as compare_rates

# experiments: connections
from featavg.paper.connections.boundary import BoundaryPicture as BoundaryPicture
from featavg.paper.connections.boundary import boundary_picture as boundary_picture
from featavg.paper.connections.mnist_cifar import PairedPictures as PairedPictures
from featavg.paper.connections.mnist_cifar import paired_pictures as paired_pictures
from featavg.paper.connections.cost_of_robustness import Expressivity as Expressivity
from featavg.paper.connections.cost_of_robustness import expressivity as expressivity
from featavg.paper.connections.half_margin import HintedMargin as HintedMargin
from featavg.paper.connections.half_margin import hinted_margin as hinted_margin
from featavg.paper.connections.dimpled_manifold import OffManifold as OffManifold
from featavg.paper.connections.dimpled_manifold import off_manifold as off_manifold
from featavg.paper.connections.implicit_biases import ImplicitBias as ImplicitBias
from featavg.paper.connections.implicit_biases import implicit_bias as implicit_bias
from featavg.paper.connections.bayes_radius import OptimalRadius as OptimalRadius
from featavg.paper.connections.bayes_radius import optimal_radius as optimal_radius
from featavg.paper.connections.power_descent import PowerReluDescent as PowerReluDescent
from featavg.paper.connections.power_descent import power_relu_descent as power_relu_descent
from featavg.paper.connections.prelu_images import PowerReluImages as PowerReluImages
from featavg.paper.connections.prelu_images import PowerReluRecipe as PowerReluRecipe
from featavg.paper.connections.prelu_images import power_relu_images as power_relu_images
from featavg.paper.connections.power_relu_runs import PowerReluRun as PowerReluRun
from featavg.paper.connections.power_relu_runs import power_relu_run as power_relu_run
from featavg.paper.connections.slab_shuffling import SlabReliance as SlabReliance
from featavg.paper.connections.slab_shuffling import slab_reliance as slab_reliance
from featavg.paper.connections.feature_usefulness import UsefulFeatures as UsefulFeatures
from featavg.paper.connections.feature_usefulness import useful_features as useful_features

# sweeps
from featavg.simulate.sweep.run import sweep as sweep
from featavg.simulate.sweep.table import Sweep as Sweep
from featavg.simulate.sweep.measures import MEASURES as MEASURES
from featavg.simulate.sweep.engines import Engine as Engine

# open questions
from featavg.paper.questions.angle import EqualAngles as EqualAngles
from featavg.paper.questions.angle import equal_angles as equal_angles
from featavg.paper.questions.geometry import GeometryStudy as GeometryStudy
from featavg.paper.questions.geometry import geometry_study as geometry_study
from featavg.paper.questions.optimizers import OptimizerStudy as OptimizerStudy
from featavg.paper.questions.optimizers import optimizer_study as optimizer_study
from featavg.paper.questions.adversarial import AdversarialStudy as AdversarialStudy
from featavg.paper.questions.adversarial import adversarial_study as adversarial_study
from featavg.paper.questions.borders import BorderMap as BorderMap
from featavg.paper.questions.borders import border_map as border_map
from featavg.paper.questions.depth_networks import Architecture as Architecture
from featavg.paper.questions.depth_index import DepthAveraging as DepthAveraging
from featavg.paper.questions.depth_index import depth_averaging as depth_averaging
from featavg.paper.questions.depth_planes import DepthBoundary as DepthBoundary
from featavg.paper.questions.depth_planes import depth_boundary as depth_boundary
from featavg.paper.questions.depth_kkt import DepthMargin as DepthMargin
from featavg.paper.questions.depth_kkt import depth_margin as depth_margin
from featavg.paper.questions.depth_layers import DepthProbe as DepthProbe
from featavg.paper.questions.depth_layers import depth_probe as depth_probe
from featavg.paper.questions.depth_exponents import DepthScaling as DepthScaling
from featavg.paper.questions.depth_exponents import depth_scaling as depth_scaling

# experiments: the paper
from featavg.paper.theorems.theorem_runs import TheoremRun as TheoremRun
from featavg.paper.theorems.theorem_runs import theorem_run as theorem_run
from featavg.paper.theorems.theorem_sweeps import TheoremSweep as TheoremSweep
from featavg.paper.theorems.theorem_sweeps import theorem_sweep as theorem_sweep
from featavg.paper.theorems.packed_runs import TheoremScale as TheoremScale
from featavg.paper.theorems.packed_runs import theorem_scale as theorem_scale
from featavg.paper.theorems.paper_runs import PaperRun as PaperRun
from featavg.paper.theorems.paper_runs import paper_run as paper_run
from featavg.paper.figures.figure2_cosines import CosineMatrices as CosineMatrices
from featavg.paper.figures.figure2_cosines import cosine_matrices as cosine_matrices
from featavg.paper.figures.clean_errors import CleanError as CleanError
from featavg.paper.figures.clean_errors import clean_error as clean_error
from featavg.paper.theorems.decoupling_proof import DecouplingLemmas as DecouplingLemmas
from featavg.paper.theorems.decoupling_proof import decoupling_lemmas as decoupling_lemmas
from featavg.paper.theorems.dead_neurons import DeadNeurons as DeadNeurons
from featavg.paper.theorems.dead_neurons import dead_neurons_study as dead_neurons_study
from featavg.paper.theorems.unequal_sizes import UnequalClusters as UnequalClusters
from featavg.paper.theorems.unequal_sizes import unequal_clusters as unequal_clusters
from featavg.paper.theorems.initialisation import StartSweep as StartSweep
from featavg.paper.theorems.initialisation import start_sweep as start_sweep
from featavg.paper.figures.radius_scaling import RadiusGrowth as RadiusGrowth
from featavg.paper.figures.radius_scaling import radius_growth as radius_growth
from featavg.paper.figures.figure3_curves import RobustCurves as RobustCurves
from featavg.paper.figures.figure3_curves import robust_curves as robust_curves
from featavg.paper.figures.figure3_curves import ReadoutComparison as ReadoutComparison
from featavg.paper.figures.figure3_curves import compare_readouts as compare_readouts
from featavg.paper.figures.universal import UniversalVector as UniversalVector
from featavg.paper.figures.universal import universal_vector as universal_vector
from featavg.paper.figures.universal import RemarkLengths as RemarkLengths
from featavg.paper.figures.universal import remark_lengths as remark_lengths
from featavg.paper.theorems.steepness import Slopes as Slopes
from featavg.paper.theorems.steepness import slopes as slopes
from featavg.paper.theorems.biased_average import BiasGrid as BiasGrid
from featavg.paper.theorems.biased_average import bias_grid as bias_grid
from featavg.paper.figures.linf import LinfRadii as LinfRadii
from featavg.paper.figures.linf import linf_study as linf_study

# claims and report
from featavg.paper.engine.claim import Check as Check
from featavg.paper.engine.claim import Claim as Claim
from featavg.paper.engine.claim import Evidence as Evidence
from featavg.paper.engine.claim import Context as Context
from featavg.paper.engine.registry import all_claims as all_claims
from featavg.cli.installation import Installation as Installation
from featavg.cli.installation import doctor as doctor
from featavg.paper.engine.statements import all_statements as all_statements
from featavg.paper.engine.statements import statements_table as statements_table
from featavg.paper.report.reproduction import rebuild as rebuild
from featavg.paper.report.reproduction import reproduce as reproduce
from featavg.playground.page import playground as playground

__version__: str
