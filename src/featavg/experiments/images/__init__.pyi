"""What `featavg.experiments.images` offers. Its files are known inside the folder only."""

from featavg.experiments.images.decision_curve import ADAPTIVE as ADAPTIVE
from featavg.experiments.images.decision_curve import OWN_LOSS as OWN_LOSS
from featavg.experiments.images.curve_result import ImageCurves as ImageCurves
from featavg.experiments.images.curves import CurveSettings as CurveSettings
from featavg.experiments.images.curves import attacked_images as attacked_images
from featavg.experiments.images.curves import coarse_model as coarse_model
from featavg.experiments.images.curves import image_curve as image_curve
from featavg.experiments.images.curves import minimal_radii as minimal_radii
from featavg.experiments.images.features import FeatureSet as FeatureSet
from featavg.experiments.images.features import embed as embed
from featavg.experiments.images.features import features_of as features_of
from featavg.experiments.images.features import pixels_of as pixels_of
from featavg.experiments.images.attack_comparison import AttackComparison as AttackComparison
from featavg.experiments.images.foolbox_comparison import compare_attacks as compare_attacks
from featavg.experiments.images.foolbox_comparison import foolbox_radii as foolbox_radii
from featavg.experiments.images.attack_comparison import comparison_figure as comparison_figure
from featavg.experiments.images.attack_comparison import plain_radii as plain_radii
from featavg.experiments.images.attack_comparison import read_radii as read_radii
from featavg.experiments.images.heads import HeadRadii as HeadRadii
from featavg.experiments.images.heads import HeadStudy as HeadStudy
from featavg.experiments.images.heads import head_radii as head_radii
from featavg.experiments.images.heads import study_heads as study_heads
from featavg.experiments.images.label_pairs import LabelPair as LabelPair
from featavg.experiments.images.label_pairs import advantages as advantages
from featavg.experiments.images.label_pairs import mean_curves as mean_curves
from featavg.experiments.images.label_pairs import percent as percent
from featavg.experiments.images.label_pairs import train_pair as train_pair
from featavg.experiments.images.curve_result import CLOSE_TO_PUBLISHED as CLOSE_TO_PUBLISHED
from featavg.experiments.images.curve_result import COMPARED_BETWEEN as COMPARED_BETWEEN
from featavg.experiments.images.curve_result import PUBLISHED_CURVES as PUBLISHED_CURVES
from featavg.experiments.images.curve_result import distance_in_words as distance_in_words
from featavg.experiments.images.curve_result import stretch_to_published as stretch_to_published
from featavg.experiments.images.superclasses import SuperclassStudy as SuperclassStudy
from featavg.experiments.images.superclasses import study_superclasses as study_superclasses
from featavg.experiments.images.curves import ATTACK as ATTACK
from featavg.experiments.images.pgd_protocols import DATA_UNIT as DATA_UNIT
from featavg.experiments.images.pgd_protocols import PIXELS as PIXELS
from featavg.experiments.images.pgd_protocols import USUAL_UNIT as USUAL_UNIT
from featavg.experiments.images.pgd_protocols import ProtocolStudy as ProtocolStudy
from featavg.experiments.images.pgd_protocols import (
    published_protocols as published_protocols,
)
