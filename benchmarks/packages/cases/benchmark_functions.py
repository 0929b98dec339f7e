"""Test functions of optimisation."""

import benchmark_functions as bf

from benchmarks.packages.cases import Cases

PACKAGE = "benchmark-functions"
cases = Cases()


@cases([0.3, 0.7, -0.4])
def ackley(x):
    return bf.Ackley(n_dimensions=3)(x)


@cases([0.3, 0.7, -0.4])
def griewank(x):
    return bf.Griewank(n_dimensions=3)(list(x))


@cases([0.3, 0.7])
def michalewicz(x):
    return bf.Michalewicz(n_dimensions=2)([x[0], x[1]])


@cases([0.3, 0.7])
def himmelblau(x):
    return bf.Himmelblau()((x[0], x[1]))


@cases([1.3, 0.7])
def keane(x):
    return bf.Keane()(list(x))
