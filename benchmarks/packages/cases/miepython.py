"""Scattering by spheres."""

import miepython
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "miepython"
cases = Cases()


@cases([1.5, 3.0])
def efficiencies(x):
    return miepython.efficiencies_mx(x[0] - 0.1j, x[1])


@cases([1.5, 0.6])
def efficiencies_in_medium(x):
    return miepython.efficiencies(x[0], 1.1, x[1], n_env=1.33)


@cases([1.5, 3.0])
def intensity(x):
    return miepython.i_unpolarized(x[0] - 0.1j, x[1], np.array([-0.5, 0.5, 0.9]))
