"""Lambert's problem."""

import numpy as np
from lamberthub import battin1984, gooding1990, izzo2015, vallado2013

from benchmarks.packages.cases import Cases

PACKAGE = "lamberthub"
cases = Cases()


MU = 3.986004418e5
START = np.array([15945.34, 0.0, 0.0])


@cases([12214.83899, 10249.46731, 100.0, 4560.0], step=1e-3, rtol=1e-5)
def velocities_by_izzo(x):
    v1, v2 = izzo2015(MU, START, x[:3], x[3], atol=1e-12, rtol=1e-14)
    return np.concatenate([v1, v2])


@cases([12214.83899, 10249.46731, 100.0, 4560.0], step=1e-3, rtol=1e-5)
def velocities_by_vallado(x):
    v1, v2 = vallado2013(MU, START, x[:3], x[3], atol=1e-9, rtol=1e-12, maxiter=100)
    return np.concatenate([v1, v2])


@cases([12214.83899, 10249.46731, 100.0, 4560.0], step=1e-3, rtol=1e-5)
def velocities_by_battin(x):
    v1, v2 = battin1984(MU, START, x[:3], x[3], atol=1e-12, rtol=1e-14)
    return np.concatenate([v1, v2])


@cases([12214.83899, 10249.46731, 100.0, 4560.0], step=1e-3, rtol=1e-5)
def velocities_by_gooding(x):
    v1, v2 = gooding1990(MU, START, x[:3], x[3], atol=1e-12, rtol=1e-14)
    return np.concatenate([v1, v2])
