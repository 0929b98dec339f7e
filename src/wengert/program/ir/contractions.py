"""Functions that are products of arrays, by labels of their axes, as those of ``einsum``.

An axis of the result has the label of those axes of the factors that go along with it; over all other labels is summed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

import numpy as np

from wengert.program.ir.call import Call


def factors(call: Call, ndim: Callable) -> tuple | None:
    """The factors of a call, the labels of their axes, and those of the axes of the result.

    Parameters
    ----------
    call : Call
    ndim : callable
        Gives the number of axes of an argument.

    Returns
    -------
    (arguments, labels of each, labels of the result), or None if it is no product that is known here
        A factor with one label and another number of axes is taken as a vector.
    """
    rule = _RULES.get(call.row.name)
    return None if rule is None else rule(call, ndim)


def names() -> Iterable[str]:
    """Of the functions that are known here."""
    return _RULES


def _letters(*counts):
    """Different labels, some for each count."""
    numbers = itertools.count()
    return [[next(numbers) for _ in range(count)] for count in counts]


def _matmul(a, b):
    batch = max(a - 2, b - 2, 0)
    lead, (i, j, k) = _letters(batch, 3)
    left = [k] if a == 1 else [*lead[batch - (a - 2) :], i, k]
    right = [k] if b == 1 else [*lead[batch - (b - 2) :], k, j]
    return [left, right], [*lead, *([i] if a > 1 else []), *([j] if b > 1 else [])]


def _dot(a, b):
    if not a or not b:
        left, right = _letters(a, b)
        return [left, right], left + right
    left, right, (k,) = _letters(a - 1, b - 1, 1)
    place = max(b - 2, 0)
    return [[*left, k], [*right[:place], k, *right[place:]]], left + right


def _inner(a, b):
    if not a or not b:
        return _dot(a, b)
    left, right, (k,) = _letters(a - 1, b - 1, 1)
    return [[*left, k], [*right, k]], left + right


def _matvec(is_left):
    def labels(a, v):
        if is_left:
            a, v = v, a
        lead, (i, k) = _letters(max(a - 2, v - 1), 2)
        matrix = [*lead[len(lead) - (a - 2) :], *([k, i] if is_left else [i, k])]
        vector = [*lead[len(lead) - (v - 1) :], k]
        return [vector, matrix] if is_left else [matrix, vector], [*lead, i]

    return labels


def _of_axes(labels):
    """A product whose labels depend on the numbers of axes of its two factors alone."""

    def rule(call, ndim):
        if {*call.kwargs} - {"out"} or len(call.args) < 2:
            return None
        args = call.args[:2]
        return args, *labels(*map(ndim, args))

    return rule


def _flat(is_outer):
    def rule(call, ndim):
        return call.args[:2], [[0], [1]] if is_outer else [[0], [0]], [0, 1] if is_outer else []

    return rule


def _vecdot(call, ndim):
    if call.kwargs.get("axis", -1) != -1 or {*call.kwargs} - {"axis", "out"}:
        return None
    args = call.args[:2]
    lead, (k,) = _letters(max(map(ndim, args)) - 1, 1)
    return args, [[*lead[len(lead) - (ndim(x) - 1) :], k] for x in args], lead


def _tensordot(call, ndim):
    a, b = call.args[:2]
    axes = call.args[2] if len(call.args) > 2 else call.kwargs.get("axes", 2)
    left, right = _letters(ndim(a), ndim(b))
    if isinstance(axes, (int, np.integer)):
        axes = range(len(left) - axes, len(left)), range(axes)
    pairs = list(zip(*[np.atleast_1d(np.array(part)).tolist() for part in axes]))
    for i, j in pairs:
        right[j] = left[i]
    summed = {left[i] for i, _ in pairs}
    return (a, b), [left, right], [x for x in left + right if x not in summed]


def _einsum(call, ndim):
    text, *args = call.args
    if type(text) is not str:
        return None
    text = text.replace(" ", "")
    given, arrow, out = text.partition("->")
    parts = given.split(",")
    if len(parts) != len(args):
        return None
    lead = []
    for k, (part, x) in enumerate(zip(parts, args)):
        if "..." in part:
            count = ndim(x) - len(part) + 3
            numbers = [-1 - n for n in reversed(range(count))]
            lead = numbers if len(numbers) > len(lead) else lead
            before, _, after = part.partition("...")
            parts[k] = [*map(ord, before), *numbers, *map(ord, after)]
        else:
            parts[k] = [*map(ord, part)]
    letters = [x for part in parts for x in part if x >= 0]
    if not arrow:
        labels = [*lead, *sorted(x for x in {*letters} if letters.count(x) == 1)]
    else:
        before, dots, after = out.partition("...")
        labels = [*map(ord, before), *(lead if dots else []), *map(ord, after)]
    return args, parts, labels


def _multi_dot(call, ndim):
    arrays = call.args[0]
    labels = [[k, k + 1] for k in range(len(arrays))]
    out = [0, len(arrays)]
    if ndim(arrays[0]) == 1:
        labels[0], out = [1], out[1:]
    if ndim(arrays[-1]) == 1:
        labels[-1], out = labels[-1][:1], out[:-1]
    return arrays, labels, out


_RULES = {
    "numpy.matmul": _of_axes(_matmul),
    "numpy.linalg.matmul": _of_axes(_matmul),
    "numpy.dot": _of_axes(_dot),
    "numpy.inner": _of_axes(_inner),
    "numpy.matvec": _of_axes(_matvec(False)),
    "numpy.vecmat": _of_axes(_matvec(True)),
    "numpy.outer": _flat(True),
    "numpy.linalg.outer": _flat(True),
    "numpy.vdot": _flat(False),
    "numpy.vecdot": _vecdot,
    "numpy.linalg.vecdot": _vecdot,
    "numpy.tensordot": _tensordot,
    "numpy.linalg.tensordot": _tensordot,
    "numpy.einsum": _einsum,
    "numpy.linalg.multi_dot": _multi_dot,
}
