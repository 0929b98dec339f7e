"""Calls of SciPy with closed forms in mpmath, by module of SciPy: `CASES[module][function][label]` is a row."""

from . import discrete, distributions, images, interpolation, linalg, signal, spaces, transforms
from .engine import errors, limits

__all__ = ["CASES", "errors", "limits"]

CASES = {
    "fft": transforms.FFT,
    "integrate": transforms.INTEGRATE,
    "interpolate": interpolation.INTERPOLATE,
    "linalg": linalg.CASES,
    "ndimage": images.NDIMAGE,
    "signal": signal.CASES,
    "sparse.linalg": spaces.SPARSE,
    "spatial": spaces.SPATIAL,
    "stats": discrete.merged(distributions.CASES, discrete.CASES),
}
