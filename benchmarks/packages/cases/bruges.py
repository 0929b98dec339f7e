"""Geophysics: rock physics, reflection, wavelets."""

import bruges
import numpy as np
from bruges.rockphysics import anisotropy, bounds, fluids, fluidsub, rockphysicsmodels

from benchmarks.packages.cases import Cases

PACKAGE = "bruges"
cases = Cases()


@cases([2300.0, 1300.0, 2.2, 2600.0, 1500.0, 2.4])
def zoeppritz(x):
    return bruges.reflection.zoeppritz_rpp(*x, theta1=np.array([0.0, 10.0, 20.0])).real


@cases([2300.0, 1300.0, 2.2, 2600.0, 1500.0, 2.4])
def shuey(x):
    return bruges.reflection.shuey(*x, theta1=np.array([0.0, 10.0, 20.0])).real


@cases([37.0, 44.0, 0.2])
def soft_sand(x):
    return np.array(rockphysicsmodels.soft_sand(x[0], x[1], x[2], sigma=20.0))


@cases([60.0, 30.0, 5e4])
def brine(x):
    return np.array([fluids.rho_brine(*x), fluids.v_brine(*x)])


@cases([3000.0, 1500.0, 2300.0, 0.2])
def fluid_substitution(x):
    return np.array(fluidsub.avseth_fluidsub(x[0], x[1], x[2], x[3], 1000.0, 200.0, 3.7e10, 2.25e9, 2e8))


@cases([20.0, 30.0])
def wavelet(f):
    return bruges.filters.ricker(0.1, 0.01, f, return_t=False)


@cases([0.3, 36.0, 20.0])
def bound(x):
    return np.array([bounds.hill_average([x[0], 1 - x[0]], [x[1], x[2]]), bounds.voigt_bound([x[0], 0.5], x[1:])])


@cases([2300.0, 2500.0, 2700.0, 2400.0])
def backus(vp):
    return np.array(anisotropy.backus(vp, vp / 2, 310 * vp**0.25, 20.0, 10.0))[:, 1]
