"""Test functions of optimisation."""

import numpy as np
from PyBenchFCN import SingleObjectiveProblem as problems

from benchmarks.packages.cases import Cases

PACKAGE = "PyBenchFCN"
cases = Cases()
POINT = [0.3, -0.7, 1.1, 0.4]


@cases(POINT)
def ackley(x):
    return problems.ackleyfcn(4).f(x)


@cases(POINT)
def griewank_rastrigin_rosenbrock(x):
    return np.array([problems.griewankfcn(4).f(x), problems.rastriginfcn(4).f(x), problems.rosenbrockfcn(4).f(x)])


@cases(np.array(POINT)[:2])
def in_two_dimensions(x):
    found = [problems.bealefcn(), problems.goldsteinpricefcn(), problems.himmelblaufcn(), problems.mccormickfcn()]
    return np.array([problem.f(x) for problem in found])


@cases(np.array([POINT, POINT[::-1]]))
def population(x):
    return problems.alpinen2fcn(4).F(x + 3.0) + problems.schwefelfcn(4).F(x * 50.0) + problems.levin13fcn().F(x[:, :2])


@cases(POINT)
def powers_and_products(x):
    return np.array([problems.brownfcn(4).f(x), problems.happycatfcn(4).f(x), problems.schwefel222fcn(4).f(x)])


@cases(np.array(POINT)[:2])
def with_absolute_values(x):
    found = [problems.crossintrayfcn(), problems.holdertablefcn(), problems.dropwavefcn(), problems.easomfcn()]
    return np.array([problem.f(x) for problem in found])
