"""Multivariate distributions and kernel densities of ``scipy.stats``.

SciPy factorises a covariance matrix by its eigenvectors, which have no derivative if eigenvalues are equal.  A traced
matrix is factorised by Cholesky's method instead; the values are SciPy's.
"""

import importlib

import numpy as np

from wengert.core.dispatch import dispatch
from wengert.core.operands import var
from wengert.errors import UnsupportedFunctionError
from wengert.rules.scipy import functions
from wengert.rules.scipy import stats as _rules
from wengert.scipy import copies, namespace, objects, special

_stats = importlib.import_module("scipy.stats")
_original = importlib.import_module("scipy.stats._multivariate")
_covariance = copies.second_copy("scipy.stats._covariance")
#: names that the copy shares with the original, since their replacements take long to load
_SHARED = ("norm", "invgamma", "binom", "directional_stats")
_copy = copies.second_copy(
    "scipy.stats._multivariate", **{name: vars(_original)[name] for name in _SHARED if name in vars(_original)}
)


class CholeskyFactor(_copy._PSD):
    """A positive definite matrix with the attributes of SciPy's ``_PSD``."""

    def __init__(self, M, cond=None, rcond=None, lower=True, check_finite=True, allow_singular=True):
        if not var.is_traced(M):
            super().__init__(M, cond, rcond, lower, check_finite, allow_singular)
            return
        self._M = M
        n = np.shape(M)[-1]
        factor = np.linalg.cholesky(M)
        self.eps, self.rank, self.V = 0.0, n, None
        self.U = np.swapaxes(np.linalg.solve(factor, np.eye(n)), -1, -2)
        self.log_pdet = 2 * np.sum(np.log(np.diagonal(factor)))
        self._pinv = self.U @ np.swapaxes(self.U, -1, -2)


_copy._PSD = CholeskyFactor


def _inverse_wishart_logpdf(self, x, dim, df, log_det_scale, C):
    """Compute the formula of ``invwishart`` for matrices along the last axis, which SciPy evaluates in LAPACK."""
    if not var.holds_traced((x, df, log_det_scale, C)):
        return _in_lapack(self, x, dim, df, log_det_scale, C)
    x = np.moveaxis(x, -1, 0)
    exponent = (df + dim + 1) * np.linalg.slogdet(x)[1] + np.trace(np.linalg.solve(x, C @ C.T), axis1=-2, axis2=-1)
    factor = df * (log_det_scale - dim * np.log(2)) - 2 * special.multigammaln(0.5 * df, dim)
    return 0.5 * (factor - exponent)


_inverse_wishart = _copy.invwishart_gen
_in_lapack, _inverse_wishart._logpdf = _inverse_wishart._logpdf, _inverse_wishart_logpdf


class _Frozen(_copy.multivariate_normal_frozen):
    """A frozen normal distribution with SciPy's values, also for a traced covariance matrix."""

    def logpdf(self, x):
        y = super().logpdf(x)
        if not isinstance(self.cov_object, _copy._covariance.CovViaPSD):
            return y
        parameters = map(_plain, (x, self.mean, self.cov_object.covariance))
        return namespace.with_value(y, _stats.multivariate_normal.logpdf(*parameters, self.allow_singular))


_copy.multivariate_normal_frozen = _Frozen


def _with_value(name, method):
    """Return a method that takes its values from SciPy's distribution of the given name."""

    def call(self, *args, **options):
        y = getattr(super(type(self), self), method)(*args, **options)
        if not var.is_traced(y) or any(type(x) in functions.copied for x in (*args, *options.values())):
            return y
        plain = getattr(getattr(_stats, name), method)
        return namespace.with_value(y, plain(*map(_plain, args), **{key: _plain(x) for key, x in options.items()}))

    call.__name__ = method
    return call


def _plain(x):
    return var.plain(x) if not isinstance(x, (list, tuple)) else type(x)(map(_plain, x))


def _replacement(name):
    cls = type(getattr(_copy, name))
    methods = [m for m in ("pdf", "logpdf", "pmf", "logpmf", "entropy") if hasattr(cls, m)]
    return type(cls.__name__, (cls,), {m: _with_value(name, m) for m in methods} | {"rvs": _draw(name)})()


def _draw(name):
    def rvs(self, *args, **options):
        if name == "multivariate_normal" and var.holds_traced((args, tuple(options.values()))):
            return _normal_draws(*args, **options)
        if var.holds_traced((args, tuple(options.values()))):
            raise UnsupportedFunctionError(
                f"scipy.stats.{name}.rvs has no derivative in its parameters: transform draws without parameters, such "
                "as mean + numpy.linalg.cholesky(cov) @ z"
            )
        return getattr(_stats, name).rvs(*args, **options)

    return rvs


def _normal_draws(mean=None, cov=1, size=1, random_state=None):
    """Draw as SciPy does, as a function of the mean and the covariance."""
    cov, mean = dispatch.from_list(cov), dispatch.from_list(mean)
    dim = np.shape(mean)[0] if np.ndim(mean) else np.shape(cov)[0] if np.ndim(cov) else 1
    mean = np.zeros(dim) if mean is None else np.reshape(mean, dim)
    cov = cov * np.eye(dim) if np.ndim(cov) < 2 else cov
    return np.squeeze(_rules.multivariate_normal_draws(mean, cov, size, random_state))[()]


_NAMES = (
    "dirichlet dirichlet_multinomial invwishart matrix_normal multinomial multivariate_normal multivariate_t "
    "vonmises_fisher wishart"
).split()
REPLACED = {name: _replacement(name) for name in _NAMES if hasattr(_copy, name)}
REPLACED["Covariance"] = _covariance.Covariance
objects.register_objects(
    *[
        f"scipy.stats._multivariate.{name}"
        for name in vars(_original)
        if name.endswith("_frozen") and name.removesuffix("_frozen") in _NAMES
    ],
    *[f"scipy.stats._covariance.{name}" for name in vars(_covariance) if name.startswith("CovVia")],
)

_kde = copies.second_copy(
    "scipy.stats._kde",
    gaussian_kernel_estimate=_rules.KernelEstimate(_rules.kernel_estimate),
    gaussian_kernel_estimate_log=_rules.KernelEstimate(_rules.log_kernel_estimate),
)
REPLACED["gaussian_kde"] = _kde.gaussian_kde
objects.register_objects("scipy.stats._kde.gaussian_kde")
