"""From outcomes to paper and screen: `figures` (matplotlib) and `page` (one HTML file)."""

from featavg.faces import face

__getattr__, __dir__ = face(__name__, __file__)
