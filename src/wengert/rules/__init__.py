"""What wengert knows of the calculus: one row per function, in NumPy's own notation.

Importing this package declares the rows.
Each module is a chapter: functions that act element by element, special functions, reductions, functions that only
move elements, products, linear algebra (equations, factors, spectra, norms), Fourier transforms, tables, histograms,
polynomials, methods of ufuncs, those whose derivative is zero or does not exist, and what holds for complex operands.
A row is mathematics and nothing else, so nothing here knows of tapes, levels or programs.
"""

from wengert.rules import (  # noqa: F401
    complexes,
    composed,
    constant,
    distributions,
    elementwise,
    factors,
    fft,
    histograms,
    integrals,
    linalg,
    norms,
    orders,
    parameters,
    polynomials,
    products,
    reductions,
    shaping,
    special,
    special_python,
    spectra,
    tables,
    transcendental,
    ufuncs,
    waves,
    zeta,
)
