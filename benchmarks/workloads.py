"""The functions that are differentiated, in NumPy as scientists write it, and their derivatives by hand.

A function here knows nothing of derivatives.  Each reference is a closed form or a complex step and is what
a derivative is checked against before it is timed.
"""

import numpy as np

# ------------------------------------------------------------------------------------------ loops and slices


def rosenbrock_loop(x):
    total = 0.0
    for i in range(len(x) - 1):
        total = total + 100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2
    return total


def rosenbrock_sliced(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def rosenbrock_gradient(x):
    inner = x[1:] - x[:-1] ** 2
    gradient = np.zeros_like(x)
    gradient[:-1] = -400.0 * inner * x[:-1] - 2.0 * (1 - x[:-1])
    gradient[1:] += 200.0 * inner
    return gradient


def assembly(x):
    n = len(x)
    F = np.zeros(n)
    for i in range(1, n - 1):
        F[i] = x[i] ** 2 - x[i - 1] * x[i + 1]
    return np.sum(F**2)


def assembly_gradient(x):
    F = x[1:-1] ** 2 - x[:-2] * x[2:]
    gradient = np.zeros_like(x)
    gradient[1:-1] += 4.0 * F * x[1:-1]
    gradient[:-2] -= 2.0 * F * x[2:]
    gradient[2:] -= 2.0 * F * x[:-2]
    return gradient


def points(n):
    """A start point of the functions above."""
    return 1.0 + 0.5 * np.sin(np.arange(n))


# -------------------------------------------------------------------------------------------------- kinetics


def robertson(y):
    """Robertson's three reactions, as the right-hand side of a stiff system."""
    a, b, c = y
    return np.array([-0.04 * a + 1e4 * b * c, 0.04 * a - 1e4 * b * c - 3e7 * b * b, 3e7 * b * b])


ROBERTSON_START = np.array([0.9, 1e-5, 0.1])


def pollu(y):
    """Air pollution, 20 species and 25 reactions (Verwer 1994, doi:10.1137/0915076)."""
    r = [
        0.35 * y[0],
        26.6 * y[1] * y[3],
        1.23e4 * y[4] * y[1],
        8.6e-4 * y[6],
        8.2e-4 * y[6],
        1.5e4 * y[6] * y[5],
        1.3e-4 * y[8],
        2.4e4 * y[8] * y[5],
        1.65e4 * y[10] * y[1],
        9.0e3 * y[10] * y[0],
        2.2e-2 * y[12],
        1.2e4 * y[9] * y[1],
        1.88 * y[13],
        1.63e4 * y[0] * y[5],
        4.8e6 * y[2],
        3.5e-4 * y[3],
        1.75e-2 * y[3],
        1.0e8 * y[15],
        4.44e11 * y[15],
        1.24e3 * y[16] * y[5],
        2.1 * y[18],
        5.78 * y[18],
        4.74e-2 * y[0] * y[3],
        1.78e3 * y[18] * y[0],
        3.12 * y[19],
    ]
    return [
        -r[0] - r[9] - r[13] - r[22] - r[23] + r[1] + r[2] + r[8] + r[10] + r[11] + r[21] + r[24],
        -r[1] - r[2] - r[8] - r[11] + r[0] + r[20],
        -r[14] + r[0] + r[16] + r[18] + r[21],
        -r[1] - r[15] - r[16] - r[22] + r[14],
        -r[2] + r[3] + r[3] + r[5] + r[6] + r[12] + r[19],
        -r[5] - r[7] - r[13] - r[19] + r[2] + r[17] + r[17],
        -r[3] - r[4] - r[5] + r[12],
        r[3] + r[4] + r[5] + r[6],
        -r[6] - r[7],
        -r[11] + r[6] + r[8],
        -r[8] - r[9] + r[7] + r[10],
        r[8],
        -r[10] + r[9],
        -r[12] + r[11],
        r[13],
        -r[17] - r[18] + r[15],
        -r[19],
        r[19],
        -r[20] - r[21] - r[23] + r[22] + r[24],
        -r[24] + r[23],
    ]


POLLU_START = np.linspace(0.02, 0.4, 20)


def pair(x):
    """A function of two variables with two values."""
    return np.array([x[0] ** 2 * x[1], 5 * x[0] + np.sin(x[1])])


PAIR_START = np.array([0.3, 0.7])


def start(name, n):
    """Point of the function `name`, with n variables where it takes any number."""
    return {"robertson": ROBERTSON_START, "pollu": POLLU_START, "pair": PAIR_START}.get(name, points(n))


# ------------------------------------------------------------------------------------------- neural network


class MLP:
    """Mean squared error of two tanh layers over a batch of 128, as a function of all weights."""

    # weights: inputs, width of the two layers
    shapes = {10_000: (40, 81), 100_000: (200, 231)}

    def __init__(self, weights, seed=0):
        rng = np.random.default_rng(seed)
        self.n, self.h = self.shapes[weights]
        self.X = rng.normal(size=(128, self.n))
        self.Y = rng.normal(size=(128, 1))
        self.start = 0.1 * rng.normal(size=sum(self.sizes()))

    def sizes(self):
        n, h = self.n, self.h
        return n * h, h, h * h, h, h

    def parts(self, w):
        n, h = self.n, self.h
        W1, b1, W2, b2, W3 = np.split(w, np.cumsum(self.sizes())[:-1])
        return W1.reshape(n, h), b1, W2.reshape(h, h), b2, W3.reshape(h, 1)

    def loss(self, w):
        W1, b1, W2, b2, W3 = self.parts(w)
        a = np.tanh(self.X @ W1 + b1)
        b = np.tanh(a @ W2 + b2)
        return np.mean((b @ W3 - self.Y) ** 2)

    def gradient(self, w):
        W1, b1, W2, b2, W3 = self.parts(w)
        a = np.tanh(self.X @ W1 + b1)
        b = np.tanh(a @ W2 + b2)
        error = (b @ W3 - self.Y) * (2.0 / len(self.Y))
        db = (error @ W3.T) * (1.0 - b * b)
        da = (db @ W2.T) * (1.0 - a * a)
        parts = (self.X.T @ da, da.sum(axis=0), a.T @ db, db.sum(axis=0), b.T @ error)
        return np.concatenate([part.ravel() for part in parts])


# ------------------------------------------------------------------------------- single operations, repeated


# A factor so near to 1 that adjoints of long loops neither overflow nor become subnormal.
SCALARS = np.array([0.99999, 1e-3])


def scalar_ops(n):
    """n operations on traced scalars, half of them products."""

    def f(x):
        a, b = x
        s = b
        for _ in range(n // 2):
            s = s * a + b
        return s

    return f


def array_ops(n):
    """n operations on arrays of the length of x, half of them products."""

    def f(x):
        y = x
        for _ in range(n // 2):
            y = y * x + x
        return np.sum(y)

    return f


def array_ops_gradient(n, x):
    y, dy = x, np.ones_like(x)
    for _ in range(n // 2):
        y, dy = y * x + x, dy * x + y + 1.0
    return dy


def sines(n):
    """The sine of one scalar, n times."""

    def f(x):
        y = x
        for _ in range(n):
            y = np.sin(x)
        return y

    return f


# ------------------------------------------------------------------------------------------------ references


def complex_step(f, x, h=1e-30):
    """Jacobian of f by complex steps, exact to rounding for the analytic functions above."""
    columns = []
    for i in range(x.size):
        z = x.astype(complex)
        z[i] += 1j * h
        columns.append(np.imag(f(z)) / h)
    return np.stack(columns, axis=-1)


def check(found, expected, rtol=1e-10):
    """Refuse to time a wrong derivative: rtol is relative to the largest element."""
    expected = np.asarray(expected)
    if np.shape(found) != expected.shape:
        raise AssertionError(f"derivative of shape {np.shape(found)}, expected {expected.shape}")
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * np.max(np.abs(expected)))
