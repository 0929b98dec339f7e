"""``scipy.spatial`` with functions that accept traced values."""

import scipy.spatial as _scipy

from wengert import registry as _registry
from wengert.rules.scipy.functions import Functions as _Functions
from wengert.scipy import copies, linalg, namespace  # noqa: F401  (copies use the rules of linalg)
from wengert.scipy.spatial import distance, transform  # noqa: F401  (registered first, as attributes of the package)

_spatial = _Functions("scipy.spatial")
for _name, _module in {
    "distance_matrix": "_kdtree",
    "minkowski_distance": "_kdtree",
    "minkowski_distance_p": "_kdtree",
    "procrustes": "_procrustes",
    "geometric_slerp": "_geometric_slerp",
}.items():
    _registry.composed(getattr(_spatial, _name), getattr(copies.second_copy(f"scipy.spatial.{_module}"), _name))
_registry.constant(_spatial.tsearch)

from wengert.scipy.spatial import structures as _structures  # noqa: E402

ConvexHull, Delaunay = _structures.ConvexHull, _structures.Delaunay
KDTree, cKDTree = _structures.KDTree, _structures.cKDTree
_CENTRES = "compute the circumcentres of Delaunay(points).simplices"
for _name, _remedy in {
    "HalfspaceIntersection": "solve the linear equations of the intersections with numpy.linalg",
    "SphericalVoronoi": _CENTRES,
    "Voronoi": _CENTRES,
}.items():
    globals()[_name] = namespace.refusing_class(getattr(_scipy, _name), _remedy)

#: structures of plain points
_PLAIN = frozenset("QhullError Rectangle convex_hull_plot_2d delaunay_plot_2d voronoi_plot_2d".split())

namespace.install("spatial")
