"""What `featavg.data.related_work` offers. Its files are known inside the folder only."""

from featavg.data.related_work.lattice import Lattice as Lattice
from featavg.data.related_work.manifold import OnSubspace as OnSubspace
from featavg.data.related_work.slabs import Slabs as Slabs
from featavg.data.related_work.slabs import lms as lms
from featavg.data.related_work.slabs import ms as ms
