"""Fitness functions of an evolution strategy."""

import cma

from benchmarks.packages.cases import Cases

PACKAGE = "cma"
cases = Cases()


@cases([0.5, -0.3, 0.8])
def rosenbrock(x):
    return cma.ff.rosen(x)


@cases([0.5, -0.3, 0.8])
def ellipsoid(x):
    return cma.ff.elli(x)


@cases([0.5, -0.3, 0.8])
def rotated_ellipsoid(x):
    return cma.ff.ellirot(x)


@cases([0.5, 0.3, 0.8])
def sum_of_powers(x):
    return cma.ff.diffpow(x)


@cases([0.5, 0.3, 0.8])
def ridge(x):
    return cma.ff.ridge(x)


@cases([0.4, -0.6, 0.7])
def rastrigin(x):
    return cma.ff.rastrigin(x)
