"""Finite differences on grids."""

import numpy as np
from findiff import Diff, FinDiff, Gradient, coefficients

from benchmarks.packages.cases import Cases

PACKAGE = "findiff"
cases = Cases()
X = np.linspace(0.0, 1.0, 9)


@cases(np.sin(3 * X))
def first_derivative(u):
    return FinDiff(0, X[1], 1, acc=4)(u)


@cases(np.sin(3 * X))
def nonlinear_operator(u):
    second = FinDiff(0, X[1], 2)
    return second(u) + u * FinDiff(0, X[1], 1)(u)


@cases([[0.1, 0.2, 0.3, 0.5], [0.3, 0.1, 0.2, 0.4], [0.5, 0.2, 0.1, 0.3], [0.2, 0.6, 0.4, 0.1]])
def gradient(u):
    return Gradient(h=[0.1, 0.2])(u)


@cases(0.1)
def width_of_grid(h):
    return FinDiff(0, h, 2)(np.sin(3 * X))


@cases(np.sin(3 * X))
def operators_of_a_product(u):
    derivative = Diff(0)
    derivative.set_grid({0: X[1]})
    return (2 * derivative**2 - derivative)(u)


@cases([1.0, 2.0])
def weighted_stencil(x):
    return np.dot(coefficients(deriv=2, acc=2)["center"]["coefficients"], np.array([x[0], x[1], x[0] * x[1]]))
