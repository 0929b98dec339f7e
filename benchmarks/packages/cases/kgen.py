"""Equilibrium constants of sea water."""

import kgen
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "kgen"
cases = Cases()


@cases([20.0, 33.0])
def constants(x):
    found = kgen.calc_Ks(["K1", "K2", "KB", "KW"], temp_c=x[0], sal=x[1])
    return np.log([found[name] for name in ("K1", "K2", "KB", "KW")])


@cases([20.0, 33.0, 100.0])
def under_pressure(x):
    return np.log(kgen.calc_K("K1", temp_c=x[0], sal=x[1], p_bar=x[2]))


@cases([20.0, 33.0, 0.05, 0.01])
def of_modified_water(x):
    return kgen.calc_K("K0", temp_c=x[0], sal=x[1], magnesium=x[2], calcium=x[3], MyAMI_mode="approximate")


@cases([20.0, 10.0, 5.0])
def of_several_temperatures(x):
    return np.log(kgen.calc_K("KspA", temp_c=x))
