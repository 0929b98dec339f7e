"""Spectra of ocean waves."""

import numpy as np
from wavespectra.construct import frequency
from wavespectra.core import utils

from benchmarks.packages.cases import Cases

PACKAGE = "wavespectra"
cases = Cases()
FREQUENCIES = np.linspace(0.05, 0.4, 8)


@cases([0.1, 25.0])
def wavelength(x):
    return utils.wavelen(x[0], x[1])


@cases([0.1, 25.0])
def celerity(x):
    return utils.celerity(FREQUENCIES * x[0] / 0.1, x[1])


@cases([5.0, 40.0])
def components(x):
    return np.stack(utils.spddir_to_uv(x[0], x[1]))


@cases([3.0, 2.0])
def speed_and_direction(x):
    return np.stack(utils.uv_to_spddir(x[0], x[1]))


@cases([0.12, 2.0], undefined="the spectrum is an object of xarray")
def jonswap(x):
    return frequency.jonswap(FREQUENCIES, x[0], hs=x[1]).values
