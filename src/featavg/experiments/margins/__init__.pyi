"""What `featavg.experiments.margins` offers. Its files are known inside the folder only."""

from featavg.experiments.margins.homogeneous_nets import NETWORK_DEPTHS as NETWORK_DEPTHS
from featavg.experiments.margins.homogeneous_nets import HomogeneousFlow as HomogeneousFlow
from featavg.experiments.margins.homogeneous_nets import homogeneous_flow as homogeneous_flow
from featavg.experiments.margins.kkt_robustness import RADIUS_POINTS as RADIUS_POINTS
from featavg.experiments.margins.kkt_robustness import KKTRadius as KKTRadius
from featavg.experiments.margins.kkt_robustness import kkt_radius as kkt_radius
from featavg.experiments.margins.kkt_robustness import lipschitz_radii as lipschitz_radii
from featavg.experiments.margins.kkt_runs import LOSS_DEPTHS as LOSS_DEPTHS
from featavg.experiments.margins.kkt_runs import POINTS_PER_CLUSTER as POINTS_PER_CLUSTER
from featavg.experiments.margins.kkt_runs import KKTRun as KKTRun
from featavg.experiments.margins.kkt_runs import kkt_run as kkt_run
from featavg.experiments.margins.linear_classifiers import LinearDrift as LinearDrift
from featavg.experiments.margins.linear_classifiers import linear_drift as linear_drift
from featavg.experiments.margins.linear_classifiers import linear_limits as linear_limits
from featavg.experiments.margins.mnist_margins import ATTACKED_PICTURES as ATTACKED_PICTURES
from featavg.experiments.margins.mnist_margins import PUBLISHED_MARGINS as PUBLISHED_MARGINS
from featavg.experiments.margins.mnist_margins import MarginTable as MarginTable
from featavg.experiments.margins.mnist_margins import data_of_run as data_of_run
from featavg.experiments.margins.mnist_margins import margin_table as margin_table
from featavg.experiments.margins.mnist_margins import train_margin_network as train_margin_network
from featavg.experiments.margins.rate_comparison import RateComparison as RateComparison
from featavg.experiments.margins.rate_comparison import compare_rates as compare_rates
