"""International standard atmosphere."""

import isacalc
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "isacalc"
cases = Cases()

ATMOSPHERE = isacalc.Atmosphere()


@cases(5000.0)
def troposphere(h):
    return ATMOSPHERE.calculate(h)


@cases(15000.0)
def stratosphere(h):
    return ATMOSPHERE.calculate(h)


@cases([5000.0, 6000.0])
def heights(h):
    return np.stack([ATMOSPHERE.calculate(each)[2] for each in h])
