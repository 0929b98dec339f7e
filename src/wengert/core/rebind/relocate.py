"""Replaces arguments of instructions and inserts instructions, which moves the code after them.

Method.  An argument beyond 255 is spread over EXTENDED_ARG instructions in front.  Instructions grow until all
arguments fit, those of jumps included (branch relaxation: Szymanski 1978, "Assembling code for machines with
span-dependent instructions").  The exception table and the line table are written anew for the new offsets.

Invariants
- Instructions keep their order, positions and inline caches; they never shrink, so the growth ends.
- What is inserted belongs to its instruction: jumps to it and protected ranges start before an EXTENDED_ARG, and what
  follows it has its position.
"""

import dis
import itertools

from wengert.features import CACHE

__all__ = ["line_tables", "relocated"]

#: line tables of relocated code, with those of its source, so that both are known as the same code
line_tables: dict[bytes, bytes] = {}

_EXTENDED_ARG = dis.opmap["EXTENDED_ARG"]
_JUMPS = {*dis.hasjrel}
_BACKWARD = {op for op in _JUMPS if "BACKWARD" in dis.opname[op] or dis.opname[op] == "END_ASYNC_FOR"}
_ONE_LINE, _WITH_NUMBERS = (10, 11, 12), (13, 14)  # kinds of entries of the line table, as in CPython's locations.md
_MAX_UNITS = 8  # code units of an entry of the line table


class _Instruction:
    """An instruction with its prefixes and caches: code units from `start` to `end`, with the opcode at `place`."""

    __slots__ = ("after", "arg", "caches", "end", "op", "place", "size", "start", "target")

    def __init__(self, start, place, end, op, arg):
        self.start, self.place, self.end, self.op, self.arg = start, place, end, op, arg
        self.size, self.caches, self.target, self.after = place - start, end - place - 1, None, b""
        if op in _JUMPS:
            self.target = end - arg if op in _BACKWARD else end + arg


def relocated(code, arguments, insertions):
    """Return `code` with other arguments of instructions, and code inserted after instructions.

    Both are given by the offsets of instructions in bytes.  Jumps and conditions are not inserted after.
    """
    instructions = _decode(code.co_code)
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


def _decode(raw):
    found, start, arg, k = [], 0, 0, 0
    while k < len(raw) // 2:
        op, arg, place, k = raw[2 * k], arg << 8 | raw[2 * k + 1], k, k + 1
        if op == _EXTENDED_ARG:
            continue
        while k < len(raw) // 2 and raw[2 * k] == CACHE:
            k += 1
        found.append(_Instruction(start, place, k, op, arg))
        start, arg = k, 0
    return found


def _moved(instructions):
    """New offset of each code unit, and of the end; what is inserted lies before the units of its instruction."""
    moved, grown = [], 0
    for each in instructions:
        moved.append(each.start + grown)
        grown += each.size - (each.place - each.start)
        moved += range(each.start + 1 + grown, each.end + grown)
        grown += len(each.after) // 2
    return [*moved, instructions[-1].end + grown]


def _fit_arguments(instructions, moved):
    """Enter the distances of jumps, and give instructions the prefixes that they need; did one of them grow?"""
    has_grown = False
    for each in instructions:
        if each.target is not None:
            each.arg = abs(moved[each.target] - moved[each.end])  # nothing is inserted after a jump
        needed = (max(each.arg.bit_length(), 1) - 1) // 8
        if needed > each.size:
            each.size, has_grown = needed, True
    return has_grown


def _encode(instructions):
    raw = bytearray()
    for each in instructions:
        for k in range(each.size, 0, -1):
            raw += bytes((_EXTENDED_ARG, each.arg >> 8 * k & 255))
        raw += bytes((each.op, each.arg & 255)) + bytes(2 * each.caches) + each.after
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


def _line_table(table, moved):
    """Line table for the new offsets: entries (kind, number of code units, place), which start with a byte above 127.

    The place of an entry starts with a change of line, by its kind or as a number, so the pieces of an entry that grew
    too long are followed by others without a change.
    """
    new, unit = bytearray(), 0
    starts = [k for k, byte in enumerate(table) if byte & 128]
    for start, end in itertools.pairwise([*starts, len(table)]):
        kind, place, length = table[start] >> 3 & 15, table[start + 1 : end], (table[start] & 7) + 1
        rest, unit = moved[unit + length] - moved[unit], unit + length
        while rest:
            step = min(rest, _MAX_UNITS)
            new.append(128 | kind << 3 | step - 1)
            new += place
            kind, place, rest = *_on_same_line(kind, place), rest - step
    return bytes(new)


def _on_same_line(kind, place):
    """The same entry of the line table after one of its line."""
    if kind in _WITH_NUMBERS:
        size = next(k for k, byte in enumerate(place) if not byte & 64) + 1
        return kind, b"\0" + place[size:]
    return (_ONE_LINE[0], place) if kind in _ONE_LINE else (kind, place)
