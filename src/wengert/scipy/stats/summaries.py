"""Summary statistics, correlations and test statistics of ``scipy.stats``."""

from __future__ import annotations

import importlib
import types

from wengert import registry
from wengert.errors import UnsupportedFunctionError
from wengert.rules.scipy.functions import Functions
from wengert.scipy import namespace

_functions = Functions("scipy.stats")
_original = importlib.import_module("scipy.stats")
_copies = [
    namespace.second_copy(f"scipy.stats.{name}")
    for name in "_axis_nan_policy _stats_py _variation _entropy _morestats _quantile _correlation".split()
]

#: functions whose Python code is differentiated
DIFFERENTIABLE = (
    "alexandergovern bartlett boxcox_llf chisquare circmean circstd circvar combine_pvalues describe "
    "differential_entropy directional_stats energy_distance entropy f_oneway gmean gstd gzscore hmean iqr jarque_bera "
    "kstat kstatvar kurtosis kurtosistest levene linregress lmoment median_abs_deviation moment normaltest "
    "obrientransform pearsonr pmean pointbiserialr power_divergence quantile scoreatpercentile sem siegelslopes "
    "sigmaclip skew skewtest theilslopes tmax tmean tmin trim1 trim_mean trimboth tsem tstd ttest_1samp ttest_ind "
    "ttest_ind_from_stats ttest_rel tvar variation wasserstein_distance yeojohnson_llf zmap zscore"
).split()
#: rank statistics, which are piecewise constant
CONSTANT = (
    "ansari brunnermunzel chatterjeexi friedmanchisquare kendalltau kruskal mannwhitneyu mood "
    "percentileofscore rankdata ranksums spearmanr tiecorrect weightedtau wilcoxon"
).split()
_SEARCH = "it searches, resamples or counts; write the statistic with NumPy functions"
PLAIN = frozenset(
    "Binomial BootstrapMethod CensoredData Covariance Logistic Mixture MonteCarloMethod Normal PermutationMethod "
    "levy_stable matrix_t multivariate_hypergeom normal_inverse_gamma ortho_group random_correlation random_table "
    "special_ortho_group studentized_range uniform_direction unitary_group poisson_binom "
    "Uniform abs exp log make_distribution rv_continuous rv_discrete rv_histogram truncate order_statistic".split()
)


for _name in namespace.public_names(_original):
    _value = getattr(_original, _name)
    if not isinstance(_value, types.FunctionType) or _name in PLAIN:
        continue
    _proxy = getattr(_functions, _name)
    if _proxy in registry.rows:
        continue
    _body = next((vars(copy)[_name] for copy in _copies if _name in vars(copy)), None)
    if _name in CONSTANT:
        registry.constant(_proxy)
    elif _name in DIFFERENTIABLE and _body is not None:
        registry.composed(_proxy, _body)
    else:
        registry.refuse(_proxy, _SEARCH)


def _needs_lambda(name):
    """Return the body of ``boxcox`` or ``yeojohnson``, which requires `lmbda`."""

    def body(x, lmbda=None, *args, **options):
        if lmbda is None:
            raise UnsupportedFunctionError(f"scipy.stats.{name} searches for lmbda: pass a value of lmbda")
        copy = next(vars(copy)[name] for copy in _copies if name in vars(copy))
        return copy(x, lmbda, *args, **options)

    return body


for _name in ("boxcox", "yeojohnson"):
    del registry.rows[getattr(_functions, _name)]
    registry.composed(getattr(_functions, _name), _needs_lambda(_name))
