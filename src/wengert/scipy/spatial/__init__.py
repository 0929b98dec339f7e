"""``scipy.spatial`` with functions that accept traced values."""

import wengert.rules.scipy.spatial  # noqa: F401  (declares the rules)
from wengert.scipy import namespace as _namespace
from wengert.scipy.spatial import distance, transform  # noqa: F401  (registered first, as attributes of the package)

_namespace.install("spatial")
