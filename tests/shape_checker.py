"""The run-time checker of annotations for `make test-full`: whole numbers pass as floats."""

from beartype import BeartypeConf, beartype

checker = beartype(conf=BeartypeConf(is_pep484_tower=True))
