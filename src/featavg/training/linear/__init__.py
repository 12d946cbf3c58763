"""Linear classifiers in closed form: the flow in log time and the path of penalties."""

from featavg.faces import face

__getattr__, __dir__ = face(__name__, __file__)
