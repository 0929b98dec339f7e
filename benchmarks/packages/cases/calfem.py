"""Finite elements."""

import calfem.core as cfc
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "calfem-python"
cases = Cases()


@cases([2e11, 1e-3, 2e-5])
def beam_stiffness(x):
    return cfc.beam2e([0.0, 3.0], [0.0, 4.0], x)


@cases([3.0, 4.0, 5.0])
def bar_stiffness(x):
    return cfc.bar3e([0.0, x[0]], [0.0, x[1]], [0.0, x[2]], [2e11, 1e-3])


@cases([2e11, 1e-3, 2e-5])
def deflection_of_beam(x):
    K, f = np.zeros((6, 6)), np.zeros((6, 1))
    f[4] = -1e3
    K = cfc.assem(np.array([1, 2, 3, 4, 5, 6]), K, cfc.beam2e([0.0, 3.0], [0.0, 0.0], x))
    displacements, _ = cfc.solveq(K, f, np.array([1, 2, 3]))
    return np.ravel(displacements)[3:]


@cases([210e9, 0.3])
def plane_stress_matrix(x):
    return cfc.hooke(1, x[0], x[1])


@cases([0.0, 2.0, 0.5, 0.0, 0.1, 1.5])
def stiffness_of_triangle(x):
    return cfc.plante(x[:3], x[3:], [1, 0.1], cfc.hooke(1, 210.0, 0.3))


@cases([1.5, 2.5])
def conduction_of_quadrilateral(x):
    return cfc.flw2i4e([0.0, x[0], x[0], 0.0], [0.0, 0.0, x[1], x[1]], [0.1, 2], np.diag([1.0, 2.0]))
