"""Fourier, cosine, sine and Hankel transforms: linear maps."""
