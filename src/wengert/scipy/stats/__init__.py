"""``scipy.stats`` with functions and distributions that accept traced values.

They are second copies of SciPy's Python code.
"""

from wengert.scipy import namespace
from wengert.scipy.stats import multivariate as _multivariate
from wengert.scipy.stats import random_variables as _random_variables
from wengert.scipy.stats import summaries as _summaries
from wengert.scipy.stats import univariate as _univariate

globals().update(_univariate.INSTANCES | _univariate.CLASSES | _multivariate.REPLACED)
globals().update(_random_variables.REPLACED)

_PLAIN = _summaries.PLAIN

from wengert.scipy.stats import contingency, mstats, qmc  # noqa: E402, F401

namespace.install("stats")
