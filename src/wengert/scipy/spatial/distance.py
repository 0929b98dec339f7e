"""``scipy.spatial.distance`` with functions that accept traced values."""

import wengert.rules.scipy.distance  # noqa: F401  (declares the rules)
from wengert.scipy import namespace as _namespace

_namespace.install("spatial.distance")
