"""The Wengert list, its memory, and kernels of elementwise functions."""
