"""Orbits of two bodies."""

import astropy.units as u
import twobody
from twobody import transforms

from benchmarks.packages.cases import Cases

PACKAGE = "twobody"
cases = Cases()


@cases([300.0, 1.5])
def semi_major_axis(x):
    return transforms.P_m_to_a(x[0] * u.day, x[1] * u.Msun).to_value(u.au)


@cases([1.2, 1.5])
def period(x):
    return transforms.a_m_to_P(x[0] * u.au, x[1] * u.Msun).to_value(u.day)


@cases([300.0, 0.3, 12.0])
def axis_of_velocities(x):
    return transforms.PeKi_to_a(x[0] * u.day, x[1], x[2] * u.km / u.s).to_value(u.au)


@cases([0.7, 0.3])
def mean_anomaly(x):
    return twobody.mean_anomaly_from_eccentric_anomaly(x[0] * u.rad, x[1]).to_value(u.rad)


@cases([1.2, 300.0])
def total_mass(x):
    return transforms.a_P_to_m(x[0] * u.au, x[1] * u.day).to_value(u.Msun)
