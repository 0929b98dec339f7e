"""Polarised light by Jones and Mueller calculus."""

import numpy as np
from pypolar import ellipsometry, fresnel, jones, mueller

from benchmarks.packages.cases import Cases

PACKAGE = "pypolar"
cases = Cases()


@cases([0.3, 0.8, 1.1])
def intensity_behind_plates(x):
    field = jones.op_linear_polarizer(0.2) @ jones.op_retarder(x[0], x[1]) @ jones.field_linear(x[2])
    return jones.intensity(field)


@cases([0.3, 0.8])
def stokes_of_jones(x):
    return jones.jones_to_stokes(jones.field_elliptical(x[0], x[1] / 2))[1:]


@cases([0.3, 0.8, 0.4])
def mueller_chain(x):
    light = mueller.op_linear_polarizer(x[0]) @ mueller.op_retarder(x[1], x[2]) @ mueller.stokes_linear(0.1)
    return np.array([mueller.intensity(light), mueller.ellipse_orientation(light)])


@cases([1.5, 0.7])
def reflectance(x):
    return np.array([fresnel.R_par(x[0], x[1]), fresnel.R_per(x[0], x[1]), fresnel.T_unpolarized(x[0], x[1])])


@cases([1.5, 1.2])
def ellipsometry_angles(x):
    tanpsi, delta = ellipsometry.tanpsi_Delta_from_rho(ellipsometry.rho_from_m(x[0] - 0.3j, x[1]))
    return np.array([tanpsi, delta])
