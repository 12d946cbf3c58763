"""Commands of the paper layer."""
