"""Experiments on what the documents leave open: angles, optimizers, borders, adversarial training."""

from featavg.faces import face

__getattr__, __dir__ = face(__name__, __file__)
