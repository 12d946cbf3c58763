"""Training of the talks' margin network."""
