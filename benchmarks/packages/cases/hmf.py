"""Mass functions of dark-matter haloes; uses Astropy's cosmologies."""

import numpy as np
from hmf import MassFunction

from benchmarks.packages.cases import Cases

PACKAGE = "hmf"
cases = Cases()

OPTIONS = {"transfer_model": "EH", "Mmin": 11, "Mmax": 14, "dlog10m": 0.5, "lnk_min": -10, "lnk_max": 6, "dlnk": 0.1}


@cases([0.8, 0.96], step=1e-3)
def mass_function(p):
    return np.log(MassFunction(sigma_8=p[0], n=p[1], **OPTIONS).dndlog10m)


@cases([0.8, 0.96], step=1e-3)
def mass_variance(p):
    return MassFunction(sigma_8=p[0], n=p[1], **OPTIONS).sigma


@cases(1.69, step=1e-3)
def press_schechter(threshold):
    return MassFunction(delta_c=threshold, hmf_model="PS", **OPTIONS).fsigma


@cases([0.31, 67.0], step=1e-3)
def matter_density(p):
    model = MassFunction(cosmo_params={"Om0": p[0], "H0": p[1]}, **OPTIONS)
    return model.power[::40]


@cases(0.5, step=1e-3)
def redshift(z):
    return MassFunction(z=z, **OPTIONS).growth_factor
