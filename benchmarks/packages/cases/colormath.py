"""Colour conversions and differences; uses `math` and matrices."""

import numpy as np
from colormath import color_diff_matrix
from colormath.color_conversions import convert_color
from colormath.color_objects import HSLColor, LabColor, LCHabColor, LuvColor, XYZColor, sRGBColor

from benchmarks.packages.cases import Cases

PACKAGE = "colormath"
cases = Cases()


def components(color):
    return np.stack(color.get_value_tuple())


@cases([0.4, 0.5, 0.2])
def rgb_to_xyz(rgb):
    return components(convert_color(sRGBColor(rgb[0], rgb[1], rgb[2]), XYZColor))


@cases([0.4, 0.5, 0.2])
def rgb_to_lab(rgb):
    return components(convert_color(sRGBColor(rgb[0], rgb[1], rgb[2]), LabColor))


@cases([60.0, 20.0, -30.0])
def lab_to_lch(lab):
    return components(convert_color(LabColor(lab[0], lab[1], lab[2]), LCHabColor))


@cases([0.3, 0.4, 0.2])
def xyz_to_luv(xyz):
    return components(convert_color(XYZColor(xyz[0], xyz[1], xyz[2]), LuvColor))


@cases([0.4, 0.5, 0.2])
def rgb_to_hsl(rgb):
    return components(convert_color(sRGBColor(rgb[0], rgb[1], rgb[2]), HSLColor))


@cases([60.0, 20.0, -30.0])
def difference(lab):
    return color_diff_matrix.delta_e_cie2000(lab, np.array([[50.0, 10.0, -20.0]]))


@cases([0.3, 0.4, 0.2])
def xyz_to_adapted_lab(xyz):
    color = XYZColor(xyz[0], xyz[1], xyz[2], illuminant="d65")
    return components(convert_color(color, LabColor, target_illuminant="d50"))
