"""Claims about margins."""
