"""Peaks and baselines of spectra."""

import numpy as np
import peakutils

from benchmarks.packages.cases import Cases

PACKAGE = "PeakUtils"
cases = Cases()

x = np.linspace(0.0, 4.0, 21)
spectrum = 0.5 + 0.3 * x + np.exp(-8.0 * (x - 2.0) ** 2)


@cases([1.1, 2.0, 0.4])
def gaussian(p):
    return peakutils.gaussian(x[5:12], *p)


@cases(spectrum)
def centroid(y):
    return peakutils.centroid(x, y)


@cases(spectrum)
def centroid_and_width(y):
    return np.array(peakutils.centroid2(y, x))


@cases(spectrum)
def baseline(y):
    return peakutils.baseline(y, 1, max_it=1)
