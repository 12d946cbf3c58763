"""What is attacked or certified: a decision with its input bounds and units."""
