"""Seawater by TEOS-10, mostly compiled ufuncs."""

import gsw

from benchmarks.packages.cases import Cases

PACKAGE = "gsw"
cases = Cases()


@cases([35.0, 15.0, 1000.0])
def density(x):
    return gsw.rho(x[0], x[1], x[2])


@cases([10.0, 11.0, 30.0, 31.0])
def distance(x):
    return gsw.distance(x[:2], x[2:])


@cases(30.0)
def coriolis(latitude):
    return gsw.f(latitude)
