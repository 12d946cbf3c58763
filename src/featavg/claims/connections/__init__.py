"""Claims that connect feature averaging with other accounts of fragile networks."""
