"""The plan by which a sparse derivative is computed; results and explanations share it."""

from __future__ import annotations

from typing import Any

from wengert import notebook

_INK = "#22262b"


class Plan:
    """How the nonzeros of one specialisation are computed.

    Attributes
    ----------
    mode : {"direct", "forward", "reverse", "mixed", "dense"}
        "direct": each nonzero is accumulated from partials, without seed directions.
        "forward", "reverse": products with one tangent or cotangent per colour.
        "mixed": products with both; for a Hessian, tangents of the gradient.
        "dense": extracted from an ndarray.
    pattern : scipy.sparse.csr_array of bool
    colours : Colouring or None
    reason : str
    """

    def __init__(self, mode, pattern, colours, reason):
        self.mode, self.pattern, self.colours, self.reason = mode, pattern, colours, reason

    def __repr__(self):
        m, n = self.pattern.shape
        count = "" if self.colours is None else f", {self.colours.count} colours"
        return f"<{self.mode}: {m} x {n}, {self.pattern.nnz} nonzeros{count}; {self.reason}>"

    def plot(self, ax: Any) -> Any:
        """Draw the colouring, or the pattern if no products are used, and return the axes."""
        return plot_nonzeros(self.pattern, ax) if self.colours is None else self.colours.plot(ax)

    def _repr_html_(self):
        return notebook.html(repr(self), lambda figure: self.plot(figure.add_subplot()))


def plot_nonzeros(pattern: Any, ax: Any) -> Any:
    """Draw the nonzeros of a matrix, and return the axes."""
    from scipy import sparse

    where = sparse.coo_array(pattern)
    m, n = where.shape
    size = min(40.0, max(0.3, (260 / max(m, n, 1)) ** 2))
    ax.scatter(*where.coords[::-1], s=size, marker="s", color=_INK, rasterized=where.nnz > 10_000)
    ax.set(xlim=(-0.5, n - 0.5), ylim=(m - 0.5, -0.5), aspect="equal", title=f"{m} x {n}, {where.nnz} nonzeros")
    return ax
