"""Stability of clocks."""

import allantools
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "allantools"
cases = Cases()
PHASE = np.cumsum(np.sin(np.arange(24.0) ** 2))


@cases(PHASE)
def allan_deviation(phase):
    return allantools.adev(phase, rate=1.0, taus=[1, 2, 4])[1]


@cases(PHASE)
def overlapping_hadamard(phase):
    return allantools.ohdev(phase, rate=1.0, taus=[1, 2, 4])[1]


@cases(PHASE)
def modified(phase):
    return allantools.mdev(phase, rate=1.0, taus=[1, 2, 4])[1]


@cases(PHASE)
def total(frequency):
    return allantools.totdev(frequency, rate=1.0, data_type="freq", taus=[1, 2])[1]


@cases(PHASE)
def interval_error(phase):
    return allantools.mtie(phase, rate=1.0, taus=[2, 4])[1]
