"""``scipy.stats.distributions``, which has the distributions of ``scipy.stats``."""

from wengert.scipy import namespace as _namespace

#: distributions whose values SciPy computes in C or by numerical integrals
_PLAIN = frozenset({"levy_stable"})

_namespace.install("stats.distributions")
