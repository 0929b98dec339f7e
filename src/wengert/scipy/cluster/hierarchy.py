"""``scipy.cluster.hierarchy``, whose functions refuse traced observations."""

import types as _types

import scipy.cluster.hierarchy as _hierarchy

from wengert import registry as _registry
from wengert.rules.scipy.functions import Functions as _Functions
from wengert.scipy import namespace as _namespace

_functions = _Functions("scipy.cluster.hierarchy")
_INSTEAD = "it joins clusters one by one; pass wengert.stop_gradient(X), and compute with the clusters that it finds"
for _name in _namespace.public_names(_hierarchy):
    if isinstance(getattr(_hierarchy, _name), _types.FunctionType):
        _registry.refuse(getattr(_functions, _name), _INSTEAD)

_PLAIN = frozenset(("ClusterNode", "DisjointSet"))

_namespace.install("cluster.hierarchy")
