"""``scipy.stats`` with functions and distributions that accept traced values.

They are second copies of SciPy's Python code.  Those of univariate distributions and of random variables are made when
one is first met.
"""

from functools import partial as _partial
from importlib import import_module as _import_module

from wengert.core.rebind import registration as _registration
from wengert.scipy import namespace
from wengert.scipy.stats import multivariate as _multivariate
from wengert.scipy.stats import summaries as _summaries

globals().update(_multivariate.REPLACED)

_PLAIN = _summaries.PLAIN

#: modules of SciPy that are registered when one of their members is first met, by the module of ours that replaces it
_LATER = {
    "univariate": "_distn_infrastructure _continuous_distns _discrete_distns",
    "random_variables": "_probability_distribution _distribution_infrastructure _new_distributions",
}


def _register(part):
    """Register the distributions that a module of this package replaces."""
    namespace.replace("stats", _import_module(f"wengert.scipy.stats.{part}").REPLACED)


for _part, _modules in _LATER.items():
    _install = _partial(_register, _part)
    for _module in _modules.split():
        _registration.register_later(f"scipy.stats.{_module}", _install)

from wengert.scipy.stats import contingency, mstats, qmc  # noqa: E402, F401

namespace.install("stats")
