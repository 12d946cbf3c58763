"""Networks in PyTorch: small CNNs, ResNets, embeddings and pretrained weights."""
