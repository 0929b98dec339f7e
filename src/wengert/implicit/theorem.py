"""The implicit function theorem: x(p) with f(x, p) = 0, for derivatives of every order, stated once.

Let x* solve the equations at the numbers that p has, and S be the inverse of J = df/dx there, as a constant.
Then ::

    D <- D + S (f(x* - D, p) - stop f(x* - D, p)),     x = x* - D,     D = 0 at first

changes no value, and each step gives x one more order of its derivatives: an error of x in the j-th order of dp is
left by I - S J, which vanishes at x*.
So as many steps are taken as the derivatives that are running have orders, and forward mode, reverse mode and all
that is nested follow from the rules of what f calls, and of S, which is linear.
The first step is the theorem: dx = -J^-1 f_p dp, and J^-T once in reverse.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from wengert.containers import plain_copy
from wengert.core.dispatch import dispatch
from wengert.core.levels import forget, is_recording, noted, outside, passive, running, within
from wengert.core.operands import var
from wengert.core.rebind.rebind import rebound
from wengert.errors import ConvergenceError, LevelError, SingularJacobianError, TracedValueError
from wengert.implicit.factors import Diagonal, Iterative, Matrix, Sparse, Symmetric, Unknown, gmres
from wengert.implicit.stripped import stripped
from wengert.transforms.custom import LinearMap
from wengert.transforms.dense import JVP, Jacobian, Operator
from wengert.transforms.products import frames_inside
from wengert.transforms.second import Linearize

#: corrections larger than so many units of rounding, relative to x, move the point of the derivative
_POLISH = 500

#: components smaller than this, relative to the largest of x in the units of J, count as large as that
_SMALL = 1e-6

#: corrections larger than this, relative to x or to 1, mean that x is no solution
_FAR = 1e-2

#: largest part of a change of the residual that does not follow from J
_CHANGE = 0.15

#: Newton steps of the point of the derivative, at most
_STEPS = 8

#: corrections smaller than this, relative to x, leave J as it is, but for derivatives
_NEAR = 1e-9

#: unknowns beyond which J is not made
_LARGE = 4096


_OPTIONS = {
    "on_failure": ("raise", "warn", "nan"),
    "on_singular": ("raise", "lstsq", "nan"),
    "polish": ("auto", True, False),
    "jac": ("auto", "dense", "matrix_free"),
    "linsolve": ("auto", "lu", "gmres"),
}


@dataclass(frozen=True)
class Info:
    """How well the equations determine a solution, from the evaluation of its derivative.

    Attributes
    ----------
    correction : float
        Largest component of ``J^-1 f(x)``, relative to that of `x`: an estimate of the error of the solution.
    rcond : float
        Reciprocal condition number of the Jacobian `J` with rows and columns scaled to 1, in the 1-norm, estimated;
        NaN where it was not computed.
    steps : int
        Steps of the implicit function theorem: the order of the derivatives that are running, and one more
        if linear equations are solved by iteration.
    """

    correction: float
    rcond: float
    steps: int


def in_derivative() -> bool:
    """Is any derivative running here?"""
    return bool(running.get())


def check_options(name, on_failure="raise", on_singular="raise", polish="auto", jac="auto", linsolve="auto") -> None:
    """Raise if an option has a value that it cannot have."""
    given = {"on_failure": on_failure, "on_singular": on_singular, "polish": polish, "jac": jac, "linsolve": linsolve}
    for option, value in given.items():
        is_known = isinstance(value, (str, bool)) and value in _OPTIONS[option]
        if not (is_known or (option in ("jac", "linsolve") and callable(value))):
            functions = ", or a function" if option in ("jac", "linsolve") else ""
            choices = ", ".join(map(repr, _OPTIONS[option]))
            raise ValueError(f"{name}: {option} is one of {choices}{functions}, not {value!r}")
    if jac == "matrix_free" and linsolve == "lu":
        raise ValueError(f"{name}: linsolve='lu' needs a matrix, and jac='matrix_free' makes none")


def check_replayable(name: str) -> None:
    """Raise if what runs here is recorded to be replayed."""
    if running.get() and is_recording():
        from wengert.program.tracing.closure import NotReplayable

        raise NotReplayable(f"{name} runs a solver, which a replay would not run again")


def numbers(f: Callable) -> Callable:
    """`f`, a function or a derivative of one, as a solver is to see it: of plain numbers, and followed by nobody.

    It belongs to the derivatives that are running now, wherever it is called.
    """
    return _at_numbers(stripped(f)) if running.get() else f


def _at_numbers(f):
    """The same of a function that has been stripped."""
    around = running.get()
    if not around:
        return f
    stands_alone = True

    @functools.wraps(f, updated=())
    def at_numbers(*args, **kwargs):
        nonlocal stands_alone
        with within(around), passive():
            if stands_alone:
                before = noted()
                try:
                    with outside():
                        return plain_copy(f(*args, **kwargs))
                except (LevelError, TracedValueError):  # it reads traced values from places that are not seen
                    stands_alone = False
                    forget(before)
            followed = f if isinstance(f, Operator) else rebound(f)
            return plain_copy(followed(*args, **kwargs))

    return at_numbers


def by_numbers(solver: Callable) -> Callable:
    """A solver, without the traced values that it holds, running where no derivative sees it."""
    if not running.get():
        return solver
    solver = stripped(solver)

    @functools.wraps(solver)
    def solve(*args, **kwargs):
        with passive(), outside():
            return plain_copy(solver(*args, **kwargs))

    return solve


def implicit(
    residual: Callable,
    x: Any,
    args: tuple = (),
    *,
    name: str,
    jac: Any = "auto",
    linsolve: Any = "auto",
    on_failure: str = "raise",
    on_singular: str = "raise",
    polish: Any = "auto",
    symmetric: bool = False,
    elementwise: bool = False,
    plain: Callable | None = None,
    starts_traced: bool = False,
) -> tuple[Any, Info | None]:
    """`x`, which solves ``residual(x, *args) = 0``, as a function of every traced value that `residual` reads.

    Parameters
    ----------
    residual : callable
        As many equations as unknowns. Traced values may be among `args` or read from outside.
    x : number or ndarray of floats
        The solution that a solver found, plain.
    args : tuple
        Further arguments of `residual`.
    name : str
        What messages call the function.
    jac, linsolve, on_failure, on_singular, polish
        As of `wengert.implicit.root`.
    symmetric : bool
        The Jacobian is the Hessian of a function that has a minimum at `x`.
    elementwise : bool
        Equation i has the unknown i alone.
    plain : callable, optional
        `residual` without the traced values that it holds, if that is known.
    starts_traced : bool
        Traced values say where the search began, or when it ended: then the equations must determine `x` in any case.

    Returns
    -------
    x : number, ndarray or operand
        The same bits; `x` itself if nothing traced is read.
    info : Info or None
    """
    if not running.get():
        return x, None
    check_replayable(name)
    at = _as_floats(x, name)
    equations = Equations(residual, args, np.shape(at), name, jac, linsolve, symmetric, elementwise, plain)
    if not np.size(at) or not (equations.holds_traced or var.holds_traced(equations(at))):
        if starts_traced and np.size(at):  # a solution that equations do not determine is where the search began
            settle(equations, at, on_failure, on_singular, polish)
        return x, None
    point = settle(equations, at, on_failure, on_singular, polish)
    r = equations(point.at)
    if not var.holds_traced(r):
        return x, None
    steps = _order(r) + (not point.factor.is_direct)
    d = _solved(point.factor, r, name)
    for _ in range(steps - 1):
        d = d + _solved(point.factor, equations(point.at - d), name)
    d = d if d.dtype == at.dtype else d.astype(at.dtype)
    return at - d, Info(point.correction, point.factor.rcond, steps)


def information(residual: Callable, x: Any, args: tuple, name: str, jac: Any, linsolve: Any) -> Info:
    """The same, where no derivative asks for it."""
    at = _as_floats(x, name)
    equations = Equations(residual, args, np.shape(at), name, jac, linsolve, False, False)
    correction, factor = equations.correction(at)
    return Info(correction, factor.rcond, 0)


def _as_floats(x, name):
    """The solution as numbers that can be differentiated."""
    if var.holds_traced(x):
        raise TypeError(f"{name}: the solver returned a traced value: give it plain numbers")
    x = np.asarray(x)
    if x.dtype.kind in "biu":
        x = x.astype(np.float64)
    if x.dtype.kind != "f":
        raise TypeError(f"{name}: the solution is an array of dtype {x.dtype}: real numbers are differentiated")
    return x if x.ndim else x[()]


def _order(r) -> int:
    """Order of the derivatives that `r` depends on: the sum over their levels."""
    total = 0
    while var.holds_traced(r):
        level = var.level_of(r)
        total += level.order
        r = var.lower(r, level)
    return total


def _solved(factor, r, name):
    """S (r - stop r), of the shape of r; its value is 0."""
    r = r - var.plain(r)
    if isinstance(factor, Diagonal):
        slopes = np.reshape(factor.slopes, np.shape(r))
        return 0.0 + r / (slopes if np.ndim(r) else slopes[()])
    solve = LinearMap(*(functools.partial(_solve_rows, factor, transposed) for transposed in (False, True)), name)
    return np.reshape(solve(np.reshape(r, (-1,))), np.shape(r))


def _solve_rows(factor, transposed, rows):
    """Solve for the rows that are not 0: the others are values, not derivatives."""
    found = np.zeros(rows.shape, rows.dtype)
    given = rows.any(axis=1)
    if given.any():
        found[given] = factor.solve(rows[given], transposed)
    return found


class Equations:
    """``residual(x, *args) = 0`` for x of one shape, at traced values and at numbers."""

    #: is the inverse of the Jacobian needed to judge a solution alone?
    keeps_factor = False

    def __init__(self, residual, args, shape, name, jac, linsolve, symmetric, elementwise, plain=None):
        self.residual = residual
        self.args = args
        self.plain_args = tuple(map(stripped, args))
        self.plain_residual = plain or stripped(residual)
        given, stripped_of = (residual, *args), (self.plain_residual, *self.plain_args)
        self.holds_traced = any(a is not b for a, b in zip(given, stripped_of))
        self._value = _at_numbers(self.plain_residual)
        self.shape = shape
        self.n = int(np.prod(shape, dtype=int))
        self.name = name
        self.jac = jac
        self.linsolve = linsolve
        self.symmetric = symmetric
        self.elementwise = elementwise or shape == ()

    def __call__(self, x):
        """The residual, with the derivatives that are running."""
        x = x if var.is_var(x) or not self.shape else var.clean(np.array(x))
        r = rebound(self.residual)(x, *self.args)
        return self._shaped(dispatch.stacked(r) if isinstance(r, (list, tuple)) else r)

    def value(self, x):
        """The residual at numbers."""
        return self._shaped(np.asarray(self._value(np.array(x)[()], *self.plain_args)))

    def solved(self, factor, r):
        """S r."""
        return np.reshape(factor.solve(np.reshape(r, (1, -1))), self.shape)[()]

    def linearised(self, x):
        """The residual and the inverse of its Jacobian."""
        if self.elementwise and not callable(self.jac):
            y, slopes = _at_numbers(JVP(self.plain_residual))(x, np.ones_like(x), *self.plain_args)
            return self._shaped(np.asarray(y)), Diagonal(np.asarray(slopes))
        y, jacobian = self.jacobian(x)
        return self._shaped(np.asarray(y)), self._factor(jacobian)

    def correction(self, x) -> tuple[float, Any]:
        """Newton's correction of x, relative to it, and the inverse of the Jacobian."""
        y, factor = self.linearised(x)
        return (_relative(self.solved(factor, y), _scale(x, factor)) if factor.rcond != 0 else np.inf), factor

    def jacobian(self, x):
        """The residual and its Jacobian: an array, a sparse one, or an operator."""
        if callable(self.jac):
            return self.value(x), numbers(self.jac)(x, *self.plain_args)
        if self.jac == "matrix_free" or (self.jac == "auto" and self.linsolve != "lu" and self.n > _LARGE):
            return self._operator(x)
        return _at_numbers(Jacobian(self.plain_residual, 0, True))(x, *self.plain_args)

    def _operator(self, x):
        try:
            return _at_numbers(Linearize(self.plain_residual))(x, *self.plain_args)
        except LevelError:
            raise TypeError(
                f"{self.name}: products with the Jacobian want a residual of numbers: pass the traced values that it "
                "reads from outside as args=, or jac='dense'"
            ) from None

    def _factor(self, jacobian):
        is_sparse = hasattr(jacobian, "tocsc")
        if not is_sparse and not hasattr(jacobian, "matvec"):
            jacobian = np.reshape(np.asarray(jacobian), (self.n, self.n))
        elif not is_sparse and not callable(self.linsolve):
            return Iterative(jacobian, gmres, self.name)
        if callable(self.linsolve) or self.linsolve == "gmres":
            return Iterative(jacobian, self.linsolve if callable(self.linsolve) else gmres, self.name)
        if is_sparse:
            return Sparse(jacobian)
        return Symmetric(jacobian) if self.symmetric else Matrix(jacobian)

    def _shaped(self, r):
        if np.shape(r) == self.shape:
            return r
        if np.size(r) != self.n:
            raise ValueError(
                f"{self.name}: the residual has shape {np.shape(r)} and the solution {self.shape}: "
                "there must be as many equations as unknowns"
            )
        return np.reshape(r, self.shape)


@dataclass
class _Point:
    """Where the derivative is taken, and the inverse of the Jacobian there."""

    at: Any
    factor: Any
    correction: float


def settle(equations: Equations, x, on_failure: str, on_singular: str, polish) -> _Point:
    """The point of the derivative near the solution `x`, or an error if the equations do not determine it.

    Newton's steps lead to it, if wanted, where `x` is less accurate than it could be.
    """
    z, first, last, size = x, None, np.inf, np.inf
    for count in range(_STEPS):
        if equations.keeps_factor and size < _NEAR:
            y = equations.value(z)
        else:
            y, factor = equations.linearised(z)
            scale = _scale(z, factor)
        eps = np.finfo(y.dtype).eps
        if factor.rcond <= equations.n * eps:
            if not (equations.elementwise and on_singular == "lstsq"):
                return _singular(equations, _Point(x, factor, first or np.nan), y, np.True_, on_singular)
            factor = factor.least_norm(np.True_)  # the others are looked at as ever
            scale = _scale(z, factor)
        step = equations.solved(factor, y)
        size = _relative(step, scale)
        if first is None:
            first = size
            if not np.max(np.abs(step) / np.maximum(1.0, np.abs(x))) <= _FAR:
                return _failed(equations, x, factor, size, y, on_failure)
        wanted = polish and (size > _POLISH * eps or (polish is True and not count))
        if not wanted or not size < 0.5 * last or count == _STEPS - 1:
            break
        z, last = z - step, size
    determined = _determined(equations, z, y, factor, step, scale)
    if not determined.all():
        return _singular(equations, _Point(z, factor, first), y, determined, on_singular)
    return _Point(z, factor, first)


def settled_at_once(equations: Equations, x, polish):
    """The point to which `settle` would lead, where one step and few looks tell; None: they do not.

    Whatever this accepts, `settle` would.
    """
    y, factor = equations.linearised(x)
    eps = np.finfo(y.dtype).eps
    if not factor.rcond > equations.n * eps:
        return None
    scale = _scale(x, factor)
    step = equations.solved(factor, y)
    size = first = _relative(step, scale)
    if not (size < _NEAR and np.max(scale) < 1 / _NEAR):
        return None
    if polish and (size > _POLISH * eps or polish is True):
        x = x - step
        y = equations.value(x)
        step = equations.solved(factor, y)
        size = _relative(step, scale)
        if not size <= _POLISH * eps:
            return None
    move = 64 * eps * scale * _weights(equations.shape)
    moves = [move] if size <= 64 * eps else [move, -step]
    for move in moves:
        with np.errstate(all="ignore"):
            found = equations.solved(factor, equations.value(x + move) - y)
        if not _relative(found - move, scale) <= _CHANGE * _relative(move, scale):
            return None
    return _Point(x, factor, first)


def _scale(x, factor):
    """What changes of each component of x are relative to: its size, if that is not small in the units of J."""
    magnitude = np.abs(x)
    units = np.reshape(factor.columns, np.shape(x)) if np.size(factor.columns) == np.size(x) else 1.0
    largest = 0.0 if isinstance(factor, Diagonal) else units * (magnitude / units).max()
    scale = np.maximum(magnitude, _SMALL * largest)
    return np.where(scale == 0, 1e-30, scale)


def _relative(step, scale) -> float:
    """Largest component of a step, relative to that of x."""
    with np.errstate(over="ignore"):
        return float((np.abs(step) / scale).max())


def _determined(equations, x, y, factor, step, scale):
    """Do the equations determine x, as far as the values of the residual tell? An answer for each that stands alone.

    There must be a step, larger than what rounding errors hide, over which the residual follows its Jacobian, and
    it must follow it over Newton's step, if that is larger.
    At a double root it does not, though the Jacobian at a point nearby is not exactly singular.
    """
    if equations.n == 1 or not equations.elementwise:
        return _determined_at_once(equations, x, y, factor, step, scale)

    def size(v):
        return np.abs(v) / scale

    def follows(move):
        with np.errstate(all="ignore"):  # f may not be defined there
            found = equations.solved(factor, equations.value(x + move) - y)
        return size(found - move) <= _CHANGE * size(move)

    weights = _weights(equations.shape)
    length = 4 * np.finfo(y.dtype).eps
    last = size(step)
    seen = np.zeros(np.shape(last), dtype=bool)
    hidden = np.full(seen.shape, np.inf)
    while not seen.all() and (length < 1 or np.min(length * scale) < _FAR):
        move = (np.minimum(length * scale, np.maximum(1.0, np.abs(x))) * weights).astype(x.dtype)
        new = follows(move) & ~seen
        hidden = np.where(new, 16 * length, hidden)  # one of many elements follows earlier, by luck
        seen = seen | new
        length *= 16 if length < 1 else 1e6
    if (seen & (last > hidden)).any():
        seen = seen & (follows(-step) | (last <= hidden))
    return seen


def _determined_at_once(equations, x, y, factor, step, scale):
    """The same of equations that all go together, with numbers in the place of arrays of them."""

    def size(v):
        return float((np.abs(v) / scale).max())

    def follows(move):
        with np.errstate(all="ignore"):
            found = equations.solved(factor, equations.value(x + move) - y)
            return size(found - move) <= _CHANGE * size(move)

    most = np.maximum(1.0, np.abs(x))
    length = 4 * np.finfo(y.dtype).eps
    while not follows((np.minimum(length * scale, most) * _weights(equations.shape)).astype(x.dtype, copy=False)):
        length *= 16 if length < 1 else 1e6
        if not (length < 1 or np.min(length * scale) < _FAR):
            return np.False_
    return np.bool(size(step) <= 16 * length or follows(-step))


@functools.lru_cache
def _weights(shape):
    """A direction of which no component is 0."""
    return np.cos(np.arange(1.0, int(np.prod(shape, dtype=int)) + 1)).reshape(shape)


def _failed(equations, x, factor, size, y, on_failure):
    """What is to happen with a point that is no solution."""
    message = (
        f"{equations.name}: no solution: the residual is {np.max(np.abs(y)):.3g} in its largest element, and Newton's "
        f"method would change x by {size:.2g} of itself. Start nearer to a root, or give the solver more "
        "iterations or a smaller tolerance"
    )
    if on_failure == "raise":
        raise ConvergenceError(message)
    if on_failure == "warn":
        warnings.warn(message, RuntimeWarning, stacklevel=frames_inside())
        return _Point(x, factor, size)
    return _Point(x, Unknown(), size)


def _singular(equations, point, y, determined, on_singular):
    """What is to happen where the equations do not determine the solution."""
    factor = point.factor
    if on_singular == "nan":
        return _Point(point.at, Unknown(), point.correction)
    if on_singular == "lstsq" and factor.is_direct:
        return _Point(point.at, factor.least_norm(determined), point.correction)
    eps = equations.n * np.finfo(y.dtype).eps
    what = "Hessian is not positive definite" if equations.symmetric else "Jacobian is singular"
    why = f"its reciprocal condition number is {factor.rcond:.2g}"
    if not factor.rcond <= eps:
        why += ", but the residual does not follow it, as at a multiple root"
    raise SingularJacobianError(
        f"{equations.name}: the {what} at the solution: {why}; the smallest pivot is "
        f"{factor.place()}; the largest residual is {np.max(np.abs(y)):.3g}. The equations do not determine x: remove "
        "those that depend on others and multiple roots, or pass on_singular='lstsq' for the derivative of least norm"
    )
