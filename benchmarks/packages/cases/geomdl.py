"""Rational splines (NURBS)."""

import numpy as np
from geomdl import NURBS, BSpline

from benchmarks.packages.cases import Cases

PACKAGE = "geomdl"
cases = Cases()


def spline(points):
    curve = BSpline.Curve()
    curve.degree = 3
    curve.ctrlpts = points
    curve.knotvector = [0.0, 0.0, 0.0, 0.0, 0.4, 1.0, 1.0, 1.0, 1.0]
    return curve


POINTS = [[0.0, 0.0], [1.0, 2.0], [3.0, 1.0], [4.0, 3.0], [5.0, 1.0]]


@cases(0.3)
def point(t):
    return np.array(spline(POINTS).evaluate_single(t))


@cases([1.0, 2.2])
def point_of_control_points(x):
    return np.array(spline([POINTS[0], [x[0], x[1]], *POINTS[2:]]).evaluate_single(0.3))


@cases(0.3)
def tangent(t):
    return np.array(spline(POINTS).derivatives(t, order=1)[1])


@cases([0.8, 0.3])
def rational(x):
    curve = NURBS.Curve()
    curve.degree = 2
    curve.ctrlptsw = [[0.0, 0.0, 1.0], [x[0], x[0], x[0]], [0.0, 2.0, 1.0]]
    curve.knotvector = [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]
    return np.array(curve.evaluate_single(x[1]))
