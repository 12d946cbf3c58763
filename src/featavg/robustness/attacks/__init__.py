"""Attacks: upper bounds on a radius, each with a witness."""
