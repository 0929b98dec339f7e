"""``scipy.integrate`` with functions that accept traced values."""

import wengert.rules.scipy.integrate  # noqa: F401  (declares the rules)
from wengert.scipy import namespace as _namespace

_namespace.install("integrate")
