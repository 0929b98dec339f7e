"""``scipy.signal.windows`` with functions that accept traced values."""

from wengert.scipy import namespace as _namespace

_namespace.install("signal.windows")
