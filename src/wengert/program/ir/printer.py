"""Prints a program, one line per instruction, with dtype and shape if its value is an array.

A view is printed as slices if possible, otherwise as the offset of each element, with i, j, k for the indices along
the axes of the view: ``v0[33 + 32*i + j]``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from wengert.program.ir.call import Call
from wengert.program.ir.ir import Listing, kind_of
from wengert.program.ir.opcode_table import ROWS
from wengert.program.ir.opcodes import Op

#: limit on the printed elements of a constant or a pack
_MAX_SHOWN = 5


def rows(code: Listing) -> list[tuple]:
    """Return (opcode, a, b, c, type id) of each instruction."""
    return list(zip(*[column.tolist() for column in (code.op, code.a, code.b, code.c, code.type)]))


def bodies(call: Call) -> list[tuple[int, Listing]]:
    """Return the programs that a call iterates, each with its iteration count: one for a loop, else none."""
    return getattr(call.compute, "loop_bodies", [])


def printed(code: Listing, max_lines: int | None = None) -> str:
    """Return the program as text, limited to `max_lines` instructions."""
    count = len(code) if max_lines is None else min(max_lines, len(code))
    shown = lines(code, range(count), max_lines=max_lines)
    if count < len(code):
        shown.append(f"... {len(code) - count} more")
    return "\n".join([*shown, "return " + ", ".join(f"v{v}" for v in code.outputs)])


def lines(
    code: Listing, values: Iterable[int], table: list[tuple] | None = None, max_lines: int | None = None
) -> list[str]:
    """Return the text lines of the given instructions; loop bodies are indented below their loop."""
    table = rows(code) if table is None else table
    found = []
    for i in values:
        op, a, _, _, kind = table[i]
        dtype, shape, _ = code.types[kind]
        typed = "" if kind <= 1 else f": {dtype}{list(shape)}"
        text = formula(code, i, table[i])
        found.append(text if op == Op.GUARD else f"v{i}{typed} = {text}")
        for times, body in bodies(code.calls[a]) if op == Op.CALL else ():
            found.append(f"    {times} iterations of:")
            found += [f"        {line}" for line in printed(body, max_lines).splitlines()]
    return found


def formula(code: Listing, i: int, row: tuple) -> str:
    """Return the right-hand side of an instruction: its opcode's format with the fields filled in."""
    op, a, b, c, _ = row
    return ROWS[op].text.format_map(_Fields(code, i, op, a, b, c))


class _Fields(dict):
    """The format fields of an instruction, computed on demand."""

    def __init__(self, code, i, op, a, b, c):
        super().__init__(a=a, b=b, c=c)
        self.of = code, i, op, a, b, c

    def __missing__(self, name):
        return _FIELDS[name](*self.of)


_FIELDS = {
    "name": lambda code, i, op, a, b, c: name_of(op),
    "values": lambda code, i, op, a, b, c: ", ".join([f"v{v}" for v in (a, b, c) if v >= 0]),
    "constant": lambda code, i, op, a, b, c: repr(code.constants[a]),
    "array": lambda code, i, op, a, b, c: _content(code.arrays[a]),
    "element": lambda code, i, op, a, b, c: _element(b, *kind_of(code, a)[1:]),
    "part": lambda code, i, op, a, b, c: _part(code.views[b], kind_of(code, a), kind_of(code, i)[0]),
    "pack": lambda code, i, op, a, b, c: _pack(a, *code.packs[b]),
    "place": lambda code, i, op, a, b, c: _place(a, code.views[b], c, kind_of(code, i)),
    "call": lambda code, i, op, a, b, c: repr(code.calls[a]),
    "expected": lambda code, i, op, a, b, c: str(code.guards[b][0]),
    "source": lambda code, i, op, a, b, c: code.guards[b][1],
}


def name_of(op: int) -> str:
    return ROWS[op].name


def _place(base, view, v, kind):
    part = _part(view, kind, kind[0]) or "[...]"
    return f"{'empty' if base < 0 else f'v{base}'}.at{part}.set(v{v})"


def _pack(base, offsets, values):
    shown = [f"[{offset}]=v{v}" for offset, v in zip(offsets[:_MAX_SHOWN].tolist(), values[:_MAX_SHOWN].tolist())]
    if len(offsets) > _MAX_SHOWN:
        shown.append("...")
    return f"pack({'zeros' if base < 0 else f'v{base}'}, {len(offsets)} scalars: {', '.join(shown)})"


def _content(array):
    """Return the first and last elements as text."""
    shown = [str(x) for x in array.flat[:_MAX_SHOWN].tolist()]
    if array.size > _MAX_SHOWN:
        shown[2:] = ["...", *[str(x) for x in array.flat[-2:].tolist()]]
    return f"[{', '.join(shown)}]"


# ---------------------------------------------------------------------------------------------- views


def _element(offset, shape, strides):
    """Return the index of an element, given its memory offset."""
    if strides is None and len(shape) > 1:
        return str([int(n) for n in np.unravel_index(offset, shape)])
    return f"{_flat(shape)}[{offset}]"


def _flat(shape):
    return ".flat" if len(shape) > 1 else ""


def _part(view, kind, dtype):
    """Return the index that denotes a view of an array; "" for the whole array."""
    offset, shape, strides = view
    of_array, whole, steps = kind
    if dtype == of_array:
        in_order = _in_order(whole, dtype.itemsize)
        steps = in_order if steps is None else steps
        if offset == 0 and steps == in_order and math.prod(shape) == math.prod(whole):
            if strides == _in_order(shape, dtype.itemsize):
                return "" if shape == whole else f".reshape{shape}"
        slices = _slices(offset, shape, strides, whole, steps)
        if slices is not None:
            return f"[{', '.join(slices)}]"
    is_bitcast = dtype != of_array  # complex as real, or real as complex
    return (f".view({dtype})" if is_bitcast else _flat(whole)) + _places(offset, shape, strides, dtype.itemsize)


def _in_order(shape, step):
    """Return the strides of an array in C order."""
    found = []
    for n in reversed(shape):
        found.append(step)
        step *= n
    return tuple(reversed(found))


def _slices(offset, shape, strides, whole, steps):
    """Return a view as one index or slice per axis of the array; None if it has no such form."""
    if 0 in (*shape, *whole) or any(s <= 0 for s in steps) or any(s < t for s, t in pairwise(steps)):
        return None
    found = []
    axes = list(zip(shape, strides))
    for left, (n, step) in zip(range(len(whole), 0, -1), zip(whole, steps)):
        first, offset = divmod(offset, step)
        m, stride = axes[0] if axes else (0, 0)
        by, rest = divmod(stride, step) if m > 1 else (1, 0)
        is_along = by and not rest and 0 <= first + by * (m - 1) < n
        if is_along and (m > 1 or len(axes) == left):
            found.append(_slice(first, by, m, n))
            axes.pop(0)
        elif first < n:
            found.append(str(first))
        else:
            return None
    return None if axes or offset else found


def _slice(first, by, m, n):
    last = first + by * (m - 1)
    if by > 0:
        start, stop = "" if first == 0 else str(first), "" if last + by >= n else str(last + 1)
    else:
        start, stop = "" if first == n - 1 else str(first), "" if last + by < 0 else str(last - 1)
    return f"{start}:{stop}" + ("" if by == 1 else f":{by}")


def _places(offset, shape, strides, itemsize):
    """Return the memory offset of a view's elements as a formula in the indices along its axes."""
    if any(s % itemsize for s in (offset, *strides)):
        return f".as_strided(offset={offset}, strides={strides})"
    terms = [str(offset // itemsize)] if offset or not any(strides) else []
    for axis, (n, stride) in enumerate(zip(shape, strides)):
        if n > 1 and stride:
            name = "ijklmn"[axis] if axis < 6 else f"i{axis}"
            by = stride // itemsize
            terms.append(("- " if by < 0 else "+ " if terms else "") + (name if abs(by) == 1 else f"{abs(by)}*{name}"))
    return f"[{' '.join(terms)}]"
