"""Extinction of starlight by dust."""

import numpy as np
from dust_extinction.parameter_averages import CCM89, F19, O94
from dust_extinction.shapes import FM90

from benchmarks.packages.cases import Cases

PACKAGE = "dust_extinction"
cases = Cases()


@cases(np.array([0.5, 1.5, 4.0, 7.0]))
def of_1989(x):
    return CCM89(Rv=3.1)(x)


@cases(3.1)
def of_1994(ratio):
    return O94(Rv=ratio)(np.array([0.5, 1.5, 4.0, 7.0]))


@cases([0.1, 0.7, 3.23, 0.41])
def shape_in_the_ultraviolet(x):
    return FM90(C1=x[0], C2=x[1], C3=x[2], C4=x[3])(np.array([4.0, 5.0, 7.0]))


@cases(np.array([0.5, 1.5, 4.0, 7.0]))
def of_2019(x):
    return F19(Rv=3.1)(x)
