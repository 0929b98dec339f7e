"""Summary statistics, correlations and test statistics of ``scipy.stats``."""

import importlib
import inspect
import types

import numpy as np

from wengert import registry
from wengert.core.dispatch import dispatch
from wengert.core.frames import at
from wengert.core.operands import var
from wengert.errors import UnsupportedFunctionError
from wengert.implicit import theorem
from wengert.rules.scipy import stats as _rules
from wengert.rules.scipy.functions import Functions
from wengert.rules.special import sp
from wengert.scipy import copies, namespace

_functions = Functions("scipy.stats")
_original = importlib.import_module("scipy.stats")


def _yeo_johnson(x, lmbda, xp=None):
    """Return SciPy's transform; its formulas for a parameter of 0 and of 2 do not depend on the parameter."""
    is_positive = x >= 0
    y = sp.boxcox1p(np.where(is_positive, x, -x), np.where(is_positive, lmbda, 2 - lmbda))
    value = importlib.import_module("scipy.stats._morestats")._yeojohnson_transform(var.plain(x), var.plain(lmbda))
    return namespace.with_value(np.where(is_positive, y, -y), value)


for _name in "_axis_nan_policy _stats_py _variation _entropy _quantile _correlation".split():
    copies.copy_later(f"scipy.stats.{_name}")
copies.copy_later("scipy.stats._morestats", _yeojohnson_transform=_yeo_johnson)
copies.copy_later("scipy.stats._stats_mstats_common", siegelslopes_pythran=_rules.siegel_slopes)
copies.copy_later("scipy.stats._hypotests", _cdf_cvm=_rules.cramer_von_mises)
copies.copy_later("scipy.stats.contingency")

#: functions whose Python code is differentiated
DIFFERENTIABLE = (
    "alexandergovern anderson bartlett boxcox_llf chi2_contingency chisquare circmean circstd circvar "
    "combine_pvalues cramervonmises describe differential_entropy directional_stats energy_distance entropy "
    "expectile f_oneway false_discovery_control fligner gmean gstd gzscore hmean iqr jarque_bera ks_1samp kstat "
    "kstatvar kstest kurtosis kurtosistest levene linregress lmoment median_abs_deviation moment normaltest "
    "obrientransform pearsonr pmean pointbiserialr power_divergence probplot quantile scoreatpercentile sem "
    "siegelslopes sigmaclip skew skewtest theilslopes tmax tmean tmin trim1 trim_mean trimboth tsem tstd tukey_hsd "
    "ttest_1samp ttest_ind ttest_ind_from_stats ttest_rel tvar variation wasserstein_distance yeojohnson_llf zmap "
    "zscore"
).split()
#: rank statistics, which are piecewise constant
CONSTANT = (
    "ansari brunnermunzel chatterjeexi friedmanchisquare kendalltau kruskal mannwhitneyu mood "
    "percentileofscore rankdata ranksums spearmanr tiecorrect weightedtau wilcoxon"
).split()
#: functions without a derivative, and what to use instead
REFUSED = {
    **dict.fromkeys(
        "bootstrap monte_carlo_test multiscale_graphcorr permutation_test power sobol_indices".split(),
        "it resamples; differentiate the statistic itself, a function of the data",
    ),
    **dict.fromkeys(
        "fit goodness_of_fit".split(),
        "it searches for parameters; minimise the negative log-likelihood with wengert.scipy.optimize.minimize",
    ),
    **dict.fromkeys(
        "boxcox_normmax boxcox_normplot ppcc_max ppcc_plot yeojohnson_normmax yeojohnson_normplot".split(),
        "it searches for a shape parameter; maximise boxcox_llf, yeojohnson_llf or the correlation of probplot with "
        "wengert.scipy.optimize.minimize",
    ),
    **dict.fromkeys(
        "barnard_exact binomtest boschloo_exact fisher_exact poisson_means_test quantile_test".split(),
        "it takes counts, which are integers; pass plain values",
    ),
    **dict.fromkeys(
        "cumfreq ecdf estimated_cdf logrank mode relfreq".split(),
        "it counts, and counts do not change with the data; use scipy.stats.gaussian_kde for a smooth distribution",
    ),
    **dict.fromkeys(
        (
            "anderson_ksamp bws_test cramervonmises_2samp epps_singleton_2samp ks_2samp median_test page_trend_test "
            "somersd spearmanrho"
        ).split(),
        "it depends on ranks; use energy_distance or wasserstein_distance to compare samples",
    ),
    **dict.fromkeys(
        "bayes_mvs mvsdist".split(),
        "it returns distributions of the moments; use numpy.mean, numpy.var and scipy.stats.t",
    ),
    "dunnett": "its p-values are integrals; use tukey_hsd for the statistics",
    "shapiro": "its weights are those of compiled code; use probplot, whose r is close to the root of the statistic",
    "wasserstein_distance_nd": "it solves a linear programme; use energy_distance of projections",
}
PLAIN = frozenset(
    "BootstrapMethod CensoredData Covariance MonteCarloMethod PermutationMethod "
    "levy_stable matrix_t multivariate_hypergeom normal_inverse_gamma ortho_group random_correlation random_table "
    "special_ortho_group studentized_range uniform_direction unitary_group poisson_binom "
    "Binomial Logistic Mixture Normal Uniform abs exp log make_distribution truncate order_statistic".split()
)


for _name in namespace.public_names(_original):
    _value = getattr(_original, _name)
    if not isinstance(_value, types.FunctionType) or _name in PLAIN:
        continue
    _proxy = getattr(_functions, _name)
    if _proxy in registry.rows:
        continue
    if _name in CONSTANT:
        registry.constant(_proxy)
    elif _name in DIFFERENTIABLE:
        registry.composed(_proxy, copies.followed(_value))
    else:
        registry.refuse(_proxy, REFUSED.get(_name, "write it with NumPy functions"))


def _needs_lambda(name):
    """Return the body of ``boxcox`` or ``yeojohnson``, which requires `lmbda`."""

    def body(x, lmbda=None, *args, **options):
        if lmbda is None:
            raise UnsupportedFunctionError(f"scipy.stats.{name} searches for lmbda: pass a value of lmbda")
        return copies.copied(inspect.unwrap(getattr(_original, name)))(x, lmbda, *args, **options)

    return body


for _name in ("boxcox", "yeojohnson"):
    del registry.rows[getattr(_functions, _name)]
    registry.composed(getattr(_functions, _name), _needs_lambda(_name))


def _likelihood(name, transform, exponent, logarithm):
    """Return a body of ``boxcox_llf`` or ``yeojohnson_llf`` without branches, so that it is smooth in the parameter."""

    def body(lmb, data, *, axis=0, **options):
        plain = getattr(_original, name)
        data = dispatch.from_list(data)
        logs, power = logarithm(data), np.abs(exponent(data, lmb))
        if options or axis is None or not np.size(data) or (nearness := np.max(power * np.abs(logs))) > 1:
            return copies.copied(inspect.unwrap(plain))(lmb, data, axis=axis, **options)
        if nearness < 1e-3 and np.max(power) > np.finfo(float).eps:
            theorem.check_replayable(f"scipy.stats.{name}", "has large rounding errors for this parameter")
        total = np.sum(np.where(data >= 0, logs, -logs), axis=axis)
        spread = np.log(np.var(transform(data, lmb), axis=axis))
        value = plain(var.plain(lmb), var.plain(data), axis=axis)
        return namespace.with_value((lmb - 1) * total - np.shape(data)[axis] / 2 * spread, value)

    return body


for _name, _body in {
    "boxcox_llf": _likelihood("boxcox_llf", lambda x, lmb: sp.boxcox(x, lmb), lambda x, lmb: lmb, np.log),
    "yeojohnson_llf": _likelihood(
        "yeojohnson_llf",
        _yeo_johnson,
        lambda x, lmb: np.where(x >= 0, lmb, 2 - lmb),
        lambda x: np.log1p(np.abs(x)),
    ),
}.items():
    del registry.rows[getattr(_functions, _name)]
    registry.composed(getattr(_functions, _name), _body)


def _pmean(a, p, *, axis=0, dtype=None, weights=None, **options):
    """``pmean``; where a traced power is near 0, by a formula that is smooth there.

    SciPy returns the geometric mean at 0, which does not depend on the power.
    """
    a, is_traced = dispatch.from_list(a), var.is_traced(p)
    along = None if weights is None else np.broadcast_to(dispatch.from_list(weights), np.shape(a))
    centre = np.exp(np.average(np.log(a), axis, along, keepdims=True)) if is_traced else 1.0
    if not (is_traced and np.abs(p) * np.max(np.abs(np.log(a / centre))) <= 1):
        return _followed_pmean(a, p, axis=axis, dtype=dtype, weights=weights, **options)
    y = centre * sp.inv_boxcox(np.average(sp.boxcox(a / centre, p), axis, along, keepdims=True), p)
    options |= {"axis": axis, "dtype": dtype, "weights": var.plain(weights)}
    value = _original.pmean(var.plain(a), float(var.plain(p)), **options)
    return namespace.with_value(np.reshape(y, np.shape(value)), value)


_followed_pmean = registry.rows[_functions.pmean].variadic
del registry.rows[_functions.pmean]
registry.composed(_functions.pmean, _pmean)


# ---- binned statistics


def _binned_statistic(x, values, statistic="mean", bins=10, range=None):
    """Average values in plain bins; they are differentiated with respect to the values only."""
    if var.holds_traced((x, bins, range)):
        raise UnsupportedFunctionError(
            f"scipy.stats.binned_statistic has a derivative in the values only{at()}: pass wengert.stop_gradient(x)"
        )
    values = dispatch.from_list(values)
    plain = statistic if isinstance(statistic, str) else len
    found = _original.binned_statistic(x, var.plain(values), plain, bins, range)
    rows = np.reshape(values, (-1, np.shape(values)[-1]))
    count = len(found.bin_edges) - 1
    made = [_rules.of_bins(row, found.binnumber - 1, count, statistic) for row in rows]
    made = np.reshape(np.stack(made), np.shape(values)[:-1] + (count,))
    return found._replace(statistic=made)


def _binned_statistic_dd(sample, values, statistic="mean", bins=10, range=None, expand_binnumbers=False,
                         binned_statistic_result=None):
    if var.holds_traced((sample, bins, range)) or binned_statistic_result is not None or np.ndim(values) != 1:
        raise UnsupportedFunctionError(
            f"scipy.stats.binned_statistic_dd has a derivative in one row of values only{at()}: pass "
            "wengert.stop_gradient(sample)"
        )
    values = dispatch.from_list(values)
    plain = statistic if isinstance(statistic, str) else len
    found = _original.binned_statistic_dd(sample, var.plain(values), plain, bins, range, expand_binnumbers)
    place = _original.binned_statistic_dd(sample, var.plain(values), plain, bins, range, True).binnumber - 1
    shape = tuple(len(edges) - 1 for edges in found.bin_edges)
    inside = np.all((place >= 0) & (place < np.array(shape)[:, None]), axis=0)
    number = np.where(inside, np.ravel_multi_index(np.clip(place, 0, np.array(shape)[:, None] - 1), shape), -1)
    made = np.reshape(_rules.of_bins(values, number, int(np.prod(shape)), statistic), shape)
    return found._replace(statistic=made)


def _binned_statistic_2d(x, y, values, statistic="mean", bins=10, range=None, expand_binnumbers=False):
    bins = [bins, bins] if np.ndim(bins) == 1 and len(bins) != 2 else bins
    found = _binned_statistic_dd([x, y], values, statistic, bins, range, expand_binnumbers)
    plain = statistic if isinstance(statistic, str) else len
    whole = _original.binned_statistic_2d(x, y, var.plain(values), plain, bins, range, expand_binnumbers)
    return whole._replace(statistic=found.statistic)


for _name, _body in {
    "binned_statistic": _binned_statistic,
    "binned_statistic_2d": _binned_statistic_2d,
    "binned_statistic_dd": _binned_statistic_dd,
    "expectile": _rules.expectile,
}.items():
    registry.rows.pop(getattr(_functions, _name), None)
    (registry.by_formula if _name == "expectile" else registry.composed)(getattr(_functions, _name), _body)
