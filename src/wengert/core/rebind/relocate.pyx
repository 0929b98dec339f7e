# cython: language_level=3
"""Replaces arguments of instructions and inserts instructions, which moves the code after them.

Method.  An argument beyond 255 is spread over EXTENDED_ARG instructions in front.  Instructions grow until all
arguments fit, those of jumps included (branch relaxation: Szymanski 1978, "Assembling code for machines with
span-dependent instructions").  The exception table and the line table are rewritten for the new offsets.

Invariants
- Instructions keep their order, positions and inline caches; they never shrink, so the growth ends.
- Inserted units belong to an instruction: jumps to it and protected ranges start before its EXTENDED_ARG, and code
  inserted after it has its position.
"""

from __future__ import annotations

import dis

from wengert.features import CACHE

#: line table of relocated code, by which the code is recognised -> line table of the original code
line_tables: dict[bytes, bytes] = {}

cdef int _CACHE = CACHE
cdef int _EXTENDED_ARG = dis.opmap["EXTENDED_ARG"]
cdef set _JUMPS = {*dis.hasjrel}
cdef set _BACKWARD = {op for op in _JUMPS if "BACKWARD" in dis.opname[op] or dis.opname[op] == "END_ASYNC_FOR"}
cdef tuple _ONE_LINE = (10, 11, 12), _WITH_NUMBERS = (13, 14)  # kinds in the line table, see CPython's locations.md
cdef enum:
    _MAX_UNITS = 8  # code units of an entry of the line table


cdef class _Instruction:
    """An instruction with its prefixes and caches: code units from `start` to `end`, with the opcode at `place`."""

    cdef Py_ssize_t start, place, end, size, caches, target  # `target` is -1 except for jumps
    cdef unsigned long long arg
    cdef int op
    cdef bytes after


def relocated(code, arguments, insertions):
    """Return `code` with other arguments of instructions, and code inserted after instructions.

    Both are given by the offsets of instructions in bytes.  Code inserted after a jump runs where it does not jump.
    """
    cdef list instructions = _decode(code.co_code)
    cdef _Instruction each
    for each in instructions:
        each.arg = arguments.get(2 * each.place, each.arg)
        each.after = insertions.get(2 * each.place, b"")
    moved = _moved(instructions)
    while _fit_arguments(instructions, moved):
        moved = _moved(instructions)
    lines = _line_table(code.co_linetable, moved)
    if lines != code.co_linetable:
        line_tables[lines] = line_tables.get(code.co_linetable, code.co_linetable)
    return code.replace(
        co_code=_encode(instructions),
        co_exceptiontable=_exception_table(code.co_exceptiontable, moved),
        co_linetable=lines,
    )


cdef list _decode(bytes code):
    cdef const unsigned char *raw = code
    cdef list found = []
    cdef _Instruction each
    cdef Py_ssize_t start = 0, k = 0, n = len(code) // 2, place
    cdef unsigned long long arg = 0
    cdef int op
    while k < n:
        op, arg, place, k = raw[2 * k], arg << 8 | raw[2 * k + 1], k, k + 1
        if op == _EXTENDED_ARG:
            continue
        while k < n and raw[2 * k] == _CACHE:
            k += 1
        each = _Instruction.__new__(_Instruction)
        each.start, each.place, each.end, each.op, each.arg = start, place, k, op, arg
        each.size, each.caches, each.target = place - start, k - place - 1, -1
        if op in _JUMPS:
            each.target = k - <Py_ssize_t>arg if op in _BACKWARD else k + <Py_ssize_t>arg
        found.append(each)
        start, arg = k, 0
    return found


cdef list _moved(list instructions):
    """Return the new offset of each code unit and of the end; an instruction starts at its first EXTENDED_ARG."""
    cdef list moved = []
    cdef _Instruction each
    cdef Py_ssize_t grown = 0, k
    for each in instructions:
        moved.append(each.start + grown)
        grown += each.size - (each.place - each.start)
        for k in range(each.start + 1 + grown, each.end + grown):
            moved.append(k)
        grown += len(each.after) // 2
    moved.append(each.end + grown)
    return moved


cdef bint _fit_arguments(list instructions, list moved) except -1:
    """Enter the distances of jumps, with the prefixes that they need; return whether an instruction grew."""
    cdef _Instruction each
    cdef bint has_grown = False
    cdef Py_ssize_t needed, end
    for each in instructions:
        if each.target >= 0:
            end = <Py_ssize_t>moved[each.end] - len(each.after) // 2
            each.arg = abs(<Py_ssize_t>moved[each.target] - end)
        needed = 0
        while each.arg >> 8 * (needed + 1):
            needed += 1
        if needed > each.size:
            each.size, has_grown = needed, True
    return has_grown


cdef bytes _encode(list instructions):
    cdef bytearray raw = bytearray()
    cdef _Instruction each
    cdef Py_ssize_t k
    for each in instructions:
        for k in range(each.size, 0, -1):
            raw.append(_EXTENDED_ARG)
            raw.append(each.arg >> 8 * k & 255)
        raw.append(each.op)
        raw.append(each.arg & 255)
        raw += bytes(2 * each.caches)
        raw += each.after
    return bytes(raw)


def _exception_table(table, moved):
    """Exception table for the new offsets: entries (start, length, target, depth) in groups of 6 bits."""
    rest, new = iter(table), bytearray()

    def number():
        byte = next(rest)
        value = byte & 63
        while byte & 64:
            byte = next(rest)
            value = value << 6 | byte & 63
        return value

    for _ in range(sum(byte >> 7 for byte in table)):
        start, length, target, depth = (number() for _ in range(4))
        first = len(new)
        for value in (moved[start], moved[start + length] - moved[start], moved[target], depth):
            shifts = range((max(value.bit_length(), 1) - 1) // 6 * 6, -1, -6)
            new += bytes(value >> shift & 63 | (shift > 0) << 6 for shift in shifts)
        new[first] |= 128
    return bytes(new)


cdef bytes _line_table(bytes table, list moved):
    """Line table for the new offsets: entries (kind, number of code units, place), which start with a byte above 127.

    The place of an entry starts with a change of line, by its kind or as a number.  An entry that grew too long is
    split, and all pieces but the first have no change of line.
    """
    cdef bytearray new = bytearray()
    cdef const unsigned char *at = table
    cdef Py_ssize_t n = len(table), start = 0, end, unit = 0, length, rest, step
    cdef int kind
    while start < n:
        end = start + 1
        while end < n and not at[end] & 128:
            end += 1
        kind, place, length = at[start] >> 3 & 15, table[start + 1 : end], (at[start] & 7) + 1
        rest, unit = <Py_ssize_t>moved[unit + length] - <Py_ssize_t>moved[unit], unit + length
        while rest:
            step = min(rest, _MAX_UNITS)
            new.append(128 | kind << 3 | step - 1)
            new += place
            kind, place = _on_same_line(kind, place)
            rest -= step
        start = end
    return bytes(new)


cdef tuple _on_same_line(int kind, bytes place):
    """Return a line-table entry as it is encoded after an entry of the same line."""
    cdef Py_ssize_t size = 0
    if kind in _WITH_NUMBERS:
        while place[size] & 64:
            size += 1
        return kind, b"\0" + place[size + 1 :]
    return (_ONE_LINE[0], place) if kind in _ONE_LINE else (kind, place)
