"""Derivatives by an installed wengert, against closed form: an eager gradient, a compiled Jacobian, a sparse one."""

import numpy as np

import wengert as wg

x = np.linspace(0.5, 1.5, 7)


def energy(x):
    return np.sum(np.exp(x) * x[::-1])


def residual(x):
    F = np.zeros(x.size)
    for i in range(x.size):
        F[i] = x[i] ** 3 - np.sin(x[i - 1])
    return F


def shifted(x):
    return x[1:] * x[:-1]


exact = np.diag(3 * x**2) - np.roll(np.diag(np.cos(np.roll(x, 1))), -1, axis=1)
np.testing.assert_allclose(wg.grad(energy)(x), np.exp(x) * x[::-1] + np.exp(x[::-1]), rtol=1e-14)
np.testing.assert_allclose(wg.jacobian(wg.compile(residual))(x), exact, rtol=1e-14, atol=0)

pattern = wg.jacobian(shifted, sparse=True)(x)
assert pattern.nnz == 12
np.testing.assert_allclose(pattern.toarray(), np.eye(6, 7) * x[1:, None] + np.eye(6, 7, 1) * x[:-1, None], rtol=1e-14)
print(f"wengert {wg.__version__} from {wg.__path__[0]}: derivatives agree with closed form")
