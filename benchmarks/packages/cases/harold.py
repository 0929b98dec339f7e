"""Linear control systems."""

import harold
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "harold"
cases = Cases()


@cases([1.0, 0.5, 2.0, 0.3])
def frequency_response(x):
    G = harold.Transfer([x[0], x[1]], [1.0, x[3], x[2]])
    response, _ = harold.frequency_response(G, w=np.array([0.1, 0.5, 2.0]))
    return np.abs(response).ravel()


@cases([-1.0, 0.4, -0.3, -2.0])
def step_response(x):
    G = harold.State(x.reshape(2, 2), np.array([[0.0], [1.0]]), np.array([[1.0, 0.0]]))
    y, _ = harold.simulate_step_response(G, t=np.linspace(0.0, 2.0, 6))
    return y.ravel()


@cases([0.0, 1.0, -2.0, -0.3])
def regulator(x):
    G = harold.State(x.reshape(2, 2), np.array([[0.0], [1.0]]), np.eye(2))
    X = harold.lqr(G, np.eye(2), np.eye(1))[1]
    return X.ravel()


@cases([-1.0, 0.4, -0.3, -2.0, 1.0, 0.2])
def lyapunov(x):
    Y = np.array([[x[4], x[5]], [x[5], 2.0]])
    return harold.lyapunov_eq_solver(x[:4].reshape(2, 2), Y).ravel()


@cases([-1.0, 0.4, -0.3, -2.0])
def energy_norm(x):
    G = harold.State(x.reshape(2, 2), np.array([[0.0], [1.0]]), np.array([[1.0, 0.0]]))
    return harold.system_norm(G, p=2)


@cases([1.0, 2.0, 3.0, 0.5])
def product_of_polynomials(x):
    return harold.haroldpolymul(x[:2], x[2:], np.array([1.0, x[0]]))
