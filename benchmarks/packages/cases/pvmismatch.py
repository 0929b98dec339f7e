"""Photovoltaic cells."""

import numpy as np
from pvmismatch.pvmismatch_lib.pvcell import PVcell

from benchmarks.packages.cases import Cases

PACKAGE = "pvmismatch"
cases = Cases()


@cases([0.8, 310.0])
def voltages(x):
    cell = PVcell(Ee=x[0], Tcell=x[1])
    return np.array([cell.Vt, cell.Isc, cell.Isat1, cell.Voc, cell.Igen])


@cases([0.005, 12.0])
def power(x):
    cell = PVcell(Rs=x[0], Rsh=x[1])
    return cell.Pcell[::20, 0]


@cases(0.5)
def current(v):
    return PVcell().calcIcell(v)
