# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Sorts sparse entries into CSR form.

Entries of several parts are distributed to their rows by a counting sort, then sorted within each row.
Time and memory are linear in the number of entries as long as rows are short.
"""

from libc.stdint cimport int32_t, int64_t

import numpy as np

cdef enum:
    MAX_INSERTION_SORT = 48      # longest row, in entries, that is sorted by insertion


def first_compatible(list lines, const int32_t[::1] line):
    """Return the index of the first array that does not conflict with `line`; ``len(lines)`` if all do.

    Two arrays conflict where both are non-negative and differ.
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


def sort_by_rows(list rows, list cols, Py_ssize_t m):
    """Sort entries by row and column, and merge equal ones.

    Parameters
    ----------
    rows, cols : list of int32 arrays
        Rows and columns of the entries of each part. If rows is None, entry e is in row e.
    m : int
        Rows of the matrix.

    Returns
    -------
    starts, columns : int32 arrays
        As in a CSR matrix, without duplicates.
    places : list of int32 arrays
        For each part, the sorted index of each of its entries.
    are_distinct : bool
        Whether there were no duplicates.
    """
    cdef Py_ssize_t total = sum([len(part) for part in cols]), i, k, lo = 0, hi, first = 0, count = 0
    cdef int64_t pair
    if total > 0x7ffffffe:
        raise MemoryError(f"a sparse Jacobian has at most {0x7ffffffe} entries, not {total}")
    starts_, columns_, places_ = [np.empty(n, np.int32) for n in (m + 1, total, total)]
    pairs_ = np.empty(total, np.int64)      # of each entry: column << 32 | index among all parts
    starts_[:] = 0
    cdef int32_t *starts = first_of(starts_)
    cdef int32_t *columns = first_of(columns_)
    cdef int32_t *places = first_of(places_)
    cdef int64_t[::1] pairs = pairs_
    for part, own in zip(rows, cols):
        if part is None:
            starts_[1 : len(own) + 1] += 1
        else:
            count_rows(part, starts + 1)
    np.cumsum(starts_, out=starts_)
    for part, own in zip(rows, cols):       # afterwards, starts[i] is the end of row i
        distribute(own if part is None else part, own, part is None, first, starts, pairs)
        first += len(own)
    for i in range(m):
        hi = starts[i]
        if hi - lo > MAX_INSERTION_SORT:
            pairs_[lo:hi].sort()
        elif hi - lo > 1:
            insertion_sort(&pairs[lo], hi - lo)
        starts[i] = <int32_t>count
        for k in range(lo, hi):
            pair = pairs[k]
            if k == lo or <int32_t>(pair >> 32) != columns[count - 1]:
                columns[count] = <int32_t>(pair >> 32)
                count += 1
            places[<int32_t>(pair & 0x7fffffff)] = <int32_t>(count - 1)
        lo = hi
    starts[m] = <int32_t>count
    ends = np.cumsum([len(part) for part in cols])
    found = [places_[b - len(part) : b] for part, b in zip(cols, ends)]
    return starts_, columns_ if count == total else columns_[:count].copy(), found, count == total


cdef int32_t *first_of(int32_t[::1] line) noexcept:
    return &line[0] if line.shape[0] else NULL


cdef int count_rows(const int32_t[::1] row, int32_t *counts) except -1:
    cdef Py_ssize_t k
    for k in range(row.shape[0]):
        counts[row[k]] += 1
    return 0


cdef int distribute(const int32_t[::1] row, const int32_t[::1] col, bint is_line, int64_t first, int32_t *starts,
                    int64_t[::1] pairs) except -1:
    """Append the entries of a part to their rows."""
    cdef Py_ssize_t k
    cdef int32_t i, at
    for k in range(col.shape[0]):
        i = <int32_t>k if is_line else row[k]
        at = starts[i]
        starts[i] = at + 1
        pairs[at] = <int64_t>col[k] << 32 | (first + k)
    return 0


cdef int insertion_sort(int64_t *pairs, Py_ssize_t n) noexcept:
    cdef Py_ssize_t k, j
    cdef int64_t pair
    for k in range(1, n):
        pair = pairs[k]
        j = k
        while j > 0 and pairs[j - 1] > pair:
            pairs[j] = pairs[j - 1]
            j -= 1
        pairs[j] = pair
    return 0
