"""Heat transfer; written with functions of `math`."""

import ht

from benchmarks.packages.cases import Cases

PACKAGE = "ht"
cases = Cases()


@cases([1e5, 0.7])
def internal_convection(x):
    return ht.Nu_conv_internal(Re=x[0], Pr=x[1])


@cases([100.0, 60.0, 30.0, 40.2])
def log_mean_temperature_difference(x):
    return ht.LMTD(x[0], x[1], x[2], x[3])


@cases([2.0, 0.7])
def exchanger_effectiveness(x):
    return ht.effectiveness_from_NTU(NTU=x[0], Cr=x[1], subtype="counterflow")


@cases([6071.0, 0.7])
def cylinder_in_crossflow(x):
    return ht.Nu_cylinder_Churchill_Bernstein(x[0], x[1])


@cases([800.0, 4e-6])
def black_body(x):
    return ht.radiation.blackbody_spectral_radiance(x[0], x[1])


@cases([0.7, 2e9])
def natural_convection_of_plate(x):
    return ht.Nu_vertical_plate_Churchill(x[0], x[1])
