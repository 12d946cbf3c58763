"""Does a classifier of anybody's average its features, and what does that cost?"""

from featavg.faces import face

__getattr__, __dir__ = face(__name__, __file__)
