"""Finite elements."""

import numpy as np
import solidspy.femutil as fem
import solidspy.uelutil as uel

from benchmarks.packages.cases import Cases

PACKAGE = "solidspy"
cases = Cases()


@cases([0.3, 0.2])
def shape_functions(x):
    return fem.shape_quad4(x[0], x[1])[0]


@cases([210.0, 0.3])
def elasticity(x):
    return fem.elast_mat_2d(x)


@cases([8.0, 0.3])
def stiffness_of_material(x):
    coord = np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
    return uel.elast_quad4(coord, (x[0], x[1]))[0]


@cases([[0.0, 0.0], [1.0, 0.1], [0.2, 1.0]])
def stiffness_of_shape(x):
    return uel.elast_tri3(x, (8.0, 0.3))[0]


@cases([3.0, 4.0])
def stiffness_of_truss(x):
    return uel.truss2D(np.stack([np.zeros(2), x]), (2.0, 3.0, 1.0))[0]
