"""``scipy.sparse`` with functions that accept traced values."""

import wengert.rules.scipy.sparse  # noqa: F401  (declares the rules)
from wengert.scipy import namespace as _namespace
from wengert.scipy.sparse import linalg  # noqa: F401  (registered first, as attributes of the package)

_namespace.install("sparse")
