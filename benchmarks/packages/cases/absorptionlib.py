"""Salt solutions of absorption chillers."""

from absorptionlib import CaCl2, LiBr, LiCl, NaOH

from benchmarks.packages.cases import Cases

PACKAGE = "absorptionlib"
cases = Cases()


@cases([0.55, 60.0], step=1e-3)
def enthalpy_of_lithium_bromide(x):
    return LiBr.enthalpy(x[0], x[1])


@cases([0.55, 60.0], step=1e-3)
def pressure_over_lithium_bromide(x):
    return LiBr.saturation_pressure(x[0], x[1])


@cases([0.4, 320.0], step=1e-3)
def enthalpy_of_sodium_hydroxide(x):
    return NaOH.enthalpy(x[0], x[1])


@cases([0.3, 310.0], step=1e-3)
def viscosity_of_calcium_chloride(x):
    return CaCl2.dynamic_viscosity(x[0], x[1])


@cases([0.3, 310.0], step=1e-3)
def pressure_over_lithium_chloride(x):
    return LiCl.saturation_pressure(x[0], x[1])


@cases([0.3, 2000.0], step=1e-3)
def boiling_point(x):
    return LiCl.saturation_temperature(x[0], x[1])
