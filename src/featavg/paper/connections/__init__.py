"""Claims about related work."""
