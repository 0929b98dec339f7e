"""Affine transformations of the plane."""

import numpy as np
from affine import Affine

from benchmarks.packages.cases import Cases

PACKAGE = "affine"
cases = Cases()


@cases([30.0, 2.0, 0.5])
def moved_point(x):
    transform = Affine.translation(x[1], x[2]) * Affine.rotation(x[0]) * Affine.scale(2.0, x[1])
    return np.array(transform * (1.0, 2.0))


@cases([2.0, 0.5, 0.3, 1.5])
def inverse(x):
    return np.array((~Affine(x[0], x[1], 0.4, x[2], x[3], 0.2))[:6])


@cases([2.0, 0.5, 0.3, 1.5])
def shape(x):
    transform = Affine(x[0], x[1], 0.0, x[2], x[3], 0.0)
    return np.array([transform.determinant, transform.eccentricity])


@cases([30.0, 10.0])
def sheared(x):
    return np.array(Affine.shear(x[0], x[1])[:6])
