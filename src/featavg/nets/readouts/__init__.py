"""From the outputs of a network to one decision. Every file but `_readout` is a read-out or two.

A read-out is a class derived from `_readout.ReadOut`, known by its `name` as a pooling over neurons.
"""

from featavg.registry import READOUTS as NAMES

__all__ = ["NAMES"]
