"""Propagation of errors."""

from uncertainties import ufloat, umath

from benchmarks.packages.cases import Cases

PACKAGE = "uncertainties"
cases = Cases()


@cases([1.2, 0.1, 0.5, 0.2])
def product(x):
    y = ufloat(x[0], x[1]) * ufloat(x[2], x[3])
    return [y.nominal_value, y.std_dev]


@cases([1.2, 0.1])
def sine(x):
    return umath.sin(ufloat(x[0], x[1])).std_dev
