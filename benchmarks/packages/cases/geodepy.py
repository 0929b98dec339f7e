"""Geodetic survey computations."""

import numpy as np
from geodepy import convert, geodesy, statistics, survey, transform
from geodepy.constants import gda94_to_gda2020

from benchmarks.packages.cases import Cases

PACKAGE = "geodepy"
cases = Cases()


@cases([-37.95, 144.42, -37.65, 143.92], rtol=1e-5)
def inverse_of_vincenty(x):
    return np.array(geodesy.vincinv(*x))


@cases([-37.95, 144.42, 306.87, 54972.27])
def direct_of_vincenty(x):
    return np.array(geodesy.vincdir(*x))


@cases([-37.8, 144.9, 50.0])
def cartesian(x):
    return np.array(convert.llh2xyz(*x))


@cases([-4052051.0, 4212836.0, -2545105.0])
def transformed(x):
    return np.array(transform.conform7(x[0], x[1], x[2], gda94_to_gda2020)[:3])


@cases([-37.8, 144.9])
def grid(x):
    return np.array(convert.geo2grid(x[0], x[1])[2:])


@cases([500000.0, 6000000.0])
def geographic(x):
    return np.array(convert.grid2geo(55, x[0], x[1])[:2])


@cases([85.3, 120.0])
def levelled(x):
    return np.array(survey.va_conv(x[0], x[1]))


@cases([4.0, 1.0, 2.5])
def ellipse_of_errors(x):
    return np.array(statistics.error_ellipse(np.array([[x[0], x[1], 0], [x[1], x[2], 0], [0, 0, 1.0]])))
