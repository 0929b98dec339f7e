"""Quantum information."""

import numpy as np
from toqito.channels import partial_trace
from toqito.matrix_ops import tensor
from toqito.state_metrics import fidelity, hilbert_schmidt, trace_distance
from toqito.state_props import concurrence, purity, von_neumann_entropy

from benchmarks.packages.cases import Cases

PACKAGE = "toqito"
cases = Cases()


def qubit(p):
    return np.array([[p, 0.1], [0.1, 1 - p]])


@cases(0.7)
def purity_of_qubit(p):
    return purity(qubit(p))


@cases(0.7)
def entropy_of_qubit(p):
    return von_neumann_entropy(qubit(p))


@cases(0.7)
def distance_of_qubits(p):
    return trace_distance(qubit(p), qubit(0.4))


@cases(0.7)
def hilbert_schmidt_distance(p):
    return hilbert_schmidt(qubit(p), qubit(0.4))


@cases(0.7)
def fidelity_of_qubits(p):
    return fidelity(qubit(p), qubit(0.4))


@cases([0.7, 0.3])
def partial_trace_of_product(x):
    return partial_trace(np.kron(qubit(x[0]), qubit(x[1])), [0])


@cases([0.7, 0.3])
def product_of_qubits(x):
    return tensor(qubit(x[0]), qubit(x[1]))


@cases([0.6, 0.5])
def concurrence_of_state(x):
    state = np.array([x[0], 0.1, 0.2, x[1]])
    state = state / np.linalg.norm(state)
    return concurrence(np.outer(state, state))
