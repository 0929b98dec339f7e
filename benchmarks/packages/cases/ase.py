"""Atomistic simulation: potentials that fill plain arrays."""

import numpy as np
from ase import Atoms, geometry
from ase.calculators.lj import LennardJones
from ase.calculators.morse import MorsePotential
from ase.eos import birchmurnaghan, murnaghan, vinet
from ase.thermochemistry import HarmonicThermo

from benchmarks.packages.cases import Cases

PACKAGE = "ase"
cases = Cases()


@cases([[0.0, 0.1, 0.0], [1.2, 0.0, 0.1], [0.1, 1.1, 0.2]])
def lennard_jones(positions):
    atoms = Atoms("Ar3", positions=positions, calculator=LennardJones())
    return atoms.get_potential_energy()


@cases([[0.0, 0.1, 0.0], [1.2, 0.0, 0.1], [0.1, 1.1, 0.2]])
def morse(positions):
    atoms = Atoms("Ar3", positions=positions, calculator=MorsePotential())
    return atoms.get_potential_energy()


@cases([15.0, -3.0, 0.6, 4.0, 16.0])
def equations_of_state(x):
    return np.stack([f(x[0], x[1], x[2], x[3], x[4]) for f in (birchmurnaghan, murnaghan, vinet)])


@cases([0.1, 0.05, 0.02])
def harmonic_entropy(energies):
    return HarmonicThermo(energies).get_helmholtz_energy(300.0, verbose=False)


@cases([3.0, 4.0, 5.0, 80.0, 95.0, 100.0])
def cell_of_parameters(x):
    return geometry.cellpar_to_cell(x)


@cases([[0.0, 0.1, 0.0], [1.2, 0.0, 0.1], [0.1, 1.1, 0.2]])
def angle(positions):
    return Atoms("Ar3", positions=positions).get_angle(0, 1, 2)
