"""Colours with even lightness."""

import hsluv
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "hsluv"
cases = Cases()


@cases([120.0, 60.0, 45.0])
def rgb_of_hsluv(x):
    return np.array(hsluv.hsluv_to_rgb([x[0], x[1], x[2]]))


@cases([0.2, 0.5, 0.7])
def hsluv_of_rgb(x):
    return np.array(hsluv.rgb_to_hsluv([x[0], x[1], x[2]]))


@cases([0.2, 0.5, 0.7])
def lch_of_rgb(x):
    return np.array(hsluv.rgb_to_lch([x[0], x[1], x[2]]))


@cases([120.0, 40.0, 45.0])
def rgb_of_hpluv(x):
    return np.array(hsluv.hpluv_to_rgb([x[0], x[1], x[2]]))
