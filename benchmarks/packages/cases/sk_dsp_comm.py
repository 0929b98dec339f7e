"""Signals and communication."""

import numpy as np
from sk_dsp_comm import digitalcom, sigsys, synchronization

from benchmarks.packages.cases import Cases

PACKAGE = "scikit-dsp-comm"
cases = Cases()
SIGNAL = np.sin(0.4 * np.arange(40.0))


@cases([3.0, 1000.0, 3.5])
def peaking_filter(x):
    b, a = sigsys.peaking(x[0], x[1], x[2])
    return np.concatenate([b, a])


@cases([0.35])
def root_raised_cosine(x):
    return sigsys.sqrt_rc_imp(4, x[0], 2)


@cases([0.6, 0.27, 1.2])
def pulses(x):
    t = np.linspace(-1.0, 1.0, 9)
    return sigsys.tri(t, x[0]) + sigsys.rc_imp(3, x[1], 2)[:9] * x[2]


@cases(SIGNAL[:12])
def long_convolution(x):
    return sigsys.oa_filter(x, np.array([1.0, 0.5, 0.2]), 8)


@cases([0.01, 0.9, 0.2])
def phase_locked_loop(x):
    theta = x[2] * np.linspace(0.0, 1.0, 12)
    return synchronization.PLL1(theta, 100.0, 1, 1.0, 5.0 * x[1], 0.7, 0)[0] + x[0]


@cases([0.4, 3.0])
def delayed(x):
    return digitalcom.time_delay(x[1] * SIGNAL, float(1.0 + x[0]))
