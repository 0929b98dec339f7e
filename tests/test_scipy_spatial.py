"""``scipy.spatial``: distances, rotations, triangulations and trees."""

import numpy as np
import pytest
import scipy.spatial as sp
from scipy.linalg import expm
from scipy.spatial import distance
from scipy.spatial.distance import cdist, pdist, squareform
from scipy.spatial.transform import Rotation as R
from scipy.spatial.transform import Slerp

import wengert as wg
from scipy_cases import check

RNG = np.random.default_rng(7)
A, B = RNG.uniform(0.5, 2, (4, 3)), RNG.uniform(0.5, 2, (5, 3))
U, V, W = A[0], B[0], np.array([0.5, 1.0, 2.0])
SPREAD = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, 0.2], [0.1, 0.2, 1.5]])
REAL = "braycurtis canberra chebyshev cityblock correlation cosine euclidean jensenshannon sqeuclidean".split()

CASES = {
    **{f"{name} of vectors": (getattr(distance, name), U, V) for name in REAL},
    **{f"{name} of pairs": (lambda a, b, name=name: cdist(a, b, name), A, B) for name in REAL},
    **{f"{name} of one set": (lambda a, name=name: pdist(a, name), A) for name in REAL},
    **{
        f"weighted {name}": (lambda u, v, w, name=name: getattr(distance, name)(u, v, w), U, V, W)
        for name in REAL
        if name not in ("chebyshev", "jensenshannon")
    },
    "minkowski": (lambda u, v: distance.minkowski(u, v, 3), U, V),
    "cosine with a list": (lambda u: distance.cosine(u, V.tolist()), U),
    "minkowski with listed weights": (lambda u: distance.minkowski(u, V, 3, w=[*range(1, len(V) + 1)]), U),
    "minkowski of pairs": (lambda a, b, w: cdist(a, b, "minkowski", p=1.5, w=w), A, B, W),
    "seuclidean": (distance.seuclidean, U, V, W),
    "seuclidean of pairs": (lambda a, b: cdist(a, b, "seuclidean"), A, B),
    "seuclidean with variances": (lambda a, v: pdist(a, "seuclidean", V=v), A, W),
    "mahalanobis": (distance.mahalanobis, U, V, SPREAD),
    "mahalanobis of pairs": (lambda a, b, vi: cdist(a, b, "mahalanobis", VI=vi), A, B, SPREAD),
    "mahalanobis of one set": (lambda a: pdist(a, "mahalanobis"), RNG.uniform(0, 2, (7, 3))),
    "jensenshannon with a base": (lambda a, b: distance.jensenshannon(a, b, 2.0), U, V),
    "jensenshannon along an axis": (lambda a: distance.jensenshannon(a, A[::-1].copy(), axis=1, keepdims=True), A),
    "callable metric": (lambda a, b: cdist(a, b, lambda u, v: np.sum((u - v) ** 4)), A, B),
    "metric of the module": (lambda a: pdist(a, distance.cityblock), A),
    "squareform of distances": (lambda a: squareform(pdist(a)), A),
    "squareform of a matrix": (lambda d: squareform(squareform(d)), pdist(A)),
    "kernel of a Gaussian process": (lambda a, l: np.exp(-0.5 * cdist(a / l, a / l, "sqeuclidean")), A, W),
    "hausdorff": (lambda a, b: distance.directed_hausdorff(a, b)[0], A, B),
}


@pytest.mark.parametrize("name", CASES)
def test_distances_have_derivatives(name):
    f, *operands = CASES[name]
    check(f, *operands)


def test_coincident_points_have_the_derivative_zero():
    x = np.array([[1.0, 2.0], [1.0, 2.0], [3.0, 0.5]])
    found = wg.jacobian(lambda x: cdist(x, x))(x)
    assert np.isfinite(found).all()
    assert not found[0, 1].any()


TRUTH_VALUES = "dice rogerstanimoto russellrao sokalsneath yule".split()


@pytest.mark.parametrize("name", TRUTH_VALUES)
def test_metrics_of_truth_values_refuse_numbers(name):
    # SciPy extends them to numbers, of which they are smooth functions
    for f in (lambda u: getattr(distance, name)(u, V), lambda u: cdist(u[None], B, name)[0, 0]):
        with pytest.raises(wg.errors.UnsupportedFunctionError, match=f"{name}.*u != 0"):
            wg.grad(f)(U / 2)


@pytest.mark.parametrize("name", ["hamming", "jaccard"])
def test_weights_of_counting_metrics_are_refused(name):
    for f in (lambda w: getattr(distance, name)(U, V, w), lambda w: cdist(A, B, name, w=w)[0, 0]):
        with pytest.raises(wg.errors.UnsupportedFunctionError, match="weighted mean"):
            wg.grad(f)(W)


@pytest.mark.parametrize("name", ["hamming", "jaccard", *TRUTH_VALUES])
def test_metrics_of_boolean_vectors_are_piecewise_constant(name):
    u, v = np.array([1.0, 0.0, 1.0, 1.0]), np.array([0.0, 1.0, 1.0, 1.0])
    metric = getattr(distance, name)
    y, slope = wg.value_and_grad(lambda u: 2.0 * u[0] + metric(u != 0, v != 0))(u)
    assert y == 2.0 + metric(u != 0, v != 0)
    np.testing.assert_array_equal(slope, [2.0, 0.0, 0.0, 0.0])


VECTORS = RNG.normal(size=(4, 3))
ANGLES = np.array([0.3, -0.7, 1.1])
QUATERNION = RNG.normal(size=4)
FIXED = R.from_rotvec([0.1, 0.2, 0.3])
TREE = sp.KDTree(A)
POINTS = RNG.uniform(size=(9, 2))

ROTATIONS = {
    "rotation vector": (lambda a: R.from_rotvec(a).as_matrix(), ANGLES),
    "Euler angles": (lambda a: R.from_euler("xyz", a).as_quat(), ANGLES),
    "degrees": (lambda a: R.from_euler("zx", a[:2], degrees=True).apply(VECTORS), ANGLES),
    "quaternion": (lambda q: R.from_quat(q).as_euler("xyz"), QUATERNION),
    "matrix": (lambda a: R.from_matrix(R.from_rotvec(a).as_matrix()).as_rotvec() ** 2, ANGLES),
    "apply": (lambda v: FIXED.apply(v), VECTORS),
    "inverse": (lambda v: FIXED.apply(v, inverse=True), VECTORS),
    "product": (lambda a: (R.from_rotvec(a) * FIXED).as_rotvec(), ANGLES),
    "magnitude": (lambda a: np.asarray(R.from_rotvec(a).magnitude()), ANGLES),
    "Rodrigues parameters": (lambda a: R.from_mrp(a).inv().as_mrp(), ANGLES),
    "stack": (lambda v: R.from_rotvec(v)[1:].as_quat(), VECTORS),
    "mean": (lambda v: R.from_rotvec(v).mean().as_rotvec(), 0.2 * VECTORS),
    "power": (lambda a: (R.from_rotvec(a) ** 0.5).as_rotvec() ** 2, ANGLES),
    "slerp": (lambda v: Slerp([0, 1, 2, 3], R.from_rotvec(v))([0.5, 1.2]).as_rotvec(), 0.3 * VECTORS),
}


@pytest.mark.parametrize("name", ROTATIONS)
def test_rotations_have_derivatives(name):
    f, x = ROTATIONS[name]
    check(f, x, batches=False)


def rotated(v):
    """Rotate `VECTORS` by the exponential of a skew-symmetric matrix."""
    zero = 0.0 * v[0]
    return VECTORS @ expm(np.array([[zero, -v[2], v[1]], [v[2], zero, -v[0]], [-v[1], v[0], zero]])).T


@pytest.mark.parametrize("length", [0.0, 1e-9, 5e-4, 0.1, 0.99, 1.01, 3.0])
def test_rotation_vectors_of_every_length_have_second_derivatives(length):
    v = length * np.array([2.0, -1.0, 2.0]) / 3
    there = lambda v: np.sum(np.cos(VECTORS) * R.from_rotvec(v).apply(VECTORS))
    back = lambda v: np.sum(np.sin(R.from_rotvec(v).as_rotvec()))
    expected = wg.hessian(lambda v: np.sum(np.cos(VECTORS) * rotated(v)))(v)
    for f, hessian in ((there, expected), (back, np.diag(-np.sin(v)))):
        np.testing.assert_allclose(wg.hessian(f)(v), hessian, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(wg.hessian(wg.compile(f))(v), hessian, rtol=1e-9, atol=1e-9)


def test_matrices_that_are_not_orthogonal_are_not_written_into():
    matrix = FIXED.as_matrix() + 0.05 * VECTORS[:3]
    check(lambda m: R.from_matrix(m).as_quat(), matrix, batches=False)


def triangles(tri):
    corners = tri.points[tri.simplices]
    return np.linalg.det(corners[:, 1:] - corners[:, :1])


TRIANGLES = sp.Delaunay([[0, 0.1], [9, 0], [0.3, 9], [8, 9.5], [3.0, 5]])
STRUCTURES = {
    "procrustes": (lambda a: np.asarray(sp.procrustes(a, B[:4])[2]), A),
    "geometric_slerp": (lambda t: sp.geometric_slerp(np.stack([np.cos(t), np.sin(t)]), [0.0, 1.0], 0.3), np.array(0.4)),
    "tree query": (lambda x: TREE.query(x)[0], B),
    "neighbours of traced data": (lambda a: sp.KDTree(a).query(B, k=2)[0], A),
    "hull volume": (lambda p: sp.ConvexHull(p).volume, POINTS),
    "hull area": (lambda p: sp.ConvexHull(p).area, POINTS),
    "places in triangles": (lambda p: TRIANGLES.transform[int(TRIANGLES.find_simplex(p))] @ p, np.array([2.0, 3.0])),
    "triangles": (lambda p: triangles(sp.Delaunay(p)), np.array([[0, 0.1], [9, 0], [0.3, 9], [8, 9.5], [3.0, 5]])),
    "aligned": (lambda v: R.align_vectors(v[:3], VECTORS[:3])[0].as_rotvec(), FIXED.apply(VECTORS) + 0.1 * VECTORS**2),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_structures_of_points_have_derivatives(name):
    f, *operands = STRUCTURES[name]
    check(f, *operands, batches=False)


@pytest.mark.parametrize(
    "f", [lambda p: sp.ConvexHull(p).equations, lambda p: sp.Delaunay(p).transform, lambda p: sp.Voronoi(p).vertices]
)
def test_planes_and_diagrams_are_refused_with_a_remedy(f):
    with pytest.raises(wg.errors.UnsupportedFunctionError, match="simplices"):
        wg.grad(lambda p: np.sum(f(p)))(POINTS)
