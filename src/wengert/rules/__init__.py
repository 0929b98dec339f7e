"""What wengert knows of the calculus: one row per function, in NumPy's own notation.

Importing this package declares the rows, those of `scipy.special` as soon as that has been imported.
Each module is a chapter: functions that act element by element, special functions, reductions, functions that only
move elements, products, linear algebra (equations, factors, spectra, norms), Fourier transforms, tables, histograms,
polynomials, methods of ufuncs, those whose derivative is zero or does not exist, and what holds for complex operands.
A row is mathematics and nothing else, so nothing here knows of tapes, levels or programs.
"""

from wengert.registry import declare_later
from wengert.rules import (  # noqa: F401
    complexes,
    composed,
    constant,
    elementwise,
    factors,
    fft,
    histograms,
    interpolation,
    linalg,
    norms,
    polynomials,
    products,
    reductions,
    shaping,
    spectra,
    ufuncs,
)

_SPECIAL = "special transcendental special_python distributions parameters integrals orders waves zeta hypergeometric"
_SPECIAL += " special_complex"
declare_later("scipy.special", *[f"{__name__}.{chapter}" for chapter in _SPECIAL.split()])
