"""Statistical mechanics and thermochemistry of molecules."""

import numpy as np
from pmutt.empirical.nasa import Nasa
from pmutt.empirical.shomate import Shomate
from pmutt.eos import IdealGasEOS, vanDerWaalsEOS
from pmutt.statmech import StatMech, elec, rot, trans, vib

from benchmarks.packages.cases import Cases

PACKAGE = "pmutt"
cases = Cases()


@cases([1500.0, 3600.0, 400.0])
def heat_capacity_of_vibrations(x):
    return vib.HarmonicVib([x[0], x[1]]).get_CvoR(T=x[2])


@cases([1500.0, 3600.0, 400.0])
def entropy_of_vibrations(x):
    return vib.HarmonicVib([x[0], x[1]]).get_SoR(T=x[2])


@cases([18.0, 400.0, 1.2])
def entropy_of_translation(x):
    return trans.FreeTrans(n_degrees=3, molecular_weight=x[0]).get_SoR(T=x[1], P=x[2])


@cases([1500.0, 3650.0, 3750.0, 350.0, 1.1])
def gibbs_energy_of_molecule(x):
    water = StatMech(
        name="H2O",
        trans_model=trans.FreeTrans(n_degrees=3, molecular_weight=18.02),
        vib_model=vib.HarmonicVib(vib_wavenumbers=[x[0], x[1], x[2]]),
        rot_model=rot.RigidRotor(symmetrynumber=2, rot_temperatures=[40.1, 20.9, 13.4], geometry="nonlinear"),
        elec_model=elec.GroundStateElec(potentialenergy=-14.2, spin=0),
    )
    return water.get_GoRT(T=x[3], P=x[4])


@cases(700.0)
def nasa_polynomial(temperature):
    low = np.array([4.198, -2.036e-3, 6.52e-6, -5.488e-9, 1.772e-12, -3.0294e4, -0.849])
    high = np.array([2.677, 2.973e-3, -7.738e-7, 9.443e-11, -4.269e-15, -2.9886e4, 6.883])
    gas = Nasa(name="H2O", T_low=200.0, T_mid=1000.0, T_high=3500.0, a_low=low, a_high=high)
    return np.array([gas.get_CpoR(T=temperature), gas.get_HoRT(T=temperature), gas.get_SoR(T=temperature)])


@cases(700.0)
def shomate_polynomial(temperature):
    gas = Shomate(
        name="H2O",
        T_low=500.0,
        T_high=1700.0,
        a=np.array([30.092, 6.832514, 6.793435, -2.53448, 0.082139, -250.881, 223.3967, -241.8264]),
    )
    return np.array([gas.get_CpoR(T=temperature), gas.get_HoRT(T=temperature), gas.get_SoR(T=temperature)])


@cases([0.03, 350.0])
def pressure_of_van_der_waals(x):
    return vanDerWaalsEOS(a=0.5536, b=3.049e-5).get_P(V=x[0], T=x[1])


@cases([1.3, 350.0])
def volume_of_ideal_gas(x):
    return IdealGasEOS().get_V(P=x[0], T=x[1])
