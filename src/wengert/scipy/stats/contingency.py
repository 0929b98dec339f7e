"""``scipy.stats.contingency``: margins and expected frequencies."""

from wengert import registry as _registry
from wengert.rules.scipy.functions import Functions as _Functions
from wengert.scipy import namespace as _namespace

_functions = _Functions("scipy.stats.contingency")
_copy = _namespace.second_copy("scipy.stats.contingency")
for _name in ("margins", "expected_freq"):
    _registry.composed(getattr(_functions, _name), vars(_copy)[_name])
for _name in ("association", "crosstab", "odds_ratio", "relative_risk"):
    _registry.refuse(getattr(_functions, _name), "it takes counts, which are integers; pass plain values")

_namespace.install("stats.contingency")
