"""Dependence patterns of functions: which elements of the result depend on which of each argument.

A row of the registry states the pattern of its function as one of these words, in its column ``dependence``.
Every engine interprets the words in its own way: sparsity detection as sets of columns, Jacobian accumulation and loop
analysis as axes, batching as a shift of axes, the cost model as operation counts.
A pattern may be too large, never too small.  No pattern: each element of the result depends on everything.

=====================  ==============================================================================================
`Elementwise`          on the element with the same index, operands broadcast
`Moved`                each element is one element of an argument, or a constant
`Reduced`              on all elements along the axes that are reduced
`Along`                on all elements along an axis, which the result keeps
`Cumulative`           on this and all earlier elements along an axis
`MATRIXWISE`           on all of the matrix in the last two axes with the same leading index
`SYSTEMS`              the solution of linear systems: on all of the matrix, and on the column of the right-hand side
`Scattered`            on this element of an array, and on all values that are added to it at indices
`Contraction`          a product of arrays, summed over labelled axes
a callable             ``pattern(deps, *args, **kwargs)``, with the arguments of the call
=====================  ==============================================================================================

A callable gets a `wengert.sparse.dependency_rules.CallDependence`, in which an array of sets is an array of their ids:
``deps.ids(x)`` is that of an argument, ``deps.value(x)`` its value where it is known, ``deps.depends(x)`` whether it
depends on anything; ``deps.united``, ``along``, ``grouped``, ``total`` and ``by_offset`` form unions, and
``deps.interact`` states that elements of two arrays have mixed second derivatives.
It returns the ids of the result, or None where nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Elementwise(NamedTuple):
    """Element by element, in the first `operands` arguments (None: in all); on all elements of further ones."""

    operands: int | None = None


class Moved(NamedTuple):
    """Elements of the arguments at these positions; where ``only_if(*args, **kwargs)`` holds, if it is given."""

    positions: tuple = (0,)
    only_if: Callable | None = None


class Reduced(NamedTuple):
    """Reduction of the first argument over axes, given at this position (None: by keyword only)."""

    position: int | None = 1
    default: int | None = None


class Along(NamedTuple):
    """All elements of the first argument along an axis, given at this position."""

    position: int = 1
    default: int | None = -1


class Cumulative(NamedTuple):
    """Cumulative reduction of the first argument along an axis, given at this position; None: flattened."""

    position: int = 1
    default: int | None = None


class Scattered(NamedTuple):
    """The argument `values` added up at the constant `indices` of the argument `base` (None: of zeros)."""

    base: int | None
    indices: int
    values: int


class Contraction(NamedTuple):
    """A product of arrays whose axes are labelled, as in ``einsum``.

    ``labels(ndim, *args, **kwargs)`` gives the factors, the labels of the axes of each, and those of the result, or
    None of arguments in a form that it does not know; ``ndim(x)`` is the number of axes of an argument.  Labels that
    are not in the result are summed over.  A factor with one label and another number of axes is flattened.
    """

    labels: Callable


MATRIXWISE = "matrixwise"
SYSTEMS = "systems"
