"""Experiments that use all stages: heads on frozen features, robust accuracy on images."""
