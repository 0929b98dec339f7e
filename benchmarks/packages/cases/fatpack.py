"""Fatigue of materials."""

import fatpack
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "fatpack"
cases = Cases()
LOAD = 90.0 * np.sin(np.arange(30.0) ** 2)


@cases([90.0, 150.0])
def endurance(x):
    return fatpack.LinearEnduranceCurve(x[0]).get_endurance(np.array([x[1], 60.0]))


@cases([40.0, 150.0])
def three_slopes(s):
    return fatpack.TriLinearEnduranceCurve(90.0).get_endurance(s)


@cases([120.0, 30.0, 400.0])
def goodman(x):
    return np.array([fatpack.find_goodman_equivalent_stress(*x), fatpack.find_swt_equivalent_stress(x[0], x[1])])


@cases(LOAD, step=1e-4)
def ranges_of_reversals(y):
    return fatpack.find_rainflow_ranges(y, k=256)


@cases(60.0)
def damage(scale):
    ranges = scale * np.array([1.0, 1.5, 2.5, 0.5])
    return fatpack.BiLinearEnduranceCurve(90.0).find_miner_sum(ranges)
