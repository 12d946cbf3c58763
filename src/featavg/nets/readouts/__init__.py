"""From the outputs of a network to one decision. A read-out is a file here and a name below.

The file NAME.py defines `READOUT`, an object of a class derived from `readout.ReadOut`. Flags,
help texts and error messages follow from this list, which costs no import of NumPy.
"""

NAMES = ("probability", "max", "sum")
