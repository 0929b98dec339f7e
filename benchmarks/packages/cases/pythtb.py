"""Tight-binding models of solids."""

import numpy as np
from pythtb import Lattice, TBModel

from benchmarks.packages.cases import Cases

PACKAGE = "pythtb"
cases = Cases()


def graphene(onsite, hopping):
    lattice = Lattice([[1.0, 0.0], [0.5, np.sqrt(3.0) / 2]], [[1 / 3, 1 / 3], [2 / 3, 2 / 3]], [0, 1])
    model = TBModel(lattice)
    model.set_onsite([-onsite, onsite])
    model.set_hop(hopping, 0, 1, [0, 0])
    model.set_hop(hopping, 1, 0, [1, 0])
    model.set_hop(hopping, 1, 0, [0, 1])
    return model


@cases([0.2, -1.0])
def energies(x):
    return graphene(x[0], x[1]).solve_ham([[0.1, 0.2], [0.3, 0.1]])


@cases([0.1, 0.2])
def bands(k):
    return graphene(0.2, -1.0).solve_ham([k])


@cases([0.1, 0.2])
def hamiltonian(k):
    return abs(graphene(0.2, -1.0).hamiltonian([k]))


@cases([0.3, -0.7])
def chain(x):
    model = TBModel(Lattice([[1.0]], [[0.0], [0.4]], [0]))
    model.set_onsite([x[0], -x[0]])
    model.set_hop(x[1], 0, 1, [0])
    model.set_hop(0.5, 1, 0, [1])
    return model.make_finite([0], [4]).solve_ham()
