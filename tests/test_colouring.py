"""Colourings: counts known from the literature, validity by definition, recovery of every nonzero."""

from __future__ import annotations

import itertools
import pickle

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import wengert as wg
from wengert.sparse.colours import KINDS, METHODS
from wengert.sparse.compression import Recovery, compress

SYMMETRIC = ("star", "acyclic")

# ---- structures


def plus(axes):
    """Return the offsets of the 2 d + 1 nearest points."""
    return [(0,) * axes] + [tuple(s * (k == t) for k in range(axes)) for t in range(axes) for s in (-1, 1)]


def box(axes):
    """Return the offsets of the 3^d nearest points."""
    return list(itertools.product((-1, 0, 1), repeat=axes))


def stencil(shape, offsets, periodic=False):
    places = np.indices(shape).reshape(len(shape), -1)
    size = np.array(shape)[:, None]
    rows, columns = [], []
    for offset in offsets:
        moved = places + np.array(offset)[:, None]
        inside = np.full(places.shape[1], True) if periodic else ((moved >= 0) & (moved < size)).all(axis=0)
        rows.append(np.flatnonzero(inside))
        columns.append(np.ravel_multi_index((moved % size)[:, inside], shape))
    rows, columns = np.concatenate(rows), np.concatenate(columns)
    return sp.csr_array((np.ones(len(rows), bool), (rows, columns)), (places.shape[1],) * 2)


def brusselator(n, periodic=False, species_last=False):
    grid, coupling = stencil((n, n), plus(2), periodic), sp.eye_array(n * n, dtype=bool)
    pattern = sp.block_array([[grid, coupling], [coupling, grid]], format="csr")
    if species_last:
        order = np.arange(2 * n * n).reshape(2, -1).T.ravel()
        pattern = pattern[order][:, order]
    return pattern


def arrow(n):
    pattern = np.eye(n, dtype=bool)
    pattern[0] = pattern[:, 0] = True
    return pattern


def banded(n, half):
    return abs(np.subtract.outer(np.arange(n), np.arange(n))) <= half


def blocks(k, count):
    return np.kron(np.eye(count), np.ones((k, k))).astype(bool)


def scattered(m, n, each, seed=0):
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(0, m, n * each), np.repeat(np.arange(n), each)
    return sp.csr_array((np.ones(len(rows)), (rows, columns)), (m, n)).astype(bool)


def symmetrized(pattern):
    return (pattern + pattern.T).astype(bool)


# ---- validity by definition


def is_valid(pattern, colouring):
    dense = pattern if isinstance(pattern, np.ndarray) else pattern.toarray()
    dense = dense.astype(bool)
    if colouring.kind == "column":
        return columns_apart(dense, colouring.colours)
    if colouring.kind == "row":
        return columns_apart(dense.T, colouring.colours)
    if colouring.kind == "bidirectional":
        rows, columns = colouring.colours
        return all(
            has_unique_colour(dense, i, j, columns) or has_unique_colour(dense.T, j, i, rows)
            for i, j in zip(*dense.nonzero())
        )
    colours = colouring.colours
    edges = [(int(i), int(j)) for i, j in zip(*dense.nonzero()) if i < j]
    used = dense.any(axis=1)
    if (colours[used] < 0).any() or any(colours[i] == colours[j] for i, j in edges):
        return False
    parts = {}
    for i, j in edges:
        parts.setdefault(frozenset((colours[i], colours[j])), []).append((i, j))
    is_good = is_forest_of_stars if colouring.kind == "star" else is_forest
    return all(is_good(part) for part in parts.values())


def columns_apart(dense, colours):
    return all(len({int(colours[j]) for j in np.flatnonzero(row)} - {-1}) == np.count_nonzero(row) for row in dense)


def has_unique_colour(dense, i, j, colours):
    """Return whether no other nonzero of row i has the colour of column j."""
    return colours[j] >= 0 and np.count_nonzero(colours[np.flatnonzero(dense[i])] == colours[j]) == 1


def is_forest(edges):
    """Return whether removing leaves repeatedly removes every edge."""
    edges = set(edges)
    while edges:
        ends = [v for edge in edges for v in edge]
        leaves = {v for v in ends if ends.count(v) == 1}
        kept = {edge for edge in edges if not leaves & {*edge}}
        if len(kept) == len(edges):
            return False
        edges = kept
    return True


def is_forest_of_stars(edges):
    """Return whether each edge has a leaf as one end; two colours never form a triangle."""
    ends = [v for edge in edges for v in edge]
    return all(min(ends.count(i), ends.count(j)) == 1 for i, j in edges)


# ---- counts


COUNTS = [
    ("5 points", stencil((32, 32), plus(2)), "column", None, 5),
    ("5 points, oblong", stencil((37, 23), plus(2)), "column", (37, 23), 5),
    ("5 points, rows", stencil((20, 23), plus(2)), "row", (20, 23), 5),
    ("5 points, periodic", stencil((30, 30), plus(2), True), "column", None, 5),
    ("5 points, periodic, given", stencil((30, 30), plus(2), True), "column", (30, 30), 5),
    ("9 points", stencil((21, 33), box(2)), "column", None, 9),
    ("7 points", stencil((10, 11, 13), plus(3)), "column", None, 7),
    ("27 points", stencil((7, 8, 9), box(3)), "column", None, 27),
    ("Brusselator", brusselator(16), "column", (2, 16, 16), 6),
    ("Brusselator, guessed", brusselator(33), "column", None, 6),
    ("Brusselator, species last", brusselator(20, species_last=True), "column", (20, 20, 2), 6),
    ("Brusselator, species last, guessed", brusselator(20, species_last=True), "column", None, 6),
    ("Brusselator, given as pairs", brusselator(20), "column", (2, 400), 6),
    ("Brusselator, periodic", brusselator(30, True), "column", None, 6),
    ("arrow", arrow(50), "column", None, 50),
    ("arrow", arrow(50), "bidirectional", None, 3),
    ("arrow, long", sp.csr_array(arrow(700)), "column", None, 700),
    ("arrow", arrow(50), "star", None, 2),
    ("arrow", arrow(50), "acyclic", None, 2),
    ("bidirectional, grid", stencil((12, 15), plus(2)), "bidirectional", None, 5),
    ("tridiagonal", banded(60, 1), "column", None, 3),
    ("tridiagonal", banded(60, 1), "star", None, 3),
    ("tridiagonal", banded(60, 1), "acyclic", None, 2),
    *[(f"band {b}", banded(60, b), "column", None, 2 * b + 1) for b in (2, 3, 5)],
    ("band 2", banded(60, 2), "acyclic", None, 3),
    ("band 5", banded(60, 5), "acyclic", None, 6),
    *[(f"blocks of {k}", blocks(k, 9), kind, None, k) for k in (1, 4, 7) for kind in KINDS],
    ("dense", np.ones((9, 12), bool), "column", None, 12),
    ("dense", np.ones((9, 12), bool), "bidirectional", None, 9),
    ("diagonal", np.eye(8, dtype=bool), "column", None, 1),
    ("5 points", stencil((13, 17), plus(2)), "star", None, 5),
    ("5 points", stencil((13, 17), plus(2)), "acyclic", None, 3),
    ("9 points", stencil((13, 17), box(2)), "acyclic", None, 5),
    ("7 points", stencil((6, 7, 8), plus(3)), "acyclic", None, 4),
    ("5 points, periodic", stencil((15, 15), plus(2), True), "star", None, 5),
    ("5 points, periodic", stencil((16, 16), plus(2), True), "acyclic", None, 4),
    ("Brusselator", brusselator(9), "acyclic", None, 4),
]  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "kind", "shape", "count"), [row[1:] for row in COUNTS], ids=[f"{row[0]}-{row[2]}" for row in COUNTS]
)
def test_known_structures_need_the_known_number_of_colours(pattern, kind, shape, count):
    found = wg.colouring(pattern, kind=kind, shape=shape)
    assert found.count == count >= found.lower_bound
    assert is_valid(pattern, found)


def test_long_row_and_column_beside_a_grid_cost_one_product_each():
    grid, one = stencil((20, 20), plus(2)), np.ones((400, 1))
    pattern = sp.block_array([[grid, one], [one.T, None]]).astype(bool)
    found = wg.colouring(pattern, kind="bidirectional")
    assert found.count <= 8
    assert is_valid(pattern, found)


# ---- against plain greedy colourings


def neighbours_of(pattern):
    touch = pattern.astype(int)
    near = (touch.T @ touch).toarray() > 0
    np.fill_diagonal(near, False)
    return [np.flatnonzero(row) for row in near]


def smallest_free(colours, near):
    taken = {colours[w] for w in near}
    return next(c for c in itertools.count() if c not in taken)


def largest_first(near):
    colours = [-1] * len(near)
    for v in sorted(range(len(near)), key=lambda v: -len(near[v])):
        colours[v] = smallest_free(colours, near[v])
    return max(colours) + 1


def dsatur(near):
    colours, seen = [-1] * len(near), [set() for _ in near]
    left = set(range(len(near)))
    while left:
        v = max(left, key=lambda v: (len(seen[v]), len(near[v]), -v))
        left.remove(v)
        colours[v] = smallest_free(colours, near[v])
        for w in near[v]:
            seen[w].add(colours[v])
    return max(colours) + 1


@pytest.mark.parametrize(("m", "n", "each"), [(80, 80, 2), (150, 150, 5), (300, 200, 4), (200, 300, 6)])
@pytest.mark.parametrize("seed", range(3))
def test_random_patterns_never_take_more_colours_than_dsatur_or_largest_first(m, n, each, seed):
    pattern = scattered(m, n, each, seed)
    near = neighbours_of(pattern)
    assert wg.colouring(pattern, method="dsatur").count == dsatur(near)
    assert wg.colouring(pattern, method="largest_first").count == largest_first(near)
    assert wg.colouring(pattern).count <= min(dsatur(near), largest_first(near))
    assert wg.colouring(pattern.T, kind="row").count <= min(dsatur(near), largest_first(near))


def test_tabu_search_improves_on_greedy_orderings():
    pattern = scattered(600, 600, 8)
    found = wg.colouring(pattern)
    assert found.method == "tabu_search"
    assert found.count < min(wg.colouring(pattern, method=method).count for method in GREEDY)
    assert is_valid(pattern, found)


# ---- every method and every kind


GREEDY = [method for method in METHODS if method != "lattice"]


@pytest.mark.parametrize("method", GREEDY)
@pytest.mark.parametrize("kind", KINDS)
def test_every_method_colours_every_pattern_kind(kind, method):
    for pattern in (scattered(40, 40, 3), stencil((6, 7), plus(2)), arrow(20), np.zeros((3, 3), bool)):
        pattern = symmetrized(pattern) if kind in SYMMETRIC else pattern
        found = wg.colouring(pattern, kind=kind, method=method)
        assert is_valid(pattern, found)
        assert found.count >= found.lower_bound


@pytest.mark.parametrize(("kind", "count"), [("column", 5), ("row", 5), ("star", 5), ("acyclic", 3)])
def test_lattice_is_detected_with_and_without_shape(kind, count):
    pattern = stencil((12, 14), plus(2))
    for shape in (None, (12, 14), 168, (1, 168), (12, 14, 1)):
        found = wg.colouring(pattern, kind=kind, method="lattice", shape=shape)
        assert (found.count, found.method) == (count, "lattice")
        assert is_valid(pattern, found)


def test_row_shape_may_differ_from_column_shape():
    wide = stencil((9, 12), plus(2))[: 9 * 10]
    found = wg.colouring(wide, kind="row", row_shape=(9, 10), method="lattice")
    assert is_valid(wide, found)
    assert found.count >= found.lower_bound == 5


@pytest.mark.parametrize("kind", KINDS)
def test_random_patterns_are_coloured_validly(kind):
    for seed in range(6):
        pattern = scattered(30, 30, 1 + seed, seed)
        pattern = symmetrized(pattern) if kind in SYMMETRIC else pattern
        assert is_valid(pattern, wg.colouring(pattern, kind=kind))


def test_search_is_bounded_by_budget_and_deterministic():
    pattern = scattered(400, 400, 6)
    quick = wg.colouring(pattern, budget=0)
    long = wg.colouring(pattern, budget=1e9)
    assert quick.method == "natural"
    assert long.count < quick.count
    np.testing.assert_array_equal(long.colours, wg.colouring(pattern, budget=1e9).colours)
    assert wg.colouring(pattern).count <= quick.count


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (4, 4), (3, 0), (0, 3), (2, 5)])
def test_empty_patterns_and_empty_columns_need_no_product(kind, shape):
    if kind in SYMMETRIC and shape[0] != shape[1]:
        return
    nothing = np.zeros(shape, bool)
    found = wg.colouring(nothing, kind=kind)
    assert found.count == found.lower_bound == 0
    colours = found.colours if kind == "bidirectional" else (found.colours,)
    assert all((part == -1).all() for part in colours)
    assert Recovery(found).values(compress(nothing, found)).shape == (0,)


def test_columns_without_nonzeros_stay_uncoloured():
    pattern = banded(12, 1)
    pattern[:, 4] = pattern[4] = False
    for kind in KINDS:
        found = wg.colouring(pattern, kind=kind)
        assert (np.atleast_2d(found.colours)[:, 4] == -1).all()
        assert is_valid(pattern, found)


# ---- the Colouring object


def test_repr_of_a_colouring_states_its_colours():
    found = wg.colouring(stencil((6, 7), plus(2)), shape=(6, 7))
    assert repr(found) == "<column colouring: 5 colours of 42 columns, at least 5 needed, by lattice>"
    both = wg.colouring(arrow(9), kind="bidirectional")
    assert repr(both).startswith(
        "<bidirectional colouring: 1 row and 2 column colours of a pattern of 9 x 9, at least 3"
    )
    assert repr(wg.colouring(np.eye(1, dtype=bool))).startswith("<column colouring: 1 colour of 1 column,")
    assert repr(Recovery(found)) == "<recovery of 184 nonzeros, csr, from 5 products>"


def test_colouring_is_frozen_and_pickles():
    found = wg.colouring(arrow(9), kind="bidirectional")
    with pytest.raises(AttributeError):
        found.kind = "row"
    again = pickle.loads(pickle.dumps(found))
    for mine, other in zip(found.colours, again.colours):
        np.testing.assert_array_equal(mine, other)
    again.check()
    assert repr(again) == repr(found)
    assert again.pattern.dtype == bool
    np.testing.assert_array_equal(again.pattern.toarray(), arrow(9))


def test_seeds_come_whole_or_in_chunks():
    found = wg.colouring(banded(11, 1))
    seeds = found.seeds()
    assert seeds.shape == (3, 11)
    np.testing.assert_array_equal(seeds.sum(axis=0), np.ones(11))
    np.testing.assert_array_equal(np.argmax(seeds, axis=0), found.colours)
    parts = list(found.chunks(2))
    assert [part.shape for part in parts] == [(2, 11), (1, 11)]
    np.testing.assert_array_equal(np.concatenate(parts), seeds)
    assert found.seeds(1, 2, dtype=np.float32).dtype == np.float32
    wide = wg.colouring(np.ones((2, 5), bool), kind="row")
    assert wide.seeds().shape == (2, 2)
    with pytest.raises(ValueError, match="has no column colours"):
        wide.seeds(side="column")
    with pytest.raises(ValueError, match='side is "column" or "row"'):
        wide.seeds(side="left")


@pytest.mark.parametrize("kind", KINDS)
def test_colouring_plot_has_one_mark_per_nonzero(kind):
    found = wg.colouring(arrow(12), kind=kind)
    ax = found.plot()
    assert sum(len(drawn.get_offsets()) for drawn in ax.collections) == 34
    assert found.plot(ax) is ax
    plt.close(ax.figure)


# ---- checks


def recoloured(found, **colours):
    return type(found)(**{**{name: getattr(found, name) for name in found.__dataclass_fields__}, **colours})


SPOILT = [
    ("column", banded(6, 1), [0, 1, 2, 0, 2, 1], "columns 2 and 4 both have colour 2 and a nonzero in row 3"),
    ("column", banded(3, 1), [0, -1, 2], "column 1 has no colour, but a nonzero in row 0"),
    ("row", banded(4, 1), [0, 1, 0, 2], "rows 0 and 2 both have colour 0 and a nonzero in column 1"),
    ("star", banded(5, 1), [0, 1, 0, 1, 2], "0 - 1 - 2 - 3 is a path of four vertices in colours 0 and 1"),
    ("star", banded(4, 1), [0, 0, 1, 2], "vertices 0 and 1 both have colour 0, but (0, 1) is a nonzero"),
    ("star", banded(4, 1), [0, 1, -1, 2], "vertex 2 has no colour, but its row has nonzeros"),
    ("acyclic", stencil((2, 2), plus(2)), [0, 1, 1, 0], "is on a cycle of vertices in colours 0 and 1"),
    ("column", banded(4, 1), [0, 1, 2], "a colouring of 4 columns cannot have the shape (3,)"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "pattern", "colours", "message"), SPOILT)
def test_check_names_conflicting_columns(kind, pattern, colours, message):
    found = wg.colouring(pattern, kind=kind)
    name = "row_colours" if kind == "row" else "column_colours"
    wrong = recoloured(found, **{name: np.array(colours, np.int32)})
    with pytest.raises(wg.PatternError) as caught:
        wrong.check()
    assert message in str(caught.value)
    with pytest.raises(wg.PatternError):
        Recovery(wrong)


def test_check_names_nonzero_recovered_from_neither_side():
    found = wg.colouring(arrow(5), kind="bidirectional")
    wrong = recoloured(found, row_colours=np.full(5, -1, np.int32))
    with pytest.raises(wg.PatternError) as caught:
        wrong.check()
    assert str(caught.value).startswith("not a bidirectional colouring: the nonzero (0, ")
    assert "and row 0 has no colour" in str(caught.value)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_check_agrees_with_the_definition(data):
    kind = data.draw(st.sampled_from(KINDS))
    n = data.draw(st.integers(1, 6))
    dense = np.array(data.draw(st.lists(st.booleans(), min_size=n * n, max_size=n * n))).reshape(n, n)
    dense = dense | dense.T if kind in SYMMETRIC else dense
    colours = st.lists(st.integers(-1, 3), min_size=n, max_size=n)
    found = wg.colouring(dense, kind=kind)
    drawn = {
        name: np.array(data.draw(colours), np.int32)
        for name in ("column_colours", "row_colours")
        if getattr(found, name) is not None
    }
    changed = recoloured(found, **drawn)
    try:
        changed.check()
        passes = True
    except wg.PatternError:
        passes = False
    assert passes == is_valid(dense, changed)


# ---- errors


@pytest.mark.parametrize(
    ("pattern", "options", "error", "message"),
    [
        (np.eye(3), {}, TypeError, "a dense pattern must have dtype bool, not float64; write `J != 0`"),
        ([[True]], {}, TypeError, "a scipy.sparse array or a dense array of booleans, not builtins.list"),
        (np.ones(3, bool), {}, wg.PatternError, "a pattern has two axes, not the shape (3,)"),
        (sp.coo_array(np.ones(3, bool)), {}, wg.PatternError, "a pattern has two axes, not the shape (3,)"),
        (np.eye(3, dtype=bool), {"kind": "both"}, ValueError, "kind is one of 'column', 'row'"),
        (np.eye(3, dtype=bool), {"method": "best"}, ValueError, "method is one of 'auto', 'lattice'"),
        (np.eye(3, 4, dtype=bool), {"kind": "star"}, wg.PatternError, 'this one is 3 x 4; write kind="column"'),
        (np.triu(np.ones((3, 3), bool)), {"kind": "acyclic"}, wg.PatternError, "(0, 1) is in it and (1, 0) is not"),
        (np.eye(6, dtype=bool), {"shape": (2, 4)}, wg.PatternError, "shape=(2, 4) does not match the 6 columns"),
        (np.eye(6, dtype=bool), {"row_shape": 5}, wg.PatternError, "row_shape=(5,) does not match the 6 rows"),
        (scattered(900, 900, 9), {"method": "lattice"}, wg.PatternError, 'was found; write method="auto"'),
    ],
)
def test_invalid_input_raises(pattern, options, error, message):
    with pytest.raises(error) as caught:
        wg.colouring(pattern, **options)
    assert message in str(caught.value)


def test_all_sparse_formats_are_accepted_and_unchanged():
    dense = scattered(7, 9, 2).toarray()
    expected = wg.colouring(dense).colours
    for name in ("csr", "csc", "coo", "lil", "dok", "bsr", "dia"):
        for make in (f"{name}_array", f"{name}_matrix"):
            np.testing.assert_array_equal(wg.colouring(getattr(sp, make)(dense.astype(float))).colours, expected)
    twice = sp.csr_array((np.array([1.0, -1.0, 0.0]), np.array([2, 2, 0]), np.array([0, 3])), (1, 3))
    found = wg.colouring(twice)
    assert twice.nnz == 3 and list(twice.indices) == [2, 2, 0]
    assert found.count == 2 and list(found.colours == -1) == [False, True, False]


# ---- recovery


def random_matrix(pattern, kind, rng):
    dense = np.where(pattern, rng.normal(size=pattern.shape), 0.0)
    return np.tril(dense) + np.tril(dense, -1).T if kind in SYMMETRIC else dense


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_every_nonzero_is_recovered(data):
    kind = data.draw(st.sampled_from(KINDS))
    m, n = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 12))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    m = n if kind in SYMMETRIC else m
    pattern = rng.random((m, n)) < data.draw(st.sampled_from([0.1, 0.3, 0.6, 1.0]))
    pattern = pattern | pattern.T if kind in SYMMETRIC else pattern
    matrix = random_matrix(pattern, kind, rng)
    method = data.draw(st.sampled_from(["auto", *GREEDY]))
    found = wg.colouring(pattern, kind=kind, method=method)
    products = compress(matrix, found)
    recovery = Recovery(found, format=data.draw(st.sampled_from(["csr", "csc", "coo"])))
    got = recovery.matrix(products)
    assert got.nnz == np.count_nonzero(pattern)
    if kind == "acyclic":  # differences of sums
        np.testing.assert_allclose(got.toarray(), matrix, rtol=0, atol=1e-12)
    else:
        np.testing.assert_array_equal(got.toarray(), matrix)
    if kind in SYMMETRIC:
        np.testing.assert_array_equal(got.toarray(), got.toarray().T)


@pytest.mark.parametrize("kind", SYMMETRIC)
def test_symmetric_results_are_bitwise_symmetric(kind):
    """The products belong to a matrix that is not exactly symmetric, as rounding makes them."""
    pattern = symmetrized(scattered(60, 60, 3))
    found = wg.colouring(pattern, kind=kind)
    products = np.random.default_rng(1).normal(size=(found.count, 60))
    before = products.copy()
    got = Recovery(found).matrix(products)
    assert (got != got.T).nnz == 0
    np.testing.assert_array_equal(products, before)
    lower = Recovery(found, lower=True).matrix(products)
    np.testing.assert_array_equal(lower.toarray(), np.tril(got.toarray()))


@pytest.mark.parametrize("kind", KINDS)
def test_values_follow_the_requested_order(kind):
    rng = np.random.default_rng(2)
    pattern = symmetrized(scattered(25, 25, 2)).toarray()
    matrix = random_matrix(pattern, kind, rng)
    found = wg.colouring(pattern, kind=kind)
    products = compress(matrix, found)
    rows, columns = np.nonzero(pattern)
    order = rng.permutation(len(rows))[:40]
    recovery = Recovery(found, order=(rows[order], columns[order]))
    np.testing.assert_allclose(recovery.values(products), matrix[rows[order], columns[order]], atol=1e-13)
    np.testing.assert_array_equal(recovery.rows, rows[order])
    assert recovery.matrix(products).format == "coo"
    for form in ("csr", "csc", "coo"):
        recovery = pickle.loads(pickle.dumps(Recovery(found, format=form)))
        values = recovery.values(products)
        np.testing.assert_allclose(values, matrix[recovery.rows, recovery.columns], atol=1e-13)
        assert recovery.array(values).format == form
        assert recovery.array(values).has_canonical_format


def test_values_are_written_into_out():
    pattern = banded(9, 1)
    found = wg.colouring(pattern)
    recovery = Recovery(found)
    products = compress(random_matrix(pattern, "column", np.random.default_rng(0)), found)
    values = recovery.values(products)
    for out in (np.empty(25), np.empty(50)[::2], np.empty(25, np.float32)):
        assert recovery.values(products, out=out) is out
        np.testing.assert_allclose(out, values, rtol=1e-6)
    with pytest.raises(ValueError, match=r"out has the shape \(3,\), and there are 25 values"):
        recovery.values(products, out=np.empty(3))


@pytest.mark.parametrize("kind", KINDS)
def test_recovery_buffer_holds_all_products(kind):
    pattern = arrow(8)
    matrix = random_matrix(pattern, kind, np.random.default_rng(0))
    found = wg.colouring(pattern, kind=kind)
    recovery = Recovery(found)
    flat, by_columns, by_rows = recovery.room()
    if found.column_count:
        by_columns[...] = found.seeds(side="column") @ matrix.T
    if found.row_count:
        by_rows[...] = found.seeds(side="row") @ matrix
    np.testing.assert_allclose(recovery.matrix(flat).toarray(), matrix, atol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128, np.int64])
@pytest.mark.parametrize("kind", ["column", *SYMMETRIC])
def test_dtypes_are_preserved(kind, dtype):
    pattern = arrow(7)
    matrix = (np.arange(49).reshape(7, 7) + 1).astype(dtype)
    matrix = np.where(pattern, matrix + matrix.T, 0)
    found = wg.colouring(pattern, kind=kind)
    products = (found.seeds(dtype=dtype) @ matrix.T).astype(dtype)
    got = Recovery(found).matrix(products)
    assert got.dtype == (np.float64 if dtype == np.int64 and kind == "acyclic" else dtype)
    np.testing.assert_array_equal(got.toarray(), matrix)


def test_explicit_zeros_are_kept_and_arrays_are_not_shared():
    pattern = sp.csr_array((np.zeros(3), np.array([0, 2, 1]), np.array([0, 2, 3])), (2, 3))
    recovery = Recovery(wg.colouring(pattern))
    first = recovery.matrix(np.zeros((2, 2)))
    assert first.nnz == 3
    first.eliminate_zeros()
    assert first.nnz == 0
    assert recovery.matrix(np.zeros((2, 2))).nnz == 3


@pytest.mark.parametrize(
    ("options", "products", "error", "message"),
    [
        ({"format": "dia"}, None, ValueError, 'format is "csr", "csc" or "coo", not \'dia\''),
        ({"order": ([0, 4], [0, 0])}, None, wg.PatternError, "(4, 0), pair 1 of order, is not in the pattern"),
        ({"order": ([0, -1], [0, 0])}, None, wg.PatternError, "(-1, 0), pair 1 of order, is not in the pattern"),
        ({"order": ([0, 1], [0, 5])}, None, wg.PatternError, "(1, 5), pair 1 of order, is not in the pattern"),
        ({"order": ([0.5], [0])}, None, wg.PatternError, "order is two integer arrays of one length"),
        ({}, np.zeros((2, 5)), ValueError, "shapes [(2, 5)], but a column colouring needs [(3, 5)]"),
        ({}, np.zeros(14), ValueError, "shapes [(14,)], but a column colouring needs [(3, 5)]"),
    ],
)
def test_invalid_orders_and_products_raise(options, products, error, message):
    found = wg.colouring(banded(5, 1))
    with pytest.raises(error) as caught:
        Recovery(found, **options).values(products)
    assert message in str(caught.value)


@pytest.mark.parametrize(("n", "width"), [(1000, 20), (997, 3), (100, 2), (101, 2), (83, 20), (43, 20), (9, 1)])
@pytest.mark.parametrize("kind", ["column", "row"])
def test_periodic_bands_need_minimal_number_of_colours(kind, n, width):
    rows = np.repeat(np.arange(n), 2 * width + 1)
    columns = (np.arange(n)[:, None] + np.arange(-width, width + 1)) % n
    pattern = sp.csr_array((np.ones(rows.size, bool), (rows, columns.ravel())), shape=(n, n))
    found = wg.colouring(pattern, kind=kind)
    # a colour has at most this many members with the required distance on the circle
    assert found.count == -(-n // (n // (2 * width + 1)))
    found.check()
