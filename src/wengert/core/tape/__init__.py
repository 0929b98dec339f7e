"""Memory, the Wengert list and kernels of elementwise functions."""
