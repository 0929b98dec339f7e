"""``scipy.constants``: the constants are plain; conversions accept traced values."""

from wengert import registry as _registry
from wengert.rules.scipy.functions import Functions as _Functions
from wengert.scipy import copies as _copies
from wengert.scipy import namespace as _namespace

_constants = _Functions("scipy.constants")
_copy = _copies.second_copy("scipy.constants._constants")
for _name in ("convert_temperature", "lambda2nu", "nu2lambda"):
    _registry.composed(getattr(_constants, _name), vars(_copy)[_name])

#: functions whose arguments are names of constants
_PLAIN = frozenset("find precision unit value".split())

_namespace.install("constants")
