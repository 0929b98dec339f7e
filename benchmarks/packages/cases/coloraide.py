"""Conversion of colours in pure Python."""

import numpy as np
from coloraide import Color

from benchmarks.packages.cases import Cases

PACKAGE = "coloraide"
cases = Cases()


@cases([0.3, 0.6, 0.2])
def oklab_of_srgb(x):
    return np.array(Color("srgb", list(x)).convert("oklab").coords())


@cases([0.3, 0.6, 0.2])
def difference_2000(x):
    return Color("srgb", list(x)).delta_e(Color("srgb", [0.5, 0.4, 0.3]), method="2000")


@cases([0.7, 0.4, 0.3, 0.35])
def mixture(x):
    mixed = Color("srgb", [x[0], x[1], x[2]]).mix(Color("srgb", [0.1, 0.2, 0.9]), x[3], space="lab")
    return np.array(mixed.coords())


@cases([0.3, 0.6, 0.2])
def luminance_and_contrast(x):
    colour = Color("srgb", list(x))
    return np.array([colour.luminance(), colour.contrast("white")])
