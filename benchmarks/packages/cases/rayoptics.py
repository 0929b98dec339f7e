"""Ray tracing."""

import numpy as np
from rayoptics.elem import profiles
from rayoptics.raytr import raytrace

from benchmarks.packages.cases import Cases

PACKAGE = "rayoptics"
cases = Cases()

RAY = np.array([0.1, 0.05, np.sqrt(1 - 0.0125)])


@cases([0.1, 0.2, 0.97])
def refraction(d):
    return raytrace.bend(d / np.sqrt(d @ d), np.array([0.0, 0.0, 1.0]), 1.0, 1.5)


@cases([0.02, 1.0])
def sphere(x):
    s, point = profiles.Spherical(c=x[0]).intersect(np.stack([x[1], 0.5 * x[1], 0.0 * x[1]]), RAY, 1e-12, 1.0)
    return np.append(point, s)


@cases([0.02, -0.5, 3.0])
def conic_sag(x):
    return profiles.Conic(c=x[0], cc=x[1]).sag(x[2], 1.0)


@cases([0.02, 1e-4, 1e-6])
def normal_of_asphere(x):
    surface = profiles.EvenPolynomial(c=x[0], cc=-0.5, coefs=[0.0, x[1], x[2]])
    return surface.normal(np.array([1.0, 2.0, 0.1]))


@cases([1.0, 0.5, 0.0])
def asphere(p):
    surface = profiles.EvenPolynomial(c=0.02, cc=-0.5, coefs=[0.0, 1e-4, 1e-6])
    surface.update()
    return surface.intersect(p, RAY, 1e-12, 1.0)[1]
