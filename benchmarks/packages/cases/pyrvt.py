"""Random vibration theory of ground motions."""

import numpy as np
import pyrvt

from benchmarks.packages.cases import Cases

PACKAGE = "pyRVT"
cases = Cases()
FREQUENCIES = np.geomspace(0.1, 50.0, 60)
AMPLITUDES = 0.05 * FREQUENCIES / (1 + (FREQUENCIES / 2) ** 2)


def peak(name, x):
    calculator = pyrvt.peak_calculators.get_peak_calculator(name, {})
    return calculator(x[0], FREQUENCIES, AMPLITUDES * FREQUENCIES ** x[1])[0]


@cases([8.0, 0.1])
def vanmarcke(x):
    return peak("V75", x)


@cases([8.0, 0.1])
def davenport(x):
    return peak("D64", x)


@cases([8.0, 0.1])
def der_kiureghian(x):
    return peak("DK85", x)


@cases([8.0, 0.1])
def toro_mcguire(x):
    return peak("TM87", x)


@cases([6.3, 30.0])
def source_theory(x):
    motion = pyrvt.motions.SourceTheoryMotion(x[0], x[1], "cena")
    motion.calc_fourier_amps(FREQUENCIES)
    return np.log(motion.fourier_amps[::10])


@cases([0.05, 8.0])
def oscillator(x):
    motion = pyrvt.motions.RvtMotion(FREQUENCIES, AMPLITUDES, x[1], "V75")
    return motion.calc_osc_accels(np.array([1.0, 5.0]), x[0])
