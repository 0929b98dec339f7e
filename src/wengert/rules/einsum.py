"""Einstein summation; products of cotangents with operands are strong."""

from __future__ import annotations

import math
from functools import lru_cache, reduce

import numpy as np

from wengert.dependence import Contraction
from wengert.registry import facts, strong, structural
from wengert.rules.shapes import leading, ndim_of, reshaped, shape_of, unbroadcast

#: letters of labels in subscripts
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def label_letters(labels):
    """Convert the integer labels of einsum's interleaved form to letters."""
    return "".join("..." if label is Ellipsis else _LETTERS[label] for label in labels)


@lru_cache(maxsize=1024)
def split_subscripts(subscripts):
    """Return the subscripts of operands, and of the result or None if they are implicit."""
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    return inputs.split(","), output if arrow else None


def einsum_form(args):
    """Return the subscripts of operands and result (None if implicit) and the operands, for either calling form."""
    if isinstance(args[0], str):
        return *split_subscripts(args[0]), list(args[1:])
    count = len(args) // 2
    output = label_letters(args[-1]) if len(args) % 2 else None
    return [label_letters(args[2 * i + 1]) for i in range(count)], output, list(args[0 : 2 * count : 2])


def einsum_letters(args, lead):
    """Return subscripts without ellipses, and fresh letters for the `lead` leading axes of the cotangent."""
    inputs, output, operands = einsum_form(args)
    inputs, output, first = expand_ellipses(tuple(inputs), output, tuple(map(ndim_of, operands)), lead)
    return list(inputs), output, first, operands


@lru_cache(maxsize=1024)
def expand_ellipses(inputs, output, ndims, lead):
    """Expand ellipses in subscripts, given the number of axes of each operand, and choose letters for the leading axes.

    An implicit result has the ellipsis first, then the letters that occur once, in alphabetical order.
    """
    if output is None:
        seen = "".join(inputs).replace(".", "")
        output = "..." * any("..." in s for s in inputs) + "".join(sorted(c for c in set(seen) if seen.count(c) == 1))
    fresh = [c for c in _LETTERS if c not in "".join(inputs) + output]
    dots = [ndim - len(s.replace("...", "")) for s, ndim in zip(inputs, ndims, strict=True) if "..." in s]
    ellipsis = "".join(fresh[lead : lead + max(dots, default=0)])

    def spell(s, ndim):
        count = ndim - len(s.replace("...", ""))
        return s.replace("...", ellipsis[len(ellipsis) - count :])

    inputs = tuple(spell(s, ndim) for s, ndim in zip(inputs, ndims, strict=True))
    return inputs, output.replace("...", ellipsis), "".join(fresh[:lead])


def einsum_labels(ndim, *args, optimize=False, dtype=None, order="K", casting="safe"):
    inputs, output, operands = einsum_form(args)
    inputs, output, _ = expand_ellipses(tuple(inputs), output, tuple(map(ndim, operands)), 0)
    return operands, [list(names) for names in inputs], list(output)


#: Up to these sizes, direct sums are cheaper than the search for a contraction order: elements of two operands, and
#: terms of the sum for more operands.
MAX_DIRECT_SIZE, MAX_DIRECT_TERMS = 4096, 10_000
#: three operands with at most this many elements in total have fewer terms than `MAX_DIRECT_TERMS`
FEW = 64


def is_direct(inputs, operands):
    """Return whether a sum of products is evaluated directly, term by term."""
    count = 0
    for x in operands:
        count += x.size if type(x) is np.ndarray else np.size(x)
    if len(operands) <= 2 or (len(operands) == 3 and count <= FEW):
        return count <= MAX_DIRECT_SIZE
    sizes: dict = {}
    for letters, x in zip(inputs, operands):
        sizes.update(zip(letters, shape_of(x)))
    return math.prod(sizes.values()) <= MAX_DIRECT_TERMS


#: NumPy's function without its dispatch
_plain_einsum = getattr(np.einsum, "__wrapped__", np.einsum)


def contracted(subscripts, inputs, operands):
    """Return ``numpy.einsum(subscripts, *operands)``; `inputs` are the subscripts of the operands."""
    for x in operands:
        if type(x) is not np.ndarray and type(x) is not np.float64:
            return np.einsum(subscripts, *operands, optimize=not is_direct(inputs, operands))
    return _plain_einsum(subscripts, *operands, optimize=not is_direct(inputs, operands))


def strong_einsum(inputs, output, operands):
    """Evaluate ``einsum`` with 0 * inf = 0; if NaN occurs, evaluate again with fully broadcast strong products."""
    y = contracted(",".join(inputs) + "->" + output, inputs, operands)
    if not np.isnan(np.add.reduce(y, axis=None)) or all(np.isfinite(x).all() for x in operands):
        return y
    letters = output + "".join(sorted(set("".join(inputs)) - set(output)))
    spread = [np.einsum(s + "->" + "".join(c for c in letters if c in s), x) for s, x in zip(inputs, operands)]
    index = [tuple(slice(None) if c in s else None for c in letters) for s in inputs]
    product = reduce(strong, [x[i] for x, i in zip(spread, index, strict=True)])
    return np.sum(product, axis=tuple(range(len(output), len(letters))))


def einsum_wrt(i, ybar, y, *args, optimize=False, dtype=None, order="K", casting="safe"):
    """Contract the cotangent, which replaces operand i, with the other operands.

    A letter that occurs in no other operand is summed over: its axis is restored with length 1 and broadcasts.
    A letter that occurs twice in it selects a diagonal: the cotangent is placed on that diagonal.
    """
    lead = leading(ybar, y)
    if isinstance(args[0], str):
        form, operands, i = str(args[0]), args[1:], i - 1
    else:
        inputs, output, operands = einsum_form(args)
        form, i = (tuple(inputs), output), i // 2
    letters, kept, alone, own = contraction_without(form, tuple([ndim_of(x) for x in operands]), lead, i)
    z = strong_einsum(letters, kept, [ybar, *operands[:i], *operands[i + 1 :]])
    if alone:
        z = np.expand_dims(z, alone)
    return unbroadcast(z, operands[i], lead) if own is None else on_diagonals(z, own, operands[i], lead)


@lru_cache(maxsize=1024)
def contraction_without(form, ndims, lead, i):
    """Return how the cotangent is contracted with all operands but operand i.

    Parameters
    ----------
    form : str or tuple
        Subscripts, as one string or as those of the operands and the result.
    ndims : tuple of int
        Number of axes of each operand.
    lead : int
        Number of leading axes of the cotangent.

    Returns
    -------
    letters, kept : tuple of str, str
        Subscripts of the cotangent and of the other operands, and of the result.
    alone : tuple of int
        Axes of operand i that are missing in the result.
    own : str or None
        Subscripts of operand i if it has a letter twice.
    """
    inputs, output = split_subscripts(form) if type(form) is str else form
    inputs, output, first = expand_ellipses(tuple(inputs), output, ndims, lead)
    own, others = inputs[i], inputs[:i] + inputs[i + 1 :]
    known = set(output).union(*others)
    unique = "".join(dict.fromkeys(own))
    alone = tuple(len(first) + j for j, c in enumerate(unique) if c not in known)
    kept = first + "".join(c for c in unique if c in known)
    return (first + output, *others), kept, alone, own if unique != own else None


def on_diagonals(z, own, x, lead):
    """Expand `z`, with one axis per distinct letter, to nonzeros where the indices of equal letters agree."""
    repeats = tuple(j for j, c in enumerate(own) if c in own[:j])
    z = np.expand_dims(z, tuple(lead + j for j in repeats))
    for j in repeats:
        shape = [1] * len(own)
        shape[own.index(own[j])] = shape[j] = shape_of(x)[j]
        z = np.where(reshaped(np.eye(shape_of(x)[j], dtype=bool), shape), z, 0)
    return z


def push_einsum(i, t, y, *args, optimize=False, dtype=None, order="K", casting="safe"):
    """Replace operand i by its tangent, with the leading axes in front."""
    inputs, output, first, operands = einsum_letters(args, leading(t, args[i]))
    i = i - 1 if isinstance(args[0], str) else i // 2
    inputs[i], operands[i] = first + inputs[i], t
    return strong_einsum(inputs, first + output, operands)


structural(np.einsum, variadic=einsum_wrt, jvp=push_einsum, curvature="cross", scalars="einsum")
facts(np.einsum, dependence=Contraction(einsum_labels), work="contraction")
