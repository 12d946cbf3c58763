"""The public surface of featavg, stated once. What is not listed here is private."""

from featavg.errors import InputError as InputError
from featavg.progress import ProgressBar as ProgressBar

# data
from featavg.data.clusters import MultiCluster as MultiCluster
from featavg.data.clusters import Sample as Sample
from featavg.data.compress import TrainingSet as TrainingSet
from featavg.data.compress import draw as draw
from featavg.data.compress import draw_many as draw_many
from featavg.data.packed import draw_packed as draw_packed
from featavg.data.images import Images as Images
from featavg.data.images import ImageTask as ImageTask
from featavg.data.image_sets.loading import load_images as load_images
from featavg.data.user_points import read_labelled as read_labelled
from featavg.data.related_work import Lattice as Lattice
from featavg.data.related_work import OnSubspace as OnSubspace
from featavg.data.related_work import Slabs as Slabs

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
from featavg.nets.power_relu import PowerReLU as PowerReLU
from featavg.nets.power_relu import Shallow as Shallow
from featavg.nets.power_relu import averaged_limit as averaged_limit
from featavg.nets.power_relu import decoupled_limit as decoupled_limit

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
from featavg.training.margin_network.settings import MarginSettings as MarginSettings
from featavg.training.margin_network.settings import SupportRule as SupportRule
from featavg.training.trajectory import Trajectory as Trajectory
from featavg.training.trajectory import load_trajectory as load_trajectory
from featavg.experiments.simulation import Setting as Setting
from featavg.experiments.simulation import compose as compose
from featavg.experiments.simulation import Simulation as Simulation
from featavg.experiments.simulation import load_simulation as load_simulation
from featavg.experiments.simulation import simulate as simulate
from featavg.experiments.simulation import RadiusReport as RadiusReport
from featavg.experiments.simulation import radius_report as radius_report

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
from featavg.measures.best_margin import best_margin as best_margin
from featavg.measures.sphere_distance import sphere_distance as sphere_distance
from featavg.measures.usefulness import UsefulFeature as UsefulFeature
from featavg.measures.usefulness import robust_usefulness as robust_usefulness
from featavg.measures.block_shuffle import shuffled_auc as shuffled_auc

# robustness
from featavg.robustness.radii import radii as radii
from featavg.robustness.exact import Radii as Radii
from featavg.robustness.exact import Budget as Budget
from featavg.robustness.linf import linf_radii as linf_radii
from featavg.robustness.deep_radii import deep_radii as deep_radii
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
from featavg.robustness.attacks.strongest import Strongest as Strongest
from featavg.robustness.attacks.targeted_ddn import DDN as DDN
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
from featavg.experiments.images import FeatureSet as FeatureSet
from featavg.experiments.images import embed as embed
from featavg.experiments.images import HeadRadii as HeadRadii
from featavg.experiments.images import HeadStudy as HeadStudy
from featavg.experiments.images import head_radii as head_radii
from featavg.experiments.images import study_heads as study_heads
from featavg.experiments.images import SuperclassStudy as SuperclassStudy
from featavg.experiments.images import study_superclasses as study_superclasses
from featavg.experiments.images import AttackComparison as AttackComparison
from featavg.experiments.images import compare_attacks as compare_attacks
from featavg.experiments.images import ImageCurves as ImageCurves
from featavg.experiments.images import CurveSettings as CurveSettings
from featavg.experiments.images import image_curve as image_curve

# the audit of a network of yours
from featavg.experiments.audit import audit as audit
from featavg.experiments.audit import Audit as Audit
from featavg.experiments.audit import LabelTable as LabelTable
from featavg.experiments.audit import label_table as label_table
from featavg.experiments.audit import AuditVerdict as AuditVerdict
from featavg.experiments.audit import Rehead as Rehead
from featavg.experiments.audit import discover_labels as discover_labels
from featavg.experiments.audit import rehead as rehead
from featavg.experiments.audit import retrain as retrain
from featavg.report import write_audit as write_audit

# experiments: margins
from featavg.experiments.margins import HomogeneousFlow as HomogeneousFlow
from featavg.experiments.margins import homogeneous_flow as homogeneous_flow
from featavg.experiments.margins import KKTRadius as KKTRadius
from featavg.experiments.margins import kkt_radius as kkt_radius
from featavg.experiments.margins import KKTRun as KKTRun
from featavg.experiments.margins import kkt_run as kkt_run
from featavg.experiments.margins import LinearDrift as LinearDrift
from featavg.experiments.margins import linear_drift as linear_drift
from featavg.experiments.margins import linear_limits as linear_limits
from featavg.experiments.margins import MarginTable as MarginTable
from featavg.experiments.margins import margin_table as margin_table
from featavg.experiments.margins import train_margin_network as train_margin_network
from featavg.experiments.margins import RateComparison as RateComparison
from featavg.experiments.margins import compare_rates as compare_rates

# experiments: connections
from featavg.experiments.connections import BoundaryPicture as BoundaryPicture
from featavg.experiments.connections import boundary_picture as boundary_picture
from featavg.experiments.connections import PairedPictures as PairedPictures
from featavg.experiments.connections import paired_pictures as paired_pictures
from featavg.experiments.connections import Expressivity as Expressivity
from featavg.experiments.connections import expressivity as expressivity
from featavg.experiments.connections import HintedMargin as HintedMargin
from featavg.experiments.connections import hinted_margin as hinted_margin
from featavg.experiments.connections import OffManifold as OffManifold
from featavg.experiments.connections import off_manifold as off_manifold
from featavg.experiments.connections import ImplicitBias as ImplicitBias
from featavg.experiments.connections import implicit_bias as implicit_bias
from featavg.experiments.connections import OptimalRadius as OptimalRadius
from featavg.experiments.connections import optimal_radius as optimal_radius
from featavg.experiments.connections import PowerReluDescent as PowerReluDescent
from featavg.experiments.connections import power_relu_descent as power_relu_descent
from featavg.experiments.connections import PowerReluImages as PowerReluImages
from featavg.experiments.connections import PowerReluRecipe as PowerReluRecipe
from featavg.experiments.connections import power_relu_images as power_relu_images
from featavg.experiments.connections import PowerReluRun as PowerReluRun
from featavg.experiments.connections import power_relu_run as power_relu_run
from featavg.experiments.connections import SlabReliance as SlabReliance
from featavg.experiments.connections import slab_reliance as slab_reliance
from featavg.experiments.connections import UsefulFeatures as UsefulFeatures
from featavg.experiments.connections import useful_features as useful_features

# sweeps
from featavg.experiments.sweep import sweep as sweep
from featavg.experiments.sweep import Sweep as Sweep
from featavg.experiments.sweep import MEASURES as MEASURES
from featavg.experiments.sweep import Engine as Engine

# open questions
from featavg.experiments.questions import EqualAngles as EqualAngles
from featavg.experiments.questions import equal_angles as equal_angles
from featavg.experiments.questions import GeometryStudy as GeometryStudy
from featavg.experiments.questions import geometry_study as geometry_study
from featavg.experiments.questions import OptimizerStudy as OptimizerStudy
from featavg.experiments.questions import optimizer_study as optimizer_study
from featavg.experiments.questions import AdversarialStudy as AdversarialStudy
from featavg.experiments.questions import adversarial_study as adversarial_study
from featavg.experiments.questions import BorderMap as BorderMap
from featavg.experiments.questions import border_map as border_map
from featavg.experiments.questions import Architecture as Architecture
from featavg.experiments.questions import DepthAveraging as DepthAveraging
from featavg.experiments.questions import depth_averaging as depth_averaging
from featavg.experiments.questions import DepthBoundary as DepthBoundary
from featavg.experiments.questions import depth_boundary as depth_boundary
from featavg.experiments.questions import DepthMargin as DepthMargin
from featavg.experiments.questions import depth_margin as depth_margin
from featavg.experiments.questions import DepthProbe as DepthProbe
from featavg.experiments.questions import depth_probe as depth_probe
from featavg.experiments.questions import DepthScaling as DepthScaling
from featavg.experiments.questions import depth_scaling as depth_scaling

# experiments: the paper
from featavg.experiments.paper import TheoremRun as TheoremRun
from featavg.experiments.paper import theorem_run as theorem_run
from featavg.experiments.paper import TheoremSweep as TheoremSweep
from featavg.experiments.paper import theorem_sweep as theorem_sweep
from featavg.experiments.paper import TheoremScale as TheoremScale
from featavg.experiments.paper import theorem_scale as theorem_scale
from featavg.experiments.paper import PaperRun as PaperRun
from featavg.experiments.paper import paper_run as paper_run
from featavg.experiments.paper import CosineMatrices as CosineMatrices
from featavg.experiments.paper import cosine_matrices as cosine_matrices
from featavg.experiments.paper import CleanError as CleanError
from featavg.experiments.paper import clean_error as clean_error
from featavg.experiments.paper import DecouplingLemmas as DecouplingLemmas
from featavg.experiments.paper import decoupling_lemmas as decoupling_lemmas
from featavg.experiments.paper import DeadNeurons as DeadNeurons
from featavg.experiments.paper import dead_neurons_study as dead_neurons_study
from featavg.experiments.paper import UnequalClusters as UnequalClusters
from featavg.experiments.paper import unequal_clusters as unequal_clusters
from featavg.experiments.paper import StartSweep as StartSweep
from featavg.experiments.paper import start_sweep as start_sweep
from featavg.experiments.paper import RadiusGrowth as RadiusGrowth
from featavg.experiments.paper import radius_growth as radius_growth
from featavg.experiments.paper import RobustCurves as RobustCurves
from featavg.experiments.paper import robust_curves as robust_curves
from featavg.experiments.paper import ReadoutComparison as ReadoutComparison
from featavg.experiments.paper import compare_readouts as compare_readouts
from featavg.experiments.paper import UniversalVector as UniversalVector
from featavg.experiments.paper import universal_vector as universal_vector
from featavg.experiments.paper import RemarkLengths as RemarkLengths
from featavg.experiments.paper import remark_lengths as remark_lengths
from featavg.experiments.paper import Slopes as Slopes
from featavg.experiments.paper import slopes as slopes
from featavg.experiments.paper import BiasGrid as BiasGrid
from featavg.experiments.paper import bias_grid as bias_grid
from featavg.experiments.paper import LinfRadii as LinfRadii
from featavg.experiments.paper import linf_study as linf_study

# claims and report
from featavg.claims.ledger import Check as Check
from featavg.claims.ledger import Claim as Claim
from featavg.claims.ledger import Evidence as Evidence
from featavg.claims.ledger import ClaimSettings as ClaimSettings
from featavg.claims.registry import all_claims as all_claims
from featavg.report import Installation as Installation
from featavg.report import doctor as doctor
from featavg.claims.statements import all_statements as all_statements
from featavg.claims.statements import statements_table as statements_table
from featavg.report import rebuild as rebuild
from featavg.report import reproduce as reproduce
from featavg.playground.page import playground as playground

__version__: str
