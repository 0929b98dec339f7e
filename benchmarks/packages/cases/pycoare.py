"""Fluxes between sea and air by the COARE algorithm."""

import numpy as np
import pycoare

from benchmarks.packages.cases import Cases

PACKAGE = "pycoare"
cases = Cases()


@cases([6.0, 12.0])
def stress(u):
    return pycoare.coare_35(u, t=20.0, rh=80.0, ts=22.0).fluxes.tau


@cases([18.0, 22.0])
def sensible_heat(ts):
    return pycoare.coare_35(np.array([7.0, 9.0]), t=20.0, rh=80.0, ts=ts).fluxes.hsb
