"""Figures: one description, drawn by matplotlib for print and by plotly for pages."""

from featavg.figures.figure import *  # noqa: F403
