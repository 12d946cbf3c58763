"""Experiments on margins: KKT points, Lipschitz bounds, radii along the way."""
