"""Claims of the talks: margin maximization, KKT points and what they cost."""
