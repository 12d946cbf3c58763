"""Claims about open questions."""
