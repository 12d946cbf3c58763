"""Settings, simulations, result folders and sweeps."""
