"""Rock physics."""

import numpy as np
from rockphypy import AVO, BW, EM, GM, Anisotropy, Fluid

from benchmarks.packages.cases import Cases

PACKAGE = "rockphypy"
cases = Cases()


@cases([37.0, 44.0, 0.25])
def soft_sand(x):
    return np.array(GM.softsand(x[0], x[1], x[2], 0.4, 9.0, 20.0, 0.5))


@cases([12.0, 10.0, 37.0, 2.5, 0.2])
def gassmann(x):
    return np.array(Fluid.Gassmann(*x))


@cases([37.0, 44.0, 0.1])
def self_consistent(x):
    return np.array(EM.SC(np.array([x[2]]), x[0], x[1], 20))


@cases([50.0, 20.0, 0.035])
def brine(x):
    return np.array(BW.rho_K_brine(x[0], x[1], x[2]))


@cases([2300.0, 2600.0, 1300.0, 1500.0])
def aki_richards(x):
    return np.array(AVO.Aki_Richards(np.array([5.0, 15.0]), *x, 2.2, 2.4)[0])


@cases([30.0, 20.0, 10.0, 6.0])
def thomsen(x):
    return np.array(Anisotropy.Thomsen(x[0], x[1], x[2], x[3], 7.0, 2.4, 0.5)[:3])
