"""Scattering by spheres."""

import miepython
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "miepython"
cases = Cases()


@cases(2.3)
def efficiencies_of_size(x):
    return np.stack(miepython.efficiencies_mx(1.5 - 0.1j, x))


@cases([1.5, 0.1, 2.3])
def efficiencies_of_index(x):
    return np.stack(miepython.efficiencies_mx(x[0] - 1j * x[1], x[2]))


@cases([0.5, 0.63])
def efficiencies_of_sphere(x):
    return np.stack(miepython.efficiencies(1.5, x[0], x[1]))


@cases(0.3)
def intensity(mu):
    return miepython.i_unpolarized(1.5, 2.3, np.stack([mu, 2 * mu]))


@cases(0.02)
def small_sphere(x):
    return np.stack(miepython.rayleigh.efficiencies_mx(1.5 - 0.1j, x))


@cases(2.3)
def coefficients(x):
    a, b = miepython.coefficients(1.5 - 0.1j, x)
    return np.concatenate([a.real, b.imag])
