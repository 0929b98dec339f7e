"""Scientific programs, each with an independent Jacobian: one table for every driver.

A Jacobian is a closed form, or the complex step of a vectorised version of the program, which is exact to
rounding and shares no code with the program under test.
"""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.special import erf, erfc

from helpers import complex_step


@dataclass(frozen=True)
class Scenario:
    """A program, a point, and the exact Jacobian at the point.

    `jacobian` maps x (and args) to an array of shape ``y.shape + x.shape``; `containers` marks programs whose
    argument or result is not a single array: their Jacobian is a container of blocks.
    """

    name: str
    f: Callable
    x: Any
    jacobian: Callable
    args: tuple = ()
    dtype: Any = np.float64
    writes_input: bool = False
    containers: bool = False

    def exact(self):
        return self.jacobian(self.x, *self.args)


def by_complex_step(twin):
    return lambda x, *args: complex_step(lambda z: twin(z, *args), x)


def points(*shape, seed=0, low=-1.0, high=1.0):
    return np.random.default_rng(seed).uniform(low, high, shape)


TABLE: list[Scenario] = []


def scenario(x, jacobian, **columns):
    """Register the decorated program in the table."""

    def enter(f):
        TABLE.append(Scenario(f.__name__.replace("_", " "), f, x, jacobian, **columns))
        return f

    return enter


# ---------------------------------------------------------------------------------- loops over elements


def rosenbrock_gradient(x):
    g = np.zeros_like(x)
    g[:-1] += -400 * x[:-1] * (x[1:] - x[:-1] ** 2) - 2 * (1 - x[:-1])
    g[1:] += 200 * (x[1:] - x[:-1] ** 2)
    return g


@scenario(points(7, seed=1), rosenbrock_gradient)
def rosenbrock_by_a_loop(x):
    total = 0.0
    for i in range(len(x) - 1):
        total += 100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2
    return total


@scenario(points(7, seed=1), rosenbrock_gradient)
def rosenbrock_by_slices(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


@scenario(points(7, seed=1), rosenbrock_gradient)
def rosenbrock_by_a_generator(x):
    return sum(100.0 * (b - a**2) ** 2 + (1 - a) ** 2 for a, b in zip(x[:-1], x[1:]))  # noqa: RUF007


def huber_gradient(x, delta):
    return np.where(np.abs(x) <= delta, x, delta * np.sign(x))


@scenario(np.array([-2.0, -0.3, 0.4, 1.7, 0.9]), huber_gradient, args=(1.0,))
def branches_on_elements(x, delta):
    total = 0.0
    for value in x:
        if abs(value) <= delta:
            total = total + 0.5 * value * value
        elif value > 0:
            total = total + delta * (value - 0.5 * delta)
        else:
            total = total - delta * (value + 0.5 * delta)
    return total


@scenario(np.array([0.4]), lambda x, n: np.array([np.cos(x[0])]), args=(12,))
def a_power_series_in_a_while_loop(x, n):
    term = total = x[0]
    k = 1
    while k < n:
        term = -term * x[0] * x[0] / ((2 * k) * (2 * k + 1))
        total = total + term
        k += 1
    return total


def newton_root(a):
    """Iterate Newton's method to convergence: the derivative is that of the square root."""
    y = 1.0 + 0.0 * a
    for _ in range(50):
        step = (y * y - a) / (2 * y)
        y = y - step
        if abs(step) < 1e-15:
            break
    return y


@scenario(np.array([2.0, 0.7, 9.0]), lambda x: np.diag(0.5 / np.sqrt(x)))
def newton_iterations_until_convergence(x):
    return [newton_root(a) for a in x]


# ------------------------------------------------------------------------------------------ assembly in place


def helmholtz_matrix(u, k, h):
    n = u.size
    J = np.diag(2 * u - 2 / h**2)
    J += np.diag(np.full(n - 1, 1 / h**2), 1) + np.diag(np.full(n - 1, 1 / h**2), -1)
    return J * k


@scenario(points(6, seed=2), helmholtz_matrix, args=(1.5, 0.25))
def residual_assembled_element_by_element(u, k, h):
    n = u.size
    F = np.zeros(n)
    for i in range(n):
        left = u[i - 1] if i > 0 else 0.0
        right = u[i + 1] if i < n - 1 else 0.0
        F[i] = (left - 2 * u[i] + right) / h**2 + u[i] ** 2
        F[i] *= k
    return F


@scenario(points(6, seed=2), helmholtz_matrix, args=(1.5, 0.25))
def stencil_added_in_place(u, k, h):
    F = np.empty_like(u)
    F[:] = -2 * u
    F[1:] += u[:-1]
    F[:-1] += u[1:]
    F /= h * h
    F += u**2
    F *= k
    return F


def bratu_matrix(x, lam, h):
    n, m = x.shape
    J = np.zeros((n, m, n, m))
    for i in range(n):
        for j in range(m):
            J[i, j, i, j] = -4 / h**2 + lam * np.exp(x[i, j])
            for p, q in ((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)):
                if 0 <= p < n and 0 <= q < m:
                    J[i, j, p, q] = 1 / h**2
    return J


@scenario(points(4, 3, seed=3), bratu_matrix, args=(2.0, 0.2))
def bratu_with_two_indices(x, lam, h):
    n, m = x.shape
    F = np.zeros((n, m))
    for i in range(n):
        for j in range(m):
            laplacian = -4 * x[i, j]
            if i > 0:
                laplacian += x[i - 1, j]
            if i < n - 1:
                laplacian += x[i + 1, j]
            if j > 0:
                laplacian += x[i, j - 1]
            if j < m - 1:
                laplacian += x[i, j + 1]
            F[i, j] = laplacian / h**2 + lam * np.exp(x[i, j])
    return F


@scenario(points(4, 3, seed=3), bratu_matrix, args=(2.0, 0.2))
def bratu_with_padding(x, lam, h):
    padded = np.zeros((x.shape[0] + 2, x.shape[1] + 2))
    padded[1:-1, 1:-1] = x
    around = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]
    return (around - 4 * x) / h**2 + lam * np.exp(x)


class Brusselator:
    """Steady state of reaction and diffusion in one dimension; a helper allocates its own buffer."""

    def __init__(self, n, a=1.0, b=3.0, diffusion=0.1):
        self.n, self.a, self.b, self.diffusion = n, a, b, diffusion
        self.calls = 0

    def laplacian(self, w, edge):
        out = np.zeros(self.n)
        for i in range(self.n):
            left = edge if i == 0 else w[i - 1]
            right = edge if i == self.n - 1 else w[i + 1]
            out[i] = left - 2 * w[i] + right
        return self.diffusion * (self.n + 1) ** 2 * out

    def residual(self, z):
        self.calls += 1
        u, v = z[: self.n], z[self.n :]
        return np.concatenate(
            [
                self.a + u * u * v - (self.b + 1) * u + self.laplacian(u, self.a),
                self.b * u - u * u * v + self.laplacian(v, self.b / self.a),
            ]
        )

    def matrix(self, z):
        n = self.n
        u, v = z[:n], z[n:]
        L = np.diag(np.full(n, -2.0)) + np.diag(np.ones(n - 1), 1) + np.diag(np.ones(n - 1), -1)
        L *= self.diffusion * (n + 1) ** 2
        return np.block(
            [
                [L + np.diag(2 * u * v - self.b - 1), np.diag(u * u)],
                [np.diag(self.b - 2 * u * v), L - np.diag(u * u)],
            ]
        )


BRUSSELATOR = Brusselator(5)
TABLE.append(
    Scenario(
        "method with a helper that makes a buffer",
        BRUSSELATOR.residual,
        points(10, seed=4, low=0.5, high=2.0),
        BRUSSELATOR.matrix,
    )
)


def cascade_twin(x):
    y = [x[0], x[1], x[2], x[3]]
    F = [y[0] * y[1], y[1] * y[2], y[2] * y[3], y[3] * y[0]]
    F = [2 * v for v in F]
    F[1] = F[1] + y[0]
    F[2] = F[2] + y[1]
    F = [F[0], F[0], F[1], F[2]]
    return np.array([F[0], F[1] * F[3], F[2], F[3] * y[0]])


@scenario(points(4, seed=5), by_complex_step(cascade_twin))
def scalars_slices_and_views_of_one_buffer(x):
    F = np.zeros(4)
    for i in range(4):
        F[i] = x[i] * x[(i + 1) % 4]
    F *= 2
    middle = F[1:3]
    middle += x[:2]
    F[1:] = F[:-1]
    middle[0] = middle[0] * F[3]
    F[-1] *= x[0]
    return F


@scenario(points(3, 4, seed=6), by_complex_step(lambda x: np.stack([x[2] * 3.0, x[1] - 3.0 * x[2], x[0]])))
def rows_swapped_and_scaled_in_place(x):
    a = x.copy()
    a[[0, 2]] = a[[2, 0]]
    a[0] *= 3.0
    a[1] -= a[0]
    return a


def elimination_twin(a):
    return np.linalg.solve(a[:, :3], a[:, 3])


@scenario(points(3, 4, seed=7) + 3 * np.eye(3, 4), by_complex_step(elimination_twin))
def gaussian_elimination_in_place(a):
    a = a.copy()
    n = a.shape[0]
    for k in range(n):
        p = k + int(np.argmax(abs(a[k:, k])))
        if p != k:
            a[[k, p]] = a[[p, k]]
        for i in range(k + 1, n):
            a[i, k:] -= a[i, k] / a[k, k] * a[k, k:]
    x = np.zeros(n)
    for i in range(n - 1, -1, -1):
        x[i] = (a[i, n] - a[i, i + 1 : n] @ x[i + 1 :]) / a[i, i]
    return x


@scenario(points(5, seed=8), by_complex_step(lambda x: 2 * x + 3 * x[0]), writes_input=True)
def argument_written_by_the_program(x):
    x *= 2
    x += 1.5 * x[0]
    return x


def euler_twin(x, h, steps):
    q, p = x[0], x[1]
    for _ in range(steps):
        p = p - h * np.sin(q)
        q = q + h * p
    return np.array([q, p])


@scenario(np.array([0.5, -0.2]), by_complex_step(euler_twin), args=(0.1, 20))
def time_stepping_that_overwrites_its_state(x, h, steps):
    state = np.array(x)
    for _ in range(steps):
        state[1] -= h * np.sin(state[0])
        state[0] += h * state[1]
    return state


def runge_kutta_twin(x, h, steps):
    def rhs(y):
        return np.stack([y[1], (1 - y[0] ** 2) * y[1] - y[0]])

    for _ in range(steps):
        k1 = rhs(x)
        k2 = rhs(x + h / 2 * k1)
        k3 = rhs(x + h / 2 * k2)
        k4 = rhs(x + h * k3)
        x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return x


def van_der_pol(t, y):
    dy = np.zeros(2)
    dy[0] = y[1]
    dy[1] = (1 - y[0] ** 2) * y[1] - y[0]
    return dy


@scenario(np.array([2.0, 0.1]), by_complex_step(runge_kutta_twin), args=(0.05, 8))
def runge_kutta_with_a_trajectory(x, h, steps):
    path = np.empty((steps + 1, 2))
    path[0] = x
    for n in range(steps):
        y, t = path[n], n * h
        k1 = van_der_pol(t, y)
        k2 = van_der_pol(t + h / 2, y + h / 2 * k1)
        k3 = van_der_pol(t + h / 2, y + h / 2 * k2)
        k4 = van_der_pol(t + h, y + h * k3)
        path[n + 1] = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return path[-1]


# ------------------------------------------------------------------------------------------ kinetics


def robertson_matrix(y):
    _, b, c = y
    return np.array([[-0.04, 1e4 * c, 1e4 * b], [0.04, -1e4 * c - 6e7 * b, -1e4 * b], [0.0, 6e7 * b, 0.0]])


@scenario(np.array([0.9, 2e-5, 0.1]), robertson_matrix)
def robertson_unpacked(y):
    a, b, c = y
    r1, r2, r3 = 0.04 * a, 1e4 * b * c, 3e7 * b**2
    return np.array([-r1 + r2, r1 - r2 - r3, r3])


@scenario(np.array([0.9, 2e-5, 0.1]), robertson_matrix)
def robertson_as_a_list(y):
    r1, r2, r3 = 0.04 * y[0], 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
    return [-r1 + r2, r1 - r2 - r3, r3]


#: reactions of a network of 20 species: rate, consumed, produced
REACTIONS = [
    (0.3 + 0.1 * i, ((3 * i) % 20, (7 * i + 1) % 20), ((5 * i + 2) % 20, (11 * i + 3) % 20))
    for i in range(25)
]


def network_matrix(y):
    J = np.zeros((20, 20))
    for k, (a, b), products in REACTIONS:
        row = np.zeros(20)
        row[a] += k * y[b]
        row[b] += k * y[a]
        for i in (a, b):
            J[i] -= row
        for i in products:
            J[i] += row
    return J


@scenario(points(20, seed=9, low=0.1, high=1.0), network_matrix)
def twenty_species_scalar_by_scalar(y):
    rates = []
    for k, (a, b), _ in REACTIONS:
        rates.append(k * y[a] * y[b])
    dy = [0.0] * 20
    for r, (_, consumed, produced) in zip(rates, REACTIONS):
        for i in consumed:
            dy[i] = dy[i] - r
        for i in produced:
            dy[i] = dy[i] + r
    return dy


ARRHENIUS = (8.314, np.array([1e3, 5e2, 2e3]), np.array([5e3, 4e3, 6e3]))


def arrhenius_twin(x):
    gas, factors, energies = ARRHENIUS
    k = factors * np.exp(-energies / (gas * x[3]))
    return np.stack(
        [-k[0] * x[0], k[0] * x[0] - k[1] * x[1] ** 2, k[1] * x[1] ** 2 - k[2] * x[2], 0.1 * k[0] * x[0]]
    )


@scenario(np.array([1.0, 0.4, 0.2, 350.0]), by_complex_step(arrhenius_twin))
def rates_from_a_helper_and_global_constants(x):
    gas, factors, energies = ARRHENIUS

    def rate(i):
        return factors[i] * np.exp(-energies[i] / (gas * x[3]))

    out = np.zeros_like(x)
    out[0] = -rate(0) * x[0]
    out[1] = -out[0] - rate(1) * x[1] ** 2
    out[2] = rate(1) * x[1] ** 2 - rate(2) * x[2]
    out[3] = -0.1 * out[0]
    return out


# ---------------------------------------------------------------------------------- statistics and learning

DATA = points(9, 3, seed=10)
LABELS = (points(9, seed=11) > 0).astype(float)
TARGETS = points(9, 2, seed=12)


@scenario(points(3, seed=13), lambda w: DATA.T @ (1 / (1 + np.exp(-DATA @ w)) - LABELS) / 9)
def logistic_regression(w):
    z = DATA @ w
    return np.mean(np.logaddexp(0, z) - LABELS * z)


def softmax_jacobian(x):
    p = np.exp(x - x.max())
    p /= p.sum()
    return np.diag(p) - np.outer(p, p)


@scenario(points(5, seed=14, high=4.0), softmax_jacobian)
def softmax_shifted_by_its_maximum(x):
    e = np.exp(x - np.max(x))
    return e / e.sum()


def network_loss(x):
    """A tanh network with all weights in one vector, unpacked by reshape."""
    w1, b1, w2, b2 = x[:12].reshape(3, 4), x[12:16], x[16:24].reshape(4, 2), x[24:26]
    hidden = np.tanh(DATA @ w1 + b1)
    return np.mean((hidden @ w2 + b2 - TARGETS) ** 2)


TABLE.append(
    Scenario("mlp with packed weights", network_loss, points(26, seed=15), by_complex_step(network_loss))
)

Layer = namedtuple("Layer", "weights bias")


def mlp_blocks(layers):
    flat = np.concatenate([np.ravel(part) for layer in layers for part in layer])
    g = complex_step(network_loss, flat)
    return [Layer(g[:12].reshape(3, 4), g[12:16]), Layer(g[16:24].reshape(4, 2), g[24:26])]


MLP = points(26, seed=15)


@scenario(
    [Layer(MLP[:12].reshape(3, 4), MLP[12:16]), Layer(MLP[16:24].reshape(4, 2), MLP[24:26])],
    mlp_blocks,
    containers=True,
)
def mlp_with_layers_in_a_list(layers):
    y = DATA
    for i, layer in enumerate(layers):
        y = y @ layer.weights + layer.bias
        if i < len(layers) - 1:
            y = np.tanh(y)
    return np.mean((y - TARGETS) ** 2)


@dataclass
class Parameters:
    rate: float
    weights: np.ndarray


@scenario(
    Parameters(0.7, np.array([1.0, 2.0, 3.0])),
    lambda p: Parameters(np.float64(np.sum(p.weights**2)), 2 * p.rate * p.weights),
    containers=True,
)
def parameters_in_a_dataclass(p):
    return p.rate * np.sum(p.weights**2)


@scenario(
    {"a": np.array([1.0, 2.0]), "b": 3.0},
    lambda p: {
        "product": {"a": p["b"] * np.eye(2), "b": p["a"]},
        "ratio": {"a": np.array([1 / p["b"], 0.0]), "b": np.float64(-p["a"][0] / p["b"] ** 2)},
    },
    containers=True,
)
def dict_in_and_dict_out(p):
    return {"product": p["a"] * p["b"], "ratio": p["a"][0] / p["b"]}


@scenario(
    SimpleNamespace(k=2.0, x=np.array([0.5, 1.5])),
    lambda p: SimpleNamespace(k=np.float64(np.sum(np.sin(p.x))), x=p.k * np.cos(p.x)),
    containers=True,
)
def parameters_in_a_namespace(p):
    return p.k * np.sum(np.sin(p.x))


def gaussian_twin(x):
    mean, log_scale = x[0], x[1]
    z = (DATA[:, 0] - mean) * np.exp(-log_scale)
    return 0.5 * np.sum(z * z) + 9 * log_scale


@scenario(np.array([0.1, -0.4]), by_complex_step(gaussian_twin))
def negative_log_likelihood(x):
    mean, scale = x[0], np.exp(x[1])
    return -sum(-0.5 * ((d - mean) / scale) ** 2 - np.log(scale) for d in DATA[:, 0])


def standardised_twin(x):
    centred = x - x.sum(axis=0) / x.shape[0]
    return centred / np.sqrt((centred * centred).sum(axis=0) / (x.shape[0] - 1))


@scenario(points(4, 3, seed=16), by_complex_step(standardised_twin))
def columns_standardised(x):
    return (x - x.mean(axis=0)) / x.std(axis=0, ddof=1)


# ------------------------------------------------------------------------------------------ linear algebra


@scenario(points(3, 3, seed=17), by_complex_step(lambda a: a @ a.T @ DATA.T[:, :2]))
def a_chain_of_products(a):
    return a @ a.T @ DATA.T[:, :2]


@scenario(points(3, 3, seed=18) + 3 * np.eye(3), by_complex_step(lambda a: np.linalg.solve(a, DATA[0])))
def a_linear_solve_in_its_matrix(a):
    return np.linalg.solve(a, DATA[0])


@scenario(points(3, 3, seed=18) + 3 * np.eye(3), lambda a: np.linalg.inv(a).T * np.linalg.det(a))
def a_determinant(a):
    return np.linalg.det(a)


@scenario(
    points(3, 3, seed=18) + 3 * np.eye(3),
    lambda a: -np.einsum("im,nj->ijmn", np.linalg.inv(a), np.linalg.inv(a)),
)
def an_inverse(a):
    return np.linalg.inv(a)


@scenario(
    points(2, 3, seed=19), by_complex_step(lambda x: np.einsum("ij,kj,k->i", x, x, np.array([1.0, -2.0])))
)
def einsum_of_an_operand_with_itself(x):
    return np.einsum("ij,kj,k->i", x, x, np.array([1.0, -2.0]))


@scenario(np.array([3.0, 4.0]), lambda x: np.array([0.6, 0.8]))
def a_norm(x):
    return np.linalg.norm(x)


# ---------------------------------------------------------------------------------- selection and shapes


@scenario(
    np.array([-1.0, 0.0, 4.0]), lambda x: np.diag(np.where(x > 0, 0.5 / np.sqrt(np.maximum(x, 1e-9)), 0.0))
)
def where_with_a_dead_branch_of_infinite_slope(x):
    with np.errstate(invalid="ignore"):
        return np.where(x > 0, np.sqrt(x), 0.0)


@scenario(np.array([0.0, 1.0, 2.0]), lambda x: np.array([0.0, 1.0, 1 + np.log(2.0)]))
def entropy_with_a_zero(x):
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sum(np.where(x == 0, 0.0, x * np.log(x)))


@scenario(np.array([0.5, 0.0, 2.0, 3.0]), lambda x: np.array([0.0, 3.0, 0.0, 0.0]))
def a_product_with_a_zero(x):
    return np.prod(x)


@scenario(
    points(4, seed=20, low=0.5, high=1.5),
    by_complex_step(
        lambda x: np.cumsum(x)[-1] * np.array([x[0], x[0] * x[1], x[0] * x[1] * x[2], np.prod(x)])
    ),
)
def running_sums_and_products(x):
    return np.cumsum(x)[-1] * np.cumprod(x)


@scenario(points(4, 3, seed=21), lambda x: 2 * np.where(x == x.max(axis=1, keepdims=True), x, 0))
def maximum_of_each_row(x):
    return np.sum(x.max(axis=1) ** 2)


@scenario(
    points(5, seed=22),
    lambda x: np.array(
        [[0, 0, 0, 0, 2 * x[4]], [2 * x[0], 0, 0, 0, 0], [0, 0, 0, 0, 2 * x[4]], [0, 2 * x[1], 0, 0, 0]]
    ),
)
def picked_by_repeated_indices(x):
    return x[[4, 0, -1, 1]] ** 2


@scenario(np.array([-1.0, 2.0, -3.0, 4.0]), lambda x: np.array([0.0, 3 * 4.0, 0.0, 3 * 16.0]))
def picked_by_a_mask(x):
    return np.sum(x[x > 0] ** 3)


@scenario(
    points(4, 3, seed=23),
    by_complex_step(lambda x: np.stack([x[0] * x[0].sum(), x[1], x[2] * x[2].sum(), -x[3]])),
)
def rows_written_by_a_mask_and_by_a_list(x):
    out = np.array(x)
    mask = np.array([True, False, True, False])
    out[mask] = x[mask] * x[mask].sum(axis=1)[:, None]
    out[[3]] *= -1
    return out


@scenario(
    points(2, 1, 3, seed=24),
    by_complex_step(lambda x: (x + x.reshape(2, 3)[:, :, None] * DATA[:3, :]).sum(axis=(0, 2))),
)
def broadcasting_over_three_axes(x):
    return (x + x.reshape(2, 3)[:, :, np.newaxis] * DATA[:3, :]).sum(axis=(0, 2))


@scenario(
    points(3, 4, seed=25), by_complex_step(lambda x: np.concatenate([x.T.ravel()[::-2], x[1, ::-1] * x[0]]))
)
def transposed_reversed_and_strided_views(x):
    t = x.T
    backwards = t.ravel()[::-1]
    return np.concatenate([backwards[::2], x[1, ::-1] * x[0]])


@scenario(
    points(6, seed=26),
    by_complex_step(
        lambda x: np.stack([np.roll(x, 1) - x, np.concatenate([np.diff(x), [0.0]]), x[::-1] ** 2], axis=1)
    ),
)
def rolled_differenced_and_stacked(x):
    return np.column_stack([np.roll(x, 1) - x, np.append(np.diff(x), 0.0), np.flip(x) ** 2])


# ---------------------------------------------------------------------------------- a fixed measure


def forty_operations_vectorised(x):
    a, b, c, d, e, g = x
    r = (a**2 + b**2) ** 0.5
    s = np.sin(r) * (np.cos(c) * np.cos(b) + np.sin(c) * np.sin(b))
    p = np.exp(-(d**2) / (1 + e**2))
    q = 1 - erfc((g - a) / r)
    u = (1 + q**2) ** 0.5 * np.exp(-(c**2) / 2)
    return u * s - q * np.log(1 + p**2 + s**2) + np.log(2.5 - np.cos(2 * e * g) / 2) * p - r


@scenario(np.array([0.5, 0.6, 0.7, 0.8, 0.9, 1.1]), by_complex_step(forty_operations_vectorised))
def forty_operations_on_six_numbers(x):
    a, b, c, d, e, g = x
    r = np.sqrt(a * a + b * b)
    s = np.sin(r) * np.cos(c - b)
    p = np.exp(-d * d / (1.0 + e * e))
    q = erf((g - a) / r)
    t = np.log(1.0 + p * p + s * s)
    u = np.sqrt(1.0 + q * q) * np.exp(-0.5 * c * c)
    w = np.sin(e * g)
    z = np.log(2.0 + w * w) * p
    return u * s - t * q + z - r


# ---------------------------------------------------------------------------------- closures and classes


def make_model(scale):
    offsets = np.array([0.5, -0.5, 1.0])
    calls = []

    def shifted(x):
        return scale * (x - offsets)

    def model(x):
        calls.append(1)
        y = shifted(x)
        out = np.ones(3)
        out[:2] = y[1:] * y[:-1]
        out[2] = y @ y
        return out

    return model


TABLE.append(
    Scenario(
        "a closure over numbers, arrays and functions",
        make_model(1.5),
        points(3, seed=27),
        by_complex_step(
            lambda x: (lambda y: np.stack([y[1] * y[0], y[2] * y[1], y @ y]))(
                1.5 * (x - np.array([0.5, -0.5, 1.0]))
            )
        ),
    )
)


class Accumulator:
    """A callable object that stores its results."""

    def __init__(self):
        self.history = []
        self.buffer = None

    def __call__(self, x):
        self.buffer = np.zeros(3)
        self.store(x)
        self.history.append(len(self.history))
        return self.buffer * 2

    def store(self, x):
        view = self.buffer[::-1]
        view[:] = x * x[0]


TABLE.append(
    Scenario(
        "a callable object that keeps its buffer",
        Accumulator(),
        points(3, seed=28),
        by_complex_step(lambda x: 2 * (x * x[0])[::-1]),
    )
)


def polynomial(x, *coefficients, scale):
    total = np.zeros(x.shape)
    for c in reversed(coefficients):
        total = total * x + c
    return scale * total


TABLE.append(
    Scenario(
        "functools partial of a function with keywords",
        functools.partial(polynomial, scale=2.0),
        points(4, seed=29),
        lambda x, *c: np.diag(2 * (c[1] + 2 * c[2] * x)),
        args=(1.0, -0.5, 0.25),
    )
)
TABLE.append(
    Scenario(
        "a lambda",
        lambda x: np.sin(x[0]) * np.array([x[1], 1.0]),
        np.array([0.3, 2.0]),
        lambda x: np.array([[np.cos(x[0]) * x[1], np.sin(x[0])], [np.cos(x[0]), 0.0]]),
    )
)
TABLE.append(Scenario("a ufunc itself", np.tanh, points(3, seed=30), lambda x: np.diag(1 / np.cosh(x) ** 2)))


def recursive(x):
    if x.size == 1:
        return x[0]
    half = x.size // 2
    return recursive(x[:half]) * recursive(x[half:])


TABLE.append(Scenario("recursion over halves", recursive, points(5, seed=31), lambda x: np.prod(x) / x))

# ---------------------------------------------------------------------------------- scalars and dtypes


@scenario(1.3, lambda x: np.float64(np.cos(x) * x**2 + 2 * x * np.sin(x)))
def a_number_to_a_number(x):
    return np.sin(x) * x**2


@scenario(0.7, lambda x: np.array([1.0, 2 * x, 3 * x**2]))
def a_number_to_an_array(x):
    return np.array([x, x * x, x**3])


@scenario(np.array(0.7), lambda x: np.float64(3 * x**2))
def an_array_of_no_axes(x):
    return x**3


@scenario([1, 2, 3], lambda x: np.diag(2.0 * np.array(x)))
def integers_in_a_list(x):
    return x**2


@scenario([[1.0, 2.0], [3.0, 4.0]], lambda x: np.array([[4.0, 3.0], [2.0, 1.0]]))
def a_nested_list(x):
    return x[0, 0] * x[1, 1] + x[0, 1] * x[1, 0]


SINGLE = points(4, seed=32).astype(np.float32)


@scenario(SINGLE, lambda x: np.diag(np.exp(x) * (1 + x) / 3), dtype=np.float32)
def single_precision_throughout(x):
    return np.exp(x) * x / 3


@scenario(SINGLE, lambda x: np.array([2 * x[0] * x[1], x[0] ** 2, 0, 0]), dtype=np.float32)
def single_precision_element_by_element(x):
    total = x[0] * 0
    for i in range(1):
        total = total + x[i] * x[i] * x[i + 1]
    return total


@scenario(SINGLE, lambda x: np.diag(2 * np.asarray(x, float)), dtype=np.float32)
def single_precision_stored_into_a_buffer(x):
    F = np.zeros(4, dtype=np.float32)
    for i in range(4):
        F[i] = x[i] ** 2
    return F


@scenario(
    (np.array([1.0, 2.0]), 0.5),
    lambda p: [(2.0 * p[1] * np.eye(2), 2.0 * p[0]), (np.array([1.0, 0.0]), np.float64(1.0))],
    containers=True,
)
def a_pair_in_and_a_list_of_unlike_parts_out(p):
    a, b = p
    return [2 * a * b, a[0] + b]
