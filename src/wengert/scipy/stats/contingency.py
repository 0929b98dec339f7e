"""``scipy.stats.contingency``: margins and expected frequencies."""

import scipy.stats.contingency as _contingency

from wengert import registry as _registry
from wengert.rules.scipy.functions import Functions as _Functions
from wengert.scipy import copies as _copies
from wengert.scipy import namespace as _namespace

_functions = _Functions("scipy.stats.contingency")
_copies.copy_later("scipy.stats.contingency")
for _name in ("margins", "expected_freq"):
    _body = _copies.followed(getattr(_contingency, _name))
    _registry.composed(getattr(_functions, _name), _body)
for _name in ("association", "crosstab", "odds_ratio", "relative_risk"):
    _registry.refuse(getattr(_functions, _name), "it takes counts, which are integers; pass plain values")

_namespace.install("stats.contingency")
