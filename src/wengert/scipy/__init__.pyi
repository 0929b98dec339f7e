"""Types of `wengert.scipy`: those of SciPy, which the package scipy-stubs provides."""

from scipy import (
    cluster as cluster, constants as constants, fft as fft, fftpack as fftpack, integrate as integrate, interpolate
    as interpolate, linalg as linalg, ndimage as ndimage, optimize as optimize, signal as signal, sparse as sparse,
    spatial as spatial, special as special, stats as stats,
)  # fmt: skip
