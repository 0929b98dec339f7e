"""Compressible flow."""

import numpy as np
from pygasflow import fanno, isentropic, shockwave
from pygasflow.solvers import isentropic_solver

from benchmarks.packages.cases import Cases

PACKAGE = "pygasflow"
cases = Cases()


@cases([2.0, 1.3])
def isentropic_ratios(x):
    return np.stack([isentropic.pressure_ratio(x[0], x[1]), isentropic.critical_area_ratio(x[0], x[1])])


@cases([2.0, 1.3])
def prandtl_meyer(x):
    return isentropic.prandtl_meyer_angle(x[0], x[1])


@cases([2.0, 1.3])
def shock_ratios(x):
    return np.stack([shockwave.pressure_ratio(x[0], x[1]), shockwave.mach_downstream(x[0], x[1])])


@cases([2.5, 40.0])
def deflection(x):
    return shockwave.theta_from_mach_beta(x[0], x[1])


@cases([2.5, 10.0])
def oblique_shock_angle(x):
    return shockwave.beta_from_mach_theta(x[0], x[1])["weak"]


@cases([2.0, 1.3])
def fanno_friction(x):
    return fanno.critical_friction_parameter(x[0], x[1])


@cases(1.6)
def mach_from_area(ratio):
    return isentropic.m_from_critical_area_ratio(ratio, "super")


@cases(2.0)
def isentropic_table(mach):
    return np.stack(isentropic_solver("m", mach)[1:6])
