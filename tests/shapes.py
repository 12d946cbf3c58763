"""The checker of annotations that runs under pytest: beartype, for which an int is a float too."""

from beartype import BeartypeConf, beartype

checker = beartype(conf=BeartypeConf(is_pep484_tower=True))
