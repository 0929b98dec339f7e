"""Mineral physics."""

import burnman
import numpy as np
from burnman.eos import birch_murnaghan, debye, einstein, modified_tait, murnaghan

from benchmarks.packages.cases import Cases

PACKAGE = "burnman"
cases = Cases()


@cases([10e-6, 11.2e-6, 160e9, 4.0])
def birch_murnaghan_pressure(x):
    return birch_murnaghan.birch_murnaghan(x[1] / x[0], {"K_0": x[2], "Kprime_0": x[3], "P_0": 0.0})


@cases([10e-6, 160e9, 4.0])
def stiffness(x):
    return birch_murnaghan.bulk_modulus(x[0], {"V_0": 11.2e-6, "K_0": x[1], "Kprime_0": x[2]})


@cases([20e9, 160e9, 4.0])
def murnaghan_volume(x):
    return murnaghan.volume(x[0], 11.2e-6, x[1], x[2])


@cases([1500.0, 700.0])
def debye_energy(x):
    return debye.thermal_energy(x[0], x[1], 2.0)


@cases([1500.0, 700.0])
def einstein_heat_capacity(x):
    return einstein.molar_heat_capacity_v(x[0], x[1], 2.0)


@cases([20e9, 160e9, 4.0])
def tait_volume(x):
    return modified_tait.volume(x[0], {"V_0": 1e-5, "K_0": x[1], "Kprime_0": x[2], "Kdprime_0": -3e-11, "P_0": 0.0})


@cases([30e9, 2000.0], rtol=1e-5)  # its brentq leaves an error of 2e-7 in the volume, which the differences contain
def density_of_periclase(x):
    mineral = burnman.minerals.SLB_2011.periclase()
    mineral.set_state(x[0], x[1])
    return mineral.density


@cases([30e9, 2000.0])
def gibbs_energy_of_quartz(x):
    mineral = burnman.minerals.HP_2011_ds62.stv()
    mineral.set_state(x[0], x[1])
    return np.stack([mineral.gibbs, mineral.S])
