"""The mathematics, on pytrees of weights: no networks, no files, no jit."""
