"""Quantum mechanics."""

import numpy as np
import qutip

from benchmarks.packages.cases import Cases

PACKAGE = "qutip"
cases = Cases()


@cases(0.4)
def expectation(angle):
    state = np.cos(angle) * qutip.basis(2, 0) + np.sin(angle) * qutip.basis(2, 1)
    return qutip.expect(qutip.sigmaz(), state)


@cases([0.4, 0.2])
def eigenenergies(x):
    return (x[0] * qutip.sigmaz() + x[1] * qutip.sigmax()).eigenenergies()


@cases(0.4)
def clebsch_free_fidelity(angle):
    state = np.cos(angle) * qutip.basis(2, 0) + np.sin(angle) * qutip.basis(2, 1)
    return qutip.fidelity(state, qutip.basis(2, 0))
