"""Splines through points."""

import numpy as np
import splines

from benchmarks.packages.cases import Cases

PACKAGE = "splines"
cases = Cases()
POINTS = np.array([[0.0, 0.0], [1.0, 2.0], [3.0, 1.0], [4.0, 3.0]])


@cases([0.3, 1.6])
def catmull_rom(t):
    return splines.CatmullRom(POINTS, endconditions="natural").evaluate(t)


@cases([1.0, 2.2])
def natural(x):
    return splines.Natural([(0.0, 0.0), (x[0], x[1]), (3.0, 1.0)]).evaluate(0.7)


@cases([0.2, 0.5, 0.1])
def kochanek_bartels(x):
    return splines.KochanekBartels(POINTS, tcb=(x[0], x[1], x[2]), endconditions="natural").evaluate(1.3)


@cases([1.0, 2.2])
def centripetal(x):
    vertices = [np.array([0.0, 0.0]), x, np.array([3.0, 1.0]), np.array([4.0, 3.0])]
    return splines.CatmullRom(vertices, alpha=0.5, endconditions="natural").evaluate(0.8)


@cases([1.0, 1.4])
def monotone(x):
    return splines.MonotoneCubic([0.0, x[0], 1.2 + x[1], 4.0]).evaluate(1.3)
