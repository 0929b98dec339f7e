"""Derivative rules of NumPy and SciPy functions, one row per function, written with NumPy functions.

Importing this package declares the rows of NumPy.
Those of `numpy.linalg`, `numpy.fft` and `scipy.special` are declared when a function without a row is looked up after
these modules have been imported, which keeps the first derivative of other functions quick.
There is one module per subject: elementwise and special functions, reductions, rearrangements, products, linear
algebra (systems, factorisations, spectra, norms), Fourier transforms, interpolation, histograms, polynomials, methods
of ufuncs, functions whose derivative is zero or undefined, and complex operands.
The rules are mathematics only: nothing here depends on tapes, levels or programs.
"""

import numpy as np

from wengert.registry import declare_later, facts
from wengert.rules import (  # noqa: F401
    complexes,
    composed,
    constant,
    einsum,
    elementwise,
    histograms,
    interpolation,
    kronecker,
    polynomials,
    products,
    reductions,
    shaping,
    ufuncs,
)

_LINALG = "linalg factors spectra norms complex_matrices"
_SPECIAL = "special transcendental special_python distributions parameters integrals orders waves zeta hypergeometric"
_SPECIAL += " special_complex"
declare_later("numpy.linalg", *[f"{__name__}.{chapter}" for chapter in _LINALG.split()])
declare_later("numpy.fft", f"{__name__}.fft")
declare_later("scipy.special", *[f"{__name__}.{chapter}" for chapter in _SPECIAL.split()])

# Pullbacks of many calls; compositions and the chapters that are declared later say so themselves.
facts(np.median, np.quantile, np.percentile, np.nanmedian, np.nanquantile, np.nanpercentile, replayed=True)
facts(np.partition, np.prod, np.cumprod, np.tensordot, np.sinc, np.float_power, replayed=True)
facts(ufuncs.sums_of_segments, replayed=True)
