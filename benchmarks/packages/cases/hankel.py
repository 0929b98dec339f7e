"""Hankel transforms."""

import numpy as np
from hankel import HankelTransform, SymmetricFourierTransform

from benchmarks.packages.cases import Cases

PACKAGE = "hankel"
cases = Cases()
TRANSFORM = HankelTransform(nu=0, N=60, h=0.05)


@cases([0.5, 1.3])
def of_a_gaussian(x):
    return TRANSFORM.transform(lambda r: np.exp(-x[0] * r**2), x[1], ret_err=False)


@cases(0.7)
def integral(x):
    return TRANSFORM.integrate(lambda r: np.exp(-x * r), ret_err=False)


@cases([0.5, 1.0])
def radial_fourier_transform(x):
    return SymmetricFourierTransform(ndim=3, N=60, h=0.03).transform(lambda r: np.exp(-(r**2) / 2), k=x, ret_err=False)
