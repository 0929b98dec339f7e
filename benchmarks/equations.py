"""Equations that are differentiated through a SciPy solver, with hand-written derivatives."""

import numpy as np
from scipy.optimize import root


class Root:
    """Roots of n tridiagonal equations (Broyden's), as a function of three constants in them."""

    def __init__(self, n):
        self.n = n
        self.zero = np.zeros(1)
        self.start = np.array([0.1, 1.0, 1.0])

    def residual(self, x, p):
        left, right = np.concatenate([self.zero, x[:-1]]), np.concatenate([x[1:], self.zero])
        return (3.0 + p[0] - 2.0 * p[1] * x) * x - left - 2.0 * right + p[2]

    def loss(self, p):
        return root(self.residual, -np.ones(self.n), args=(p,), tol=1e-12).x

    def slopes(self, x, p):
        """Return the Jacobians of the residual in x and in p."""
        in_x = np.diag(3.0 + p[0] - 4.0 * p[1] * x) - np.eye(self.n, k=-1) - 2.0 * np.eye(self.n, k=1)
        return in_x, np.stack([x, -2.0 * x * x, np.ones(self.n)], axis=1)

    def jacobian(self, p):
        in_x, in_p = self.slopes(self.loss(p), p)
        return -np.linalg.solve(in_x, in_p)
