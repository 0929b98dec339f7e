"""The problem of two bodies."""

import astropy.units as u
import numpy as np
from twobody.elements import KeplerElements
from twobody.transforms import a_m_to_P, a_P_to_m_tot

from benchmarks.packages.cases import Cases

PACKAGE = "twobody"
cases = Cases()


@cases([1.2, 2.0])
def period(x):
    return a_m_to_P(x[0] * u.au, x[1] * u.Msun).to_value(u.day)


@cases([1.2, 400.0])
def mass(x):
    return a_P_to_m_tot(x[0] * u.au, x[1] * u.day).to_value(u.Msun)
