"""Univariate distributions of ``scipy.stats``: SciPy's Python code with the rules of ``scipy.special``.

Quantiles that SciPy finds by iteration are differentiated through the equation cdf(x) = q.
"""

import functools
import importlib

import numpy as np

import wengert.numpy
from wengert.core.frames import at
from wengert.core.operands import var
from wengert.errors import NonSmoothError, UnsupportedFunctionError
from wengert.rules.scipy import stats as rules  # declares rules of private ufuncs
from wengert.rules.special import sp
from wengert.scipy import copies, namespace, objects

infrastructure = copies.second_copy("scipy.stats._distn_infrastructure")
generic = infrastructure.rv_generic


# the docstrings of copies are never shown
generic._construct_doc = generic._construct_default_doc = lambda self, *args, **options: None

#: SciPy's distributions, by the module and the name of their classes
_ORIGINALS = {
    (name, type(value).__name__): value
    for name in ("scipy.stats._continuous_distns", "scipy.stats._discrete_distns")
    for value in vars(importlib.import_module(name)).values()
    if type(value).__module__ == name and hasattr(value, "_parse_arg_template")
}
_inspected = generic._construct_argparser


def _parser_of_original(self, *args, **options):
    """Take the names of shape parameters from the original of a distribution, since inspecting methods is slow."""
    original = _ORIGINALS.get((type(self).__module__, type(self).__name__))
    if original is None or self.shapes not in (None, original.shapes):
        _inspected(self, *args, **options)
    else:
        for name in ("_parse_arg_template", "shapes", "numargs"):
            setattr(self, name, getattr(original, name))


generic._construct_argparser = _parser_of_original


def _quantile(self, q, *args):
    """Solve cdf(x) = q as SciPy does, then take two Newton steps, which propagate derivatives up to third order."""
    x = found = namespace.computed(self._ppfvec, q, *args)
    if not var.holds_traced((q, *args)):
        return found
    for _ in range(2):
        x = x - (self._cdf(x, *args) - q) / self._pdf(x, *args)
    return namespace.with_value(x, found)


def _fit(self, data, *args, **options):
    if var.holds_traced((data, args, tuple(options.values()))):
        raise UnsupportedFunctionError(
            f"scipy.stats.{self.name}.fit searches for its result: minimise the negative log-likelihood with "
            "wengert.scipy.optimize.minimize, whose solution has a derivative"
        )
    return getattr(importlib.import_module("scipy.stats"), self.name).fit(data, *args, **options)


infrastructure.rv_continuous._ppf = _quantile
infrastructure.rv_continuous.fit = _fit


class _Interpolation:
    """A class of ``wengert.scipy.interpolate``, loaded when it is used, since few distributions need it."""

    def __init__(self, name):
        self._name = name

    def _loaded(self):
        return getattr(importlib.import_module("wengert.scipy.interpolate"), self._name)

    def __call__(self, *args, **options):
        return self._loaded()(*args, **options)

    def __getattr__(self, name):
        return getattr(self._loaded(), name)


_continuous = copies.second_copy(
    "scipy.stats._continuous_distns", _log_diff=rules.log_difference, BSpline=_Interpolation("BSpline")
)
_continuous.nct_gen._cdf = lambda self, x, df, nc: rules.noncentral_t_cdf(x, df, nc)
_continuous.vonmises_gen._cdf = lambda self, x, kappa: rules.von_mises_cdf(x, kappa)


def _preprocessed(self, x, skew):
    """Return SciPy's result with its first item, an array of ones, copied so that traced values can be stored in it."""
    ones, *others = _preprocess(self, x, skew)
    return wengert.numpy.copy(ones), *others


_pearson3 = _continuous.pearson3_gen
_preprocess, _pearson3._preprocess = _pearson3._preprocess, _preprocessed


def _gennorm_stats(self, beta):
    """Compute SciPy's formula without its list of traced values."""
    c1, c3, c5 = (sp.gammaln(k / beta) for k in (1.0, 3.0, 5.0))
    return 0.0, np.exp(c3 - c1), 0.0, np.exp(c5 + c1 - 2.0 * c3) - 3.0


_continuous.gennorm_gen._stats = _gennorm_stats
_discrete = copies.second_copy("scipy.stats._discrete_distns", interp1d=_Interpolation("interp1d"))
for _cls in {type(x) for x in vars(_continuous).values() if isinstance(x, infrastructure.rv_continuous)}:
    if "fit" in vars(_cls):
        _cls.fit = _fit


def _survival(name, plain):
    def sf(self, x, *args):
        return rules.survival(x, args, name) if var.holds_traced(x) else plain(self, x, *args)

    return sf


for _name in ("kstwo", "ksone", "studentized_range"):
    _cls = type(getattr(_continuous, _name))
    _cls._sf = _survival(_name, _cls._sf)

_stats = importlib.import_module("scipy.stats")
_originals = importlib.import_module("scipy.stats._distn_infrastructure")

#: the distributions, by name
INSTANCES = {
    name: value
    for module in (_continuous, _discrete)
    for name, value in vars(module).items()
    if isinstance(value, generic) and isinstance(getattr(_stats, name, None), _originals.rv_generic)
}
REPLACED = INSTANCES | {
    "rv_continuous": infrastructure.rv_continuous,
    "rv_discrete": infrastructure.rv_discrete,
    "rv_histogram": _continuous.rv_histogram,
}

#: distributions with a separate formula, independent of the parameter, where a shape parameter is 0
_SPECIAL_AT_ZERO = "genextreme genpareto kappa4 pearson3 skewnorm tukeylambda".split()


def _log_complement(x):
    """Return log(1 - exp(-x)) of positive numbers without loss of digits in either tail."""
    is_small = np.less(x, 0.7)
    low, high = np.where(is_small, x, 1.0), np.where(is_small, 1.0, x)
    return np.where(is_small, np.log(-np.expm1(-low)), np.log1p(-np.exp(-high)))


def _triangle_cdf(x, c):
    is_left = np.less(x, c)
    rise, fall = np.where(is_left, c, 1.0), np.where(is_left, 1.0, 1 - c)
    return np.where(is_left, x * x / rise, 1 - (1 - x) ** 2 / fall)


#: Formulas with which distribution functions are differentiated.  SciPy's own formulas give the same values, but
#: inaccurate derivatives in a tail: that of (1 + x^-c)^-d with respect to d is a multiple of log(1 + x^-c).
_IN_TAILS = {
    ("burr", "_cdf"): lambda x, c, d: np.exp(-d * np.log1p(x**-c)),
    ("burr", "_sf"): lambda x, c, d: -np.expm1(-d * np.log1p(x**-c)),
    ("burr", "_logsf"): lambda x, c, d: _log_complement(d * np.log1p(x**-c)),
    ("burr12", "_logcdf"): lambda x, c, d: _log_complement(d * np.log1p(x**c)),
    ("exponweib", "_cdf"): lambda x, a, c: np.exp(a * _log_complement(x**c)),
    ("exponweib", "_sf"): lambda x, a, c: -np.expm1(a * _log_complement(x**c)),
    ("genlogistic", "_cdf"): lambda x, c: np.exp(-c * np.log1p(np.exp(-x))),
    ("kappa3", "_cdf"): lambda x, a: np.exp(-np.log1p(a * x**-a) / a),
    ("mielke", "_cdf"): lambda x, k, s: np.exp(-k / s * np.log1p(x**-s)),
    ("mielke", "_sf"): lambda x, k, s: -np.expm1(-k / s * np.log1p(x**-s)),
    ("triang", "_cdf"): _triangle_cdf,
}


def _with_derivative_of(formula, plain):
    def method(self, x, *args):
        if not var.holds_traced((x, args)):
            return plain(self, x, *args)
        value = namespace.computed(functools.partial(plain, self), x, *args)
        return namespace.with_value(formula(x, *args), value)

    return method


for (_name, _method), _formula in _IN_TAILS.items():
    _cls = type(INSTANCES[_name])
    setattr(_cls, _method, _with_derivative_of(_formula, getattr(_cls, _method)))


def _checked(name, argcheck):
    """Return the check of shape parameters, which also raises for a traced parameter that is 0."""

    def check(self, *args):
        for x in args:
            if var.is_traced(x) and not var.is_passive(x) and np.any(np.equal(x, 0)):
                raise NonSmoothError(
                    f"scipy.stats.{name} has a separate formula for a shape parameter of 0{at()}, which does not "
                    "depend on the parameter: pass a value nearby, such as 1e-8"
                )
        return argcheck(self, *args)

    return check


for _name in _SPECIAL_AT_ZERO:
    _cls = type(INSTANCES[_name])
    _cls._argcheck = _checked(_name, _cls._argcheck)


def _frozen(value):
    """Convert a frozen distribution that was made outside of a derivative."""
    dist = INSTANCES[value.dist.name] if value.dist.name in INSTANCES else _like_users(value.dist)
    return dist(*value.args, **value.kwds)


def _like_users(value):
    """Convert a distribution of the user's own class."""
    new = objects.derived(type(value))(**value._updated_ctor_param())
    for name, part in vars(value).items():
        if name not in vars(new):
            setattr(new, name, part)
    return new


for _cls in (_originals.rv_continuous, _originals.rv_discrete):
    objects.register_conversion(_cls, _like_users, has_subclasses=True)

for _name in ("rv_continuous_frozen", "rv_discrete_frozen", "rv_frozen"):
    if hasattr(_originals, _name):
        objects.register_conversion(getattr(_originals, _name), _frozen)
