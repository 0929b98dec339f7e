"""Looking into a derivative while it is computed: where NaN comes from, and what adjoint a value has."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from wengert import registry
from wengert.containers import plain_copy
from wengert.core import levels
from wengert.core.dispatch import dispatch
from wengert.core.operands import var


@contextlib.contextmanager
def detect_nan() -> Iterator[None]:
    """Block in which the first NaN of a derivative raises, with the name and the line of what gave it.

    A NaN may appear in a value that f computes, or in a tangent or cotangent, as from ``inf - inf``;
    the error says which.
    Derivatives that start in the block are computed by general classes that can look at every number, more slowly;
    those outside are as fast as ever.

    Yields
    ------
    None

    Raises
    ------
    FloatingPointError
        At the first NaN: with the function, the file and line in f, and the line itself.
        An argument or a direction that is NaN is named as such.

    Notes
    -----
    NaN in a branch that ``np.where`` does not take counts: it is a value. In the derivative it does not, for there
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
    FloatingPointError: the derivative of numpy.sqrt is infinite and meets an infinite one of the other sign: ...
    """
    with levels.recording(levels.Watch()), np.errstate(invalid="ignore"):
        yield


def probe(x: Any, callback: Callable) -> Any:
    """The same value; a derivative that passes here shows its adjoint or tangent to a function.

    Parameters
    ----------
    x : number or array
        Traced or not.
    callback : callable
        Called by each sweep with the adjoint of `x`, summed over all later uses of the result, and by each run with
        tangents with the tangent of `x`: a plain copy, of the shape of `x` for one direction, of shape
        ``(k, *x.shape)`` for k directions. What it returns is not used; what it raises surfaces.

    Returns
    -------
    number or ndarray
        The values of `x`, an array as a copy. Use it in place of `x`.

    Notes
    -----
    Outside of derivatives `callback` is not called.
    In a derivative of a derivative each of the two calls it, with plain numbers.

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
        raise TypeError("probe: pass one number or array, not a list that holds traced values: numpy.stack(values)")
    return np.copy(x) if isinstance(x, np.ndarray) else x


def _copy(x, callback):
    """The value at the level around, where `probe` may have to call back too."""
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
