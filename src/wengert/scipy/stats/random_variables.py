"""The distribution objects of ``scipy.stats`` that are random variables, such as ``Normal``: SciPy's Python code.

A quantity that SciPy integrates numerically is refused; an inverse that it searches for has the derivative of the
equation that it solves.
"""

import importlib
import math

import numpy as np

from wengert import api
from wengert.core.frames import at
from wengert.core.operands import var
from wengert.errors import UnsupportedFunctionError
from wengert.rules.scipy import stats as rules
from wengert.scipy import copies, namespace, objects

copies.second_copy("scipy.stats._probability_distribution")
_copy = copies.second_copy(
    "scipy.stats._distribution_infrastructure", _logexpxmexpy=rules.log_difference_of_exponentials
)
_stats = importlib.import_module("scipy.stats")


def _known_documentation(cls, **options):
    """Return the docstring that SciPy has written for the original of a class."""
    return getattr(getattr(_stats, cls.__name__, None), "__doc__", None) or ""


_copy._combine_docs = _known_documentation
_new = copies.second_copy("scipy.stats._new_distributions")


def _integral(self, integrand, limits=None, args=(), params=None, log=False):
    if limits is not None and np.size(limits[0]) == 0:
        return np.zeros(np.shape(limits[0]))
    if var.holds_traced((limits, args, tuple((params or {}).values()))):
        raise UnsupportedFunctionError(
            f"scipy.stats.{type(self).__name__} integrates numerically for this quantity, which has no derivative "
            f"rule{at()}: write it with a formula, or as a sum over quadrature nodes"
        )
    return _integrated(self, integrand, limits, args, params, log)


def _solution(self, f, p, *, bounds=None, params=None, xatol=None):
    """Search with plain values, and take two Newton steps, which propagate derivatives up to third order."""
    given = {"bounds": bounds, "params": params, "xatol": xatol}
    if not var.holds_traced((p, bounds, tuple((params or {}).values()))):
        return _solved(self, f, p, **given)
    found = namespace.computed(_searched, self, f, p, bounds, params, xatol)
    x = found
    for _ in range(2):
        y, slope = api.jvp(lambda x: f(x, **params or {}), x, np.ones(np.shape(x)))
        x = x - (y - p) / slope
    return _Found(namespace.with_value(x, found))


class _Found:
    """A search result with its solution."""

    def __init__(self, x):
        self.x = x


def _searched(self, f, p, bounds, params, xatol):
    return _solved(self, f, p, bounds=bounds, params=params, xatol=xatol).x


def _moment_transform_center(self, order, moments, a, b):
    if not var.holds_traced((a, b, [*moments])):
        return _transformed(self, order, moments, a, b)
    a, b, *moments = np.broadcast_arrays(a, b, *moments)
    order = int(order)
    return sum(math.comb(order, i) * moment * (a - b) ** (order - i) for i, moment in enumerate(moments))


_base = _copy.UnivariateDistribution
_transformed, _base._moment_transform_center = _base._moment_transform_center, _moment_transform_center
_integrated, _base._quadrature = _base._quadrature, _integral
_solved, _base._solve_bounded = _base._solve_bounded, _solution


def _between(name):
    """Wrap a method that stores the ends of the support in its quantiles, so that these ends may be traced."""
    original = getattr(_base, name)

    def call(self, x, y, *args, **options):
        low, high = self.support()
        if var.holds_traced((low, high)):
            x, y = (np.where(True, z, np.where(True, low, high)) for z in (x, y))
        return original(self, x, y, *args, **options)

    return call


for _name in ("_cdf2", "_ccdf2", "_logcdf2", "_logccdf2"):
    setattr(_base, _name, _between(_name))


def _of_logarithm(name):
    """Return a method of truncated distributions as exp of the logarithmic one, which SciPy does not integrate."""
    original = getattr(_copy.TruncatedDistribution, f"_{name}_dispatch")

    def dispatched(self, x, *args, method=None, **params):
        if not var.holds_traced((x, args, tuple(params.values()))):
            return original(self, x, *args, method=method, **params)
        return np.exp(np.real(getattr(self, f"_log{name}_dispatch")(x, *args, **params)))

    return dispatched


for _name in ("cdf", "ccdf"):
    setattr(_copy.TruncatedDistribution, f"_{_name}_dispatch", _of_logarithm(_name))

#: public names that this version of SciPy has
REPLACED = {
    name: getattr(module, name)
    for module in (_copy, _new)
    for name in (
        "Binomial Logistic Mixture Normal Uniform abs exp log make_distribution order_statistic truncate"
    ).split()
    if hasattr(module, name) and getattr(getattr(_stats, name, None), "__module__", "").startswith("scipy.stats")
}
objects.register_objects(
    *(
        f"{module.__name__}.{name}"
        for module in (_copy, _new)
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__
        and issubclass(value, _copy._ProbabilityDistribution)
    )
)
