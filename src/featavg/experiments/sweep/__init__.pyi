"""What `featavg.experiments.sweep` offers. Its files are known inside the folder only."""

from featavg.experiments.sweep.engines import Engine as Engine
from featavg.experiments.sweep.measures import MEASURES as MEASURES
from featavg.experiments.sweep.plan import SweepAxis as SweepAxis
from featavg.experiments.sweep.run import sweep as sweep
from featavg.experiments.sweep.table import Sweep as Sweep
from featavg.experiments.sweep.work import trained as trained
