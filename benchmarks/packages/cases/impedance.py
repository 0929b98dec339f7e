"""Impedance of electrochemical circuits."""

import numpy as np
from impedance.models.circuits import CustomCircuit, Randles

from benchmarks.packages.cases import Cases

PACKAGE = "impedance"
cases = Cases()
FREQUENCIES = np.array([0.1, 1.0, 100.0])


@cases([0.01, 0.02, 0.1, 0.05, 20.0])
def randles(x):
    return np.abs(Randles(initial_guess=x).predict(FREQUENCIES, use_initial=True))


@cases([0.01, 0.02, 1.0, 0.9, 0.05])
def constant_phase_element(x):
    circuit = CustomCircuit("R0-p(R1,CPE1)-Wo1", initial_guess=[*x, 10.0])
    return circuit.predict(FREQUENCIES, use_initial=True).imag


@cases([0.01, 0.05, 30.0])
def warburg(x):
    circuit = CustomCircuit("R0-Ws1", initial_guess=x)
    z = circuit.predict(FREQUENCIES, use_initial=True)
    return np.concatenate([z.real, z.imag])
