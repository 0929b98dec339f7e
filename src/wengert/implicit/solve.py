"""Roots and fixed points as functions of what their equations read: one residual each."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.containers import stopped
from wengert.core.dispatch.dispatch import stacked
from wengert.core.operands.var import holds_traced, value_of
from wengert.core.rebind.rebind import rebound
from wengert.errors import ComplexValueError, ConvergenceError, GuardError
from wengert.implicit.recorded import Recorded, is_recorded, recorded
from wengert.implicit.stripped import stripped
from wengert.implicit.theorem import (
    Equations,
    by_numbers,
    check_options,
    check_replayable,
    implicit,
    in_derivative,
    information,
    numbers,
)
from wengert.transforms.products import frames_inside

#: relative error of x at which SciPy's solvers stop
_TOLERANCE = 1e-12

#: largest correction, relative to x, of a root at which SciPy's solver says that it makes no progress
_ROUNDING = 1e-8


def root(
    f: Callable,
    x0: Any,
    *,
    args: tuple = (),
    solve: Callable | None = None,
    jac: Any = "auto",
    linsolve: Any = "auto",
    on_failure: str = "raise",
    on_singular: str = "raise",
    polish: Any = "auto",
    has_info: bool = False,
) -> Any:
    """A root of `f`, differentiable in all that `f` reads: ``x`` with ``f(x, *args) = 0``.

    The solver is not followed: its derivatives are those of the solution, by the implicit function theorem, in all
    modes and of all orders.

    Parameters
    ----------
    f : callable
        Maps `x`, a number or an array, to as many numbers, in NumPy code. It may read traced values from outside.
    x0 : number or array_like
        Where the solver starts. The root does not depend on it.
    args : tuple
        Further arguments of `f`.
    solve : callable, optional
        A solver of your own: ``solve(f, x0)`` returns a root, given an `f` of plain numbers.
        By default ``scipy.optimize.root`` with the exact Jacobian.
    jac : {"auto", "dense", "matrix_free"} or callable
        How the Jacobian is made: whole, or by products with it, which is chosen for more than 4096 unknowns.
        ``jac(x, *args)`` returns an array, a sparse array or a ``LinearOperator``.
    linsolve : {"auto", "lu", "gmres"} or callable
        How linear equations with it are solved: by a factorisation of a matrix, or by iteration.
        ``linsolve(A, b)`` solves one system with the Jacobian or its transpose.
    on_failure : {"raise", "warn", "nan"}
        What to do if the solver does not converge, or to no root. With ``"nan"`` derivatives are NaN.
    on_singular : {"raise", "lstsq", "nan"}
        What to do if the Jacobian is singular at the root. With ``"lstsq"`` derivatives are those of least norm.
    polish : {"auto", True, False}
        Take the derivative where Newton's method leads from the root that the solver found: if that is more than
        1e-13 away, relative to `x`, always, or never. The root itself is returned as it was found.
    has_info : bool
        Return ``(x, info)``.

    Returns
    -------
    x : number or ndarray, shape of `x0`
        What the solver returned, to the last bit.
    info : wengert.implicit.Info
        With `has_info` only: estimates of the error of `x` and of the condition of the Jacobian.

    Raises
    ------
    ConvergenceError
        If no root was found.
    SingularJacobianError
        If a derivative is asked for at a multiple root, or the equations depend on each other.

    Notes
    -----
    A root is none, for `on_failure`, if Newton's correction of it exceeds 1 % of `x`, or 0.01 where `x` is smaller
    than 1. It is a multiple one, for `on_singular`, if no step can be seen over which the values of `f` follow its
    Jacobian.

    References
    ----------
    Griewank and Walther (2008), Evaluating Derivatives, chapter 15. doi:10.1137/1.9780898717761

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> def length(p):
    ...     return wg.implicit.root(lambda x: x**3 - p, 1.0)
    >>> wg.derivative(length, 8.0)             # 1 / (3 x**2) at x = 2
    np.float64(0.08333333333333333)
    """
    return _solution(
        "root",
        f,
        f,
        x0,
        args,
        solve,
        _Hybr,
        on_failure,
        has_info,
        jac=jac,
        linsolve=linsolve,
        on_singular=on_singular,
        polish=polish,
    )


def fixed_point(
    T: Callable,
    x0: Any,
    *,
    args: tuple = (),
    solve: Callable | None = None,
    jac: Any = "auto",
    linsolve: Any = "auto",
    on_failure: str = "raise",
    on_singular: str = "raise",
    polish: Any = "auto",
    has_info: bool = False,
) -> Any:
    """A fixed point of `T`, differentiable in all that `T` reads: ``x`` with ``T(x, *args) = x``.

    Parameters
    ----------
    T : callable
        Maps `x`, a number or an array, to the same shape, in NumPy code.
    x0 : number or array_like
        Where the solver starts.
    solve : callable, optional
        A solver of your own: ``solve(T, x0)`` returns a fixed point, given a `T` of plain numbers.
        By default ``scipy.optimize.fixed_point``, and where that does not converge the solver of `root`.
    args, jac, linsolve, on_failure, on_singular, polish, has_info
        As of `root`; a Jacobian is that of ``x - T(x, *args)``.

    Returns
    -------
    x : number or ndarray, shape of `x0`
        What the solver returned, to the last bit.
    info : wengert.implicit.Info
        With `has_info` only.

    Raises
    ------
    ConvergenceError, SingularJacobianError
        As by `root`.

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> wg.derivative(lambda p: wg.implicit.fixed_point(lambda x: np.cos(p * x), 0.7), 1.0)
    np.float64(-0.29747434150983226)
    """

    def residual(x, *args):
        return x - _as_array(rebound(T)(x, *args))

    return _solution(
        "fixed_point",
        T,
        residual,
        x0,
        args,
        solve,
        _Steffensen,
        on_failure,
        has_info,
        jac=jac,
        linsolve=linsolve,
        on_singular=on_singular,
        polish=polish,
    )


def defines_root(
    f: Callable,
    argnums: int | tuple | None = None,
    *,
    jac: Any = "auto",
    linsolve: Any = "auto",
    on_failure: str = "raise",
    on_singular: str = "raise",
    polish: Any = "auto",
) -> Callable:
    """Decorator of a solver of your own, whose result is a root of `f`: ``f(solver(*args), *args) = 0``.

    The solver may be anything: it is called with plain numbers, and not followed.

    Parameters
    ----------
    f : callable
        ``f(x, *args)``, in NumPy code. It may read traced values from outside.
    argnums : int or tuple of int, optional
        Positions of those arguments of the solver that `f` takes after `x`; all positional ones by default.
        The others, such as starting points and tolerances, do not change the root: no derivative goes there.
    jac, linsolve, on_failure, on_singular, polish
        As of `root`.

    Returns
    -------
    callable
        A decorator; the decorated solver has the signature of the solver.

    Raises
    ------
    ConvergenceError, SingularJacobianError
        As by `root`, if a derivative is asked for.

    Examples
    --------
    >>> import math
    >>> import wengert as wg
    >>> @wg.implicit.defines_root(lambda x, p: x * x - p)
    ... def square_root(p):
    ...     return math.sqrt(p)
    >>> wg.derivative(square_root, 4.0, order=2)       # -1/4 p**(-3/2)
    np.float64(-0.03125)
    """
    options = {"jac": jac, "linsolve": linsolve, "on_singular": on_singular, "polish": polish}
    check_options("defines_root", on_failure, **options)
    positions = (argnums,) if isinstance(argnums, (int, np.integer)) else argnums

    def decorate(solver):
        name = getattr(solver, "__name__", repr(solver))

        @functools.wraps(solver)
        def solved(*args, **kwargs):
            if not in_derivative():
                return solver(*args, **kwargs)
            if any(stripped(value) is not value for value in kwargs.values()):
                raise TypeError(f"{name}: pass traced values by position: they are arguments of its residual")
            x = by_numbers(solver)(*map(stripped, args), **kwargs)
            chosen = args if positions is None else tuple(args[i] for i in positions)
            return implicit(f, x, chosen, name=name, on_failure=on_failure, **options)[0]

        return solved

    return decorate


def _solution(word, f, residual, x0, args, solve, default, on_failure, has_info, **options):
    """What the solver found, with its derivatives."""
    name = f"implicit.{word}({getattr(f, '__name__', f)})"
    check_options(name, on_failure, **options)
    start = stacked(x0) if isinstance(x0, (list, tuple)) else x0
    x0 = np.asarray(value_of(stopped(x0)))
    x0 = x0.astype(np.result_type(x0.dtype, np.float32 if x0.dtype.kind == "f" else np.float64))[()]
    if is_recorded() and not has_info and default is _Hybr and (solve, on_failure) == (None, "raise"):
        if x0.dtype == np.float64 and options in _RECORDED:
            return recorded(_hybr, _equations(f, args), (start,), name, x0.shape, options["polish"])[0]
    check_replayable(name)
    plain_args = tuple(map(stripped, args))
    at_numbers = numbers(f)

    def call(x):
        y = at_numbers(x, *plain_args)
        if np.iscomplexobj(y):
            raise ComplexValueError(
                f"{name}: the function has complex values, and roots of real equations are differentiated: write it "
                "with pairs of real numbers"
            )
        return y

    solve = by_numbers(solve) if solve else default(residual, args, x0, name, options["jac"])
    try:
        x = solve(call, x0)
    except _NotFound as found:
        if on_failure == "raise":
            raise ConvergenceError(f"{name}: {found}") from None
        if on_failure == "warn":
            warnings.warn(f"{name}: {found}", RuntimeWarning, stacklevel=frames_inside())
        x = found.x if on_failure == "warn" else np.full_like(x0, np.nan)[()]
    made, info = implicit(
        residual, x, args, name=name, on_failure=on_failure, starts_traced=holds_traced(start), **options
    )
    if not has_info:
        return made
    return made, info or information(residual, x, args, name, options["jac"], options["linsolve"])


#: options of what a program takes
_RECORDED = [
    {"jac": "auto", "linsolve": "auto", "on_singular": "raise", "polish": polish} for polish in ("auto", True, False)
]


def _equations(f, args):
    """The equations with what they read, while it is recorded."""

    def equations(x):
        return np.reshape(_as_array(rebound(f)(x, *args)), np.shape(x))

    return equations


def _hybr(value, slopes, x0):
    """SciPy's hybrid method as a program runs it: see `wengert.implicit.recorded.Solved`."""
    from scipy import optimize

    shape = np.shape(x0)
    n = int(np.prod(shape, dtype=int))
    found = optimize.root(
        lambda u: np.ravel(value(u)), np.ravel(x0), jac=lambda u: np.reshape(slopes(u), (n, n)), tol=_TOLERANCE
    )
    x = np.reshape(found.x, shape)[()]
    if not (found.success or Recorded(value, slopes, shape, "root").correction(x)[0] <= _ROUNDING):
        raise GuardError(f"no root was found: {found.message}")
    return x, (True,)


class _NotFound(Exception):
    """A solver did not converge; `x` is where it stopped."""

    def __init__(self, message, x):
        super().__init__(message)
        self.x = x


class _Hybr:
    """SciPy's hybrid method of Powell with the exact Jacobian, in the shape of x0."""

    def __init__(self, residual, args, x0, name, jac):
        jac = jac if callable(jac) else "dense"
        self.equations = Equations(residual, args, np.shape(x0), name, jac, "auto", False, False)

    def __call__(self, f, x0):
        from scipy import optimize

        def at(u):
            return np.reshape(u, np.shape(x0)).astype(x0.dtype)[()]

        def jacobian(u):
            matrix = self.equations.jacobian(at(u))[1]
            matrix = matrix.toarray() if hasattr(matrix, "toarray") else matrix
            return np.reshape(matrix @ np.eye(u.size) if hasattr(matrix, "matvec") else matrix, (u.size, u.size))

        found = optimize.root(lambda u: np.ravel(f(at(u))), np.ravel(x0), jac=jacobian, tol=_TOLERANCE)
        if found.success or self.is_root(at(found.x)):
            return at(found.x)
        raise _NotFound(
            f"no root was found, the largest residual is {np.max(np.abs(found.fun)):.3g} where the solver stopped. "
            f"{' '.join(found.message.split())} Start nearer to a root, or pass a solver of your own as solve=",
            at(found.x),
        )

    def is_root(self, x):
        """Is a point at which no progress was made as near to a root as rounding errors let it be?"""
        return self.equations.correction(x)[0] <= _ROUNDING


class _Steffensen(_Hybr):
    """SciPy's accelerated iteration, and where that fails a root of x - T(x)."""

    def __call__(self, T, x0):
        from scipy import optimize

        try:
            with np.errstate(all="ignore"):
                x = optimize.fixed_point(lambda x: np.asarray(T(x)), x0, xtol=_TOLERANCE)
            if np.isfinite(x).all():
                return x[()]
        except RuntimeError:  # no convergence
            pass
        return super().__call__(lambda x: x - np.asarray(T(x)), x0)


def _as_array(y):
    """What a function returned, if it is a list the array of it."""
    return stacked(y) if isinstance(y, (list, tuple)) else y
