# Regular index patterns: positions in an array that are affine in a few axes; included by vectorise.pyx.
#
# Axes are found from the innermost outwards: a run of positions at a constant step, repeated at constant distances.

ctypedef fused place:
    int32_t
    int64_t


def lattice(where):
    """Return the lengths of axes along which positions are affine; None if there would be more than `MAX_AXES`."""
    where = np.ascontiguousarray(where)
    return axes_of[int32_t](where) if where.dtype == np.int32 else axes_of[int64_t](where.astype(np.int64, copy=False))


cdef axes_of(const place[::1] at):
    cdef Py_ssize_t n = at.shape[0], apart = 1, run, line, i
    cdef int64_t step
    cdef list axes = []
    while n > 1:  # innermost axis first; the starts of its rows, at distance `apart`, span the remaining axes
        step, run = at[apart] - at[0], 2
        while run < n and at[run * apart] - at[(run - 1) * apart] == step:
            run += 1
        if n % run or len(axes) == MAX_AXES:
            return None
        for line in range(run, n, run):
            for i in range(1, run):
                if at[(line + i) * apart] - at[line * apart] != i * step:
                    return None
        axes.insert(0, run)
        n //= run
        apart *= run
    return tuple(axes) or (1,)


def strides_in(where, axes):
    """Return the strides of positions along the axes; None if the positions are not affine in them."""
    where = np.ravel(where)
    return steps_of[int32_t](where, axes) if where.dtype == np.int32 else steps_of[int64_t](
        where.astype(np.int64, copy=False), axes)


cdef steps_of(const place[::1] at, axes):
    cdef Py_ssize_t n, inner = at.shape[0], block, i, j
    cdef int64_t step
    cdef list steps = []
    for n in axes:  # blocks along an axis must be shifts of the first one
        block = inner // n
        step = at[block] - at[0] if n > 1 else 0
        for i in range(1, n):
            for j in range(block):
                if at[i * block + j] - at[j] != i * step:
                    return None
        steps.append(step)
        inner = block
    return tuple(steps)


cdef bint is_whole(where, tuple axes) except -1:
    """Return whether these are all positions of an array, in order."""
    cdef const int64_t[::1] at = np.ascontiguousarray(where, np.int64)
    cdef Py_ssize_t n = 1, i
    for m in axes:
        n *= m
    if at.shape[0] != n:
        return False
    for i in range(n):
        if at[i] != i:
            return False
    return True


cdef bint is_permutation(where, tuple axes) except -1:
    """Return whether these are all positions of an array, in any order."""
    return len(where) == np.prod(axes) and (np.bincount(where, minlength=len(where)) == 1).all()


cdef span_of(shape, strides, itemsize):
    """Return the number of elements that an array spans in memory, gaps included."""
    if strides is None:
        return int(np.prod(shape, dtype=np.int64))
    return 1 + sum([(n - 1) * abs(step) for n, step in zip(shape, strides)]) // itemsize
