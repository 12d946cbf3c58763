"""Small quadratic programs, and the span of the weights in which they are solved."""
