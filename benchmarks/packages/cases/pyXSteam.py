"""Steam tables of IF-97."""

from pyXSteam.XSteam import XSteam

from benchmarks.packages.cases import Cases

PACKAGE = "pyXSteam"
cases = Cases()
steam = XSteam(XSteam.UNIT_SYSTEM_MKS)


@cases([1.0, 20.0], step=1e-3)
def enthalpy_of_water(x):
    return steam.h_pt(x[0], x[1])


@cases([10.0, 400.0], step=1e-3)
def density_of_steam(x):
    return steam.rho_pt(x[0], x[1])


@cases(1.0, step=1e-3)
def boiling_temperature(p):
    return steam.tsat_p(p)


@cases([10.0, 3000.0], step=1e-3)
def temperature_from_enthalpy(x):
    return steam.t_ph(x[0], x[1])


@cases([10.0, 400.0], step=1e-3)
def viscosity_of_steam(x):
    return steam.my_pt(x[0], x[1])
