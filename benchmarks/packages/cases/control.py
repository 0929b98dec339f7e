"""Control systems."""

import control
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "control"
cases = Cases()


@cases([1.0, 2.0, 3.0, 4.0])
def magnitude_of_transfer_function(x):
    return abs(control.tf([x[0], x[1]], [1.0, x[2], x[3]])(1j))


@cases([-1.0, 0.2, 0.1, -2.0])
def static_gain(x):
    return control.dcgain(control.ss(x.reshape(2, 2), [[1.0], [1.0]], [[1.0, 0.0]], [[0.0]]))


@cases([-1.0, 0.2, 0.1, -2.0])
def lyapunov(x):
    return control.lyap(x.reshape(2, 2), np.eye(2))


@cases([0.5, 0.2, 0.1, 0.3])
def controllability(x):
    return control.ctrb(x.reshape(2, 2), np.array([[1.0], [2.0]]))


@cases([-1.0, 0.2, 0.1, -2.0])
def step_response(x):
    system = control.ss(x.reshape(2, 2), [[1.0], [1.0]], [[1.0, 0.0]], [[0.0]])
    return control.step_response(system, T=np.linspace(0.0, 1.0, 5)).outputs


@cases([-1.0, 0.2, 0.1, -2.0])
def gain_of_regulator(x):
    return control.lqr(x.reshape(2, 2), np.array([[0.0], [1.0]]), np.eye(2), np.eye(1))[0]
