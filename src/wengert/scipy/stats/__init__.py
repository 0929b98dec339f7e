"""``scipy.stats`` with functions and distributions that accept traced values.

They are second copies of SciPy's Python code.
"""

from wengert.scipy import namespace
from wengert.scipy.stats import distributions as _distributions  # before modules that import distributions
from wengert.scipy.stats import multivariate as _multivariate
from wengert.scipy.stats import random_variables as _random_variables
from wengert.scipy.stats import summaries as _summaries

globals().update(_distributions.INSTANCES | _distributions.CLASSES | _multivariate.REPLACED)
globals().update(_random_variables.REPLACED)

_PLAIN = _summaries.PLAIN

from wengert.scipy.stats import contingency, mstats, qmc  # noqa: E402, F401

namespace.install("stats")
