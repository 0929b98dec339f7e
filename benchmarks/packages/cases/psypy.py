"""Moist air."""

import numpy as np
from psypy import psySI

from benchmarks.packages.cases import Cases

PACKAGE = "psypy"
cases = Cases()


@cases([300.0, 0.5])
def state_of_relative_humidity(x):
    return np.array(psySI.state("DBT", x[0], "RH", x[1], 101325))


@cases([60000.0, 0.6])
def state_of_enthalpy(x):
    return np.array(psySI.state("H", x[0], "RH", x[1], 101325)[:5])
