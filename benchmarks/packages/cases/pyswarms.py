"""Functions of a collection for optimisers."""

from pyswarms.utils.functions import single_obj

from benchmarks.packages.cases import Cases

PACKAGE = "pyswarms"
cases = Cases()
POINTS = [[0.3, -0.4], [1.2, 0.7]]


@cases(POINTS)
def ackley(x):
    return single_obj.ackley(x)


@cases(POINTS)
def rastrigin_and_rosenbrock(x):
    return single_obj.rastrigin(x) + single_obj.rosenbrock(x)


@cases(POINTS)
def holder_table(x):
    return single_obj.holdertable(x)


@cases([[-12.0, 1.0]])
def bukin(x):
    return single_obj.bukin6(x)


@cases(POINTS)
def goldstein(x):
    return single_obj.goldstein(x)


@cases(POINTS)
def cross_in_tray(x):
    return single_obj.crossintray(x)
