"""Extracellular potentials of neurons."""

import lfpykit
import numpy as np
from lfpykit import lfpcalc

from benchmarks.packages.cases import Cases

PACKAGE = "lfpykit"
cases = Cases()
X = np.array([[0.0, 5.0], [5.0, 12.0], [12.0, 15.0]])
Y = np.array([[0.0, 2.0], [2.0, 1.0], [1.0, 6.0]])
Z = np.array([[0.0, 10.0], [10.0, 25.0], [25.0, 40.0]])
RADII = np.array([0.5, 0.4, 0.3])
CURRENTS = np.array([1.0, -0.4, -0.6])


@cases([30.0, 10.0, 15.0, 0.3])
def line_sources(p):
    return lfpcalc.calc_lfp_linesource(X, Y, Z, p[0], p[1], p[2], p[3], RADII) @ CURRENTS


@cases([30.0, 10.0, 15.0, 0.3])
def point_sources(p):
    return lfpcalc.calc_lfp_pointsource(X, Y, Z, p[0], p[1], p[2], p[3], RADII) @ CURRENTS


@cases([30.0, 10.0, 15.0, 0.3])
def root_as_point(p):
    return lfpcalc.calc_lfp_root_as_point(X, Y, Z, p[0], p[1], p[2], p[3], RADII, [0]) @ CURRENTS


@cases([0.3, 0.2, 0.4])
def anisotropic(sigma):
    return lfpcalc.calc_lfp_linesource_anisotropic(X, Y, Z, 30.0, 10.0, 15.0, sigma, RADII) @ CURRENTS


@cases([30.0, 10.0, 15.0])
def electrode(p):
    cell = lfpykit.CellGeometry(x=X, y=Y, z=Z, d=2 * RADII)
    probe = lfpykit.PointSourcePotential(cell, x=p[:1], y=p[1:2], z=p[2:], sigma=0.3)
    return probe.get_transformation_matrix() @ CURRENTS


@cases(CURRENTS)
def dipole(currents):
    cell = lfpykit.CellGeometry(x=X, y=Y, z=Z, d=2 * RADII)
    return lfpykit.CurrentDipoleMoment(cell).get_transformation_matrix() @ currents
