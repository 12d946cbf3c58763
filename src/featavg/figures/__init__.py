"""Figures: one description, drawn by matplotlib for print and by plotly for pages."""

from featavg.figures.figure import Arrow as Arrow
from featavg.figures.figure import Axis as Axis
from featavg.figures.figure import Bar as Bar
from featavg.figures.figure import Bars as Bars
from featavg.figures.figure import Circle as Circle
from featavg.figures.figure import Contour as Contour
from featavg.figures.figure import Figure as Figure
from featavg.figures.figure import Heatmap as Heatmap
from featavg.figures.figure import Histogram as Histogram
from featavg.figures.figure import Lines as Lines
from featavg.figures.figure import Note as Note
from featavg.figures.figure import Panel as Panel
from featavg.figures.figure import Plane as Plane
from featavg.figures.figure import Points as Points
from featavg.figures.figure import Role as Role
from featavg.figures.figure import Rule as Rule
from featavg.figures.figure import Series as Series
