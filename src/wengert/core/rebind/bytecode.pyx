# cython: language_level=3
"""Decodes the instructions of code objects."""

from __future__ import annotations

import dis
import types

from wengert.features import CACHE

cdef int cache = CACHE
cdef int extended_arg = dis.opmap["EXTENDED_ARG"]


def decode(code):
    """Instructions of `code` as (offset, opcode, argument, width of the argument in bits), without caches."""
    cdef bytes raw = code.co_code
    cdef const unsigned char *at = raw
    cdef Py_ssize_t i
    cdef unsigned long long arg = 0
    cdef int op, width = 8
    cdef list found = []
    for i in range(0, len(raw), 2):
        op = at[i]
        if op == cache:
            continue
        arg |= at[i + 1]
        if op == extended_arg:
            arg <<= 8
            width += 8
            continue
        found.append((i, op, arg, width))
        arg, width = 0, 8
    return found


def table_of(ops):
    """Return the look-up table of a set of opcodes, for `places`."""
    return bytes([op in ops for op in range(256)])


def places(list instructions, bytes table):
    """Return the indices of instructions whose opcode is in a table."""
    cdef const unsigned char *known = table
    cdef Py_ssize_t k
    cdef int op
    cdef list found = []
    for k in range(len(instructions)):
        op = (<tuple>instructions[k])[1]
        if known[op]:
            found.append(k)
    return found


cdef object Code = types.CodeType


def codes_in(code):
    """Return a code object and all code objects nested in it."""
    cdef list found = [code]
    for each in found:
        for const in <tuple>each.co_consts:
            if type(const) is Code:
                found.append(const)
    return found


def names_in(code):
    """Return the names that a code object and those nested in it use, except names of variables."""
    cdef list found = []
    for each in codes_in(code):
        found.extend(<tuple>each.co_names)
    return found
