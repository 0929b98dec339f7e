"""`root`, `fixed_point` and `defines_root`: solutions of equations as differentiable functions.

Input: equations and a solver. Output: the solver's result, with derivatives from `wengert.implicit.theorem`.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np

from wengert.containers import stopped
from wengert.core.dispatch.dispatch import from_list
from wengert.core.operands.var import holds_traced, value_of
from wengert.core.rebind.rebind import rebound
from wengert.deferred import deferred
from wengert.errors import ComplexValueError, ConvergenceError
from wengert.implicit import theorem
from wengert.implicit.stripped import stripped
from wengert.transforms.products import frames_inside

solvers = deferred("wengert.implicit.recorded")

F = TypeVar("F", bound=Callable)

#: relative tolerance of x for SciPy's solvers
_TOLERANCE = 1e-12

#: a point where SciPy's solver reports no progress is a root if its relative Newton correction is at most this
_ROUNDING = 1e-8


def root(
    f: Callable,
    x0: Any,
    *,
    args: tuple = (),
    solve: Callable | None = None,
    jac: Literal["auto", "dense", "matrix_free"] | Callable = "auto",
    linsolve: Literal["auto", "lu", "gmres"] | Callable = "auto",
    on_failure: Literal["raise", "warn", "nan"] = "raise",
    on_singular: Literal["raise", "lstsq", "nan"] = "raise",
    polish: Any = "auto",
    has_info: bool = False,
) -> Any:
    """Root of `f`, differentiable with respect to all values that `f` reads: ``x`` with ``f(x, *args) = 0``.

    The iterations of the solver are not differentiated. Derivatives of any order and mode are those of the solution, by
    the implicit function theorem.

    Parameters
    ----------
    f : callable
        Maps `x`, a scalar or an array, to an array of the same size, using NumPy functions. It may read traced values
        from outside.
    x0 : scalar or array_like
        Start of the search. The root does not depend on it.
    args : tuple
        Further arguments of `f`.
    solve : callable, optional
        Your own solver: ``solve(f, x0)`` returns a root, where `f` computes plain values.
        By default ``scipy.optimize.root`` with the exact Jacobian.
    jac : {"auto", "dense", "matrix_free"} or callable
        How the Jacobian is computed: "dense" as a matrix, "matrix_free" by products with it. "auto" uses products for
        more than 4096 unknowns. ``jac(x, *args)`` returns an array, a sparse array or a ``LinearOperator``.
    linsolve : {"auto", "lu", "gmres"} or callable
        How linear systems with the Jacobian are solved: by factorisation or by iteration.
        ``linsolve(A, b)`` solves one system with the Jacobian or its transpose.
    on_failure : {"raise", "warn", "nan"}
        What to do if the solver does not converge to a root. With ``"nan"`` derivatives are NaN.
    on_singular : {"raise", "lstsq", "nan"}
        What to do if the Jacobian is singular at the root. With ``"lstsq"`` derivatives have minimum norm.
    polish : {"auto", True, False}
        Whether to take the derivative at a point improved by Newton steps: "auto" if the root is off by more than about
        1e-13, relative to `x`. The root itself is returned as the solver found it.
    has_info : bool
        Return ``(x, info)``.

    Returns
    -------
    x : scalar or ndarray, shape of `x0`
        The result of the solver, bit for bit.
    info : wengert.implicit.Info
        With `has_info` only: estimates of the error of `x` and of the condition of the Jacobian.

    Raises
    ------
    ConvergenceError
        If no root is found.
    SingularJacobianError
        If a derivative is requested at a multiple root, or the equations are dependent.

    See Also
    --------
    wengert.implicit.fixed_point : Solutions of ``T(x) = x``.
    wengert.implicit.defines_root : Decorator for your own solver.

    Notes
    -----
    For `on_failure`, `x` is not a root if its Newton correction exceeds 1 % of `x`, or 0.01 for components below 1. For
    `on_singular`, `x` is a multiple root if there is no detectable step over which `f` follows its Jacobian.

    References
    ----------
    Griewank and Walther (2008), Evaluating Derivatives, chapter 15. doi:10.1137/1.9780898717761
    Blondel et al. (2022), Efficient and modular implicit differentiation. arXiv:2105.15183

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> def length(p):
    ...     return wg.implicit.root(lambda x: x**3 - p, 1.0)
    >>> wg.derivative(length, 8.0)             # 1 / (3 x**2) at x = 2
    np.float64(0.08333333333333333)
    """
    options = {"jac": jac, "linsolve": linsolve, "on_singular": on_singular, "polish": polish}
    return solution("root", f, f, x0, args, solve, Hybr, on_failure, has_info, **options)


def fixed_point(
    T: Callable,
    x0: Any,
    *,
    args: tuple = (),
    solve: Callable | None = None,
    jac: Literal["auto", "dense", "matrix_free"] | Callable = "auto",
    linsolve: Literal["auto", "lu", "gmres"] | Callable = "auto",
    on_failure: Literal["raise", "warn", "nan"] = "raise",
    on_singular: Literal["raise", "lstsq", "nan"] = "raise",
    polish: Any = "auto",
    has_info: bool = False,
) -> Any:
    """Fixed point of `T`, differentiable with respect to all values that `T` reads: ``x`` with ``T(x, *args) = x``.

    Parameters
    ----------
    T : callable
        Maps `x`, a scalar or an array, to the same shape, using NumPy functions.
    x0 : scalar or array_like
        Start of the search.
    solve : callable, optional
        Your own solver: ``solve(T, x0)`` returns a fixed point, where `T` computes plain values.
        By default ``scipy.optimize.fixed_point``, and the solver of `root` if that does not converge.
    args, jac, linsolve, on_failure, on_singular, polish, has_info
        As for `root`; the Jacobian is that of ``x - T(x, *args)``.

    Returns
    -------
    x : scalar or ndarray, shape of `x0`
        The result of the solver, bit for bit.
    info : wengert.implicit.Info
        With `has_info` only.

    Raises
    ------
    ConvergenceError, SingularJacobianError
        As for `root`.

    See Also
    --------
    wengert.implicit.root : Solutions of ``f(x) = 0``.
    wengert.loop : Differentiate the iterations instead.

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> wg.derivative(lambda p: wg.implicit.fixed_point(lambda x: np.cos(p * x), 0.7), 1.0)
    np.float64(-0.29747434150983226)
    """

    def residual(x, *args):
        return x - from_list(rebound(T)(x, *args))

    options = {"jac": jac, "linsolve": linsolve, "on_singular": on_singular, "polish": polish}
    return solution("fixed_point", T, residual, x0, args, solve, _Steffensen, on_failure, has_info, **options)


def defines_root(
    f: Callable,
    argnums: int | tuple | None = None,
    *,
    jac: Literal["auto", "dense", "matrix_free"] | Callable = "auto",
    linsolve: Literal["auto", "lu", "gmres"] | Callable = "auto",
    on_failure: Literal["raise", "warn", "nan"] = "raise",
    on_singular: Literal["raise", "lstsq", "nan"] = "raise",
    polish: Any = "auto",
) -> Callable[[F], F]:
    """Decorate your own solver, whose result is a root of `f`: ``f(solver(*args), *args) = 0``.

    The solver may be anything: it gets plain values, and its iterations are not differentiated.

    Parameters
    ----------
    f : callable
        ``f(x, *args)``, using NumPy functions. It may read traced values from outside.
    argnums : int or tuple of int, optional
        Positions of the solver's arguments that `f` takes after `x`; by default all positional ones.
        Other arguments, such as starting points and tolerances, do not change the root and have no derivative.
    jac, linsolve, on_failure, on_singular, polish
        As for `root`.

    Returns
    -------
    callable
        A decorator; the decorated solver has the signature of the solver.

    Raises
    ------
    ConvergenceError, SingularJacobianError
        As for `root`, if a derivative is requested.

    See Also
    --------
    wengert.implicit.root : Root by SciPy's or your own solver.

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
    theorem.check_options("defines_root", on_failure, **options)
    return root_decorator(f, argnums, on_failure=on_failure, **options)


def root_decorator(residual: Callable, argnums: int | tuple | None, **options: Any) -> Callable[[F], F]:
    """Return the decorator of solvers whose result is a root of `residual`."""
    return decorator(lambda call, x, given: theorem.implicit(residual, x, given, name=call.name, **options)[0], argnums)


class Decorated(NamedTuple):
    """A call of a decorated solver within a derivative."""

    name: str
    solver: Callable
    args: tuple
    kwargs: dict


def decorator(attach: Callable, argnums: int | tuple | None = None) -> Callable[[F], F]:
    """Return a decorator of solvers; ``attach(call, x, args)`` makes a plain result `x` a function of traced arguments.

    The arguments `args` are those of the equations; see `defines_root`.
    """
    positions = (argnums,) if isinstance(argnums, (int, np.integer)) else argnums

    def decorate(solver):
        name = getattr(solver, "__name__", None) or repr(solver)

        @functools.wraps(solver)
        def solved(*args, **kwargs):
            if not theorem.in_derivative():
                return solver(*args, **kwargs)
            if any(stripped(value) is not value for value in kwargs.values()):
                raise TypeError(f"{name}: pass traced values by position, as arguments of the equations")
            x = theorem.plain_solver(solver)(*map(stripped, args), **kwargs)
            chosen = args if positions is None else tuple(args[i] for i in positions)
            return attach(Decorated(name, solver, args, kwargs), x, chosen)

        return solved

    return decorate


def solution(
    word: str,
    f: Callable,
    residual: Callable,
    x0: Any,
    args: tuple,
    solve: Callable | None,
    default: Callable,
    on_failure: str,
    has_info: bool,
    *,
    symmetric: bool = False,
    **options: Any,
) -> Any:
    """Run the solver and attach derivatives to its result."""
    name = f"implicit.{word}({getattr(f, '__name__', f)})"
    theorem.check_options(name, on_failure, **options)
    start = from_list(x0)
    x0 = np.asarray(value_of(stopped(x0)))
    x0 = x0.astype(np.result_type(x0.dtype, np.float32 if x0.dtype.kind == "f" else np.float64))[()]
    if theorem.is_recorded() and not has_info and default is Hybr and (solve, on_failure) == (None, "raise"):
        if x0.dtype == np.float64 and options in _RECORDED:

            def equations(x):
                return np.reshape(from_list(rebound(f)(x, *args)), np.shape(x))

            return solvers.recorded(_hybr, equations, (start,), name, x0.shape, options["polish"])[0]
    theorem.check_replayable(name)
    plain_args = tuple(map(stripped, args))
    plain_call = theorem.plain_function(f)

    def call(x):
        y = plain_call(x, *plain_args)
        if np.iscomplexobj(y):
            raise ComplexValueError(
                f"{name}: the function returns complex values, but only roots of real equations are differentiated: "
                "write it in terms of real and imaginary parts"
            )
        return y

    solve = theorem.plain_solver(solve) if solve else default(residual, args, x0, name, options["jac"])
    try:
        x = solve(call, x0)
    except NotFound as found:
        if on_failure == "raise":
            raise ConvergenceError(f"{name}: {found}") from None
        if on_failure == "warn":
            warnings.warn(f"{name}: {found}", RuntimeWarning, stacklevel=frames_inside())
        x = found.x if on_failure == "warn" else np.full_like(x0, np.nan)[()]
    how = {"on_failure": on_failure, "starts_traced": holds_traced(start), "symmetric": symmetric, **options}
    made, info = theorem.implicit(residual, x, args, name=name, **how)
    if not has_info:
        return made
    return made, info or theorem.information(residual, x, args, name, options["jac"], options["linsolve"])


#: option values that a program supports
_RECORDED = [
    {"jac": "auto", "linsolve": "auto", "on_singular": "raise", "polish": polish} for polish in ("auto", True, False)
]


def _hybr(value, slopes, x0):
    """Run SciPy's hybrid method, in the form that programs call; see `wengert.implicit.recorded.Solved`."""
    from scipy import optimize

    shape = np.shape(x0)
    n = int(np.prod(shape, dtype=int))
    found = optimize.root(
        lambda u: np.ravel(value(u)), np.ravel(x0), jac=lambda u: np.reshape(slopes(u), (n, n)), tol=_TOLERANCE
    )
    x = np.reshape(found.x, shape)[()]
    if found.success:
        return x, (True,)
    if not solvers.Recorded(value, slopes, shape, "root").correction(x)[0] <= _ROUNDING:
        raise solvers.NotConverged(f"no root was found: {found.message}")
    return x, (True,)


class NotFound(Exception):
    """A solver did not converge; `x` is its last iterate."""

    def __init__(self, message, x):
        super().__init__(message)
        self.x = x


class Hybr:
    """SciPy's hybrid Powell method with the exact Jacobian, for x of any shape."""

    def __init__(self, residual, args, x0, name, jac):
        jac = jac if callable(jac) else "dense"
        self.equations = theorem.Equations(residual, args, np.shape(x0), name, jac, "auto", False, False)
        self.dtype = x0.dtype

    def __call__(self, f, x0):
        from scipy import optimize

        def jacobian(u):
            matrix = self.equations.jacobian(self.at(u))[1]
            matrix = matrix.toarray() if hasattr(matrix, "toarray") else matrix
            return np.reshape(matrix @ np.eye(u.size) if hasattr(matrix, "matvec") else matrix, (u.size, u.size))

        found = optimize.root(lambda u: np.ravel(f(self.at(u))), np.ravel(x0), jac=jacobian, tol=_TOLERANCE)
        return self.ended(found, "root", "residual", found.fun)

    def at(self, u):
        """Return a 1-D array reshaped to the shape of x."""
        return np.reshape(u, self.equations.shape).astype(self.dtype)[()]

    def ended(self, found, goal, word, remainder):
        """Return the solution; raise unless the solver reports success, or stopped at a solution up to rounding."""
        x = self.at(found.x)
        if found.success or self.equations.correction(x)[0] <= _ROUNDING:
            return x
        raise NotFound(
            f"no {goal} was found, the largest {word} is {np.max(np.abs(remainder)):.3g} where the solver stopped. "
            f"{' '.join(found.message.split())} Start nearer to a {goal}, or pass a solver of your own as solve=",
            x,
        )


class _Steffensen(Hybr):
    """SciPy's Steffensen iteration; if that fails, solves x - T(x) = 0 as `Hybr` does."""

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
