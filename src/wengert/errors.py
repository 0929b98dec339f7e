"""Exceptions and warnings of wengert.

Each derives from the built-in class that one would expect, so ordinary ``except TypeError`` code keeps working.
A message says what happened, where, and what to write instead.
"""

from __future__ import annotations

import numpy as np


class Refusal(Exception):
    """An error that occurs only under differentiation: plain code would have continued.

    If the function catches it, it may take a branch that plain code does not take, and lose a derivative there.
    Running derivatives therefore remember these errors, and raise at their end if one was caught.
    """

    #: replaced by `wengert.core.hooks`, which knows the running derivatives
    remember = staticmethod(lambda error: None)

    def __init__(self, *args):
        super().__init__(*args)
        Refusal.remember(self)


class UnsupportedFunctionError(Refusal, TypeError):
    """A traced value reached a function that has no derivative rule.

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> try:
    ...     wg.grad(lambda x: np.setdiff1d(x, 1.0).sum(), np.ones(3))
    ... except wg.UnsupportedFunctionError as error:
    ...     print(str(error).split(":")[0])
    numpy.setdiff1d has no derivative

    Declare a rule for a function of your own with `wengert.primitive`, or pass ``wengert.stop_gradient(x)``
    if the function is meant to be a constant.
    """


class TracedValueError(Refusal, TypeError):
    """A traced value reached code that cannot propagate it, and its derivative would have been lost.

    Examples
    --------
    >>> import struct
    >>> import numpy as np, wengert as wg
    >>> try:
    ...     wg.grad(lambda x: struct.unpack("d", struct.pack("d", x))[0], 1.0)
    ... except wg.TracedValueError:
    ...     print(wg.grad(lambda x: np.sin(x), 0.0))
    1.0
    """


class ComplexValueError(TracedValueError):
    """A complex value reached an operation for real values only, such as `linearize`, a Hessian or a root.

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> def f(x):
    ...     return np.exp(1j * x)
    >>> try:
    ...     wg.linearize(f, [0.0])
    ... except wg.ComplexValueError:
    ...     print(wg.jacobian(f, [0.0]))
    [[0.+1.j]]
    """


class LevelError(Refusal, ValueError):
    """A traced value was used outside the derivative that created it.

    Examples
    --------
    >>> import wengert as wg
    >>> kept = []
    >>> wg.grad(lambda x: kept.append(x) or x * x, 3.0)
    np.float64(6.0)
    >>> try:
    ...     wg.grad(lambda x: x * kept[0], 3.0)
    ... except wg.LevelError:
    ...     print("kept[0] belongs to a derivative that has ended: keep wg.stop_gradient(x) instead")
    kept[0] belongs to a derivative that has ended: keep wg.stop_gradient(x) instead
    """


class ConvergenceError(RuntimeError):
    """A solver did not converge, so its solution has no derivative.

    With ``on_failure="warn"`` or ``"nan"`` the solver warns or returns NaN instead.

    Attributes
    ----------
    elements : ndarray of int or None
        Indices of the elements of a batch at which the solver did not converge; None outside of batches.

    Examples
    --------
    >>> import wengert as wg
    >>> try:
    ...     wg.implicit.root(lambda x: x * x + 1, 0.5)
    ... except wg.ConvergenceError:
    ...     print("x * x + 1 has no root")
    x * x + 1 has no root
    """

    elements: np.ndarray | None = None


class SingularJacobianError(np.linalg.LinAlgError):
    """The Jacobian at a solution is singular, so the solution has no derivative.

    This happens at a double root, or if equations are linearly dependent.
    ``on_singular="lstsq"`` returns the derivative of minimum norm, ``"nan"`` returns NaN.

    Examples
    --------
    >>> import wengert as wg
    >>> try:
    ...     wg.grad(lambda p: wg.implicit.root(lambda x: (x - p) ** 2, 0.5))(1.0)
    ... except wg.SingularJacobianError:
    ...     print("p is a double root")
    p is a double root
    """


class NonSmoothError(Refusal, ValueError):
    """The function is not differentiable at this point, and no convention defines a derivative.

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> try:
    ...     wg.grad(lambda a: np.linalg.eigh(a)[1][0, 1], np.eye(2))
    ... except wg.NonSmoothError as error:
    ...     print(str(error).split(":")[0])
    numpy.linalg.eigh has no derivative here
    """


class CudaUnavailable(RuntimeError):
    """No usable GPU was found; nothing was computed, not even on the CPU.

    Attributes
    ----------
    reason : str
        What is missing.
    fix : str
        How to fix it.

    Examples
    --------
    >>> import wengert as wg
    >>> error = wg.errors.CudaUnavailable("numba-cuda is not installed", 'pip install "wengert[cuda]"')
    >>> print(error)
    numba-cuda is not installed: pip install "wengert[cuda]"
    """

    def __init__(self, reason: str, fix: str):
        super().__init__(reason, fix)
        self.reason = reason
        self.fix = fix

    def __str__(self):
        return f"{self.reason}: {self.fix}"


class GuardError(RuntimeError):
    """An input leads to a branch that the recorded program does not contain.

    `wengert.compile` records the other branch instead of raising this.

    Examples
    --------
    >>> import wengert as wg
    >>> f = wg.compile(lambda x: x if x > 0 else -x)
    >>> f(1.0), f(-2.0), f.paths        # one recording for each branch
    (1.0, 2.0, 2)
    """


class StaleProgramError(RuntimeError):
    """A value that was declared constant for a compiled function has changed.

    The change was found by a check that evaluates the function itself. The program has been dropped, and the next call
    is right.

    Examples
    --------
    >>> import wengert as wg
    >>> class Model:
    ...     rate = 2.0
    >>> model = Model()
    >>> f = wg.compile(lambda x: model.rate * x, constant="model", recheck=1)
    >>> f(3.0)
    6.0
    >>> model.rate = 5.0
    >>> try:
    ...     f(3.0)                           # compared at each call
    ... except wg.StaleProgramError:
    ...     print(f(3.0))
    15.0
    """


class ReplayMismatchError(RuntimeError):
    """Two evaluations of a loop step, or of a compiled function, that must agree give different values.

    Programs are compared with the function when they are recorded and occasionally afterwards. A wrong program has been
    dropped, and the next call is right.

    Examples
    --------
    >>> import wengert as wg
    >>> rate = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    >>> try:
    ...     wg.grad(lambda u: wg.loop(lambda u: u * rate.pop(), u, 3, checkpoints=1))(1.0)
    ... except wg.ReplayMismatchError:
    ...     print("a step takes what it needs from its state")
    a step takes what it needs from its state
    """


class PatternError(ValueError):
    """A derivative is nonzero outside its sparsity pattern, or a colouring does not fit its pattern.

    The pattern was given by the user or by ``primitive(sparsity=...)``, or belongs to another branch of the function.

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> try:
    ...     wg.colouring(np.eye(2, 3, dtype=bool), kind="star")
    ... except wg.PatternError:
    ...     print(wg.colouring(np.eye(2, 3, dtype=bool)).count)
    1
    """


class CompileWarning(UserWarning):
    """A compiled function runs eagerly because it reads or does something that cannot be checked or replayed.

    The value is right, but the call is no faster than the function itself.
    The message names the line and says what to write instead; it is shown once for each compiled function.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np, wengert as wg
    >>> rng = np.random.default_rng(0)
    >>> f = wg.compile(lambda x: x + rng.normal())
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     f(1.0) == f(1.0)
    False
    >>> print(caught[0].category.__name__)
    CompileWarning
    """


class FiniteDifferenceWarning(UserWarning):
    """A derivative is computed by finite differences, as ``primitive(f, jvp="fd")`` requests.

    The message estimates the error.
    It is shown when the function is first differentiated, and again if the estimate becomes much worse.

    Examples
    --------
    >>> import math, warnings
    >>> import wengert as wg
    >>> gamma = wg.primitive(math.gamma, jvp="fd")
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     round(wg.grad(gamma, 1.0), 8)
    np.float64(-0.57721566)
    >>> print(caught[0].category.__name__)
    FiniteDifferenceWarning
    """


class TextWarning(UserWarning):
    """A traced value was formatted as text to full precision, and the text was kept.

    A number parsed from that text, as by ``float``, has no derivative.
    Text that is displayed at once, by ``print``, logging or an exception, gives no warning, and neither does text with
    fewer digits.

    Examples
    --------
    >>> import warnings
    >>> import wengert as wg
    >>> def f(x):
    ...     label = f"{x}"
    ...     return x * float(label)
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     wg.grad(f, 3.0)                      # float(label) counts as a constant
    np.float64(3.0)
    >>> print(caught[0].category.__name__)
    TextWarning
    """


class RootFindingWarning(UserWarning):
    """A loop finds the root of a function, as bisection does, and loses the derivative of the root.

    Such a loop compares the function with zero and moves points that do not depend on the parameters.
    Its result therefore has the derivative of the starting points, not that of the root.
    Use `wengert.implicit.root`, or decorate the function that contains the loop with `wengert.implicit.defines_root`.

    Examples
    --------
    >>> import warnings
    >>> import wengert as wg
    >>> def cube_root(a):
    ...     low, high = 0.0, 10.0
    ...     while high - low > 1e-12:
    ...         x = (low + high) / 2
    ...         low, high = (x, high) if x**3 < a else (low, x)
    ...     return low
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     wg.grad(cube_root, 8.0)              # 1/12 is right
    np.float64(0.0)
    >>> print(caught[0].category.__name__)
    RootFindingWarning
    >>> solve = wg.implicit.defines_root(lambda x, a: x**3 - a)(cube_root)
    >>> round(float(wg.grad(solve, 8.0)), 8)
    0.08333333
    """


class CachedValueWarning(UserWarning):
    """A traced value was found equal to a plain one, as in a cache of the last point, or a result lost its derivative.

    If an earlier plain call filled the cache, the values that it returns count as constants.
    Comparisons with zero give no warning, nor do those of scalars with numbers of up to ten digits.
    If a result, or a part of it, carries no derivative, f is evaluated without derivatives at a few nearby points, and
    the warning is given if it returns other values there. A result that passed `stop_gradient` or `passive` is exempt.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np, wengert as wg
    >>> last = {}
    >>> def f(x):
    ...     if "x" not in last or not np.array_equal(x, last["x"]):
    ...         last["x"], last["y"] = x.copy(), np.sum(x**2)
    ...     return last["y"]
    >>> f(np.array([1.0, 2.0]))
    np.float64(5.0)
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     wg.grad(f)(np.array([1.0, 2.0]))     # the cached value is a constant
    array([0., 0.])
    >>> print(caught[0].category.__name__)
    CachedValueWarning
    >>> last.clear()
    >>> wg.grad(f)(np.array([1.0, 2.0]))
    array([2., 4.])
    """


class RoundingWarning(UserWarning):
    """A traced value was rounded to decimals, for example in a function that rounds its result.

    The derivative of the rounded value is zero. As a key of a cache it retrieves what an earlier plain call stored.
    Rounding to integers gives no warning, nor does rounding that changes a value by more than a hundredth.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np, wengert as wg
    >>> def distance(x, y):
    ...     return round(np.hypot(x, y), 3)
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     wg.grad(distance)(3.0, 4.0)          # a step function
    np.float64(0.0)
    >>> print(caught[0].category.__name__)
    RoundingWarning
    """


class MutatedInputWarning(UserWarning):
    """The function wrote into its argument; the caller's array was left unchanged.

    The function works on a traced copy of ``x``.
    Plain NumPy code would have changed the caller's array, which a derivative must not do.
    Copy the argument first (``x = x.copy()``) to make the write local.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np, wengert as wg
    >>> def f(x):
    ...     x[0] = 0.0
    ...     return np.sum(x)
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     wg.grad(f, np.ones(2))
    array([0., 1.])
    >>> print(caught[0].category.__name__)
    MutatedInputWarning
    """


def __dir__():
    return sorted(name for name, value in globals().items() if isinstance(value, type) and value is not Refusal)
