"""Marine carbonate system; written with autograd."""

import numpy as np
import PyCO2SYS

from benchmarks.packages.cases import Cases

PACKAGE = "PyCO2SYS"
cases = Cases()


@cases([2300.0, 2000.0])
def acidity(x):
    return PyCO2SYS.sys(par1=x[0], par2=x[1], par1_type=1, par2_type=2, temperature=20.0, salinity=35.0)["pH"]


@cases([35.0, 293.0])
def constants(x):
    return np.stack([
        PyCO2SYS.equilibria.p1atm.kH2CO3_NBS_MCHP73(x[1], x[0])[0],
        PyCO2SYS.equilibria.p1atm.kCO2_W74(x[1], x[0]),
    ])


@cases([35.0, 20.0])
def borate(x):
    return np.stack([PyCO2SYS.salts.borate_LKB10(x[0]), PyCO2SYS.salts.sulfate_MR66(x[0])])


@cases([2000e-6, 1e-8])
def carbonate(x):
    return PyCO2SYS.solve.get.CarbfromTCH(x[0], x[1], {}, {"K1": 1e-6, "K2": 1e-9})
