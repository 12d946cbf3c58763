"""Training image networks in PyTorch: batches, the loop, presets, runs on disk."""
