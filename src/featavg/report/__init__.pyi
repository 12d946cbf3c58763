"""What `featavg.report` offers. Its files are known inside the folder only."""

from featavg.report.audit_page import pictures_of as pictures_of
from featavg.report.audit_page import write_audit as write_audit
from featavg.report.installation import Installation as Installation
from featavg.report.installation import doctor as doctor
from featavg.report.reproduction import DEFAULT_OUT as DEFAULT_OUT
from featavg.report.reproduction import exit_code as exit_code
from featavg.report.reproduction import rebuild as rebuild
from featavg.report.reproduction import reproduce as reproduce
from featavg.report.sweep_page import write_sweep as write_sweep
