"""`wengert.taylor`: evaluates a function on truncated Taylor series (`wengert.transforms.series`).

Reference: Griewank, Utke and Walther (2000), Evaluating higher derivative tensors by forward propagation of univariate
Taylor series. doi:10.1090/S0025-5718-00-01120-0
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from wengert.containers import input_leaf, leaves_like, split
from wengert.core import levels
from wengert.core.operands import var
from wengert.core.rebind.new_arrays import rerun_if_refused
from wengert.core.rebind.rebind import rebound
from wengert.transforms.operators import Operator
from wengert.transforms.series import Maker, Series


class Taylor(Operator):
    """Taylor coefficients in ``t`` of ``f(x + t v)``, a function along a line.

    The direction `v` and the order follow the first argument of the function.
    """

    word = "taylor"
    directions = ("v", "order")
    options = ("argnums",)
    is_derivative = False

    def __call__(self, x, v, order, *args, **kwargs):
        order = operator.index(order)
        if order < 0:
            raise ValueError(f"{self.name}: order must be nonnegative, not {order}")
        around = levels.lifted_around()
        if around is not None:
            around.enclose(self.name)
        args = [x, *args]
        positions = self.positions(tuple(args))
        given = (v,) if self._single else v
        if len(given) != len(positions):
            raise TypeError(f"{self.name}: expected a tuple of {len(positions)} directions, one per argument")
        for position, direction in zip(positions, given):
            args[position] = self._series_along(args[position], direction, order)
        y, maker = self._evaluated(args, kwargs, order)
        leaves, restore = split(y)
        return restore([self._coefficients(leaf, maker) for leaf in leaves])

    @rerun_if_refused
    def _evaluated(self, args, kwargs, order):
        """Return the result of the function for series, and the `Maker` of its new arrays."""
        maker = Maker(order)
        try:
            with levels.lifting(maker):
                y = rebound(self.f, True)(*args, **kwargs)
        except Exception as error:
            levels.explain(maker, error, self.name)
            raise
        levels.check_end(maker, self.name)
        return y, maker

    def _series_along(self, x, v, order):
        """The series x + t v, with the structure of x."""
        leaves, restore = split(x)
        found = []
        for leaf, direction in zip(leaves, leaves_like(x, v, self.name)):
            leaf, direction = input_leaf(leaf, self.name), input_leaf(direction, self.name)
            if np.shape(leaf) != np.shape(direction):
                raise ValueError(
                    f"{self.name}: the direction has shape {np.shape(direction)}, expected the argument's shape "
                    f"{np.shape(leaf)}"
                )
            zeros = [np.zeros_like(leaf) for _ in range(order - 1)]
            terms = [leaf, direction, *zeros][: order + 1]
            found.append(Series([np.copy(a) if np.ndim(a) else a for a in terms]))
        return restore(found)

    def _coefficients(self, leaf: Any, maker: Maker):
        """Stack the coefficients of a leaf of the result along a new first axis."""
        if isinstance(leaf, (list, tuple)):
            leaf = maker.array(leaf)
        if isinstance(leaf, Series):
            return np.stack(leaf.c)
        if not var.is_var(leaf):
            leaf = np.asarray(leaf)
            if leaf.dtype.kind not in "biufc":
                raise TypeError(
                    f"{self.name}: the function returned {leaf[()]!r}, which is neither a number nor an array"
                )
            leaf = leaf if leaf.dtype.kind in "fc" else leaf.astype(float)
        return np.stack([leaf, *[np.zeros_like(leaf)] * maker.order])
