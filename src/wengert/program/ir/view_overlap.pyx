# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Decides whether two views of an array share elements, from their offsets, shapes and strides."""

from libc.string cimport memcpy

from wengert.core.tape.memory cimport take


cdef class Boxes:
    """Caches the extents of a program's views."""

    def __cinit__(self, Listing code):
        self.code, self.n, self.steps = code, 0, 0

    cdef const Box *of(self, int32_t view) except NULL:
        cdef Block block
        cdef Box *box
        cdef Py_ssize_t i
        if view >= self.n:
            block = take(2 * len(self.code.views) * sizeof(Box))
            if self.n:
                memcpy(block.data, self.block.data, self.n * sizeof(Box))
            for i in range(self.n, 2 * len(self.code.views)):
                (<Box *>block.data)[i].axes = -1
            self.block, self.n = block, 2 * len(self.code.views)
        box = <Box *>self.block.data + view
        if box.axes < 0:
            measure(box, self.code.views[view])
        return box


cdef int measure(Box *box, tuple view) except -1:
    cdef Py_ssize_t n, stride
    cdef int k
    cdef tuple shape = view[1], strides = view[2]
    box.offset = box.low = box.high = view[0]
    box.is_empty, box.step = 0 in shape, 0
    box.axes = <int>min(len(shape), MAX_AXES + 1)
    for k in range(min(box.axes, MAX_AXES)):
        n, stride = shape[k], strides[k]
        box.shape[k], box.strides[k] = n, stride
        box.step = gcd(box.step, abs(stride))
        if stride < 0:
            box.low += (n - 1) * stride
        else:
            box.high += (n - 1) * stride
    return 0


cdef inline Py_ssize_t gcd(Py_ssize_t a, Py_ssize_t b) noexcept:
    """Return the greatest common divisor."""
    while b:
        a, b = b, a % b
    return a


def disjoint(tuple a, tuple b, Py_ssize_t itemsize):
    """Return whether two views of an array are disjoint; False if unknown."""
    cdef Box first, second
    measure(&first, a)
    measure(&second, b)
    return are_disjoint(&first, &second, itemsize)


cdef bint are_disjoint(const Box *a, const Box *b, Py_ssize_t itemsize) noexcept:
    cdef Py_ssize_t step, between
    if a.is_empty or b.is_empty:
        return True
    if a.axes > MAX_AXES or b.axes > MAX_AXES:
        return False
    if have_equal_strides(a, b) and boxes_disjoint(a, b):
        return True
    if a.high < b.low or b.high < a.low:
        return True
    if a.axes == 1 and b.axes == 1 and (passes_over(a, b, itemsize) or passes_over(b, a, itemsize)):
        return True
    step = gcd(a.step, b.step)      # both views lie on lattices of this step
    if step == 0:
        return False
    between = (b.offset - a.offset) % step
    between += step if between < 0 else 0
    return itemsize <= between <= step - itemsize


cdef inline bint passes_over(const Box *a, const Box *b, Py_ssize_t itemsize) noexcept:
    """Return whether no element of a line lies between the first and the last one of another, as a column of a row."""
    cdef Py_ssize_t stride = abs(a.strides[0]), before = b.low - itemsize - a.low, next
    if stride == 0:
        return False
    next = a.low if before < 0 else a.low + (before // stride + 1) * stride     # the first element not before b
    return next > a.high or next >= b.high + itemsize


cdef inline bint have_equal_strides(const Box *a, const Box *b) noexcept:
    cdef int k
    if a.axes != b.axes:
        return False
    for k in range(a.axes):
        if a.strides[k] != b.strides[k]:
            return False
    return True


cdef bint boxes_disjoint(const Box *a, const Box *b) noexcept:
    """Return whether two boxes of an array in C order, with its strides, are disjoint; False if unknown."""
    cdef Py_ssize_t i = a.offset, j = b.offset, stride, before = 0
    cdef int k
    cdef bint found = False
    for k in range(a.axes):
        stride = a.strides[k]
        if stride <= 0 or (k and before % stride):
            return False
        # a box must not cross the end of a row; the first axis has no such end
        if k and (i // stride + a.shape[k] > before // stride or j // stride + b.shape[k] > before // stride):
            return False
        found |= i // stride + a.shape[k] <= j // stride or j // stride + b.shape[k] <= i // stride
        i, j, before = i % stride, j % stride, stride
    return found and i == j
