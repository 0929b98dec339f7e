"""Test functions of optimisation."""

from mystic import models

from benchmarks.packages.cases import Cases

PACKAGE = "mystic"
cases = Cases()


@cases([0.5, 0.7, 0.2])
def rosenbrock(x):
    return models.rosen(x)


@cases([0.5, 0.7, 0.2])
def griewangk(x):
    return models.griewangk(x)


@cases([0.5, 0.7])
def shekel(x):
    return models.shekel(x)


@cases([0.5, 0.7])
def goldstein(x):
    return models.goldstein(x)


@cases([0.5, 0.7, 0.2])
def michalewicz(x):
    return models.michal(x)


@cases([0.5, 0.7])
def peaks(x):
    return models.peaks(x)


@cases([2.5, 3.7, 4.2, 5.1, 6.3, 3.3, 4.4, 5.5, 6.6, 7.7])
def paviani(x):
    return models.paviani(x)
