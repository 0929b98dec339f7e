# Indices are made here, never by a user, and no division by a user's number happens in Cython code:
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Columns of entries, compared and put in order.

Entries of several parts are put in the order of a matrix in CSR form by counting those of each row, and in order in each row.
So the time and the memory are linear in the entries, where a sort of all of them by row and column has neither.
"""

from libc.stdint cimport int32_t

import numpy as np

#: entries of a row that are put in order one by one
cdef Py_ssize_t SHORT = 48


def first_alike(list lines, const int32_t[::1] line):
    """The number of the first line that names no other column than `line` in any place; that of lines if none is so.

    Negative numbers name none.
    """
    cdef const int32_t[::1] other
    cdef Py_ssize_t k = 0, i, n = line.shape[0]
    for other in lines:
        i = 0
        if &other[0] != &line[0]:
            while i < n and (other[i] == line[i] or (other[i] | line[i]) < 0):
                i += 1
            if i < n:
                k += 1
                continue
        return k
    return k


def in_rows(list rows, list cols, Py_ssize_t m):
    """Entries in order.

    Parameters
    ----------
    rows, cols : list of int32 arrays
        Those of each part. In the place of rows may stand None: entry e is in row e.
    m : int
        Rows of the matrix.

    Returns
    -------
    starts, columns : int32 arrays
        As in a CSR array, without equal entries.
    places : list of int32 arrays
        For each part which of the entries each of its own is.
    are_distinct : bool
        Are no two of them the same?
    """
    cdef Py_ssize_t total = sum([len(part) for part in cols]), first = 0, i, k, lo, hi, count = 0
    if total > 0x7ffffffe:
        raise MemoryError(f"{total} nonzeros")
    starts_, columns_, source_, places_ = [np.empty(n, np.int32) for n in (m + 1, total, total, total)]
    starts_[:] = 0
    cdef int32_t[::1] starts = starts_, columns = columns_, source = source_, places = places_
    cdef const int32_t[::1] row, col
    for part, own in zip(rows, cols):
        if part is None:
            starts_[1 : len(own) + 1] += 1
        else:
            row = part
            for k in range(row.shape[0]):
                starts[row[k] + 1] += 1
    np.cumsum(starts_, out=starts_)
    for part, own in zip(rows, cols):   # where a row begins is moved on to its end
        row, col = own if part is None else part, own
        fill(row, col, part is None, <int32_t>first, starts, columns, source)
        first += col.shape[0]
    lo = 0
    for i in range(m):
        hi = starts[i]
        if hi - lo > SHORT:
            put_long_in_order(columns_[lo:hi], source_[lo:hi])
        elif hi - lo > 1:
            put_in_order(&columns[lo], &source[lo], hi - lo)
        starts[i] = <int32_t>count
        for k in range(lo, hi):
            if k == lo or columns[k] != columns[count - 1]:
                columns[count] = columns[k]
                count += 1
            places[source[k]] = <int32_t>(count - 1)
        lo = hi
    starts[m] = <int32_t>count
    ends = np.cumsum([len(part) for part in cols])
    found = [places_[b - len(part) : b] for part, b in zip(cols, ends)]
    return starts_, columns_ if count == total else columns_[:count].copy(), found, count == total


cdef int fill(const int32_t[::1] row, const int32_t[::1] col, bint is_line, int32_t first, int32_t[::1] starts,
              int32_t[::1] columns, int32_t[::1] source) except -1 nogil:
    """Put the entries of a part behind those of their rows."""
    cdef Py_ssize_t k
    cdef int32_t i, at
    for k in range(col.shape[0]):
        i = <int32_t>k if is_line else row[k]
        at = starts[i]
        starts[i] = at + 1
        columns[at] = col[k]
        source[at] = first + <int32_t>k
    return 0


cdef int put_in_order(int32_t *columns, int32_t *source, Py_ssize_t n) except -1 nogil:
    """Sort a few columns, by insertion."""
    cdef Py_ssize_t k, j
    cdef int32_t column, which
    for k in range(1, n):
        column, which = columns[k], source[k]
        j = k
        while j > 0 and columns[j - 1] > column:
            columns[j], source[j] = columns[j - 1], source[j - 1]
            j -= 1
        columns[j], source[j] = column, which
    return 0


cdef int put_long_in_order(columns, source) except -1:
    cdef const int32_t[::1] given = columns
    cdef Py_ssize_t k
    for k in range(1, given.shape[0]):
        if given[k - 1] > given[k]:
            order = np.argsort(columns, kind="stable")
            columns[:], source[:] = columns[order], source[order]
            break
    return 0
