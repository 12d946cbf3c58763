"""Networks: the two-layer ones of the theory, their read-outs and ideals; deep ones (torch)."""
