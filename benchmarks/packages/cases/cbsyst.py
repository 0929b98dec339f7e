"""Marine carbon and boron systems."""

import cbsyst as cb
import numpy as np
from cbsyst import boron, carbon

from benchmarks.packages.cases import Cases

PACKAGE = "cbsyst"
cases = Cases()


class Constants(dict):
    __getattr__ = dict.__getitem__


KS = Constants(K0=0.03, K1=1.4e-6, K2=1.1e-9, KB=2.5e-9, KW=6e-14, KS=0.1)
KS |= {"KF": 2e-3, "KP1": 0.02, "KP2": 1e-6, "KP3": 1e-9, "KSi": 4e-10}


@cases([2000.0, 1e-8])
def bicarbonate(x):
    return carbon.cHCO3(x[1], x[0], KS)


@cases([8.1, 432.0])
def borate(x):
    return boron.cBO4(x[1], 10.0 ** -x[0], KS)


@cases([8.1, 2000.0])
def carbon_species(x):
    found = cb.Csys(pHtot=x[0], DIC=x[1], T_in=20.0, S_in=35.0)
    return np.append(found["TA"], found["pCO2"])


@cases([400.0, 20.0])
def fugacity(x):
    return carbon.pCO2_to_fCO2(x[0], x[1])


@cases([1e-8, 2e-3])
def alkalinity(x):
    return carbon.cTA(x[0], x[1], 4e-4, 1e-6, 1e-5, 0.028, 7e-5, KS, mode="multi")[0]
