"""What `featavg.experiments.simulation` offers. Its files are known inside the folder only."""

from featavg.experiments.simulation.measurements import RunNumbers as RunNumbers
from featavg.experiments.simulation.measurements import net_of as net_of
from featavg.experiments.simulation.measurements import seed_index as seed_index
from featavg.experiments.simulation.measurements import seed_weights as seed_weights
from featavg.experiments.simulation.points import SimulationPoints as SimulationPoints
from featavg.experiments.simulation.points import gather_points as gather_points
from featavg.experiments.simulation.points import memory_needed as memory_needed
from featavg.experiments.simulation.points import require_memory as require_memory
from featavg.experiments.simulation.points import share_points as share_points
from featavg.experiments.simulation.presets import PRESETS as PRESETS
from featavg.experiments.simulation.presets import compose as compose
from featavg.experiments.simulation.presets import preset_values as preset_values
from featavg.experiments.simulation.radius import RadiusReport as RadiusReport
from featavg.experiments.simulation.radius import network_radii as network_radii
from featavg.experiments.simulation.radius import radius_report as radius_report
from featavg.experiments.simulation.run import Simulation as Simulation
from featavg.experiments.simulation.run import load_simulation as load_simulation
from featavg.experiments.simulation.run import simulate as simulate
from featavg.experiments.simulation.setting import Setting as Setting
from featavg.experiments.simulation.toml import read_table as read_table
