"""Colours of lamps."""

import numpy as np
from colorzero import Color

from benchmarks.packages.cases import Cases

PACKAGE = "colorzero"
cases = Cases()


@cases([0.2, 0.5, 0.7])
def lab(x):
    return np.array(Color.from_rgb(x[0], x[1], x[2]).lab)


@cases([0.2, 0.5, 0.7])
def hls(x):
    return np.array(Color.from_rgb(x[0], x[1], x[2]).hls)


@cases([0.3, 0.4, 0.6])
def rgb_of_yuv(x):
    return np.array(Color.from_yuv(x[0], x[1] - 0.3, x[2] - 0.5).rgb)


@cases([0.2, 0.5, 0.7])
def difference(x):
    return Color.from_rgb(x[0], x[1], x[2]).difference(Color.from_rgb(0.3, 0.4, 0.6), method="ciede2000")
