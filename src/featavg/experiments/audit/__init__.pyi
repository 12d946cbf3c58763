"""What `featavg.experiments.audit` offers. Its files are known inside the folder only."""

from featavg.experiments.audit.gain_study import compare_gains as compare_gains
from featavg.experiments.audit.gain_study import feature_spaces as feature_spaces
from featavg.experiments.audit.module_from_name import load_model as load_model
from featavg.experiments.audit.remedies import Rehead as Rehead
from featavg.experiments.audit.remedies import discover_labels as discover_labels
from featavg.experiments.audit.remedies import rehead as rehead
from featavg.experiments.audit.remedies import retrain as retrain
from featavg.experiments.audit.result import Audit as Audit
from featavg.experiments.audit.run import audit as audit
from featavg.experiments.audit.sharing import SharingStudy as SharingStudy
from featavg.experiments.audit.sharing import simulated_sharing as simulated_sharing
from featavg.experiments.audit.verdict import RULE as RULE
from featavg.experiments.audit.verdict import AuditVerdict as AuditVerdict
from featavg.experiments.audit.hidden_study import METHODS as METHODS
from featavg.experiments.audit.hidden_study import PUBLISHED as PUBLISHED
from featavg.experiments.audit.hidden_study import hidden_subclasses as hidden_subclasses
from featavg.experiments.audit.label_protocol import NETWORKS as NETWORKS
from featavg.experiments.audit.label_protocol import PROTOCOLS as PROTOCOLS
from featavg.experiments.audit.label_protocol import TRAININGS as TRAININGS
from featavg.experiments.audit.label_protocol import PRESET_ATTACKED as PRESET_ATTACKED
from featavg.experiments.audit.label_protocol import PRESET_TRAINED as PRESET_TRAINED
from featavg.experiments.audit.label_record import restore_cells as restore_cells
from featavg.experiments.audit.label_study import GUESSING as GUESSING
from featavg.experiments.audit.label_study import LabelRow as LabelRow
from featavg.experiments.audit.label_study import LabelTable as LabelTable
from featavg.experiments.audit.label_study import label_table as label_table
