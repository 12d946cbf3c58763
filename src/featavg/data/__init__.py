"""Data: the multi-cluster distribution and its exact compression; images, slabs, spheres."""
