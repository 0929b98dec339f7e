"""Solar cells and semiconductors."""

import numpy as np
import photovoltaic as pv

from benchmarks.packages.cases import Cases

PACKAGE = "photovoltaic"
cases = Cases()


@cases([0.6, 0.035, 1e-12])
def current_of_cell(x):
    return pv.cell.I_cell(x[0], x[1], x[2])


@cases([0.62, 0.035, 0.8, 1200.0])
def fill_factor(x):
    return pv.cell.FF_RsRsh(x[0], x[1], x[2], x[3])


@cases([2e-5, 0.02, 0.03, 30.0, 1e3])
def internal_quantum_efficiency(x):
    return pv.cell.iqe_base(np.array([50.0, 500.0]), x[0], x[1], x[2], x[3], x[4])


@cases([1.4, 2.1, 90.0])
def reflectance_of_coating(x):
    return pv.optic.arc_refl(np.array([500.0, 700.0]), 1.0, x[1], 3.5 + x[0], x[2])


@cases([5800.0])
def blackbody(x):
    return pv.sun.blackbody_spectrum(np.array([400.0, 800.0]), x[0])


@cases([1e15, 1e10, 1e-5, 1e-6])
def recombination(x):
    return pv.semi.U_SRH(x[0], x[1], x[2], x[3], 0.5) / 1e20
