"""`linear_solve`: solutions of linear equations by your own solver, differentiable in matrix and right-hand side."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert import api
from wengert.core.dispatch.dispatch import from_list
from wengert.core.rebind.rebind import rebound
from wengert.errors import ConvergenceError
from wengert.implicit.factors import MAX_RESIDUAL, gmres
from wengert.implicit.solve import decorator
from wengert.implicit.stripped import stripped
from wengert.implicit.theorem import check_replayable, implicit, in_derivative, plain_function, plain_solver
from wengert.transforms.custom import LinearMap


def linear_solve(
    A: Any,
    b: Any = None,
    *,
    args: tuple = (),
    solve: Callable | None = None,
    transpose_solve: Callable | None = None,
    symmetric: bool = False,
) -> Any:
    """Solution of ``A x = b``, differentiable with respect to `A` and `b`: ``A`` is a matrix or a linear function.

    Without `b`, a decorator for your own solver: ``solver(b, *args)`` returns `x` with ``A(x, *args) = b``.

    Parameters
    ----------
    A : 2-D array, sparse array, LinearOperator or callable
        The matrix, or a function ``A(x, *args)`` that is linear in `x`, using NumPy functions. Arrays and functions may
        hold or read traced values.
    b : array_like, shape (n,)
        The right-hand side.
    args : tuple
        Further arguments of `A`, if it is a function.
    solve : callable, optional
        User-supplied solver: ``solve(b)`` returns the solution for plain values.
        By default a factorisation of a matrix, and GMRES for a function.
    transpose_solve : callable, optional
        Solver of the equations with the transposed matrix, for reverse mode: ``transpose_solve(b)``, or for the
        decorator ``transpose_solve(b, *args)``. By default GMRES, or `solve` if `symmetric`.
    symmetric : bool
        Whether the matrix equals its transpose.

    Returns
    -------
    x : ndarray, shape (n,)
        The result of the solver, bit for bit.

    Raises
    ------
    ConvergenceError
        If the relative residual of a solution exceeds 1e-6, also if `symmetric` is wrongly true.
    SingularJacobianError
        If a derivative is requested and a matrix without your own solver is singular.

    See Also
    --------
    wengert.implicit.root : Nonlinear equations.

    Notes
    -----
    A derivative takes one more solve for each direction. A second solve corrects the error of the first, so that a
    solver with a tolerance of 1e-8 gives derivatives that are accurate up to rounding.

    References
    ----------
    Giles (2008), Collected matrix derivative results for forward and reverse mode algorithmic differentiation.
    doi:10.1007/978-3-540-68942-3_4

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> from scipy.linalg import solveh_banded
    >>> def stretched(x, k):                        # forces of a chain of springs
    ...     padded = np.concatenate([[0.0], x, [0.0]])
    ...     return k * (2 * x - padded[:-2] - padded[2:])
    >>> @wg.implicit.linear_solve(stretched, symmetric=True)
    ... def positions(forces, k):
    ...     return solveh_banded(k * np.array([[0.0, -1.0, -1.0], [2.0, 2.0, 2.0]]), forces)
    >>> np.round(wg.jacobian(positions, argnums=1)(np.ones(3), 2.0), 12)
    array([-0.375, -0.5  , -0.375])
    """
    if b is None:

        def attach(call, x, given):
            plain = tuple(map(stripped, call.args[1:]))
            back = transpose_solve and (lambda b: transpose_solve(b, *plain))
            system = _System(call.name, A, given[1:], lambda b: call.solver(b, *plain, **call.kwargs), back, symmetric)
            return system.differentiated(x, given[0])

        return decorator(attach)
    name = f"implicit.linear_solve({getattr(A, '__name__', type(A).__name__)})"
    check_replayable(name)
    system = _System(name, A, args, solve, transpose_solve, symmetric)
    b = from_list(b)
    x = system.solved(stripped(b))
    return system.differentiated(x, b) if in_derivative() else x


class _System:
    """The linear system ``A x = b``, with solvers for A and for its transpose."""

    def __init__(self, name, A, args, solve, transpose_solve, symmetric):
        self.name, self.matrix = name, None
        if hasattr(A, "rmatvec"):
            self.plain, self.plain_transpose = A.matvec, A.matvec if symmetric else A.rmatvec
            rows = (functools.partial(_rows, f) for f in (A.matmat, A.matmat if symmetric else A.rmatmat))
            self.product = LinearMap(*rows, "LinearOperator")
        elif callable(A):
            self.product = product = functools.partial(_product, A, args)
            transposed = plain_function(lambda w: api.vjp(product, np.zeros(np.shape(w)))[1](w))
            self.plain, self.plain_transpose = plain_function(product), transposed
        else:
            self.matrix = from_list(A)
            plain = stripped(self.matrix)
            self.product, self.plain, self.plain_transpose = self._times, plain.__matmul__, plain.T.__matmul__
        self.solve = solve and plain_solver(solve)
        back = solve if symmetric and transpose_solve is None else transpose_solve
        self.back = back and plain_solver(back)

    def _times(self, x):
        return self.matrix @ x

    def solved(self, b):
        """Return the solution for a plain right-hand side."""
        b = np.asarray(b, dtype=float)
        if self.solve:
            return self.solve(b)
        x = _Solvable(self, b.shape).solved(False, b)
        self.check(x, b)
        return x

    def check(self, x, b):
        remainder = np.linalg.norm(self.plain(x) - b)
        if not remainder <= MAX_RESIDUAL * np.linalg.norm(b):
            raise ConvergenceError(
                f"{self.name}: no solution: the residual is {remainder:.3g} for a right-hand side of norm "
                f"{np.linalg.norm(b):.3g}: pass a solver as solve="
            )

    def differentiated(self, x, b):
        """Return the solution as a function of the traced values of A and b."""
        self.check(np.asarray(x), np.asarray(stripped(b)))

        def residual(x):
            return self.product(x) - b

        if self.matrix is not None and not self.solve and not self.back:
            return implicit(residual, x, name=self.name, jac=lambda x: stripped(self.matrix))[0]
        operator = _Solvable(self, np.shape(x))

        def linsolve(operator, b):
            return operator.solved(operator.is_transposed, b)

        return implicit(residual, x, name=self.name, jac=lambda x: operator, linsolve=linsolve)[0]


def _rows(product, rows):
    return product(rows.T).T


def _product(A, args, x):
    return from_list(rebound(A)(x, *args))


class _Solvable:
    """A matrix or its transpose, given by products, with the solvers of both."""

    def __init__(self, system, shape, is_transposed=False):
        self.system, self.unknowns, self.is_transposed = system, shape, is_transposed
        self.shape = (int(np.prod(shape, dtype=int)),) * 2
        self.dtype = np.dtype(float)

    @property
    def T(self):
        return _Solvable(self.system, self.unknowns, not self.is_transposed)

    def matvec(self, v):
        v = np.reshape(v, self.unknowns)
        return np.ravel((self.system.plain_transpose if self.is_transposed else self.system.plain)(v))

    def __matmul__(self, v):
        return self.matvec(v)

    def solved(self, is_transposed, b):
        from scipy.sparse.linalg import LinearOperator, spsolve

        own = self.system.back if is_transposed else self.system.solve
        if own:
            return np.ravel(own(np.reshape(b, self.unknowns)))
        at = self if is_transposed == self.is_transposed else self.T
        matrix = stripped(self.system.matrix)
        if isinstance(matrix, np.ndarray):
            return np.linalg.solve(matrix.T if is_transposed else matrix, np.ravel(b))
        if matrix is not None and hasattr(matrix, "tocsc"):
            return spsolve((matrix.T if is_transposed else matrix).tocsc(), np.ravel(b))
        return gmres(LinearOperator(self.shape, matvec=at.matvec, dtype=float), np.ravel(b))
