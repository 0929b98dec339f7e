"""Statistics: effect sizes, power, angles, reliability."""

import numpy as np
import pingouin

from benchmarks.packages.cases import Cases

PACKAGE = "pingouin"
cases = Cases()
SAMPLE = [1.2, 2.3, 1.9, 3.1, 2.8]
OTHER = np.array([0.8, 1.9, 2.1, 2.2, 1.7])


@cases(SAMPLE)
def effect_size(x):
    return pingouin.compute_effsize(x, OTHER, eftype="hedges")


@cases([0.6, 12.0])
def confidence_interval(x):
    return pingouin.compute_esci(stat=x[0], nx=x[1], ny=14, eftype="cohen", decimals=12)


@cases(0.6)
def converted_effect_size(d):
    return pingouin.convert_effsize(d, "cohen", "eta_square")


@cases([0.6, 20.0])
def power_of_a_test(x):
    return pingouin.power_ttest(d=x[0], n=x[1])


@cases([0.4, 1.1, 2.5, 0.9])
def mean_angle(angles):
    return np.stack([pingouin.circ_mean(angles), pingouin.circ_r(angles)])


@cases(SAMPLE)
def rayleigh(angles):
    return np.stack(pingouin.circ_rayleigh(angles))


@cases(SAMPLE)
def correlation_of_angles(x):
    return np.stack(pingouin.circ_corrcc(x, OTHER))
