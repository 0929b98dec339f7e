# Bounds checks are off, since index arrays are validated before they reach this module; loops release the GIL:
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Checks whether nonzeros can be recovered, orders substitution, and compares products; independent of the search.

Direct recovery: a nonzero (i, j) is read from a product if no other nonzero of row i is in a column of the same colour.
Substitution: the nonzeros of two colours are the edges of a forest. At a leaf one nonzero is alone in its product, and
is subtracted from the product at its other end, which eventually becomes a leaf.
The order exists if and only if there is no cycle, so computing it is also the check.

Reference: Gebremedhin, Tarafdar, Pothen and Walther (2009), Efficient computation of sparse Hessians using coloring and
automatic differentiation. doi:10.1287/ijoc.1080.0286
"""

from libc.math cimport INFINITY, copysign, fabs, fmax, isfinite
from libc.stdint cimport int32_t, int64_t, uint64_t

import numpy as np

ctypedef fused number:
    float
    double
    float complex
    double complex


def alone(const int64_t[::1] ptr, const int32_t[::1] idx, const int32_t[::1] colour, Py_ssize_t count):
    """Mask of nonzeros (i, j) whose colour, between 0 and `count` - 1, is unique in row i."""
    cdef Py_ssize_t i, p, m = ptr.shape[0] - 1
    cdef int32_t c
    result = np.zeros(idx.shape[0], np.uint8)
    cdef unsigned char[::1] is_alone = result
    cdef int64_t[::1] seen = np.full(count + 1, -1, np.int64)       # position where a colour was last seen in this row
    with nogil:
        for i in range(m):
            for p in range(ptr[i], ptr[i + 1]):
                c = colour[idx[p]]
                if c < 0:
                    continue
                if seen[c] >= ptr[i]:
                    is_alone[seen[c]] = 0
                else:
                    is_alone[p] = 1
                seen[c] = p
    return result


def improper(const int64_t[::1] ptr, const int32_t[::1] idx, const int32_t[::1] colour):
    """First nonzero (v, w) of a symmetric pattern with v uncoloured or with equal colours of v and w; -1 if none."""
    cdef Py_ssize_t v, p, found = -1
    cdef int32_t c
    with nogil:
        for v in range(ptr.shape[0] - 1):
            c = colour[v]
            for p in range(ptr[v], ptr[v + 1]):
                if c < 0 or (colour[idx[p]] == c and idx[p] != v):
                    found = p
                    break
            if found >= 0:
                break
    return found


def elimination(
    const int64_t[::1] ptr, const int32_t[::1] idx, const int64_t[::1] mirror,
    const int32_t[::1] colour, Py_ssize_t count,
):
    """Positions of off-diagonal nonzeros (v, w) in the order of substitution, one per symmetric pair; and a mask.

    The value of (v, w) is element v of the product for colour[w], minus earlier nonzeros.
    The mask marks the nonzeros on cycles, which cannot be recovered.
    """
    cdef Py_ssize_t n = ptr.shape[0] - 1, i, p, q, first = 0, last = 0, solved = 0, nnz = idx.shape[0]
    cdef int32_t c
    order = np.empty(nnz // 2, np.int64)
    cdef int64_t[::1] place = order
    # the nonzeros of one colour in one row form a group, named after its first nonzero
    cdef int64_t[::1] group = np.empty(nnz, np.int64), first_of = np.full(count + 1, -1, np.int64)
    cdef int64_t[::1] others = np.zeros(nnz, np.int64), queue = np.empty(nnz, np.int64)
    cdef int32_t[::1] size = np.zeros(nnz, np.int32)
    with nogil:
        for i in range(n):
            for p in range(ptr[i], ptr[i + 1]):
                if idx[p] == i:
                    group[p] = -1
                    continue
                c = colour[idx[p]]
                if first_of[c] < ptr[i]:
                    first_of[c] = p
                group[p] = first_of[c]
                size[group[p]] += 1
                others[group[p]] ^= p                   # if one nonzero is left, this is its position
        for p in range(nnz):
            if size[p] == 1:
                queue[last] = p
                last += 1
        while first < last:
            i = queue[first]
            first += 1
            if size[i] == 0:                            # found from the other end
                continue
            p = others[i]
            q = mirror[p]
            place[solved] = p
            solved += 1
            size[i] = 0
            i = group[q]
            size[i] -= 1
            others[i] ^= q
            if size[i] == 1:
                queue[last] = i
                last += 1
    left = np.asarray(size)[np.maximum(group, 0)] * (np.asarray(group) >= 0) if nnz else np.zeros(0, np.int32)
    return order[:solved], left > 0


def substitute(number[::1] products, const int64_t[::1] source, const int64_t[::1] target, number[::1] values):
    """Compute nonzeros in the order of `elimination`; overwrites `products`."""
    cdef Py_ssize_t e
    with nogil:
        for e in range(source.shape[0]):
            values[e] = products[source[e]]
            products[target[e]] = products[target[e]] - values[e]


# ---------------------------------------------------------------------------------------------- a matrix in CSR form

ctypedef fused index:
    int32_t
    int64_t


cdef inline double scattered(uint64_t k) noexcept nogil:
    """The k-th number of the pseudorandom sequence SplitMix64, scaled to [0, 1)."""
    k = (k + 1) * <uint64_t>0x9e3779b97f4a7c15
    k = (k ^ (k >> 30)) * <uint64_t>0xbf58476d1ce4e5b9
    k = (k ^ (k >> 27)) * <uint64_t>0x94d049bb133111eb
    return <double>((k ^ (k >> 31)) >> 11) / 9007199254740992.0


def direction(const index[::1] indices, const double[::1] data, Py_ssize_t n):
    """Pseudorandom direction: random signs, magnitudes in [1/2, 1], divided by the largest magnitude of each column.

    Columns whose largest magnitude is 0, infinite or NaN are not scaled.

    References
    ----------
    Steele, Lea and Flood (2014), Fast splittable pseudorandom number generators. doi:10.1145/2660193.2660195
    """
    cdef Py_ssize_t p
    cdef double x, most
    found = np.zeros(n)
    cdef double[::1] numbers = found    # holds the largest magnitudes until the result replaces them
    with nogil:
        for p in range(data.shape[0]):
            x, most = fabs(data[p]), numbers[indices[p]]
            if x != x or x > most:      # NaN persists, since no comparison with it is true
                numbers[indices[p]] = x
        for p in range(n):
            x, most = scattered(p) - 0.5, numbers[p]
            x += copysign(0.5, x)
            numbers[p] = x / most if 0.0 < most < INFINITY else x
    return found


def differing(const index[::1] ptr, const index[::1] indices, const double[::1] data, const double[::1] v,
              const double[::1] exact, double rtol):
    """Number of rows in which the product with `v` differs from `exact`, the first such row, and the product there.

    The tolerance is `rtol` times max(sum of magnitudes, magnitude of `exact`); non-finite values are not compared.
    """
    cdef Py_ssize_t i, p, m = ptr.shape[0] - 1, count = 0, first = -1
    cdef double total, size, x, of_first = 0.0
    with nogil:
        for i in range(m):
            total, size = 0.0, 0.0
            for p in range(ptr[i], ptr[i + 1]):
                x = data[p] * v[indices[p]]
                total, size = total + x, size + fabs(x)
            if not isfinite(total) or not isfinite(exact[i]):
                continue
            if fabs(total - exact[i]) > rtol * fmax(size, fabs(exact[i])):
                count += 1
                if first < 0:
                    first, of_first = i, total
    return count, first, of_first
