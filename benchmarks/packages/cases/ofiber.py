"""Light in optical fibres."""

import numpy as np
import ofiber

from benchmarks.packages.cases import Cases

PACKAGE = "ofiber"
cases = Cases()
GLASS = ofiber.glass(0)


@cases([1.48, 1.46, 4e-6])
def apertures(x):
    na = ofiber.numerical_aperture(x[0], x[1])
    return np.array([na, ofiber.acceptance_angle(na), 1e6 * ofiber.cutoff_wavelength(x[2], na)])


@cases([1.3e-6, 1.55e-6])
def group_index(wavelengths):
    return ofiber.n_group(GLASS, wavelengths)


@cases([2.1, 3.4])
def mode_of_step_fibre(x):
    return np.array([ofiber.LP_mode_value(v, 0, 1) for v in x])


@cases(1.5)
def petermann_radius(v):
    return ofiber.PetermannW(v)


@cases([1.5, 0.3])
def reflectances(x):
    return np.array([ofiber.R_par(x[0], x[1]), ofiber.R_per(x[0], x[1]), ofiber.R_unpolarized(x[0], x[1])])


@cases([3.0, 4.5])
def planar_mode(x):
    return np.array([ofiber.TE_crossing(v, 0) for v in x])
