"""Distributions and polynomials of random variables."""

import chaospy

from benchmarks.packages.cases import Cases

PACKAGE = "chaospy"
cases = Cases()
JOINT = chaospy.J(chaospy.Uniform(-1, 1), chaospy.Normal(0, 1))
FIRST, SECOND = chaospy.variable(2)
POLYNOMIAL = FIRST**2 * SECOND + 3 * FIRST * SECOND - SECOND**3


@cases([1.0, 2.0, 0.5])
def density(x):
    return chaospy.Normal(x[0], x[1]).pdf(x[2])


@cases([2.0, 1.0, 1.5])
def distribution_function(x):
    return chaospy.Gamma(x[0], x[1]).cdf(x[2])


@cases([0.3, 0.4])
def joint_density(x):
    return JOINT.pdf(x)


@cases([0.3, 0.4])
def polynomial(x):
    return POLYNOMIAL(x[0], x[1])
