"""Loudness of audio signals."""

import numpy as np
import pyloudnorm

from benchmarks.packages.cases import Cases

PACKAGE = "pyloudnorm"
cases = Cases()

rate = 8000
tone = np.sin(np.arange(rate) * 0.3)


@cases(0.4)
def integrated_loudness(gain):
    return pyloudnorm.Meter(rate).integrated_loudness(gain * tone)


@cases([-20.0, -14.0])
def normalised_to_loudness(x):
    return pyloudnorm.normalize.loudness(tone[:5], x[0], x[1])


@cases(np.linspace(-0.3, 0.8, 5))
def normalised_to_peak(x):
    return pyloudnorm.normalize.peak(x, -1.0)
