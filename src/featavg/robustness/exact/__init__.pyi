"""What `featavg.robustness.exact` offers. Its files are known inside the folder only."""

from featavg.robustness.exact.branch_and_bound import TreeSearch as TreeSearch
from featavg.robustness.exact.budget import SAME_WITHIN as SAME_WITHIN
from featavg.robustness.exact.budget import Budget as Budget
from featavg.robustness.exact.budget import Clock as Clock
from featavg.robustness.exact.budget import Candidate as Candidate
from featavg.robustness.exact.budget import Search as Search
from featavg.robustness.exact.domination import dominated as dominated
from featavg.robustness.exact.farkas import never_flips as never_flips
from featavg.robustness.exact.flipped_set import Family as Family
from featavg.robustness.exact.flipped_set import flipped as flipped
from featavg.robustness.exact.flipped_set import output_mask as output_mask
from featavg.robustness.exact.flipped_set import output_pieces as output_pieces
from featavg.robustness.exact.linf_tree import Program as Program
from featavg.robustness.exact.linf_tree import linf_search as linf_search
from featavg.robustness.exact.piece_search import PieceSearch as PieceSearch
from featavg.robustness.exact.piece_search import count_pieces as count_pieces
from featavg.robustness.exact.piece_search import list_leaves as list_leaves
from featavg.robustness.exact.probability_relaxation import (
    ProbabilityRelaxation as ProbabilityRelaxation,
)
from featavg.robustness.exact.qp import shortest_step as shortest_step
from featavg.robustness.exact.relu_relaxation import ReluRelaxation as ReluRelaxation
from featavg.robustness.exact.result import EXACT_WITHIN as EXACT_WITHIN
from featavg.robustness.exact.result import Radii as Radii
from featavg.robustness.exact.result import RadiusStatus as RadiusStatus
from featavg.robustness.exact.subspace import Span as Span
from featavg.robustness.exact.subspace import Subspace as Subspace
from featavg.robustness.exact.subspace import reduce as reduce
from featavg.robustness.exact.subspace import span_of as span_of
from featavg.robustness.exact.witness import NUDGES as NUDGES
from featavg.robustness.exact.witness import checked_witness as checked_witness
from featavg.robustness.exact.witness import decision_margins as decision_margins
