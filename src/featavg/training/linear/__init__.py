"""Linear classifiers in closed form: the flow in log time and the path of penalties."""
