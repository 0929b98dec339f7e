"""Dependence patterns: which elements of a result depend on which elements of each argument.

Each row of the registry states the pattern of its function in the column ``dependence``, in the terms defined here.
Sparsity detection interprets a pattern as column index sets, Jacobian accumulation and loop analysis as axes, batching
as a shift of axes, and the cost model as operation counts.
A pattern may be too large, never too small. Without one, each element of the result depends on everything.

=====================  ==============================================================================================
pattern                an element of the result depends on
=====================  ==============================================================================================
`Elementwise`          the elements with the same index, after broadcasting
`Moved`                a single element of an argument, which it equals, or nothing
`Reduced`              all elements along the reduced axes
`Along`                all elements along an axis, which the result keeps
`Cumulative`           the same and all earlier elements along an axis
`MATRIXWISE`           the whole matrix, in the last two axes, with the same leading index
`SYSTEMS`              the whole matrix of its linear system, and the same column of the right-hand side
`Scattered`            the same element of an array, and all values added to it at indices
`Contraction`          the factors of a product that is summed over labelled axes
a callable             as computed by ``pattern(deps, *args, **kwargs)``, with the arguments of the call
=====================  ==============================================================================================

A callable receives a `wengert.sparse.dependency_rules.CallDependence`, which represents an array of index sets by an
array of set ids. ``deps.ids(x)`` returns the ids of an argument, ``deps.value(x)`` its value if it is known, and
``deps.depends(x)`` whether it depends on any input. ``deps.united``, ``along``, ``grouped``, ``total`` and
``by_offset`` form unions, and ``deps.interact`` declares mixed second derivatives between elements of two arrays.
The callable returns the ids of the result, or None if the dependence is unknown.
"""

from __future__ import annotations

from collections.abc import Callable


class _Pattern:
    """Base of patterns, which behave like named tuples of their attributes; such classes are created faster."""

    def __iter__(self):
        return iter(vars(self).values())

    def __eq__(self, other):
        return type(self) is type(other) and tuple(self) == tuple(other)

    def __hash__(self):
        return hash((type(self), *self))

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(map(repr, self))})"


class Elementwise(_Pattern):
    """Elementwise in the first `operands` arguments (None: in all); further arguments affect every element."""

    def __init__(self, operands: int | None = None):
        self.operands = operands


class Moved(_Pattern):
    """Rearranges elements of the arguments at these positions, if ``only_if(*args, **kwargs)`` holds or is None."""

    def __init__(self, positions: tuple = (0,), only_if: Callable | None = None):
        self.positions, self.only_if = positions, only_if


class _AlongAxis(_Pattern):
    """Acts along an axis of the first argument, given by the argument at `position`; None: by keyword only."""

    def __init__(self, position: int | None = 1, default: int | None = None):
        self.position, self.default = position, default


class Reduced(_AlongAxis):
    """Reduces the first argument over axes."""


class Along(_AlongAxis):
    """Combines all elements of the first argument along an axis, the last one by default."""

    def __init__(self, position: int = 1, default: int | None = -1):
        super().__init__(position, default)


class Cumulative(_AlongAxis):
    """Accumulates the first argument along an axis; axis None flattens."""


class Scattered(_Pattern):
    """Adds the argument `values` at the constant `indices` to the argument `base` (None: to zeros)."""

    def __init__(self, base: int | None, indices: int, values: int):
        self.base, self.indices, self.values = base, indices, values


class Contraction(_Pattern):
    """A product of arrays with labelled axes, as in ``einsum``.

    ``labels(ndim, *args, **kwargs)`` returns the factors, the axis labels of each, and those of the result, or None for
    unsupported arguments; ``ndim(x)`` is the number of axes of an argument. Labels that are not in the result are
    summed over. A factor with a single label but several axes is flattened.
    """

    def __init__(self, labels: Callable):
        self.labels = labels


MATRIXWISE = "matrixwise"
SYSTEMS = "systems"
