"""Magnetic fields of magnets and currents."""

import magpylib
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "magpylib"
cases = Cases()


@cases([1.0, 2.0, 3.0])
def field_of_cuboid(position):
    return magpylib.magnet.Cuboid(polarization=(0, 0, 1.0), dimension=(1.0, 1.0, 1.0)).getB(position)


@cases([0.1, 0.2, 0.3])
def field_of_loop(position):
    return magpylib.current.Circle(current=1.0, diameter=1.0).getB(position)


@cases([0.1, 0.2, 0.3])
def field_of_dipole_core(position):
    return magpylib.core.dipole_Hfield(observers=position[None], moments=np.array([[0.0, 0.0, 1.0]]))
