"""Claims about the paper's figures and radii."""
