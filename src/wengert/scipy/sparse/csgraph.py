"""``scipy.sparse.csgraph``: Laplacians, lengths of shortest paths and spanning trees of graphs with traced weights.

The paths and trees themselves are plain; a length is the sum of the weights along a path.
"""

import numpy as _np
import scipy.sparse as _sparse
import scipy.sparse.csgraph as _scipy

from wengert.core.dispatch import sparse_arrays as _arrays
from wengert.core.dispatch.dispatch import from_list as _from_list
from wengert.core.frames import at as _at
from wengert.core.operands.var import plain as _plain
from wengert.errors import UnsupportedFunctionError as _UnsupportedFunctionError
from wengert.rules.scipy import sparse as _rules
from wengert.scipy import namespace as _namespace
from wengert.scipy.sparse.traced import if_traced as _if_traced


def _edges(graph):
    """Return the weights of a graph's edges, without duplicates, their ends, and the number of vertices."""
    if type(graph) is not _arrays.SparseVar and not _sparse.issparse(graph):
        graph = _from_list(graph)
        row, col = _np.nonzero(_np.asarray(_plain(graph)))
        return graph[row, col], row, col, _np.shape(graph)[0]
    if type(graph) is _arrays.SparseVar:
        return *graph.tocsr().triplets, graph.shape[0]
    return *_arrays.entries_of(graph.tocsr()), graph.shape[0]


def _graph(weights, row, col, n):
    return _sparse.csr_array((_np.asarray(_plain(weights), dtype=float), (row, col)), shape=(n, n))


@_if_traced(_scipy)
def laplacian(
    csgraph, normed=False, return_diag=False, use_out_degree=False, *, copy=True, form="array", dtype=None,
    symmetrized=False,
):
    if form != "array":
        raise _UnsupportedFunctionError(
            f"scipy.sparse.csgraph.laplacian with form={form!r} has no derivative rule{_at()}: use form='array'"
        )
    is_sparse = type(csgraph) is _arrays.SparseVar or _sparse.issparse(csgraph)
    entries, row, col, n = _edges(csgraph)
    if symmetrized:
        both = _np.concatenate([entries, entries]), _np.r_[row, col], _np.r_[col, row]
        entries, row, col = _arrays.SparseVar(*both, (n, n), _sparse.coo_array).tocsr().triplets
    beside = row != col
    entries, row, col = entries[beside] * 1.0, row[beside], col[beside]
    kept = _rules.Pattern(row, col, (n, n), None)
    kept = kept if use_out_degree else kept.transposed
    degree = _rules.product_at(kept, entries, _np.ones(n))
    scale, places = degree, _np.arange(n)
    diagonal = degree
    if normed:
        isolated = _np.equal(degree, 0)
        scale = _np.where(isolated, 1.0, _np.sqrt(_np.where(isolated, 1.0, degree)))
        entries, diagonal = entries / scale[row] / scale[col], 1.0 - isolated
    entries = _np.concatenate([-entries, diagonal])
    cls = csgraph.cls if type(csgraph) is _arrays.SparseVar else type(csgraph) if is_sparse else _sparse.coo_array
    found = _arrays.made(entries, _np.r_[row, places], _np.r_[col, places], (n, n), cls)
    found = found.tocoo() if is_sparse else found.toarray()
    return (found, scale) if return_diag else found


def _lengths(name):
    """Return a function for lengths of shortest paths."""
    original = getattr(_scipy, name)

    @_if_traced(_scipy, name)
    def call(csgraph, *args, **options):
        given = dict(zip(_POSITIONAL[name], args)) | options
        wanted, unweighted = given.pop("return_predecessors", False), given.get("unweighted", False)
        if given.get("min_only"):
            raise _UnsupportedFunctionError(
                f"scipy.sparse.csgraph.{name} with min_only= has no derivative rule{_at()}: leave it out"
            )
        weights, row, col, n = _edges(csgraph)
        directed = given.get("directed", True)
        plain = _graph(weights, row, col, n)
        lengths, before = original(plain, return_predecessors=True, **given)
        sources = _np.arange(n) if given.get("indices") is None else _np.asarray(given["indices"])
        paths = _path_matrix(before, _np.atleast_1d(sources), row, col, n, directed, plain)
        found = _rules.applied(weights * 1.0, lambda w: paths @ w, lambda y: paths.T @ y)
        found = _np.reshape(found, _np.shape(lengths))
        found = lengths if unweighted else _namespace.with_value(_np.where(_np.isinf(lengths), _np.inf, found), lengths)
        return (found, before) if wanted else found

    return call


def _path_matrix(before, sources, row, col, n, directed, plain):
    """Return the matrix whose rows mark the edges of the path from each source to each vertex."""
    number = {(int(i), int(j)): k for k, (i, j) in enumerate(zip(row, col, strict=True))}
    before = _np.reshape(before, (len(sources), n))
    rows, columns = [], []
    for s in range(len(sources)):
        for target in range(n):
            j = target
            while (i := int(before[s, j])) >= 0:
                edge = number.get((i, j))
                if not directed and (back := number.get((j, i))) is not None:
                    edge = back if edge is None or plain[j, i] < plain[i, j] else edge
                rows.append(s * n + target)
                columns.append(edge)
                j = i
    return _sparse.csr_array((_np.ones(len(rows)), (rows, columns)), shape=(len(sources) * n, len(row)))


_POSITIONAL = {
    "shortest_path": ("method", "directed", "return_predecessors", "unweighted", "overwrite", "indices"),
    "dijkstra": ("directed", "indices", "return_predecessors", "unweighted", "limit", "min_only"),
    "bellman_ford": ("directed", "indices", "return_predecessors", "unweighted"),
    "johnson": ("directed", "indices", "return_predecessors", "unweighted"),
    "floyd_warshall": ("directed", "return_predecessors", "unweighted", "overwrite"),
}
for _name in _POSITIONAL:
    globals()[_name] = _lengths(_name)


@_if_traced(_scipy)
def minimum_spanning_tree(csgraph, overwrite=False):
    weights, row, col, n = _edges(csgraph)
    tree = _scipy.minimum_spanning_tree(_graph(weights, row, col, n)).tocoo()
    chosen = _np.isin(row * n + col, tree.row.astype(int) * n + tree.col)
    return _arrays.made(weights[chosen] * 1.0, row[chosen], col[chosen], (n, n), _sparse.csr_array)


#: functions that return vertices, masks or integers
_PLAIN = frozenset(
    "NegativeCycleError breadth_first_order breadth_first_tree connected_components construct_dist_matrix "
    "csgraph_from_dense csgraph_from_masked csgraph_masked_from_dense csgraph_to_dense csgraph_to_masked "
    "depth_first_order depth_first_tree maximum_bipartite_matching maximum_flow min_weight_full_bipartite_matching "
    "reconstruct_path reverse_cuthill_mckee structural_rank yen".split()
)

_namespace.install("sparse.csgraph")
