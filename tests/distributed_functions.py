"""Summands and loaders that worker processes import."""

import functools
import os
import signal
import time

import numpy as np
from scipy import linalg, optimize
from scipy.integrate import solve_ivp
from scipy.special import logsumexp, xlogy


def logistic(theta, chunk):
    x, y = chunk
    z = x @ theta
    return np.sum(np.logaddexp(0.0, z) - y * z)


def features(theta, chunk):
    x, y = chunk
    return np.tanh(x[:3] @ theta) * np.sum(theta**2) + np.sum(y)


def by_element(theta, chunk):
    """A summand with a Python loop and a branch that differs between chunks."""
    x, y = chunk
    total = 0.0
    for i in range(0, len(y), 7):
        r = np.exp(-theta[0] * x[i, 0]) - theta[1]
        total = total + (r * r if x[i, 1] > 0 else np.sin(r) + theta[2])
    return total


def likelihood(theta, chunk):
    """A summand with parameters and results in containers."""
    x, y = chunk
    mean = x @ theta["weights"] + theta["offset"]
    return {"fit": np.sum((y - mean) ** 2), "shrunk": xlogy(2.0, theta["weights"] ** 2) / len(y)}


def array_valued(theta, chunk):
    return np.outer(theta, theta) * np.sum(chunk[1])


def fails_late(theta, chunk):
    if chunk == 5:
        raise ValueError("no data")
    return theta * chunk


class Unpicklable(Exception):
    def __init__(self, one, other):
        super().__init__(f"{one} {other}")


def fails_with_an_error_that_does_not_pickle(theta, chunk):
    raise Unpicklable("a", "b")


def other_shape(theta, chunk):
    return theta[: 1 + (chunk == 3)] * 2.0


def slow(theta, chunk):
    """Sleep, after writing a file if the chunk has a path for it."""
    if isinstance(chunk, dict):
        with open(chunk["started"], "w"):
            pass
    time.sleep(120.0)
    return theta


def dies_once(theta, chunk):
    """Kills its worker at one chunk, unless a file says that this has happened."""
    number, path = chunk
    if number == 3 and not os.path.exists(path):
        with open(path, "w"):
            pass
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
    return np.sin(theta * number)


def dies(theta, chunk):
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))


def generated(theta, seed):
    """A summand that generates its data."""
    x = np.random.default_rng(seed).normal(size=(200, theta.size))
    return np.sum(np.logaddexp(0.0, x @ theta))


class Generated:
    """A chunk that is generated in the worker."""

    def __init__(self, seed, rows=200):
        self.seed, self.rows = seed, rows

    def __call__(self):
        random = np.random.default_rng(self.seed)
        x = random.normal(size=(self.rows, 5))
        return x, (random.random(self.rows) < 0.5).astype(float)


def doubles_its_chunk(theta, chunk):
    chunk *= 2.0
    return np.sum(theta * chunk)


def copied_when_called(x):
    return x.copy()


def scaled(f, theta, chunk):
    return chunk * f(theta)


def of_columns(theta, table):
    return logistic(theta, (np.stack([table[f"x{i}"] for i in range(5)], axis=1), table["y"]))


def column_sum(theta, x):
    return np.sum(x @ theta)


def of_names(theta, group):
    return logistic(theta, (group["x"], group["y"]))


class Stored:
    """An array that is stored in pieces, as by zarr: its parts are read by indexing."""

    def __init__(self, x):
        self._x, self.shape, self.dtype, self.chunks = x, x.shape, x.dtype, (7, 5)
        self.is_unread = True

    def __getitem__(self, index):
        self.is_unread = False
        return self._x[index]

    def __reduce__(self):
        return Stored, (self._x,)


def rosenbrock(theta, scale):
    return optimize.rosen(theta) * scale


def matrices(theta, scale):
    return logsumexp(theta * scale) + linalg.norm(linalg.expm(np.outer(theta, theta)))


def decay(theta, scale):
    found = solve_ivp(lambda t, y: -theta[0] * y + theta[1], (0.0, scale), [1.0], rtol=1e-10, atol=1e-12)
    return found.y[0, -1] ** 2


class Model:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, theta, scale):
        return self.factor * matrices(theta, scale)

    def method(self, theta, scale):
        return self.factor * rosenbrock(theta, scale)


#: summands that call plain functions of SciPy
FOLLOWED = [rosenbrock, matrices, decay, Model(2.0), Model(3.0).method, functools.partial(scaled, optimize.rosen)]


def process_of(theta, chunk):
    """The number of the process, which shows where a summand is computed."""
    time.sleep(0.01)
    return np.eye(2)[chunk % 2] * os.getpid() + 0.0 * theta[0]


MATRIX = np.random.default_rng(5).normal(size=(150, 150)) / 50


def wide(x):
    """A function of many variables."""
    return np.tanh(MATRIX[:, : x.size] @ x) + np.sin(MATRIX[:, 0])


def slow_and_wide(x):
    time.sleep(0.005)
    return wide(x)


def curved(x):
    return np.sum(wide(x) ** 2)


def in_two_axes(x):
    return np.outer(np.sin(x[:3, 0]), x[:, 1])


def start_dependent(x, scale):
    """A function that branches on its argument, so that a batch is a loop."""
    time.sleep(0.002)
    return {"y": scale * x if np.sum(x) > 0 else x[::-1], "n": np.sum(x**2)}


def banded(x, width):
    """Each result depends on the next `width` elements, cyclically."""
    y = x
    for k in range(1, width):
        y = y + np.sin(np.roll(x, k)) * x
    return y


def switched(x):
    """A sum over pairs of neighbours at distances up to 6, in one of two forms."""
    total = 0.0
    for k in range(1, 7):
        pairs = x[k:] * x[:-k]
        total = total + (np.sum(np.exp(0.1 * pairs)) if x[0] > 0.0 or x[-1] > 2.0 else np.sum(np.cos(pairs)))
    return total
