"""Optics of thin films."""

import numpy as np
import tmm

from benchmarks.packages.cases import Cases

PACKAGE = "tmm"
cases = Cases()


@cases(100.0)
def reflectance_of_film(thickness):
    return tmm.coh_tmm("s", [1.0, 2.2, 1.5], [np.inf, thickness, np.inf], 0.3, 500.0)["R"]


@cases([2.2, 1.8])
def reflectance_of_indices(n):
    return tmm.coh_tmm("p", [1.0, n[0], n[1], 1.5], [np.inf, 100.0, 50.0, np.inf], 0.3, 500.0)["R"]


@cases([1.5, 0.3])
def fresnel(x):
    return tmm.interface_R("s", 1.0, x[0], x[1], tmm.snell(1.0, x[0], x[1]))
