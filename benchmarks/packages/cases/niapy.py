"""Test functions of optimisation."""

import numpy as np
from niapy import problems

from benchmarks.packages.cases import Cases

PACKAGE = "niapy"
cases = Cases()

point = np.array([0.3, -0.7, 1.1])


@cases(point)
def ackley(x):
    return problems.Ackley(3).evaluate(x)


@cases(point)
def rastrigin(x):
    return problems.Rastrigin(3).evaluate(x)


@cases(point)
def styblinski_tang(x):
    return problems.StyblinskiTang(3).evaluate(x)


@cases(point)
def levy(x):
    return problems.Levy(3).evaluate(x)


@cases(point)
def griewank(x):
    return problems.Griewank(3).evaluate(x)
