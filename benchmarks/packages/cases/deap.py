"""Test functions of evolutionary algorithms; written with functions of `math`."""

from deap import benchmarks

from benchmarks.packages.cases import Cases

PACKAGE = "deap"
cases = Cases()


@cases([0.3, 0.7, -0.4])
def ackley(x):
    return benchmarks.ackley(x)[0]


@cases([0.3, 0.7, -0.4])
def rastrigin(x):
    return benchmarks.rastrigin(x)[0]


@cases([0.3, 0.7, -0.4])
def rosenbrock(x):
    return benchmarks.rosenbrock(x)[0]


@cases([0.3, 0.7, -0.4])
def griewank(x):
    return benchmarks.griewank(x)[0]


@cases([0.3, 0.7, 0.4])
def schwefel(x):
    return benchmarks.schwefel(x)[0]


@cases([0.3, 0.7, 0.4, 0.2])
def zdt1(x):
    return benchmarks.zdt1(x)


@cases([0.3, 0.7, 0.4, 0.2])
def dtlz2(x):
    return benchmarks.dtlz2(x, 3)
