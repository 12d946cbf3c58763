"""The CNN of the margin table, trained to losses far below what a float can hold."""
