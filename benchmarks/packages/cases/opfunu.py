"""Test functions of optimisation, in NumPy."""

import numpy as np
import opfunu

from benchmarks.packages.cases import Cases

PACKAGE = "opfunu"
cases = Cases()
point = np.linspace(-1.1, 1.3, 10)
conditioned = opfunu.cec_based.F12014(ndim=10)
rosenbrock_shifted = opfunu.cec_based.F42014(ndim=10)
ackley_shifted = opfunu.cec_based.F52014(ndim=10)
hybrid = opfunu.cec_based.F172014(ndim=10)


@cases(point)
def ackley(x):
    return opfunu.name_based.Ackley01(ndim=10).evaluate(x)


@cases(point)
def alpine(x):
    return opfunu.name_based.Alpine02(ndim=10).evaluate(x + 5.0)


@cases([0.3, 0.7])
def branin(x):
    return opfunu.name_based.Branin01().evaluate(x)


@cases([0.3, 0.7])
def camel(x):
    return opfunu.name_based.CamelSixHump().evaluate(x)


@cases(point)
def cec_2014_elliptic(x):
    return conditioned.evaluate(x)


@cases(point)
def cec_2014_rosenbrock(x):
    return rosenbrock_shifted.evaluate(x)


@cases(point)
def cec_2014_ackley(x):
    return ackley_shifted.evaluate(x)


@cases(point)
def cec_2014_hybrid(x):
    return hybrid.evaluate(x)
