"""Test functions of optimisation."""

from landscapes import single_objective as problems

from benchmarks.packages.cases import Cases

PACKAGE = "landscapes"
cases = Cases()


@cases([0.5, -0.7])
def ackley(x):
    return problems.ackley(x)


@cases([0.5, -0.7])
def beale(x):
    return problems.beale(x)


@cases([0.5, -0.7, 1.3])
def griewank(x):
    return problems.griewank(x)


@cases([0.5, -0.7, 1.3])
def rosenbrock(x):
    return problems.rosenbrock(x)


@cases([0.5, 0.7, 1.3])
def michalewicz(x):
    return problems.michalewicz(x)


@cases([0.5, -0.7, 1.3, 0.2])
def colville(x):
    return problems.colville(x)


@cases([0.5, -0.7])
def goldstein_price(x):
    return problems.goldstein_price(x)


@cases([0.5, -0.7, 1.3])
def zakharov(x):
    return problems.zakharov(x)
