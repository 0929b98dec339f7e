# Bounds checks are off, since index arrays are validated before they reach this module; loops release the GIL:
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Loops of lattice colourings: distances between the columns of a row, and linear forms that separate them."""

from libc.stdint cimport int32_t, int64_t, uint64_t

import numpy as np

# number of recent rows that each row is compared with before its pairs are visited; exceeds the usual number of species
cdef enum:
    KEPT = 8


def differences(
    const int64_t[::1] ptr, const int32_t[::1] idx, const int64_t[::1] code, Py_ssize_t most, bint neighbours=False
):
    """Distinct positive differences between the codes of two columns in one row; None if there are more than `most`.

    With `neighbours`, differences between the codes of a row and of its columns.
    On a grid most rows are translations of an earlier row, whose pairs need not be visited again.
    """
    cdef Py_ssize_t m = ptr.shape[0] - 1, i, p, q, k, t, size = 1, count = 0, kept = 0, slot
    while size < 4 * most + 4:
        size *= 2
    cdef int64_t[::1] table = np.zeros(size, np.int64)      # 0: free
    cdef Py_ssize_t rows[KEPT]
    cdef int64_t d
    cdef bint known
    with nogil:
        for i in range(m):
            k = ptr[i + 1] - ptr[i]
            if k < 2 and not neighbours:
                continue
            if k > 2 * most + 1:                        # this row alone has more
                count = most + 1
                break
            known = False
            if k == 0:
                continue
            for t in range(min(kept, <Py_ssize_t>KEPT)):
                if moved(&ptr[0], &idx[0], &code[0], rows[t], i, k, neighbours):
                    known = True
                    break
            if known:
                continue
            rows[kept % KEPT] = i
            kept += 1
            for p in range(ptr[i], ptr[i] + 1 if neighbours else ptr[i + 1]):
                for q in range(p if neighbours else p + 1, ptr[i + 1]):
                    d = code[idx[q]] - code[i if neighbours else idx[p]]
                    if d < 0:
                        d = -d
                    if d == 0:
                        continue
                    slot = <Py_ssize_t>((<uint64_t>d * <uint64_t>0x9E3779B97F4A7C15) >> 20) & (size - 1)
                    while table[slot] != 0 and table[slot] != d:
                        slot = (slot + 1) & (size - 1)
                    if table[slot] == 0:
                        table[slot] = d
                        count += 1
                if count > most:
                    break
            if count > most:
                break
    if count > most:
        return None
    found = np.asarray(table)
    return np.sort(found[found > 0])


cdef inline bint moved(
    const int64_t *ptr, const int32_t *idx, const int64_t *code, Py_ssize_t i, Py_ssize_t j, Py_ssize_t k, bint itself
) noexcept nogil:
    """Return whether row j, with k columns, is a translation of row i, including the diagonal if `itself`."""
    cdef Py_ssize_t t
    cdef const int32_t *one = idx + ptr[i]
    cdef const int32_t *other = idx + ptr[j]
    cdef int64_t shift
    if ptr[i + 1] - ptr[i] != k:
        return False
    shift = code[j] - code[i] if itself else code[other[0]] - code[one[0]]
    for t in range(k):
        if code[other[t]] - code[one[t]] != shift:
            return False
    return True


def coefficients(const int64_t[:, ::1] vectors, const int64_t[::1] ends, int64_t k, int64_t steps):
    """Integers a with a . d nonzero modulo k for all rows d of `vectors`, or None; and the steps left.

    Backtracking search. `vectors` are sorted by their last nonzero coordinate: those before ends[t] have none after t,
    so a[:t + 1] is validated before a[t + 1] is chosen.
    """
    cdef Py_ssize_t n = vectors.shape[1], t = 0, i, s, start
    cdef int64_t value
    cdef int64_t[::1] a = np.full(n + 1, -1, np.int64)
    cdef bint right, found = False
    with nogil:
        while t >= 0 and steps > 0:
            a[t] += 1
            if a[t] >= (k // 2 + 1 if t == 0 else k):       # a and -a are equivalent
                t -= 1
                continue
            right = True
            start = ends[t - 1] if t > 0 else 0
            for i in range(start, ends[t]):
                value = 0
                for s in range(t + 1):
                    value += a[s] * vectors[i, s]
                steps -= 1
                if value % k == 0:
                    right = False
                    break
            if not right:
                continue
            if t == n - 1:
                found = True
                break
            t += 1
            a[t] = -1
    return (np.asarray(a)[:n] if found else None), steps
