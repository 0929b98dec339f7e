"""Equations of state and activity models."""

from thermo import PR, PRMIX, Wilson
from thermo.nrtl import NRTL_gammas

from benchmarks.packages.cases import Cases

PACKAGE = "thermo"
cases = Cases()


@cases([300.0, 1e5])
def peng_robinson_volume(x):
    return PR(Tc=507.6, Pc=3025000.0, omega=0.2975, T=x[0], P=x[1]).V_g


@cases([300.0, 1e5])
def peng_robinson_fugacity(x):
    return PR(Tc=507.6, Pc=3025000.0, omega=0.2975, T=x[0], P=x[1]).phi_g


@cases([300.0, 1e5])
def mixture_volume(x):
    eos = PRMIX(T=x[0], P=x[1], Tcs=[190.564, 305.32], Pcs=[4.599e6, 4.872e6], omegas=[0.008, 0.098], zs=[0.4, 0.6])
    return eos.V_g


@cases([0.252, 0.748])
def wilson_excess_energy(x):
    zeros = [[0.0, 0.0], [0.0, 0.0]]
    a = [[0.0, 0.06184818], [-0.26264469, 0.0]]
    model = Wilson(T=343.15, xs=[x[0], x[1]], ABCDEF=(a, zeros, zeros, zeros, zeros, zeros))
    return model.GE()


@cases([0.252, 0.748])
def nrtl_activities(x):
    alphas = [[0.0, 0.2937], [0.2937, 0.0]]
    return NRTL_gammas([x[0], x[1]], [[0.0, -0.178], [1.963, 0.0]], alphas)
