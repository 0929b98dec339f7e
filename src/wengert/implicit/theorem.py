"""The implicit function theorem: derivatives of any order of x(p) with f(x, p) = 0.

Let x* solve the equations at the current p, and let S be the inverse of J = df/dx there, held constant. Then ::

    D <- D + S (f(x* - D, p) - stop f(x* - D, p)),     x = x* - D,     D = 0 at first

changes no value, and each step makes one more order of the derivatives of x exact: an error of order j in dp is
multiplied by I - S J, which vanishes at x*.
The number of steps is the total order of the running derivatives. Forward mode, reverse mode and all nestings follow
from the rules of the functions that f calls, and of S, which is linear.
The first step is the theorem itself: dx = -J^-1 f_p dp, which needs one solve with J^-T in reverse mode.

References
----------
Griewank and Walther (2008), Evaluating Derivatives, chapter 15. doi:10.1137/1.9780898717761
Blondel et al. (2022), Efficient and modular implicit differentiation. arXiv:2105.15183
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
from wengert.transforms.dense import JVP, Jacobian
from wengert.transforms.operators import Operator
from wengert.transforms.products import frames_inside
from wengert.transforms.second import Linearize

#: if the Newton correction exceeds this many ulps of x, the derivative is taken at the corrected point
POLISH_ULPS = 500

#: smallest scale of a component of x, in the units of J, relative to the largest one
SCALE_FLOOR = 1e-6

#: corrections above this fraction of max(x, 1) mean that x is not a solution
MAX_CORRECTION = 1e-2

#: maximum relative deviation of a change of the residual from its linearisation
MAX_NONLINEARITY = 0.15

#: maximum number of Newton steps of the point where the derivative is taken
MAX_NEWTON_STEPS = 8

#: relative correction of x below which a Newton step reuses the factorisation of J
REUSE_CORRECTION = 1e-9

#: at a point without curvature, gradient elements above this size mean that the objective may be unbounded
MIN_SLOPE = 1e-4

#: the limits of `wengert.program.roots.equations.Bound.settled`
LIMITS = SCALE_FLOOR, REUSE_CORRECTION, POLISH_ULPS, MAX_NONLINEARITY

#: maximum number of unknowns for which J is formed as a matrix
MAX_DENSE_UNKNOWNS = 4096


_OPTIONS = {
    "on_failure": ("raise", "warn", "nan"),
    "on_singular": ("raise", "lstsq", "nan"),
    "polish": ("auto", True, False),
    "jac": ("auto", "dense", "matrix_free"),
    "linsolve": ("auto", "lu", "gmres"),
}


@dataclass(frozen=True)
class Info:
    """Accuracy of a solution and conditioning of its equations, computed with its derivative.

    Attributes
    ----------
    correction : float
        Largest component of ``J^-1 f(x)``, relative to that of `x`: an estimate of the error of the solution.
    rcond : float
        Estimated reciprocal condition number in the 1-norm of the Jacobian `J` with equilibrated rows and columns;
        NaN if it was not computed.
    steps : int
        Number of steps of the implicit function theorem: the order of the running derivatives, plus one if linear
        equations are solved iteratively.
    """

    correction: float
    rcond: float
    steps: int


def in_derivative() -> bool:
    return bool(running.get())


def check_options(name, on_failure="raise", on_singular="raise", polish="auto", jac="auto", linsolve="auto") -> None:
    given = {"on_failure": on_failure, "on_singular": on_singular, "polish": polish, "jac": jac, "linsolve": linsolve}
    for option, value in given.items():
        is_known = isinstance(value, (str, bool)) and value in _OPTIONS[option]
        if not (is_known or (option in ("jac", "linsolve") and callable(value))):
            functions = ", or a function" if option in ("jac", "linsolve") else ""
            choices = ", ".join(map(repr, _OPTIONS[option]))
            raise ValueError(f"{name}: {option} is one of {choices}{functions}, not {value!r}")
    if jac == "matrix_free" and linsolve == "lu":
        raise ValueError(f"{name}: linsolve='lu' needs a matrix, but jac='matrix_free' forms none")


def is_recorded() -> bool:
    """Return whether a program is being recorded here, as the only running level."""
    around = running.get()
    if len(around) != 1 or not is_recording():
        return False
    from wengert.program.tracing.trace import recording  # only if the modules of programs have been imported

    made = recording.get()
    return made is not None and around[0] is made.tape and not made.code.is_paused


def check_replayable(name: str, reason: str = "runs a solver, which a replay would skip") -> None:
    """Raise if a program is being recorded: `name` is the function that cannot be recorded, and `reason` says why."""
    if running.get() and is_recording():
        from wengert.program.tracing.refusals import NotReplayable

        raise NotReplayable(f"{name} {reason}")


def plain_function(f: Callable) -> Callable:
    """Wrap `f`, a function or a derivative of one, to compute plain values for a solver, outside all derivatives.

    Wherever it is called later, it runs in the context of the derivatives that are running now.
    """
    return _plain_stripped(stripped(f)) if running.get() else f


def _plain_stripped(f):
    """Like `plain_function`, for a function that has been stripped."""
    around = running.get()
    if not around:
        return f
    stands_alone = True

    @functools.wraps(f, updated=())
    def plain_call(*args, **kwargs):
        nonlocal stands_alone
        with within(around), passive():
            if stands_alone:
                before = noted()
                try:
                    with outside():
                        return plain_copy(f(*args, **kwargs))
                except (LevelError, TracedValueError):  # f reads traced values that `stripped` did not find
                    stands_alone = False
                    forget(before)
            followed = f if isinstance(f, Operator) else rebound(f)
            return plain_copy(followed(*args, **kwargs))

    return plain_call


def plain_solver(solver: Callable) -> Callable:
    """Wrap a solver to run on plain values, outside all derivatives."""
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
    """Make the solution `x` of ``residual(x, *args) = 0`` a function of every traced value that `residual` reads.

    Returns a value with the bits of `x`, or `x` itself if `residual` reads no traced value; and an `Info` or None.

    `residual` returns as many equations as there are unknowns; traced values may be in `args` or read from outside. `x`
    is the scalar or array of floats that a solver found, untraced. `name` names the function in error messages, and
    `jac`, `linsolve`, `on_failure`, `on_singular` and `polish` are as for `wengert.implicit.root`.

    With `symmetric`, the Jacobian is the Hessian of a function that has a minimum at `x`; with `elementwise`, equation
    i contains only the unknown i. `plain` is `residual` without its traced values, if known. With `starts_traced`,
    traced values determine the start or the end of the search; then the equations must determine `x`.
    """
    if not running.get():
        return x, None
    check_replayable(name)
    if np.iscomplexobj(x) and not var.holds_traced(rebound(residual)(np.array(x)[()], *args)):
        return x, None
    at = _as_floats(x, name)
    equations = Equations(residual, args, np.shape(at), name, jac, linsolve, symmetric, elementwise, plain)
    if not np.size(at) or not (equations.holds_traced or var.holds_traced(equations(at))):
        if starts_traced and np.size(at):  # if the equations do not determine x, it depends on the start
            settle(equations, at, on_failure, on_singular, polish)
        return x, None
    point = settle(equations, at, on_failure, on_singular, polish)
    r = equations(point.at)
    if not var.holds_traced(r):
        return x, None
    steps = total_order(r) + (not point.factor.is_direct)
    d = _solved(point.factor, r, name)
    for _ in range(steps - 1):
        d = d + _solved(point.factor, equations(point.at - d), name)
    d = d if d.dtype == at.dtype else d.astype(at.dtype)
    return at - d, Info(point.correction, point.factor.rcond, steps)


def with_bits(value: Any, traced: Any) -> Any:
    """Return a solver's `value` with the derivative of `traced`, which has the same value up to rounding."""
    return value - (plain_copy(traced) - traced)  # this order preserves -0.0


def solved_once(residual: Callable, at: Any, factor: Any, name: str) -> Any:
    """Return the solution `at`, which is plain, as a function of the traced values that `residual` reads.

    `factor` solves with the Jacobian of the residual there; nothing is checked.
    """
    r = residual(at)
    if not var.holds_traced(r):
        return at
    d = _solved(factor, r, name)
    for _ in range(total_order(r) - 1):
        d = d + _solved(factor, residual(at - d), name)
    return at - d


def information(
    residual: Callable, x: Any, args: tuple, name: str, jac: Any, linsolve: Any, symmetric: bool = False
) -> Info:
    """Return the `Info` of a solution, outside derivatives."""
    at = _as_floats(x, name)
    equations = Equations(residual, args, np.shape(at), name, jac, linsolve, symmetric, False)
    correction, factor = equations.correction(at)
    return Info(correction, factor.rcond, 0)


def _as_floats(x, name):
    """Convert the solution to floats that can be differentiated."""
    if var.holds_traced(x):
        raise TypeError(f"{name}: the solver returned a traced value: call it with plain numbers")
    x = np.asarray(x)
    if x.dtype.kind in "biu":
        x = x.astype(np.float64)
    if x.dtype.kind != "f":
        raise TypeError(f"{name}: the solution is an array of dtype {x.dtype}: only real solutions are differentiated")
    return x if x.ndim else x[()]


def total_order(r) -> int:
    """Return the total order of the derivatives that `r` depends on, summed over levels."""
    total = 0
    while var.holds_traced(r):
        level = var.level_of(r)
        total += level.order
        r = var.lower(r, level)
    return total


def _solved(factor, r, name):
    """Return S (r - stop r), with the shape of r; its value is 0."""
    r = r - var.plain(r)
    if isinstance(factor, Diagonal):
        slopes = np.reshape(factor.slopes, np.shape(r))
        return 0.0 + r / (slopes if np.ndim(r) else slopes[()])
    solve = LinearMap(*(functools.partial(_solve_rows, factor, transposed) for transposed in (False, True)), name)
    return np.reshape(solve(np.reshape(r, (-1,))), np.shape(r))


def _solve_rows(factor, transposed, rows):
    """Solve for the nonzero rows only; zero rows stem from values, not from derivatives."""
    found = np.zeros(rows.shape, rows.dtype)
    given = rows.any(axis=1)
    if given.any():
        found[given] = factor.solve(rows[given], transposed)
    return found


class Equations:
    """``residual(x, *args) = 0`` for x of a fixed shape, evaluated at traced or plain values."""

    #: whether a step needs no new Jacobian once the correction is small
    keeps_factor = False

    def __init__(self, residual, args, shape, name, jac, linsolve, symmetric, elementwise, plain=None):
        self.residual = residual
        self.args = args
        self.plain_args = tuple(map(stripped, args))
        self.plain_residual = plain or stripped(residual)
        given, stripped_of = (residual, *args), (self.plain_residual, *self.plain_args)
        self.holds_traced = any(a is not b for a, b in zip(given, stripped_of))
        self._value = _plain_stripped(self.plain_residual)
        self.shape = shape
        self.n = int(np.prod(shape, dtype=int))
        self.name = name
        self.jac = jac
        self.linsolve = linsolve
        self.symmetric = symmetric
        self.elementwise = elementwise or shape == ()

    def __call__(self, x):
        """Return the residual, with the running derivatives."""
        x = x if var.is_var(x) or not self.shape else var.clean(np.array(x))
        r = rebound(self.residual)(x, *self.args)
        return self._shaped(dispatch.from_list(r))

    def value(self, x):
        """Return the residual at plain values."""
        return self._shaped(np.asarray(self._value(np.array(x)[()], *self.plain_args)))

    def solved(self, factor, r):
        """Return S r, in the shape of x, where `factor` represents S, the inverse of the Jacobian."""
        return np.reshape(factor.solve(np.reshape(r, (1, -1))), self.shape)[()]

    def linearised(self, x):
        """Return the residual and the inverse of its Jacobian."""
        if self.elementwise and not callable(self.jac):
            y, slopes = _plain_stripped(JVP(self.plain_residual))(x, np.ones_like(x), *self.plain_args)
            factor = Diagonal(np.asarray(slopes))
            if self.symmetric and not np.all(factor.slopes > 0):
                factor.rcond = 0.0
            return self._shaped(np.asarray(y)), factor
        y, jacobian = self.jacobian(x)
        return self._shaped(np.asarray(y)), self._factor(jacobian)

    def correction(self, x) -> tuple[float, Any]:
        """Return the Newton correction relative to x, and the inverse of the Jacobian."""
        y, factor = self.linearised(x)
        return (_relative(self.solved(factor, y), _scale(x, factor)) if factor.rcond != 0 else np.inf), factor

    def jacobian(self, x):
        """Return the residual and its Jacobian as an array, a sparse array or a linear operator."""
        if callable(self.jac):
            return self.value(x), plain_function(self.jac)(x, *self.plain_args)
        if self.jac == "matrix_free" or (self.jac == "auto" and self.linsolve != "lu" and self.n > MAX_DENSE_UNKNOWNS):
            return self._operator(x)
        return _plain_stripped(Jacobian(self.plain_residual, 0, True))(x, *self.plain_args)

    def _operator(self, x):
        try:
            return _plain_stripped(Linearize(self.plain_residual))(x, *self.plain_args)
        except LevelError:
            raise TypeError(
                f"{self.name}: jac='matrix_free' needs a residual that reads no traced values from outside: pass them "
                "as args=, or use jac='dense'"
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
    """Point where the derivative is taken, and the inverse of the Jacobian there."""

    at: Any
    factor: Any
    correction: float


def settle(equations: Equations, x, on_failure: str, on_singular: str, polish) -> _Point:
    """Return the point near the solution `x` where the derivative is taken; raise if the equations do not determine it.

    With `polish`, Newton steps improve `x` if it is less accurate than possible.
    """
    z, first, last, size = x, None, np.inf, np.inf
    for count in range(MAX_NEWTON_STEPS):
        if equations.keeps_factor and size < REUSE_CORRECTION:
            y = equations.value(z)
        else:
            y, factor = equations.linearised(z)
            scale = _scale(z, factor)
        eps = np.finfo(y.dtype).eps
        if factor.rcond <= equations.n * eps:
            if not (equations.elementwise and on_singular == "lstsq"):
                return _singular(equations, _Point(x, factor, first or np.nan), y, np.True_, on_singular)
            factor = factor.least_norm(np.True_)  # other elements are checked as usual
            scale = _scale(z, factor)
        step = equations.solved(factor, y)
        size = _relative(step, scale)
        if first is None:
            first = size
            if not np.max(np.abs(step) / np.maximum(1.0, np.abs(x))) <= MAX_CORRECTION:
                return _failed(equations, x, factor, size, y, on_failure)
        wanted = polish and (size > POLISH_ULPS * eps or (polish is True and not count))
        if not wanted or not size < 0.5 * last or count == MAX_NEWTON_STEPS - 1:
            break
        z, last = z - step, size
    determined = _determined(equations, z, y, factor, step, scale)
    if not determined.all():
        return _singular(equations, _Point(z, factor, first), y, determined, on_singular)
    return _Point(z, factor, first)


def _scale(x, factor):
    """Return the magnitude of each component of x, for relative changes, bounded below in the units of J."""
    magnitude = np.abs(x)
    units = np.reshape(factor.columns, np.shape(x)) if np.size(factor.columns) == np.size(x) else 1.0
    largest = 0.0 if isinstance(factor, Diagonal) else units * (magnitude / units).max()
    scale = np.maximum(magnitude, SCALE_FLOOR * largest)
    return np.where(scale == 0, 1e-30, scale)


def _relative(step, scale) -> float:
    """Return the largest component of a step relative to `scale`."""
    with np.errstate(over="ignore"):
        return float((np.abs(step) / scale).max())


def _determined(equations, x, y, factor, step, scale):
    """Return whether residual values confirm that the equations determine x; elementwise for independent equations.

    The residual must follow its linearisation over some step that exceeds rounding errors, and over the Newton step if
    that is larger.
    At a double root it does not, although the Jacobian at a point nearby is not exactly singular.
    """
    if equations.n == 1 or not equations.elementwise:
        return _determined_at_once(equations, x, y, factor, step, scale)

    def size(v):
        return np.abs(v) / scale

    def follows(move):
        with np.errstate(all="ignore"):  # f may be undefined there
            found = equations.solved(factor, equations.value(x + move) - y)
        return size(found - move) <= MAX_NONLINEARITY * size(move)

    direction = weights(equations.shape)
    length = 4 * np.finfo(y.dtype).eps
    last = size(step)
    seen = np.zeros(np.shape(last), dtype=bool)
    hidden = np.full(seen.shape, np.inf)
    while not seen.all() and (length < 1 or np.min(length * scale) < MAX_CORRECTION):
        move = (np.minimum(length * scale, np.maximum(1.0, np.abs(x))) * direction).astype(x.dtype)
        new = follows(move) & ~seen
        hidden = np.where(new, 16 * length, hidden)  # among many elements one may follow earlier by chance
        seen = seen | new
        length *= 16 if length < 1 else 1e6
    if (seen & (last > hidden)).any():
        seen = seen & (follows(-step) | (last <= hidden))
    return seen


def _determined_at_once(equations, x, y, factor, step, scale):
    """Like `_determined` for coupled equations, with scalars instead of arrays."""

    def size(v):
        return float((np.abs(v) / scale).max())

    def follows(move):
        with np.errstate(all="ignore"):
            found = equations.solved(factor, equations.value(x + move) - y)
            return size(found - move) <= MAX_NONLINEARITY * size(move)

    most = np.maximum(1.0, np.abs(x))
    length = 4 * np.finfo(y.dtype).eps
    while not follows((np.minimum(length * scale, most) * weights(equations.shape)).astype(x.dtype, copy=False)):
        length *= 16 if length < 1 else 1e6
        if not (length < 1 or np.min(length * scale) < MAX_CORRECTION):
            return np.False_
    return np.bool(size(step) <= 16 * length or follows(-step))


@functools.lru_cache
def weights(shape):
    """Return a direction without zero components."""
    return np.cos(np.arange(1.0, int(np.prod(shape, dtype=int)) + 1)).reshape(shape)


def _failed(equations, x, factor, size, y, on_failure):
    """Handle a point that is not a solution, according to `on_failure`."""
    value, goal, otherwise = "residual", "root", ""
    if equations.symmetric:
        value, goal, otherwise = "gradient", "minimum", ". If there is none, add bounds or terms of the objective"
    message = (
        f"{equations.name}: no solution: the {value} is {np.max(np.abs(y)):.3g} in its largest element, and Newton's "
        f"method would change x by a relative {size:.2g}. Start nearer to a {goal}, or give the solver more "
        f"iterations or a smaller tolerance{otherwise}"
    )
    if on_failure == "raise":
        raise ConvergenceError(message)
    if on_failure == "warn":
        warnings.warn(message, RuntimeWarning, stacklevel=frames_inside())
        return _Point(x, factor, size)
    return _Point(x, Unknown(), size)


def _descends(factor, y):
    """Return whether the gradient at a singular Hessian has a part along directions without curvature."""
    matrix, y = getattr(factor, "matrix", None), np.ravel(y)
    if not isinstance(matrix, np.ndarray) or not np.isfinite(matrix).all():
        return False
    step = np.linalg.lstsq(matrix, y, rcond=1e-12)[0]
    return bool(np.max(np.abs(matrix @ step - y)) > max(MIN_SLOPE, 1e-8 * np.max(np.abs(y))))


def _singular(equations, point, y, determined, on_singular):
    """Handle equations that do not determine the solution, according to `on_singular`."""
    factor = point.factor
    if on_singular == "nan":
        return _Point(point.at, Unknown(), point.correction)
    if on_singular == "lstsq" and factor.is_direct:
        return _Point(point.at, factor.least_norm(determined), point.correction)
    eps = equations.n * np.finfo(y.dtype).eps
    what = "Hessian is not positive definite" if equations.symmetric else "Jacobian is singular"
    why = f"its reciprocal condition number is {factor.rcond:.2g}"
    if equations.symmetric and _descends(factor, y):
        raise SingularJacobianError(
            f"{equations.name}: x is not a minimum: the {what} there, {why}, and the gradient is "
            f"{np.max(np.abs(y)):.3g} in its largest element, along a direction without curvature. The objective may "
            "be unbounded, or have a kink at x: add bounds or constraints, start nearer to a minimum, or use a smooth "
            "objective"
        )
    if not factor.rcond <= eps:
        why += ", but the residual does not follow it, as at a multiple root"
    raise SingularJacobianError(
        f"{equations.name}: the {what} at the solution: {why}; the smallest pivot is "
        f"{factor.place()}; the largest residual is {np.max(np.abs(y)):.3g}. The equations do not determine x: remove "
        "dependent equations and multiple roots, or pass on_singular='lstsq' for the derivative of minimum norm"
    )
