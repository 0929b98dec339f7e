"""Signals of earthquakes."""

import eqsig
import numpy as np
from eqsig import im, sdof

from benchmarks.packages.cases import Cases

PACKAGE = "eqsig"
cases = Cases()
MOTION = np.sin(np.arange(60) * 0.3) * np.exp(-0.03 * np.arange(60))


@cases([1.2, 0.05])
def response(x):
    return sdof.response_series(x[0] * MOTION, 0.02, np.array([0.3, 0.8]), x[1])[0][:, ::12]


@cases(1.3)
def spectra(a):
    return np.concatenate(sdof.pseudo_response_spectra(a * MOTION, 0.02, np.array([0.3, 0.8]), 0.05))


@cases(1.3)
def intensity(a):
    signal = eqsig.AccSignal(a * MOTION, 0.02)
    return np.array([im.calc_arias_intensity(signal)[-1], im.calc_cav(signal)[-1]])


@cases(1.3)
def displacement(a):
    return np.concatenate(eqsig.displacements.velocity_and_displacement_from_acceleration(a * MOTION, 0.02))[::20]
