"""Claims on real images."""
