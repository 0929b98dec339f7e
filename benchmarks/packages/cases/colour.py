"""Colour science, in NumPy."""

import colour
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "colour-science"
cases = Cases()


@cases([0.2, 0.12, 0.05])
def xyz_to_lab(x):
    return colour.XYZ_to_Lab(x)


@cases([0.2, 0.12, 0.05])
def srgb_to_xyz(x):
    return colour.sRGB_to_XYZ(x)


@cases([40.0, 50.0, 27.0])
def lab_to_xyz(x):
    return colour.Lab_to_XYZ(x)


@cases([40.0, 50.0, 27.0])
def colour_difference(x):
    return colour.delta_E(x, np.array([42.0, 45.0, 20.0]), method="CIE 2000")


@cases([0.2, 0.12, 0.05])
def oklab(x):
    return colour.XYZ_to_Oklab(x)


@cases([0.2, 0.12, 0.05])
def log_encoding(x):
    return colour.models.log_encoding_ACEScct(x)
