"""Colour appearance models."""

import colorspacious

from benchmarks.packages.cases import Cases

PACKAGE = "colorspacious"
cases = Cases()


@cases([0.4, 0.5, 0.2])
def rgb_to_lab(rgb):
    return colorspacious.cspace_convert(rgb, "sRGB1", "CIELab")


@cases([0.4, 0.5, 0.2])
def rgb_to_uniform(rgb):
    return colorspacious.cspace_convert(rgb, "sRGB1", "CAM02-UCS")


@cases([0.4, 0.5, 0.2])
def rgb_to_appearance(rgb):
    return colorspacious.cspace_convert(rgb, "sRGB1", "JCh")


@cases([60.0, 20.0, -30.0])
def lab_to_rgb(lab):
    return colorspacious.cspace_convert(lab, "CIELab", "sRGB1")


@cases([0.4, 0.5, 0.2])
def difference(rgb):
    return colorspacious.deltaE(rgb, [0.5, 0.5, 0.5], input_space="sRGB1")
