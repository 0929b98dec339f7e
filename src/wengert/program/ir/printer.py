"""A list as text: a line for each instruction, with dtype and shape if its value is an array.

Parts of arrays are written as indices where they are slices; otherwise by the place of each element, where i, j, k
count along the axes of the part: ``v0[33 + 32*i + j]``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from wengert.core.tape.tape import kernel_rows
from wengert.program.ir.call import Call
from wengert.program.ir.ir import Listing, kind_of
from wengert.program.ir.opcodes import Op

#: elements of a constant or of a pack that are shown
_MOST = 5

#: the name of every elementwise row: that of its NumPy function, ** for the operator
ROW_NAMES = {opcode: (name or "**").rpartition(".")[2] for name, opcode, *_ in kernel_rows()}


def rows(code: Listing) -> list[tuple]:
    """Of each instruction: its number, the columns a, b and c, and the index of its type."""
    return list(zip(*[column.tolist() for column in (code.op, code.a, code.b, code.c, code.type)]))


def bodies(call: Call) -> list[tuple[int, Listing]]:
    """Lists that a call runs again and again, each with the number of its runs: a loop has one."""
    return getattr(call.compute, "loop_bodies", [])


def printed(code: Listing, most: int | None = None) -> str:
    """The list as text; of more than `most` instructions the first ones."""
    count = len(code) if most is None else min(most, len(code))
    shown = lines(code, range(count), most=most)
    if count < len(code):
        shown.append(f"... {len(code) - count} more")
    return "\n".join([*shown, "return " + ", ".join(f"v{v}" for v in code.outputs)])


def lines(
    code: Listing, numbers: Iterable[int], table: list[tuple] | None = None, most: int | None = None
) -> list[str]:
    """The lines of some instructions; lists that they run again and again are indented below them."""
    table = rows(code) if table is None else table
    found = []
    for i in numbers:
        op, a, _, _, kind = table[i]
        dtype, shape, _ = code.types[kind]
        typed = "" if kind <= 1 else f": {dtype}{list(shape)}"
        text = formula(code, i, table[i])
        found.append(text if op == Op.GUARD else f"v{i}{typed} = {text}")
        for times, body in bodies(code.calls[a]) if op == Op.CALL else ():
            found.append(f"    {times} times:")
            found += [f"        {line}" for line in printed(body, most).splitlines()]
    return found


def formula(code: Listing, i: int, row: tuple) -> str:
    """How an instruction gets its value."""
    op, a, b, c, _ = row
    if op == Op.GUARD:
        expected, place = code.guards[b]
        return f"guard v{a} is {expected}    # {place}"
    if op == Op.INPUT:
        return f"input {a}"
    if op == Op.CONST:
        return repr(code.constants[a])
    if op == Op.ARRAY:
        return "constant " + _content(code.arrays[a])
    if op == Op.LOAD:
        return f"v{a}{_element(b, *kind_of(code, a)[1:])}"
    if op == Op.VIEW:
        return f"v{a}{_part(code.views[b], kind_of(code, a), kind_of(code, i)[0])}"
    if op == Op.PACK:
        return _pack(a, *code.packs[b])
    if op == Op.PLACE:
        kind = kind_of(code, i)
        part = _part(code.views[b], kind, kind[0]) or "[...]"
        return f"{'new' if a < 0 else f'v{a}'} with {part} = v{c}"
    if op == Op.CALL:
        return repr(code.calls[a])
    return f"{name_of(op)}({', '.join(f'v{v}' for v in (a, b, c) if v >= 0)})"


def name_of(op: int) -> str:
    """Of a function, of a partial, or of the kind of an instruction."""
    if op < Op.PARTIAL:
        return ROW_NAMES[op]
    if op < Op.INPUT:
        row, side = divmod(op - Op.PARTIAL, 2)
        return f"d{ROW_NAMES[row]}/d{'ab'[side]}"
    return Op(op).name.lower()


def _pack(base, offsets, values):
    shown = [f"[{offset}]=v{v}" for offset, v in zip(offsets[:_MOST].tolist(), values[:_MOST].tolist())]
    if len(offsets) > _MOST:
        shown.append("...")
    return f"{'zeros' if base < 0 else f'v{base}'} with {len(offsets)} elements {', '.join(shown)}"


def _content(array):
    """The first elements and the last."""
    shown = [str(x) for x in array.flat[:_MOST].tolist()]
    if array.size > _MOST:
        shown[2:] = ["...", *[str(x) for x in array.flat[-2:].tolist()]]
    return f"[{', '.join(shown)}]"


# ---------------------------------------------------------------------------------------------- parts of arrays


def _element(offset, shape, strides):
    """The index of an element, which is given by its place in the memory of an array."""
    if strides is None and len(shape) > 1:
        return str([int(n) for n in np.unravel_index(offset, shape)])
    return f"{_flat(shape)}[{offset}]"


def _flat(shape):
    return ".flat" if len(shape) > 1 else ""


def _part(view, kind, dtype):
    """The index of a view of an array; nothing if that is all of it."""
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
    flat = _flat(whole) if dtype == of_array else f" as {dtype} "  # real parts of complex numbers, and the other way
    return flat + _places(offset, shape, strides, dtype.itemsize)


def _in_order(shape, step):
    """Strides of an array in C order."""
    found = []
    for n in reversed(shape):
        found.append(step)
        step *= n
    return tuple(reversed(found))


def _slices(offset, shape, strides, whole, steps):
    """A view as an index along each axis of the array; None if it is no such."""
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
    """The places of the elements of a view in memory, by the indices along its axes."""
    if any(s % itemsize for s in (offset, *strides)):
        return f" from byte {offset} on, strides {strides}"
    terms = [str(offset // itemsize)] if offset or not any(strides) else []
    for axis, (n, stride) in enumerate(zip(shape, strides)):
        if n > 1 and stride:
            name = "ijklmn"[axis] if axis < 6 else f"i{axis}"
            by = stride // itemsize
            terms.append(("- " if by < 0 else "+ " if terms else "") + (name if abs(by) == 1 else f"{abs(by)}*{name}"))
    return f"[{' '.join(terms)}]"
