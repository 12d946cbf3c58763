"""From the outputs of a network to one decision. Every file but `_readout` is a read-out or two.

A read-out is a class derived from `_readout.ReadOut`, known by its `name` as a pooling over neurons.
"""

# Those that also make the outputs of clusters a class. Read without NumPy, for flags and help texts.
NAMES = ("probability", "max", "sum")
