"""Freezing: makes leaves that f needs as plain values part of the key of a specialisation.

C code called by f rejects traced values, and its error does not say which; the trace is repeated with candidate sets of
frozen leaves until one succeeds.
"""

from __future__ import annotations

import numpy as np

from wengert.program.tracing.pytree import lowered, operands_of
from wengert.transforms.dense import JVP
from wengert.transforms.operators import Operator
from wengert.transforms.second import HVP

#: maximum number of leaves among which to search for one that C code needs as a plain value
MAX_FROZEN_CANDIDATES = 8


def candidates(f, args, kwargs, leaves, n):
    """Yield candidate sets of leaves to freeze for code that rejects traced values.

    In order: captured values, then scalar arguments, then a single argument, then all arguments but one.
    """
    is_number = [not isinstance(leaf, np.ndarray) for leaf in leaves]
    read = frozenset(range(n, len(leaves)))
    choices = [frozenset(i for i in read if is_number[i]), read]
    given = _undifferentiated(f, args, kwargs, n)
    numbers = read.union(i for i in given if is_number[i])
    choices.append(numbers)
    if len(given) <= MAX_FROZEN_CANDIDATES:
        choices += [read | {i} for i in given] + [numbers | {i} for i in given]
        all_given = read.union(given)
        choices += [all_given - {i} for i in given] if len(given) == n else [all_given]
        choices = [choice for choice in choices if choice <= numbers or not choice.issuperset(range(n))]
    yield from (choice for i, choice in enumerate(choices) if choice and choice not in choices[:i])


def _undifferentiated(f, args, kwargs, n):
    """Return the indices of argument leaves that are not differentiated."""
    if not isinstance(f, Operator):
        return [*range(n)]
    if isinstance(f, (JVP, HVP)):
        return []
    counts = [len(operands_of(lowered(x))) for x in (*args, *kwargs.values())]
    starts = np.cumsum([0, *counts])
    moving = {int(i) % max(len(args), 1) for i in f.positions(args)}
    return [i for k, count in enumerate(counts) if k not in moving for i in range(starts[k], starts[k] + count)]


def frozen_key(leaf):
    """Return the key of a frozen leaf: its bytes, and the flags of an array, since f may read these."""
    return leaf.tobytes() if isinstance(leaf, np.generic) else (np.asarray(leaf).tobytes(), np.asarray(leaf).flags.num)
