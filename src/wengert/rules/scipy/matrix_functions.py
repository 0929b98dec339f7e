"""Functions of matrices and matrix equations of ``scipy.linalg``.

The derivative of a function f of a matrix in the direction E is the upper right block of f([[A, E], [0, A]]), and its
adjoint is the same for the conjugate transpose of A, up to conjugation.

References
----------
Mathias (1996), A chain rule for matrix functions and applications. doi:10.1137/S0895479895283409
Al-Mohy and Higham (2009), Computing the Frechet derivative of the matrix exponential. doi:10.1137/080716426
"""

from __future__ import annotations

import numpy as np

from wengert.registry import by_formula, composed, conjugated, structural
from wengert.rules.composed import as_array, dispatched
from wengert.rules.products import adjoint
from wengert.rules.scipy.linalg import la, unsupported

# ---- functions of one matrix


def block(a, e):
    a = a + np.zeros_like(e)
    return np.concatenate([np.concatenate([a, e], -1), np.concatenate([np.zeros_like(a), a], -1)], -2)


def derivative_along(fun, a, e, *options):
    """Return the derivative of a matrix function at `a` in the direction `e`, or in several."""
    if np.ndim(e) > np.ndim(a):
        return np.stack([derivative_along(fun, a, part, *options) for part in e])
    if e.dtype.kind == "c" and a.dtype.kind != "c":  # SciPy finds real eigenvalues of a real matrix exactly
        parts = [derivative_along(fun, a, part, *options) for part in (np.real(e), np.imag(e))]
        return parts[0] + 1j * parts[1]
    n = np.shape(a)[-1]
    return fun(block(a, e), *options)[..., :n, n:]


def half_turn(a):
    """Return a matrix with rows and columns in reverse order."""
    return a[..., ::-1, ::-1]


def declare(fun):
    """Declare a matrix function, and return a version of it that takes one matrix."""

    @dispatched
    def of_matrix(a, *options):
        return np.array(fun.__wrapped__(a, *options))

    def pull(ybar, y, a, *options):
        # A^T, unlike A^H, has the eigenvalues of A: conjugates would lie on the other side of a branch cut.
        # With rows and columns reversed, A^T is block triangular like A, and multiple eigenvalues are not perturbed.
        found = derivative_along(of_matrix, half_turn(np.swapaxes(a, -1, -2)), half_turn(np.conj(ybar)), *options)
        return half_turn(np.conj(found))

    def push(t, y, a, *options):
        return derivative_along(of_matrix, a, t, *options)

    row = structural(of_matrix, pull, stacked=False)
    row.name = f"scipy.linalg.{fun.__name__}"
    row.on_complex, row.adjoints = {0: push}, {0: pull}
    return of_matrix


def one_by_one(fun, a):
    """Apply a function to each matrix of a batch."""
    if np.ndim(a) == 2:
        return fun(a)
    flat = np.reshape(a, (-1, *np.shape(a)[-2:]))
    return np.reshape(np.stack([fun(matrix) for matrix in flat]), np.shape(a))


@dispatched
def exponential(a):
    return la.expm.__wrapped__(a)


def frechet(a, e):
    if np.ndim(a) == np.ndim(e) == 2:
        return la.expm_frechet(a, e, compute_expm=False)
    return derivative_along(exponential, a, e)


def exponential_pull(ybar, y, a):
    return frechet(adjoint(a), ybar)


row = structural(exponential, exponential_pull, stacked=False)
row.name = "scipy.linalg.expm"
row.on_complex, row.adjoints = {0: lambda t, y, a: derivative_along(exponential, a, t)}, {0: exponential_pull}


@by_formula(la.expm_frechet, on_complex=True)
def _expm_frechet(A, E, method=None, compute_expm=True, check_finite=True):
    A, E = as_array(A), as_array(E)
    n = np.shape(A)[-1]
    y = exponential(block(A, E))
    return (y[:n, :n], y[:n, n:]) if compute_expm else y[:n, n:]


composed(la.expm, lambda A: exponential(as_array(A)), on_complex=True)

_FUNCTIONS = "cosm sinm tanm coshm sinhm tanhm sqrtm logm signm".split()


def _of_one_matrix(fun):
    return lambda A: one_by_one(fun, as_array(A))


for name in _FUNCTIONS:
    composed(getattr(la, name), _of_one_matrix(declare(getattr(la, name))), on_complex=True)

power = declare(la.fractional_matrix_power)
composed(la.fractional_matrix_power, lambda A, t: power(as_array(A), t), on_complex=True)

# ---- equations


def for_each(solve, t):
    """Solve an equation for one right-hand side, or for each along the first axis."""
    return solve(t) if np.ndim(t) == 2 else np.stack([solve(part) for part in t])


@dispatched
def sylvester(a, b, q):
    return la.solve_sylvester.__wrapped__(a, b, q)


def sylvester_pull(ybar, a, b):
    return for_each(lambda q: sylvester(adjoint(a), adjoint(b), q), ybar)


def along_right_side(t, y, a, b, q):
    return for_each(lambda q: sylvester(a, b, q), t)


structural(
    sylvester,
    lambda ybar, y, a, b, q: -sylvester_pull(ybar, a, b) @ adjoint(y),
    lambda ybar, y, a, b, q: -adjoint(y) @ sylvester_pull(ybar, a, b),
    lambda ybar, y, a, b, q: sylvester_pull(ybar, a, b),
    jvp=(
        lambda t, y, a, b, q: along_right_side(-(t @ y), y, a, b, q),
        lambda t, y, a, b, q: along_right_side(-(y @ t), y, a, b, q),
        along_right_side,
    ),
).name = "scipy.linalg.solve_sylvester"
conjugated(sylvester)
composed(la.solve_sylvester, lambda a, b, q: sylvester(as_array(a), as_array(b), as_array(q)), on_complex=True)


@by_formula(la.solve_continuous_lyapunov, on_complex=True)
def _solve_continuous_lyapunov(a, q):
    a = as_array(a)
    return sylvester(a, adjoint(a), as_array(q))


@dispatched
def discrete_lyapunov(a, q, method):
    return la.solve_discrete_lyapunov.__wrapped__(a, q, method)


def discrete_pull(ybar, a, method):
    return for_each(lambda q: discrete_lyapunov(adjoint(a), q, method), ybar)


def discrete_wrt_matrix(ybar, y, a, q, method):
    z = discrete_pull(ybar, a, method)
    return z @ a @ adjoint(y) + adjoint(z) @ a @ y


def discrete_along_right_side(t, y, a, q, method):
    return for_each(lambda q: discrete_lyapunov(a, q, method), t)


def discrete_along_matrix(t, y, a, q, method):
    return discrete_along_right_side(t @ y @ adjoint(a) + a @ y @ adjoint(t), y, a, q, method)


structural(
    discrete_lyapunov,
    discrete_wrt_matrix,
    lambda ybar, y, a, q, method: discrete_pull(ybar, a, method),
    jvp=(discrete_along_matrix, discrete_along_right_side),
).name = "scipy.linalg.solve_discrete_lyapunov"
conjugated(discrete_lyapunov)
composed(
    la.solve_discrete_lyapunov,
    lambda a, q, method=None: discrete_lyapunov(as_array(a), as_array(q), method),
    on_complex=True,
)


# Riccati equations: the derivative of the stabilising solution X solves a Lyapunov equation of the closed loop.
# With its adjoint solution Z, the gain K, and M = X or X (A - B K), the cotangents are M (Z + Z^T) for A, minus that
# times K^T for B, Z for Q and K Z K^T for R.


def continuous_loop(ybar, x, a, b, r):
    """Return the gain, M and Z for the continuous equation."""
    gain = np.linalg.solve(r, adjoint(b) @ x)
    loop = a - b @ gain
    return gain, x, -sylvester(loop, adjoint(loop), ybar)


def discrete_loop(ybar, x, a, b, r):
    """Return the gain, M and Z for the discrete equation."""
    gain = np.linalg.solve(r + adjoint(b) @ x @ b, adjoint(b) @ x @ a)
    loop = a - b @ gain
    return gain, x @ loop, discrete_lyapunov(loop, ybar, None)


def declare_riccati(fun, closed_loop):
    """Declare a solver of a Riccati equation by the adjoint equation of its closed loop."""

    @dispatched
    def solution(a, b, q, r):
        return fun.__wrapped__(a, b, q, r)

    def wrt_a(ybar, x, a, b, q, r):
        _, m, z = closed_loop(ybar, x, a, b, r)
        return m @ (z + adjoint(z))

    def wrt_b(ybar, x, a, b, q, r):
        gain, m, z = closed_loop(ybar, x, a, b, r)
        return -m @ (z + adjoint(z)) @ adjoint(gain)

    def wrt_q(ybar, x, a, b, q, r):
        return closed_loop(ybar, x, a, b, r)[2]

    def wrt_r(ybar, x, a, b, q, r):
        gain, _, z = closed_loop(ybar, x, a, b, r)
        return gain @ z @ adjoint(gain)

    def body(a, b, q, r, e=None, s=None, balanced=True):
        if e is not None or s is not None:
            raise unsupported(fun.__name__, "e= or s=", "transform the system so that they are not needed")
        return solution(*map(as_array, (a, b, q, r)))

    structural(solution, wrt_a, wrt_b, wrt_q, wrt_r, stacked=False).name = f"scipy.linalg.{fun.__name__}"
    composed(fun, body)


declare_riccati(la.solve_continuous_are, continuous_loop)
declare_riccati(la.solve_discrete_are, discrete_loop)
