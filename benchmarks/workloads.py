"""The differentiated functions in plain NumPy, and their reference derivatives.

The functions contain no code for differentiation.  Each reference is a closed form or a complex step, against which
a derivative is checked before it is timed.
"""

import math

import numpy as np
from scipy.special import erf

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
    """Return a starting point for the functions above."""
    return 1.0 + 0.5 * np.sin(np.arange(n))


# -------------------------------------------------------------------------------------------------- kinetics


def robertson(y):
    """Return the right-hand side of Robertson's three reactions, a stiff system."""
    a, b, c = y
    return np.array([-0.04 * a + 1e4 * b * c, 0.04 * a - 1e4 * b * c - 3e7 * b * b, 3e7 * b * b])


ROBERTSON_START = np.array([0.9, 1e-5, 0.1])


def pollu(y, factors=None):
    """Air pollution, 20 species and 25 reactions (Verwer 1994, doi:10.1137/0915076), whose rates may have factors."""
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
    r = r if factors is None else [factor * rate for factor, rate in zip(factors, r)]
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
    """Return two values of two variables."""
    return np.array([x[0] ** 2 * x[1], 5 * x[0] + np.sin(x[1])])


PAIR_START = np.array([0.3, 0.7])


def start(name, n):
    """Return a point of the function `name`, with n variables if the number is free."""
    return {"robertson": ROBERTSON_START, "pollu": POLLU_START, "pair": PAIR_START}.get(name, points(n))


# ------------------------------------------------------------------------------------------- neural network


class MLP:
    """Mean squared error of two tanh layers over a batch of 128, as a function of all weights."""

    # inputs and the widths of the two layers
    shapes = {10_000: (40, 81), 100_000: (200, 231)}

    def __init__(self, weights, seed=0):
        rng = np.random.default_rng(seed)
        self.n, self.h = self.shapes[weights]
        self.X = rng.normal(size=(128, self.n))
        self.Y = rng.normal(size=(128, 1))
        self.start = 0.1 * rng.normal(size=sum(self.sizes()))
        self.cuts = np.cumsum(self.sizes())[:-1].tolist()

    def sizes(self):
        n, h = self.n, self.h
        return n * h, h, h * h, h, h

    def parts(self, w):
        n, h = self.n, self.h
        W1, b1, W2, b2, W3 = np.split(w, self.cuts)
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


# ----------------------------------------------------------------------------------------------- statistics


class LogisticRegression:
    """Negative log-likelihood of 500 labels in {-1, 1} with a ridge penalty, as a function of n weights."""

    def __init__(self, n, seed=0):
        rng = np.random.default_rng(seed)
        features = rng.normal(size=(500, n)) / np.sqrt(n)
        labels = np.where(rng.uniform(size=500) < 0.5, -1.0, 1.0)
        self.A = labels[:, None] * features
        self.start = rng.normal(size=n)

    def loss(self, w):
        return np.sum(np.log1p(np.exp(-(self.A @ w)))) + 0.5 * np.sum(w * w)

    def gradient(self, w):
        return -self.A.T @ (1.0 / (1.0 + np.exp(self.A @ w))) + w


class Mixture:
    """Log-likelihood of k Gaussians in d dimensions with a Wishart prior, as in ADBench.

    Variables are k weights, k means, and k factors of inverse covariances: d logarithms of the diagonal, then
    the elements below it.

    References
    ----------
    Srajer, Kukelova and Fitzgibbon (2018), A benchmark of selected algorithmic differentiation tools on some
    problems in computer vision and machine learning. doi:10.1080/10556788.2018.1435651
    """

    def __init__(self, d, k, n, seed=0):
        rng = np.random.default_rng(seed)
        self.d, self.k, self.n = d, k, n
        self.X = rng.normal(size=(n, d))
        below = d * (d - 1) // 2
        self.cuts = np.cumsum([k, k * d, k * d]).tolist()
        self.start = rng.normal(size=k * (1 + 2 * d + below)) / np.sqrt(d)
        # position of a factor's element among d diagonal elements, those below them, and a zero
        self.places = np.full((d, d), d + below)
        np.fill_diagonal(self.places, np.arange(d))
        self.places.T[np.triu_indices(d, 1)] = d + np.arange(below)
        self.zeros = np.zeros((k, 1))
        gammas = sum(math.lgamma(0.5 * (d + 1 - j)) for j in range(d)) + 0.25 * d * (d - 1) * np.log(np.pi)
        self.constant = k * (gammas + 0.5 * d * (d + 1) * np.log(2.0)) - 0.5 * n * d * np.log(2.0 * np.pi)

    def loss(self, x):
        weights, means, logs, below = np.split(x, self.cuts)
        logs = logs.reshape(self.k, self.d)
        below = below.reshape(self.k, -1)
        diagonals = np.exp(logs)
        factors = np.concatenate([diagonals, below, self.zeros], axis=1)[:, self.places]
        centred = self.X - means.reshape(self.k, 1, self.d)
        scaled = centred @ np.swapaxes(factors, 1, 2)
        terms = (weights + np.sum(logs, axis=1))[:, None] - 0.5 * np.sum(scaled**2, axis=2)
        likelihood = np.sum(logsumexp(terms)) - self.n * logsumexp(weights)
        return self.constant + likelihood + 0.5 * (np.sum(diagonals**2) + np.sum(below**2))


def logsumexp(a):
    """Reduce along the first axis."""
    largest = np.max(a, axis=0)
    return largest + np.log(np.sum(np.exp(a - largest), axis=0))


class GaussianProcess:
    """Negative log marginal likelihood of n observations.

    The 6 variables are logarithms: of 4 length scales, of the amplitude, and of the noise's standard deviation.
    """

    def __init__(self, n, seed=0):
        rng = np.random.default_rng(seed)
        self.X = rng.uniform(size=(n, 4))
        self.y = np.sin(self.X @ np.arange(1.0, 5.0)) + 0.1 * rng.normal(size=n)
        self.unit = np.eye(n)
        self.start = np.array([-0.5, -0.3, -0.4, -0.2, 0.1, -1.5])

    def covariance(self, x):
        Z = self.X / np.exp(x[:4])
        squares = np.sum(Z * Z, axis=1)
        distances = squares[:, None] + squares[None, :] - 2.0 * (Z @ Z.T)
        return np.exp(2.0 * x[4] - 0.5 * distances)

    def loss(self, x):
        L = np.linalg.cholesky(self.covariance(x) + np.exp(2.0 * x[5]) * self.unit)
        z = np.linalg.solve(L, self.y)
        return 0.5 * np.sum(z * z) + np.sum(np.log(np.diag(L)))

    def gradient(self, x):
        K = self.covariance(x)
        noise = np.exp(2.0 * x[5])
        inverse = np.linalg.inv(K + noise * self.unit)
        alpha = inverse @ self.y
        G = 0.5 * (inverse - np.outer(alpha, alpha))
        Z = self.X / np.exp(x[:4])
        scales = [np.sum(G * K * (z[:, None] - z) ** 2) for z in Z.T]
        return np.array([*scales, 2.0 * np.sum(G * K), 2.0 * noise * np.trace(G)])


# -------------------------------------------------------------------- kernels as in NPBench, and time stepping
# The differentiated scalar is a weighted sum of the kernel's result.
# Ziogas et al. (2021), NPBench. doi:10.1145/3447818.3460360


class Kernel:
    """A kernel on one array, with its weights and a starting point."""

    def __init__(self, shape, seed=0):
        rng = np.random.default_rng(seed)
        self.weights = rng.uniform(0.5, 1.5, size=shape)
        self.start = rng.uniform(0.5, 1.5, size=shape)

    def loss(self, x):
        return np.sum(self.weights * self.kernel(x))


class Jacobi1D(Kernel):
    def __init__(self, n, steps):
        super().__init__(n)
        self.steps = steps

    def kernel(self, x):
        A, B = np.copy(x), np.copy(x)
        for _ in range(self.steps):
            B[1:-1] = 0.33333 * (A[:-2] + A[1:-1] + A[2:])
            A[1:-1] = 0.33333 * (B[:-2] + B[1:-1] + B[2:])
        return A


class Jacobi2D(Kernel):
    def __init__(self, n, steps):
        super().__init__((n, n))
        self.steps = steps

    def kernel(self, x):
        A, B = np.copy(x), np.copy(x)
        for _ in range(self.steps):
            B[1:-1, 1:-1] = 0.2 * (A[1:-1, 1:-1] + A[1:-1, :-2] + A[1:-1, 2:] + A[2:, 1:-1] + A[:-2, 1:-1])
            A[1:-1, 1:-1] = 0.2 * (B[1:-1, 1:-1] + B[1:-1, :-2] + B[1:-1, 2:] + B[2:, 1:-1] + B[:-2, 1:-1])
        return A


class Seidel2D(Kernel):
    def __init__(self, n, steps):
        super().__init__((n, n))
        self.n, self.steps = n, steps

    def kernel(self, x):
        A = np.copy(x)
        for _ in range(self.steps):
            for i in range(1, self.n - 1):
                for j in range(1, self.n - 1):
                    A[i, j] = (
                        A[i - 1, j - 1]
                        + A[i - 1, j]
                        + A[i - 1, j + 1]
                        + A[i, j - 1]
                        + A[i, j]
                        + A[i, j + 1]
                        + A[i + 1, j - 1]
                        + A[i + 1, j]
                        + A[i + 1, j + 1]
                    ) / 9.0
        return A


class Gemver(Kernel):
    """A function of the matrix."""

    def __init__(self, n, seed=1):
        super().__init__((n, n))
        self.weights = self.weights[0]
        self.u1, self.v1, self.u2, self.v2, self.x, self.y, self.z = (
            np.random.default_rng(seed).uniform(size=(7, n)) / n
        )

    def kernel(self, A):
        A = A + np.outer(self.u1, self.v1) + np.outer(self.u2, self.v2)
        x = self.x + 1.2 * self.y @ A + self.z
        return 1.5 * A @ x


class Softmax(Kernel):
    """Softmax along the rows."""

    def __init__(self, n):
        super().__init__((n, n))

    def kernel(self, x):
        e = np.exp(x - np.max(x, axis=-1, keepdims=True))
        return e / np.sum(e, axis=-1, keepdims=True)


class ReactionDiffusion(Kernel):
    """Explicit steps of u' = laplacian(u) + u - u**3 on a square with zero boundary."""

    def __init__(self, n, steps):
        super().__init__((n, n))
        self.n, self.steps = n, steps

    def kernel(self, x):
        u = np.zeros((self.n + 2, self.n + 2), dtype=x.dtype)
        u[1:-1, 1:-1] = x
        for _ in range(self.steps):
            c = u[1:-1, 1:-1]
            around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
            u[1:-1, 1:-1] = c + 0.1 * (around - 4.0 * c) + 0.01 * (c - c * c * c)
        return u[1:-1, 1:-1]


# ------------------------------------------------------------------------------------- elementwise functions


def black_scholes(S):
    """Return prices of European calls with strike 1 and half a year to expiry."""
    r, v, T = 0.03, 0.2, 0.5
    d1 = (np.log(S) + (r + 0.5 * v**2) * T) / (v * np.sqrt(T))
    d2 = d1 - v * np.sqrt(T)
    return S * 0.5 * (1.0 + erf(d1 / np.sqrt(2.0))) - np.exp(-r * T) * 0.5 * (1.0 + erf(d2 / np.sqrt(2.0)))


def waves(x):
    """Apply a chain of sines and exponentials."""
    y = x
    for _ in range(5):
        y = np.sin(y) * np.exp(-y) + x
    return y


def elementwise_slope(f, x, h=1e-30):
    """Return the diagonal of the Jacobian of an elementwise function, by one complex step."""
    return np.imag(f(x + 1j * h)) / h


# ------------------------------------------------------------------------------- single operations, repeated


# A factor close to 1, so that adjoints of long loops neither overflow nor become subnormal.
SCALARS = np.array([0.99999, 1e-3])


def scalar_ops(n):
    """Return a function with n operations on traced scalars, half of them products."""

    def f(x):
        a, b = x
        s = b
        for _ in range(n // 2):
            s = s * a + b
        return s

    return f


def array_ops(n):
    """Return a function with n operations on arrays of the length of x, half of them products."""

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
    """Return a function that takes the sine of one scalar n times."""

    def f(x):
        y = x
        for _ in range(n):
            y = np.sin(x)
        return y

    return f


# ------------------------------------------------------------------------------------------------ references


def complex_step(f, x, h=1e-30):
    """Return the Jacobian of f by complex steps, exact to rounding for the analytic functions above."""
    columns = []
    for i in range(x.size):
        z = x.astype(complex)
        z[i] += 1j * h
        columns.append(np.imag(f(z)) / h)
    return np.stack(columns, axis=-1)


def complex_slope(f, x, v, h=1e-30):
    """Return the derivative of f along v by one complex step."""
    return np.imag(f(x + 1j * h * v)) / h


def check(found, expected, rtol=1e-10):
    """Raise for a wrong derivative, which must not be timed; rtol is relative to the largest element."""
    expected = np.asarray(expected)
    if np.shape(found) != expected.shape:
        raise AssertionError(f"derivative of shape {np.shape(found)}, expected {expected.shape}")
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * np.max(np.abs(expected)))


def check_slopes(gradient, f, x, rtol=1e-10, directions=3):
    """Check a gradient that is too long for one step per element, in random directions."""
    if np.shape(gradient) != x.shape:
        raise AssertionError(f"gradient of shape {np.shape(gradient)}, expected {x.shape}")
    rng = np.random.default_rng(0)
    for _ in range(directions):
        v = rng.normal(size=x.shape)
        slopes = gradient * v
        expected = complex_slope(f, x, v)
        np.testing.assert_allclose(np.sum(slopes), expected, rtol=0, atol=rtol * np.sum(np.abs(slopes)))


def check_products(matrix, f, x, rtol=1e-10, directions=3):
    """Check a sparse Jacobian by products with random directions; errors are relative to the sum of |terms|."""
    rng = np.random.default_rng(0)
    for _ in range(directions):
        v = rng.normal(size=x.shape)
        expected = complex_slope(f, x, v)
        if matrix.shape != (expected.size, x.size):
            raise AssertionError(f"matrix of shape {matrix.shape}, expected {(expected.size, x.size)}")
        if not np.all(np.abs(matrix @ v - expected) <= rtol * (abs(matrix) @ np.abs(v))):
            raise AssertionError("a product with a sparse matrix is not the derivative in that direction")


def reaction_diffusion(way, steps):
    """Sum of squares of a grid after some steps of Fisher's equation, with slices or with ``np.roll``."""

    def slices(u):
        for _ in range(steps):
            inner = u[1:-1, 1:-1]
            around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * inner
            new = u.copy()
            new[1:-1, 1:-1] = inner + 0.1 * (0.3 * around + inner - inner**3)
            u = new
        return np.sum(u**2)

    def rolls(u):
        for _ in range(steps):
            around = np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u
            u = u + 0.1 * (0.3 * around + u - u**3)
        return np.sum(u**2)

    return {"slices": slices, "rolls": rolls}[way]
