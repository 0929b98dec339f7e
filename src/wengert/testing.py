"""Exact derivatives beside finite differences: how many digits agree, and what each costs."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.containers import children_of, input_leaf
from wengert.transforms.dense import Jacobian


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What `compare` found; print it for a table.

    Attributes
    ----------
    exact, differences : ndarray, shape ``(*T, *S)``
        The two Jacobians.
    digits : float
        Decimal digits to which the worst entry agrees, relative to the largest entry of its row.
    worst : tuple of int
        Index of that entry.
    time_function, time_exact, time_differences : float
        Seconds of one call, the fastest of three.
    """

    name: str
    exact: np.ndarray
    differences: np.ndarray
    digits: float
    worst: tuple
    time_function: float
    time_exact: float
    time_differences: float

    def __str__(self):
        rows = [
            f"{self.name}: Jacobian of shape {self.exact.shape}",
            f"  digits in agreement   {self.digits:.1f} (two-point differences reach about 7)",
        ]
        if self.exact.size:
            rows.append(
                f"  worst entry {self.worst}: exact {self.exact[self.worst]:.17g}, "
                f"differences {self.differences[self.worst]:.17g}"
            )
        for label, seconds in (
            ("function", self.time_function),
            ("exact", self.time_exact),
            ("differences", self.time_differences),
        ):
            rows.append(f"  {label:<12} {seconds * 1e6:12.1f} us  {seconds / self.time_function:8.2f} f")
        return "\n".join(rows)


def compare(f: Callable, x: Any, /, *, args: tuple = (), kwargs: dict | None = None) -> Comparison:
    """Exact Jacobian of `f` at `x` against two-point differences.

    Parameters
    ----------
    f : callable
        Maps an array of shape S to an array of shape T, or to a list of numbers.
    x : array_like, shape S
        Point at which to compare.
    args, kwargs : tuple, dict
        Further arguments of `f`.

    Returns
    -------
    Comparison
        Both Jacobians, the digits in which they agree, and the times; ``print`` shows a table.

    Raises
    ------
    TypeError
        If `x` or what `f` returns is no single array.

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> report = wg.compare(lambda x: np.sin(x) * x[0], [1.0, 2.0])
    >>> report.digits > 6
    True
    """
    from scipy.optimize import approx_fprime

    kwargs = kwargs or {}
    derivative = Jacobian(f)
    if children_of(x) is not None:
        raise TypeError(f"compare: expected a number or an array, got a {type(x).__name__}: compare arrays one by one")
    x = np.asarray(input_leaf(x, "compare"), dtype=np.float64)
    fast = derivative(x, *args, **kwargs)
    if not isinstance(fast, (np.ndarray, np.generic)):
        raise TypeError(f"compare: {derivative.name} is a {type(fast).__name__}; compare functions of one array")
    exact = np.asarray(fast)

    def flat(point):
        return np.ravel(np.asarray(f(point.reshape(x.shape) if x.ndim else point[0], *args, **kwargs), dtype=float))

    point = np.ravel(x)
    step = math.sqrt(np.finfo(float).eps) * np.maximum(np.abs(point), 1.0)
    rough = np.reshape(approx_fprime(point, flat, step), exact.shape)
    digits, worst = _agreement(exact, rough, x.size)
    return Comparison(
        derivative.name,
        exact,
        rough,
        digits,
        worst,
        _seconds(lambda: flat(point)),
        _seconds(lambda: derivative(x, *args, **kwargs)),
        _seconds(lambda: approx_fprime(point, flat, step)),
    )


def _agreement(exact, rough, n):
    """Digits to which the worst entry agrees, relative to the largest entry of its row, and where it is."""
    if exact.size == 0:
        return math.inf, ()
    rows = exact.reshape(-1, n)
    scale = np.abs(rows).max(axis=1, keepdims=True)
    error = np.abs(rows - rough.reshape(-1, n)) / np.where(scale > 0, scale, 1.0)
    error = np.where(np.isnan(error), math.inf, error)
    worst = tuple(int(i) for i in np.unravel_index(error.argmax(), exact.shape))
    largest = float(error.max())
    return (-math.log10(largest) if largest > 0 else math.inf), worst


def _seconds(run):
    best = math.inf
    for _ in range(3):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best
