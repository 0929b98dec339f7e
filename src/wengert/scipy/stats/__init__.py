"""``scipy.stats`` with functions and distributions that accept traced values.

They are second copies of SciPy's Python code.  Those of distributions are made when one is first used.
"""

from wengert.scipy import namespace
from wengert.scipy.stats import summaries as _summaries

_PLAIN = _summaries.PLAIN

for _part, _homes in {
    "multivariate": "_multivariate _covariance _kde",
    "univariate": "_distn_infrastructure _continuous_distns _discrete_distns",
    "random_variables": "_probability_distribution _distribution_infrastructure _new_distributions",
}.items():
    namespace.replace_later("stats", f"wengert.scipy.stats.{_part}", _homes)

from wengert.scipy.stats import contingency, mstats, qmc  # noqa: E402, F401

namespace.install("stats")
namespace.install_later("stats.distributions")
