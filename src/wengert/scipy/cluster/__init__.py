"""``scipy.cluster``: scales and quantises traced observations; functions that search for clusters refuse them."""

from wengert.scipy import namespace as _namespace
from wengert.scipy.cluster import hierarchy, vq  # noqa: F401

_namespace.install("cluster")
