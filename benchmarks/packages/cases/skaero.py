"""Aeronautics: atmosphere and gas dynamics."""

import numpy as np
from skaero.atmosphere import coesa
from skaero.gasdynamics import isentropic, shocks

from benchmarks.packages.cases import Cases

PACKAGE = "scikit-aero"
cases = Cases()


@cases(5000.0)
def standard_atmosphere(h):
    return np.stack(coesa.table(h)[1:])


@cases([1000.0, 15000.0])
def standard_atmosphere_at_heights(h):
    return coesa.table(h)[3]


@cases([2.0, 1.3])
def isentropic_ratios(x):
    flow = isentropic.IsentropicFlow(gamma=x[1])
    return np.stack([flow.p_p0(x[0]), flow.T_T0(x[0]), flow.A_Astar(x[0])])


@cases([2.0, 1.3])
def normal_shock(x):
    shock = shocks.NormalShock(M_1=x[0], gamma=x[1])
    return np.stack([shock.M_2, shock.p2_p1])


@cases(1.6)
def mach_from_area(ratio):
    return isentropic.mach_from_area_ratio(isentropic.IsentropicFlow(1.4), ratio)[1]


@cases([2.0, 5000.0])
def geopotential_height(x):
    return coesa.geometric_to_geopotential(x[1]) * x[0]
