"""Gradients of the kernels of NPBench (github.com/spcl/npbench) as they are written, beside JAX."""
