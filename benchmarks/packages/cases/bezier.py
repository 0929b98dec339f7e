"""Bezier curves."""

import bezier
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "bezier"
cases = Cases()
NODES = [[0.0, 0.0], [0.5, 1.0], [1.0, -0.5], [1.5, 0.7]]


@cases(NODES)
def point(nodes):
    return bezier.Curve(nodes, degree=3).evaluate(0.3)[0]


@cases([0.2, 0.5, 0.9])
def points(s):
    return bezier.Curve(np.array(NODES), degree=3).evaluate_multi(s)


@cases(NODES)
def length(nodes):
    return bezier.Curve(nodes, degree=3).length


@cases(NODES)
def elevated(nodes):
    return bezier.Curve(nodes, degree=3).elevate().nodes


@cases([0.2, 0.8])
def part(s):
    return bezier.Curve(np.array(NODES), degree=3).specialize(s[0], s[1]).nodes
