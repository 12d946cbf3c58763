"""The public surface of featavg, stated once. What is not listed here is private."""

from featavg.errors import InputError as InputError
from featavg.progress import ProgressBar as ProgressBar

# data
from featavg.data.clusters import MultiCluster as MultiCluster
from featavg.data.clusters import Sample as Sample
from featavg.data.labels import Labels as Labels
from featavg.data.compress import draw as draw
from featavg.data.images import Images as Images
from featavg.data.images import ImageTask as ImageTask
from featavg.data.image_sets.loading import load_images as load_images
from featavg.data.user_points import read_labelled as read_labelled

# nets
from featavg.nets.two_layer import TwoLayer as TwoLayer
from featavg.nets.two_layer import binary as binary
from featavg.nets.two_layer import grouped as grouped
from featavg.nets.deep import Deep as Deep
from featavg.nets.readouts._readout import score as score
from featavg.nets.loading.load import load_network as load_network
from featavg.nets.two_layer import feature_averaging as feature_averaging
from featavg.nets.two_layer import feature_decoupling as feature_decoupling
from featavg.nets.two_layer import biased_robust as biased_robust

# training
from featavg.training.recipe import Recipe as Recipe
from featavg.training.train import train as train
from featavg.training.driver import SaveAt as SaveAt
from featavg.training.driver import Stop as Stop
from featavg.training.trajectory import Trajectory as Trajectory
from featavg.training.trajectory import load_trajectory as load_trajectory
from featavg.training.heads import HeadRecipe as HeadRecipe
from featavg.training.heads import train_head as train_head
from featavg.training.torch.dense import DenseRecipe as DenseRecipe
from featavg.training.torch.dense import train_dense as train_dense
from featavg.training.torch.recipe import ImageRecipe as ImageRecipe
from featavg.training.torch.image_network import train_images as train_images
from featavg.training.torch.image_network import load_trained as load_trained

# measures
from featavg.measures.alignment import cosines as cosines
from featavg.measures.averaging import averaging_index as averaging_index
from featavg.measures.averaging import averaging_index_of as averaging_index_of
from featavg.measures.averaging import gradient_cosines as gradient_cosines
from featavg.measures.averaging import gradient_index as gradient_index
from featavg.measures.shared_gradient import shared_gradient as shared_gradient
from featavg.measures.margin import margins as margins
from featavg.measures.svm import max_margin as max_margin
from featavg.measures.margin import kkt as kkt
from featavg.measures.collapse import collapse as collapse
from featavg.measures.collapse import subclass_collapse as subclass_collapse
from featavg.measures.accuracy import accuracy as accuracy
from featavg.measures.accuracy import fine_accuracy as fine_accuracy

# robustness
from featavg.robustness.radii import radii as radii
from featavg.robustness.exact.budget import Budget as Budget
from featavg.robustness.certify import certify as certify
from featavg.robustness.models.model import network_model as network_model
from featavg.robustness.models.torch_model import torch_model as torch_model
from featavg.robustness.attacks.suite import attack_suite as attack_suite
from featavg.robustness.curve import curve as curve
from featavg.robustness.curve import pgd_curve as pgd_curve

# simulations and sweeps
from featavg.simulate.setting import Setting as Setting
from featavg.simulate.setting import compose as compose
from featavg.simulate.run import simulate as simulate
from featavg.simulate.run import load_simulation as load_simulation
from featavg.simulate.radius import radius_report as radius_report
from featavg.simulate.sweep.run import sweep as sweep

# the audit of a network of yours
from featavg.audit.run import audit as audit
from featavg.audit.label_budget import label_budget as label_budget
from featavg.audit.result import write_audit as write_audit
from featavg.audit.remedies import discover_labels as discover_labels
from featavg.audit.remedies import rehead as rehead
from featavg.audit.remedies import retrain as retrain

# parts that are chosen by name, and classes to write one's own
from featavg.robustness import attacks as attacks
from featavg.nets import activations as activations
from featavg.nets import readouts as readouts
from featavg.training import steppers as steppers
from featavg.training import controllers as controllers
from featavg.training import losses as losses
from featavg.training.torch import objectives as objectives
from featavg.simulate.sweep import measures as measures
from featavg import figures as figures

# the playground, this installation, and the reproduction of the documents
from featavg.playground.page import playground as playground
from featavg.cli.doctor import doctor as doctor
from featavg import paper as paper

__version__: str
