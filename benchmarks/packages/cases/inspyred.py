"""Test functions of evolutionary optimisation."""

from inspyred import benchmarks

from benchmarks.packages.cases import Cases

PACKAGE = "inspyred"
cases = Cases()


@cases([0.5, 0.7])
def ackley(x):
    return benchmarks.Ackley(2).evaluator([x], {})


@cases([0.5, 0.7, 0.2])
def griewank(x):
    return benchmarks.Griewank(3).evaluator([x], {})


@cases([0.5, 0.7, 0.2])
def schwefel(x):
    return benchmarks.Schwefel(3).evaluator([x], {})


@cases([0.5, 0.7, 0.2])
def kursawe(x):
    return benchmarks.Kursawe(3).evaluator([list(x)], {})[0].values
