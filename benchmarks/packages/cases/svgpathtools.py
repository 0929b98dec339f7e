"""Paths of drawings; points are complex numbers."""

import numpy as np
import svgpathtools

from benchmarks.packages.cases import Cases

PACKAGE = "svgpathtools"
cases = Cases()


def plane(z):
    return np.array([np.real(z), np.imag(z)])


@cases([1.0, 2.0, 3.0, 0.5])
def point_of_curve(x):
    return plane(svgpathtools.CubicBezier(0j, x[0] + 1j * x[1], x[2] + 1j, 4 + 2j).point(x[3]))


@cases([1.0, 2.0, 0.4])
def tangent_and_curvature(x):
    curve = svgpathtools.CubicBezier(0j, x[0] + 1j * x[1], 3 + 1j, 4 + 2j)
    return np.append(plane(curve.unit_tangent(x[2])), curve.curvature(x[2]))


@cases([1.0, 2.0])
def length_of_parabola(x):
    return svgpathtools.QuadraticBezier(0j, x[0] + 1j * x[1], 3 + 1j).length()


@cases([1.0, 2.0, 0.3])
def point_of_path(x):
    path = svgpathtools.Path(svgpathtools.Line(0j, x[0] + 1j * x[1]), svgpathtools.Line(x[0] + 1j * x[1], 4 + 2j))
    return plane(path.point(x[2]))
