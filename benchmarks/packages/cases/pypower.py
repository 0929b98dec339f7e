"""Flow of power in grids."""

import numpy as np
from pypower.case9 import case9
from pypower.dSbus_dV import dSbus_dV
from pypower.ext2int import ext2int
from pypower.makeBdc import makeBdc
from pypower.makeYbus import makeYbus
from pypower.totcost import totcost

from benchmarks.packages.cases import Cases

PACKAGE = "pypower"
cases = Cases()


def grid():
    return ext2int(case9())


@cases([0.0, 0.1, 0.15])
def injected_power(angles):
    case = grid()
    ybus = makeYbus(case["baseMVA"], case["bus"], case["branch"])[0]
    v = np.exp(1j * np.concatenate([angles, np.zeros(6)]))
    s = v * np.conj(ybus @ v)
    return np.concatenate([s.real, s.imag])


@cases([90.0, 130.0, 80.0])
def cost(p):
    return totcost(grid()["gencost"], p)


@cases([0.06, 0.09])
def admittance(reactance):
    case = grid()
    branch = np.array([[*row[:3], x, *row[4:]] for row, x in zip(case["branch"], [*reactance, 0.1])])
    return makeYbus(case["baseMVA"], case["bus"], branch)[0].toarray().imag[0]


@cases([0.06, 0.09])
def linear_flow(reactance):
    case = grid()
    branch = np.array([[*row[:3], x, *row[4:]] for row, x in zip(case["branch"], [*reactance, 0.1])])
    return makeBdc(case["baseMVA"], case["bus"], branch)[0].toarray()[:3, :3]


@cases([0.0, 0.1])
def sensitivity_of_power(angles):
    case = grid()
    ybus = makeYbus(case["baseMVA"], case["bus"], case["branch"])[0]
    v = np.exp(1j * np.concatenate([angles, np.zeros(7)]))
    return dSbus_dV(ybus, v)[1].toarray().real[0]
