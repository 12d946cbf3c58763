"""Experiments on what the documents leave open: angles, optimizers, borders, adversarial training."""
