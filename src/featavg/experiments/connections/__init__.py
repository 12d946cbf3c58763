"""Experiments behind the connections: power ReLU, manifolds, planes, slabs."""
