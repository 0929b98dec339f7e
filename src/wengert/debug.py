"""Debugging of running derivatives: `detect_nan` finds the first NaN, `probe` reports adjoints and tangents."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from wengert import registry
from wengert.containers import plain_copy
from wengert.core import levels
from wengert.core.dispatch import dispatch
from wengert.core.operands import var

T = TypeVar("T")


@contextlib.contextmanager
def detect_nan() -> Iterator[None]:
    """Context manager in which the first NaN of a derivative raises, with the function and line that produced it.

    A NaN may appear in a value that f computes, or in a tangent or cotangent, as from ``inf - inf``;
    the error says which.
    Derivatives that start in the block use slower classes that check every value; those outside keep their speed.

    Yields
    ------
    None

    Raises
    ------
    FloatingPointError
        At the first NaN. The message gives the function, the file, the line number and the line of f.
        An argument or a direction that is NaN is named as such.

    See Also
    --------
    probe : Report the adjoint or tangent of a value.

    Notes
    -----
    A NaN in the branch that ``np.where`` does not select counts as a value. It does not count in the derivative, where
    it meets a factor of exactly 0.

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> def f(x):
    ...     return np.sqrt(x) - np.sqrt(x)
    >>> wg.grad(f, 0.0)
    np.float64(nan)
    >>> with wg.detect_nan():
    ...     wg.grad(f, 0.0)
    Traceback (most recent call last):
    FloatingPointError: the derivative of numpy.sqrt is infinite, and its sum with an infinite one of opposite sign ...
    """
    with levels.recording(levels.Watch()), np.errstate(invalid="ignore"):
        yield


def probe(x: T, callback: Callable[[Any], Any]) -> T:
    """Return `x` unchanged, and pass its adjoint or tangent to a function whenever a derivative propagates it.

    Parameters
    ----------
    x : scalar or array
        Traced or not.
    callback : callable
        Each reverse sweep calls it with the adjoint of `x`, summed over all later uses of the result. Each forward
        evaluation calls it with the tangent of `x`. The argument is a plain copy, of the shape of `x` for one direction
        and of shape ``(k, *x.shape)`` for k directions. Its result is ignored; its exceptions propagate.

    Returns
    -------
    scalar or ndarray
        The value of `x`; an array is copied. Use it in place of `x`.

    See Also
    --------
    detect_nan : Locate the first NaN of a derivative.

    Notes
    -----
    Outside derivatives `callback` is not called.
    In a nested derivative each level calls it, with plain values.

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> def f(x):
    ...     y = wg.probe(np.exp(x), print)
    ...     return y[0] * y[1]
    >>> wg.grad(f, [0.0, 0.0])
    [1. 1.]
    array([1., 1.])
    """
    if var.is_traced(x):
        return dispatch.apply(_row, probe, (x,), {"callback": callback}, _copy)
    if var.holds_traced(x):
        raise TypeError("probe: pass one number or array, not a list of traced values; write numpy.stack(values)")
    return np.copy(x) if isinstance(x, np.ndarray) else x


def _copy(x, callback):
    """Return the value at the enclosing level, where `probe` may have to call back too."""
    return probe(x, callback) if var.is_traced(x) else plain_copy(x)


def _show(t, y, callback):
    t = plain_copy(t)
    callback(t[0] if np.ndim(t) > np.ndim(y) and len(t) == 1 else t)


def _pulled(ybar, y, x, callback):
    _show(ybar, y, callback)
    return [ybar]


def _pushed(tangents, y, x, callback):
    _show(tangents[0], y, callback)
    return tangents[0]


_row = registry.Primitive(
    probe, "custom", vjps={0: _pulled}, jvps={0: _pushed}, sequence=True, stacked=True, curvature="none"
)
_row.name = "wengert.probe"
_row.sparsity = "elementwise"
