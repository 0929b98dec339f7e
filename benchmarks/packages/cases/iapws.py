"""Water and steam by the formulations of the IAPWS."""

from iapws import IAPWS95, IAPWS97
from iapws._iapws import _Conductivity, _Tension, _Viscosity

from benchmarks.packages.cases import Cases

PACKAGE = "iapws"
cases = Cases()


@cases([300.0, 1.0], step=1e-3)
def enthalpy_if97(x):
    return IAPWS97(T=x[0], P=x[1]).h


@cases([300.0, 1.0], step=1e-3)
def speed_of_sound_if97(x):
    return IAPWS97(T=x[0], P=x[1]).w


@cases([300.0, 1.0], step=1e-3, rtol=1e-5)
def enthalpy_iapws95(x):
    return IAPWS95(T=x[0], P=x[1]).h


@cases([998.0, 298.15])
def viscosity(x):
    return _Viscosity(x[0], x[1])


@cases([998.0, 298.15])
def conductivity(x):
    return _Conductivity(x[0], x[1])


@cases(300.0)
def surface_tension(t):
    return _Tension(t)
