"""Models of the atmosphere."""

import pyatmos

from benchmarks.packages.cases import Cases

PACKAGE = "pyatmos"
cases = Cases()


@cases([5.0, 15.0, 40.0])
def standard_density(heights):
    return pyatmos.coesa76(heights).rho


@cases([5.0, 15.0, 40.0])
def standard_temperature(heights):
    return pyatmos.coesa76(heights).T


@cases([120.0, 310.0])
def exponential(heights):
    return pyatmos.expo(heights).rho
