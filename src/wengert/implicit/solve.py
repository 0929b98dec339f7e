"""Roots and fixed points as functions of what their equations read."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.containers import stopped
from wengert.core.rebind import rebound
from wengert.errors import ConvergenceError
from wengert.implicit.theorem import check_replayable, implicit, in_derivative, information, numbers
from wengert.transforms.dense import Jacobian


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
    """Root of f.

    Examples
    --------
    >>> import wengert as wg
    >>> wg.implicit.root(lambda x, p: x * x - p, 1.0, args=(4.0,))
    np.float64(2.0)
    """
    return _solved(f, f, x0, args, solve or _hybr, jac, linsolve, on_failure, on_singular, polish, has_info)


def _solved(f, residual, x0, args, solve, jac, linsolve, on_failure, on_singular, polish, has_info):
    name = f"implicit.root({getattr(f, '__name__', f)})"
    check_replayable(name)
    x0 = stopped(x0)
    plain_args = tuple(stopped(a) for a in args)
    x = solve(numbers(lambda x: rebound(f)(x, *plain_args)), x0)
    x, info = implicit(
        residual, x, args, name=name, jac=jac, linsolve=linsolve, on_failure=on_failure, on_singular=on_singular,
        polish=polish,
    )
    return x


def _hybr(f, x0):
    from scipy import optimize

    shape = np.shape(x0)
    found = optimize.root(lambda u: np.ravel(f(np.reshape(u, shape)[()])), np.ravel(x0).astype(float))
    if not found.success:
        raise ConvergenceError(found.message)
    return np.reshape(found.x, shape)[()]
