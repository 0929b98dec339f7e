"""Differentiable versions of the functions of Python's `statistics`, for code under differentiation.

They have a module of their own, because `statistics` imports `fractions` and `decimal`, which few programs need.
"""

from __future__ import annotations

import math
import statistics
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert import registry
from wengert import standard_library as library
from wengert.core.rebind import registration
from wengert.standard_library import applied, as_array, as_floats, evaluated, is_traced, python_float, value_of


def mean(data):
    return of_data(statistics.mean, data, np.mean, {})


def variance(data, xbar=None):
    return of_spread(statistics.variance, data, xbar, np.var, 1)


def pvariance(data, mu=None):
    return of_spread(statistics.pvariance, data, mu, np.var, 0)


def stdev(data, xbar=None):
    return of_spread(statistics.stdev, data, xbar, np.std, 1)


def pstdev(data, mu=None):
    return of_spread(statistics.pstdev, data, mu, np.std, 0)


def of_data(fun: Callable, data: Any, rule: Any, options: dict, *center: Any) -> Any:
    """Call a function of statistics on data, with the rule of a NumPy function or of a row."""
    data = list(data)
    if not is_traced((data, center)):
        return fun(data, *center)
    y = applied(rule, [as_array(data), *as_floats(center)], value_of("statistics", fun.__name__), options)
    return python_float(y) if all(x.__class__ in (int, float) for x in data) else y


def of_spread(fun: Callable, data: Any, center: Any, rule: Any, ddof: int) -> Any:
    """Call a function of the deviations from the mean, or from a given center."""
    if center is None:
        return of_data(fun, data, rule, {"ddof": ddof})
    return of_data(fun, data, _row_of_stdev if rule is np.std else _row_of_variance, {"ddof": ddof}, center)


def row(name: str, kind: str, *vjps: Callable, **columns) -> registry.Primitive:
    """Return a registry row, to be stored in this module as ``_row_of_`` and its name; `vjps` are its pullbacks."""
    columns |= {"vjps": dict(enumerate(vjps))} if vjps else {}
    return registry.Primitive(f"statistics.{name}", kind, home=f"{__name__}._row_of_{name}", **columns)


_row_of_variance = row(
    "variance",
    "structural",
    lambda ybar, y, x, c, ddof: ybar * 2 * (x - c) / (np.size(x) - ddof),
    lambda ybar, y, x, c, ddof: ybar * -2 * np.sum(x - c) / (np.size(x) - ddof),
)
_row_of_stdev = row(
    "stdev",
    "structural",
    lambda ybar, y, x, c, ddof: ybar * (x - c) / (y * (np.size(x) - ddof)),
    lambda ybar, y, x, c, ddof: -ybar * np.sum(x - c) / (y * (np.size(x) - ddof)),
)
_row_of_harmonic_mean = row(
    "harmonic_mean",
    "structural",
    lambda ybar, y, x, w: ybar * (y / x) * (y / x) * (w / np.sum(w)),
    lambda ybar, y, x, w: ybar * (y / np.sum(w)) * (1 - y / x),
)


def harmonic_mean(data, weights=None):
    data = list(data)
    weights = weights if weights is None else list(weights)
    if not is_traced((data, weights)):
        return statistics.harmonic_mean(data, weights)
    x, w = as_array(data), np.ones(len(data)) if weights is None else as_array(weights)
    return python_float(applied(_row_of_harmonic_mean, [x, w], value_of("statistics", "harmonic_mean")))


def functions() -> dict:
    """Return our functions, and copies of the module's Python functions that call ours."""
    found = {traced.__name__: traced for traced in (harmonic_mean, mean, pstdev, pvariance, stdev, variance)}
    for name, traced in found.items():
        evaluated(getattr(statistics, name), traced)
    space = {name: vars(library.math_module).get(name, value) for name, value in vars(statistics).items()}
    adds_exactly = sum([1e16, 1.0, -1e16]) == 1.0
    space |= {"math": library.math_module, "float": if_float, "sum": library.total if adds_exactly else sum}
    space |= {name: moved(fun, space) for name, fun in vars(statistics).items() if is_own(fun)} | found
    space |= {"_normal_dist_inv_cdf": inverse_of_normal, "_mean_stdev": lambda data: (mean(data), stdev(data))}
    body = {"__slots__": ()}
    for name, method in vars(statistics.NormalDist).items():
        if is_own(method):
            body[name] = moved(method, space)
            registration.register(method, body[name])  # code may hold a bound method, such as NormalDist().cdf
        elif isinstance(method, (classmethod, property)):
            body[name] = type(method)(moved(getattr(method, "__func__", None) or method.fget, space))
    space["NormalDist"] = type("NormalDist", (statistics.NormalDist,), body)
    registration.register_wrapper(statistics.NormalDist, type, lambda x, cls: cls(x.mean, x.stdev))
    return {name: space[name] for name in library.DIFFERENTIABLE["statistics"] if hasattr(statistics, name)}


def is_own(fun: Any) -> bool:
    return type(fun) is types.FunctionType and fun.__module__ == "statistics"


def moved(fun: types.FunctionType, space: dict) -> types.FunctionType:
    """Return a copy of a function with other globals."""
    copy = types.FunctionType(fun.__code__, space, fun.__name__, fun.__defaults__, fun.__closure__)
    copy.__kwdefaults__ = fun.__kwdefaults__
    return copy


_row_of_inverse_of_normal = row(
    "inverse_of_normal",
    "elementwise",
    partials=(
        lambda y, p, mu, sigma: sigma * math.sqrt(math.tau) * np.exp(0.5 * ((y - mu) / sigma) ** 2),
        1.0,
        lambda y, p, mu, sigma: (y - mu) / sigma,
    ),
)


def inverse_of_normal(p, mu, sigma):
    """``NormalDist(mu, sigma).inv_cdf(p)``"""
    if not is_traced((p, mu, sigma)):
        return plain_inverse_of_normal(p, mu, sigma)
    return python_float(applied(_row_of_inverse_of_normal, as_floats((p, mu, sigma)), _inverse_of_normal))


def plain_inverse_of_normal(p, mu, sigma):
    return statistics.NormalDist(mu, sigma).inv_cdf(p)


_inverse_of_normal = evaluated(plain_inverse_of_normal, inverse_of_normal)


class _FloatType(type):
    """Metaclass by which Python floats are instances of `if_float`."""

    def __instancecheck__(cls, x):
        return isinstance(x, float)


class if_float(metaclass=_FloatType):
    """Replaces ``float`` in the code of `statistics`."""

    def __new__(cls, x):
        return library.to_float(x) if is_traced(x) else float(x)


library.register_module(statistics, types.ModuleType("statistics"), functions)
