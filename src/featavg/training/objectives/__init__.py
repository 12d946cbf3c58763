"""What training makes small: a loss of the data as a function of the parameters, with its gradient."""
