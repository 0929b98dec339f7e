"""Fuzzy logic."""

import numpy as np
import skfuzzy

from benchmarks.packages.cases import Cases

PACKAGE = "scikit-fuzzy"
cases = Cases()
U = np.linspace(0.0, 10.0, 41)


@cases([2.1, 4.6, 7.3])
def triangle(x):
    return skfuzzy.trimf(U, x)


@cases([3.3, 1.2])
def gaussian(x):
    return skfuzzy.gaussmf(U, x[0], x[1])


@cases([2.1, 4.6, 7.3])
def centre(x):
    return skfuzzy.defuzz(U, skfuzzy.trimf(U, x), "centroid")


@cases([2.13, 6.57])
def s_curve(x):
    return skfuzzy.smf(U, x[0], x[1])


@cases([4.1, 7.3])
def tip(x):
    low, high = skfuzzy.trimf(U, [0.0, 0.0, 5.0]), skfuzzy.trimf(U, [5.0, 10.0, 10.0])
    poor, good = skfuzzy.interp_membership(U, low, x[0]), skfuzzy.interp_membership(U, high, x[1])
    return skfuzzy.defuzz(U, np.fmax(np.fmin(poor, low), np.fmin(good, high)), "centroid")
