"""Experiments on images: heads on frozen features, attacked curves, superclasses."""
