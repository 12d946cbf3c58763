"""What `featavg.training.linear` offers. Its files are known inside the folder only."""

from featavg.training.linear.flow import linear_flow as linear_flow
from featavg.training.linear.penalties import penalty_path as penalty_path
