"""Figures: one description (marks in panels), drawn by matplotlib for print and by plotly for pages."""
