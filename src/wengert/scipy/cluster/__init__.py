"""``scipy.cluster``: scaled and quantised observations; the search for clusters is refused."""

from wengert.scipy import namespace as _namespace
from wengert.scipy.cluster import hierarchy, vq  # noqa: F401

_namespace.install("cluster")
