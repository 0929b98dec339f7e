# Data of lowering, included by machine.pyx: layouts, allocations, locations of values, and steps.


cdef int kind_of_elements(cnp.dtype dtype) except -1:
    if dtype.type_num == cnp.NPY_DOUBLE and dtype.isnative:
        return DOUBLES
    return BOOLS if dtype.type_num == cnp.NPY_BOOL else OTHER


@cython.final
@cython.no_gc
cdef class Layout:
    """Element type, shape and strides of an array."""

    cdef cnp.dtype dtype
    cdef tuple shape, strides
    cdef int kind
    cdef Py_ssize_t size, itemsize
    cdef cnp.npy_intp dims[64]
    cdef cnp.npy_intp steps[64]
    cdef Py_ssize_t low             # bytes from the lowest address to the first element
    cdef Py_ssize_t span            # bytes from the lowest address to the end of the last element
    cdef bint is_c                  # contiguous in C order
    cdef int ndim

    def __init__(self, dtype, tuple shape, strides):
        cdef int d
        cdef Py_ssize_t step
        self.dtype = dtype = np.dtype(dtype)
        self.shape = shape
        self.ndim = len(shape)
        self.itemsize = dtype.itemsize
        self.kind = kind_of_elements(self.dtype)
        self.size = 1
        for d in range(self.ndim):
            self.dims[d] = shape[d]
            self.size *= self.dims[d]
        in_order = c_strides(shape, self.itemsize)
        self.strides = in_order if strides is None or self.size == 0 else tuple(strides)
        self.is_c = True
        self.span = self.itemsize if self.size else 0
        for d in range(self.ndim):
            self.steps[d] = step = self.strides[d]
            self.is_c &= self.dims[d] == 1 or step == in_order[d]
            if self.size:
                self.span += (self.dims[d] - 1) * abs(step)
                self.low -= (self.dims[d] - 1) * min(0, step)

    def __eq__(self, other):
        return (self.dtype, self.shape, self.strides) == (
            (<Layout>other).dtype, (<Layout>other).shape, (<Layout>other).strides)

    cdef tuple broadcast(self, tuple shape):
        cdef Py_ssize_t extra = len(self.shape) - len(shape)
        if self.shape == shape:
            return self.strides
        own, strides = self.shape[max(0, extra):], self.strides[max(0, extra):]
        return (0,) * max(0, -extra) + tuple([
            s if n == m else 0 for n, m, s in zip(own, shape[max(0, -extra):], strides)])


@cython.final
@cython.no_gc
cdef class Allocation:
    """An allocation that holds one or more arrays, live from step `born` to step `last`."""

    cdef int kind, number, which, born, last
    cdef Layout layout
    cdef Py_ssize_t place           # for WORK: offset in the workspace, in bytes
    cdef list arrays                # (index of array, offset of its first element from the lowest address)
    cdef int count                  # `arrays` in C: their count, indices and offsets
    cdef const int32_t *numbers
    cdef const int64_t *firsts


@cython.final
@cython.no_gc
cdef class Value:
    """Location of a value: a scalar's slot, or an array."""

    cdef bint is_scalar, is_truth, is_whole
    cdef bint is_returned           # an output that returns its allocation instead of a copy
    cdef int where                  # slot, or index of the array
    cdef Py_ssize_t first           # offset in the allocation, in bytes
    cdef Layout layout
    cdef Allocation alloc


@cython.final
cdef class PythonStep:
    """A step run by Python: a call, a guard on an array, or moves of elements that are neither doubles nor bools."""

    cdef int op
    cdef object compute
    cdef tuple args
    cdef dict kwargs
    cdef list operands
    cdef Value y
    cdef bint is_native             # whether it replaces a native call, whose result is in the workspace
    cdef bint takes_out             # whether the function writes its result to the workspace by out=
    cdef int guard
    cdef object expected


@cython.final
@cython.no_gc
cdef class Step:
    cdef int kind
    cdef tuple shape
    cdef const int32_t[::1] members     # IR instructions

    cdef list listed(self):
        cdef Py_ssize_t m
        return [self.members[m] for m in range(self.members.shape[0])]
