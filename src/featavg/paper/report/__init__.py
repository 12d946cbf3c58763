"""The HTML report of the claims."""
