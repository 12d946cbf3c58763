"""From the outputs of a network to one decision. A read-out is a file here and a name below.

The file NAME.py defines `READOUT`, an object of a class derived from `readout.ReadOut`. Flags,
help texts and error messages follow from these lists, which cost no import of NumPy.
"""

# How the outputs of clusters become a class.
NAMES = ("probability", "max", "sum")
# How the outputs of neurons become a class: these have options, such as top:q=3.
POOLINGS = ("max", "mean", "probability", "soft", "sum", "top")
