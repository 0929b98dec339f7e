"""Tidal analysis."""

import numpy as np
from utide.ellipse_params import ut_cs2cep

from benchmarks.packages.cases import Cases

PACKAGE = "UTide"
cases = Cases()


@cases([0.5, 1.2, 0.3, -0.4])
def ellipse(x):
    return np.array([np.ravel(part)[0] for part in ut_cs2cep(*np.atleast_2d(x).T)])

