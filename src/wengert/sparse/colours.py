"""Colourings: groups of columns or rows of a sparse matrix that one product determines.

The kind of a colouring is the condition that it satisfies; its method is how it was found.
Every colouring is validated before it is returned.

References
----------
Gebremedhin, Manne and Pothen (2005), What color is your Jacobian? doi:10.1137/S0036144504444711
Curtis, Powell and Reid (1974), On the estimation of sparse Jacobian matrices. doi:10.1093/imamat/13.1.117
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from wengert import notebook
from wengert.errors import PatternError
from wengert.sparse.colour_search import METHODS, SEARCHES
from wengert.sparse.recovery import alone
from wengert.sparse.structure import Structure, structure_of
from wengert.sparse.validity import COMPLAINTS, count_of

KINDS = tuple(SEARCHES)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Colouring:
    """Colouring of the columns of a pattern, its rows, both, or the vertices of a symmetric pattern.

    Attributes
    ----------
    kind : str
        Which nonzeros are recovered from which products, see `wengert.colouring`.
    method : str
        How the colours were found.
    column_colours, row_colours : ndarray of int32, shape (n,) and (m,), or None
        Colours from 0 on; -1 means uncoloured, because there is no nonzero or another product determines it.
    lower_bound : int
        Lower bound on the number of colours of this kind.
    structure : Structure
        The pattern.
    """

    kind: str
    method: str
    column_colours: np.ndarray | None
    row_colours: np.ndarray | None
    lower_bound: int
    structure: Structure

    @property
    def colours(self) -> Any:
        """Colours of the columns or of the rows; a tuple (rows, columns) for a bidirectional colouring."""
        if self.kind == "bidirectional":
            return self.row_colours, self.column_colours
        return self.row_colours if self.kind == "row" else self.column_colours

    @property
    def column_count(self) -> int:
        """Number of products with column seeds, which are tangents."""
        return count_of(self.column_colours)

    @property
    def row_count(self) -> int:
        """Number of products with row seeds, which are cotangents."""
        return count_of(self.row_colours)

    @property
    def count(self) -> int:
        """Number of colours, which is the number of products."""
        return self.column_count + self.row_count

    @property
    def shape(self) -> tuple[int, int]:
        return self.structure.shape

    @property
    def pattern(self) -> sp.csr_array:
        """The pattern as a sparse array of booleans."""
        s = self.structure
        return sp.csr_array((np.ones(len(s), np.bool), s.idx.copy(), s.ptr.copy()), s.shape)

    def __repr__(self):
        m, n = self.shape
        what = {"row": _counted(m, "row"), "column": _counted(n, "column")}.get(self.kind, f"a pattern of {m} x {n}")
        colours = _counted(self.count, "colour")
        if self.kind == "bidirectional":
            colours = f"{self.row_count} row and {self.column_count} column colours"
        return f"<{self.kind} colouring: {colours} of {what}, at least {self.lower_bound} needed, by {self.method}>"

    def _repr_html_(self):
        return notebook.html(repr(self), lambda figure: self.plot(figure.add_subplot()))

    def seeds(self, start: int = 0, stop: int | None = None, *, side: str | None = None, dtype: Any = float):
        """Seed vectors of the products: seed c is 1 where the colour is c.

        Parameters
        ----------
        start, stop : int
            Range of colours; by default all.
        side : "column" or "row", optional
            Column seeds are tangents with n entries, row seeds cotangents with m. The default is "row" for a row
            colouring, otherwise "column".
        dtype : dtype

        Returns
        -------
        seeds : ndarray, shape (stop - start, n) or (stop - start, m)
        """
        colours = self._side(side)
        stop = count_of(colours) if stop is None else min(stop, count_of(colours))
        places = np.flatnonzero((colours >= start) & (colours < stop))
        seeds = np.zeros((max(0, stop - start), len(colours)), dtype)
        seeds[colours[places] - start, places] = 1
        return seeds

    def chunks(self, size: int, *, side: str | None = None, dtype: Any = float) -> Iterator[np.ndarray]:
        """Yield the seeds in blocks of `size`."""
        for start in range(0, count_of(self._side(side)), size):
            yield self.seeds(start, start + size, side=side, dtype=dtype)

    def _side(self, side):
        side = side or ("row" if self.kind == "row" else "column")
        if side not in ("column", "row"):
            raise ValueError(f'Colouring.seeds: side is "column" or "row", not {side!r}')
        colours = self.column_colours if side == "column" else self.row_colours
        if colours is None:
            raise ValueError(f"Colouring.seeds: a {self.kind} colouring has no {side} colours")
        return colours

    def check(self) -> None:
        """Check that every nonzero can be recovered.

        Raises
        ------
        PatternError
            If one cannot; the message names it and the conflict.
        """
        for name, colours, size in zip(("row", "column"), (self.row_colours, self.column_colours), self.shape):
            if colours is not None and np.shape(colours) != (size,):
                raise PatternError(f"a colouring of {size} {name}s cannot have the shape {np.shape(colours)}")
        if self.kind in ("star", "acyclic"):
            self.structure.require_symmetric(self.kind)
        complaint = COMPLAINTS[self.kind](self.structure, self.row_colours, self.column_colours)
        if complaint:
            raise PatternError(f"not a {self.kind} colouring: {complaint}")

    def plot(self, ax: Any = None) -> Any:
        """Draw each nonzero in the colour of the product that determines it; rings stand for products of rows.

        Parameters
        ----------
        ax : matplotlib axes, optional

        Returns
        -------
        ax : matplotlib axes
        """
        import matplotlib

        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.figure().add_subplot()
        s = self.structure
        m, n = s.shape
        by_column = np.ones(len(s), bool)
        if self.row_colours is not None:
            by_column = np.zeros(len(s), bool)
            if self.column_colours is not None:
                by_column = alone(s.ptr, s.idx, self.column_colours, self.column_count).astype(bool)
        size = min(40.0, max(0.3, (260 / max(m, n, 1)) ** 2))
        for mark, colours, of in (("s", self.column_colours, s.idx), ("o", self.row_colours, s.rows)):
            mask = by_column if mark == "s" else ~by_column
            if colours is None or not mask.any():
                continue
            drawn = matplotlib.colormaps["turbo"]((colours[of[mask]] + 0.5) / max(1, count_of(colours)))
            paint = {"c": drawn} if mark == "s" else {"facecolors": "none", "edgecolors": drawn}
            ax.scatter(s.idx[mask], s.rows[mask], s=size, marker=mark, rasterized=len(s) > 10_000, **paint)
        ax.set(xlim=(-0.5, n - 0.5), ylim=(m - 0.5, -0.5), aspect="equal", title=f"{self.count} colours, {self.method}")
        return ax


def colouring(
    pattern: Any,
    *,
    kind: Literal["column", "row", "bidirectional", "star", "acyclic"] = "column",
    method: Literal[
        "auto", "lattice", "natural", "largest_first", "smallest_last", "incidence_degree", "dsatur"
    ] = "auto",
    shape: tuple[int, ...] | None = None,
    row_shape: tuple[int, ...] | None = None,
    budget: float | None = None,
) -> Colouring:
    """Colour the columns or rows of a sparsity pattern, so that few products determine every nonzero.

    Parameters
    ----------
    pattern : sparse array, or ndarray of bool, shape (m, n)
        Where the matrix may be nonzero; stored zeros count.
    kind : {"column", "row", "bidirectional", "star", "acyclic"}
        - "column": tangents, J s; columns of one colour share no row.
        - "row": cotangents; rows of one colour share no column.
        - "bidirectional": tangents and cotangents, for patterns with a few dense rows and columns.
        - "star": for symmetric patterns; each pair of symmetric nonzeros is read from one of its rows.
        - "acyclic": for symmetric patterns; recovery by substitution, with still fewer products.
    method : {"auto", "lattice", "natural", "largest_first", "smallest_last", "incidence_degree", "dsatur"}
        "lattice" gives column i of a grid the colour ``a . i mod k``, or repeats the colours in each arc of a circle;
        the others are greedy colourings in that order.
        "auto" takes the best of them, and spends the rest of the budget on a tabu search for fewer colours.
    shape : tuple of int, optional
        Shape of the array whose elements are the columns, such as (2, N, N) for two species on a grid; if omitted, it
        is guessed from the distances in the pattern.
    row_shape : tuple of int, optional
        The same for the rows; by default `shape` if the pattern is square.
    budget : float, optional
        Number of visits of conflicting pairs that "auto" may spend. The default is ten per nonzero and colour above the
        lower bound, but at most twenty million or twenty per nonzero. Largest first and DSATUR are always tried for up
        to five million pairs. No times are measured, so results are reproducible.

    Returns
    -------
    Colouring
        `colours`, `count`, `lower_bound`, `method`, `check()`, `seeds()`, `plot()`.

    Raises
    ------
    PatternError
        If the pattern is not valid for the kind, or no lattice fits it.
    TypeError
        If the pattern is neither sparse nor a boolean array.

    See Also
    --------
    sparsity : Detect the pattern of a function.
    jacobian, hessian : Sparse derivatives, with ``sparse=`` a colouring.

    References
    ----------
    Gebremedhin, Manne and Pothen (2005), What color is your Jacobian? doi:10.1137/S0036144504444711

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp, wengert as wg
    >>> second_difference = sp.diags_array([1.0, -2.0, 1.0], offsets=[-1, 0, 1], shape=(20, 20))
    >>> laplacian = sp.kronsum(second_difference, second_difference)
    >>> wg.colouring(laplacian, shape=(20, 20))
    <column colouring: 5 colours of 400 columns, at least 5 needed, by lattice>
    >>> wg.colouring(laplacian, kind="acyclic").count
    3
    """
    if kind not in KINDS:
        raise ValueError(f"colouring: kind is one of {', '.join(map(repr, KINDS))}, not {kind!r}")
    if method != "auto" and method not in METHODS:
        raise ValueError(f"colouring: method is one of {', '.join(map(repr, ('auto', *METHODS)))}, not {method!r}")
    s = structure_of(pattern)
    if kind in ("star", "acyclic"):
        s.require_symmetric(kind)
    shape = _shape_of("shape", "columns", shape, s.shape[1])
    row_shape = _shape_of("row_shape", "rows", row_shape, s.shape[0])
    if row_shape is None and s.shape[0] == s.shape[1]:
        row_shape = shape
    rows, columns, how, bound = SEARCHES[kind](s, method, shape, row_shape, budget)
    found = Colouring(kind, how, columns, rows, bound, s)
    found.check()
    return found


def _shape_of(name, what, shape, size):
    if shape is None:
        return None
    shape = (shape,) if isinstance(shape, int) else tuple(map(int, shape))
    if np.prod(shape, dtype=object) != size:
        raise PatternError(f"colouring: {name}={shape} does not match the {size} {what}")
    return shape


def _counted(number, noun):
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
