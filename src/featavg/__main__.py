"""`python -m featavg` is `featavg`."""

import sys

from featavg.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
