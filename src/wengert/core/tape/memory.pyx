# Bounds checks are off, since users supply no indices here; C division is on, since they supply no divisors:
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Array memory: pooled blocks, buffers with their shadows, and predicates on memory layouts.

Large arrays come from a pool of freed blocks, because faulting in fresh pages costs more than arithmetic on them.
A block returns to the pool with its last reference, whoever holds it, so no code frees one explicitly.
A `Buffer` is the memory of a traced array; its adjoint is stored in a *shadow* of the same layout.
"""

cimport cython
cimport numpy as cnp
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF, Py_REFCNT
from libc.string cimport memcpy, memset

from wengert.core import levels

cnp.import_array()

cdef extern from "numpy/arrayobject.h":
    object PyArray_New(PyTypeObject *subtype, int nd, const cnp.npy_intp *dims, int type_num,
                       const cnp.npy_intp *strides, void *data, int itemsize, int flags, PyObject *obj)
    int PyArray_SetBaseObject(cnp.ndarray array, object base) except -1

cdef enum:
    CLASSES = 512               # size classes, eight per power of two
    SEARCHED = 8                # classes searched for a free block, which is thus at most twice as large as needed

cdef size_t POOL_LIMIT = 64 << 20       # bytes
cdef size_t pool_size = 0
cdef char *pool[CLASSES]        # free blocks of each class, linked through their first bytes
memset(pool, 0, sizeof(pool))


cdef inline int size_class(size_t size, size_t *rounded) noexcept:
    cdef size_t step = MIN_POOLED_BYTES // 8
    cdef int c = 0
    while size > 16 * step:
        step *= 2
        c += 8
    rounded[0] = (size + step - 1) // step * step
    return c + <int>(rounded[0] // step)


cdef inline size_t size_of_class(int c) noexcept:
    cdef int doubled = max(0, (c - 9) // 8)
    return (<size_t>(c - 8 * doubled) << doubled) * (MIN_POOLED_BYTES // 8)


@cython.final
@cython.no_gc
@cython.freelist(64)
cdef class Block:
    """Memory that returns to the pool when no array or shadow uses it any more."""

    def __dealloc__(self):
        global pool_size
        cdef size_t rounded
        cdef int c
        if self.data == NULL or self.owner is not None:
            return
        c = size_class(self.size, &rounded)
        if c >= CLASSES or pool_size + rounded > POOL_LIMIT:
            PyMem_RawFree(self.data)
            return
        (<char **>self.data)[0] = pool[c]
        pool[c] = self.data
        pool_size += rounded


cdef Block take(size_t size):
    global pool_size
    cdef Block block = Block.__new__(Block)
    cdef size_t rounded
    cdef int c = size_class(size if size else 1, &rounded), larger
    for larger in range(c, min(c + SEARCHED, CLASSES)):
        if pool[larger] != NULL:
            block.data = pool[larger]
            block.size = size_of_class(larger)
            pool[larger] = (<char **>block.data)[0]
            pool_size -= block.size
            return block
    block.size = rounded
    block.data = <char *>PyMem_RawMalloc(rounded)
    if block.data == NULL:
        raise MemoryError(f"no memory for an array of {size} bytes")
    return block


cdef cnp.ndarray empty_array(
        int ndim, cnp.npy_intp *shape, int type_num=cnp.NPY_DOUBLE, size_t itemsize=sizeof(double)):
    cdef Py_ssize_t size = itemsize
    cdef int d
    cdef Block block
    cdef cnp.ndarray array
    for d in range(ndim):
        size *= shape[d]
    if size < MIN_POOLED_BYTES:
        return <cnp.ndarray>cnp.PyArray_EMPTY(ndim, shape, type_num, 0)
    block = take(size)
    array = <cnp.ndarray>cnp.PyArray_SimpleNewFromData(ndim, shape, type_num, block.data)
    Py_INCREF(block)
    PyArray_SetBaseObject(array, block)     # steals the reference
    return array


cdef cnp.ndarray int32s(cnp.npy_intp n, int byte=0):
    cdef cnp.ndarray array = empty_array(1, &n, cnp.NPY_INT32, sizeof(int32_t))
    memset(cnp.PyArray_DATA(array), byte, n * sizeof(int32_t))
    return array


cdef int empty_pool() except -1:
    """Free all blocks in the pool."""
    global pool_size
    cdef char *data
    cdef int c
    for c in range(CLASSES):
        while pool[c] != NULL:
            data = pool[c]
            pool[c] = (<char **>data)[0]
            PyMem_RawFree(data)
    pool_size = 0
    return 0


@cython.final
@cython.no_gc
cdef class Level:
    """Identifies the derivative that a value belongs to; its name appears in errors, also after the derivative ended.

    The outermost derivative works on floats: `REVERSE` has a tape, `FORWARD` propagates tangents.
    Derivatives nested in it work on operands of the enclosing level: `FORWARD` again, or `NESTED`, a tape of operands.
    """

    @property
    def level(self):
        """The level itself, so that tapes and levels on the stack of running derivatives share an interface."""
        return self

    @property
    def is_forward(self):
        return self.kind == FORWARD

    def __init__(self, str name, int depth, Py_ssize_t k=0, recorder=None):
        """Create a forward level with k tangents, or a nested level if `recorder` is given; a tape creates its own."""
        self.kind = FORWARD if recorder is None else NESTED
        self.name = name
        self.depth = depth
        self.order = 1
        self.k = k
        self.recorder = recorder
        self.recording = depth > 0 and levels.is_recording()
        self.live = True

    def pause(self):
        """Begin a block whose results carry no tangents; return the argument for `resume`."""
        was = self.silent
        self.silent = True
        return was

    def resume(self, was):
        self.silent = was

    def close(self):
        """End the derivative."""
        self.live = False
        self.recorder = None


@cython.final
@cython.no_gc
@cython.freelist(256)
cdef class Buffer:
    """Memory of a traced array; its adjoint is a shadow of the same layout."""


cdef Buffer new_buffer(cnp.ndarray value, Level level):
    cdef Buffer buffer = Buffer.__new__(Buffer)
    cdef int d
    cdef Py_ssize_t extent
    buffer.level = level
    buffer.id = -1
    buffer.low = <char *>cnp.PyArray_DATA(value)
    if cnp.PyArray_IS_C_CONTIGUOUS(value):
        buffer.span = cnp.PyArray_NBYTES(value)
        return buffer
    buffer.span = cnp.PyArray_ITEMSIZE(value)
    for d in range(cnp.PyArray_NDIM(value)):
        extent = (cnp.PyArray_DIM(value, d) - 1) * cnp.PyArray_STRIDE(value, d)
        if extent < 0:
            buffer.low += extent
            extent = -extent
        buffer.span += extent
    if cnp.PyArray_SIZE(value) == 0:
        buffer.span = 0
    return buffer


cdef cnp.ndarray view_descriptor(cnp.ndarray array, bint always=False):
    """Return a view descriptor: shape, strides and address of an array whose elements are not needed any more.

    The memory may be freed, so a descriptor is never passed to Python code.
    A small array is returned as it is, which is faster, unless `always`.
    """
    base = cnp.get_array_base(array)
    if not always and cnp.PyArray_NBYTES(array) < MIN_POOLED_BYTES and (
            not isinstance(base, cnp.ndarray) or cnp.PyArray_NBYTES(<cnp.ndarray>base) < MIN_POOLED_BYTES):
        return array
    return <cnp.ndarray>PyArray_New(
        <PyTypeObject *>cnp.ndarray, cnp.PyArray_NDIM(array), cnp.PyArray_DIMS(array), cnp.PyArray_TYPE(array),
        cnp.PyArray_STRIDES(array), cnp.PyArray_DATA(array), 0, 0, NULL)


# ---------------------------------------------------------------------------------------------- layouts

cdef bint same_shape(cnp.ndarray x, cnp.ndarray y):
    return cnp.PyArray_SAMESHAPE(x, y)


cdef cnp.ndarray view_at(char *data, object owner, cnp.ndarray like, Py_ssize_t k, Py_ssize_t span):
    """Array at `data` with the layout of `like`; k > 0 adds a leading axis of length k and stride `span`."""
    cdef cnp.npy_intp shape[65]
    cdef cnp.npy_intp strides[65]
    cdef int d, lead = 1 if k > 0 else 0, ndim = cnp.PyArray_NDIM(like)
    cdef cnp.ndarray array
    shape[0] = k
    strides[0] = span
    for d in range(ndim):
        shape[d + lead] = cnp.PyArray_DIM(like, d)
        strides[d + lead] = cnp.PyArray_STRIDE(like, d)
    array = <cnp.ndarray>PyArray_New(<PyTypeObject *>cnp.ndarray, ndim + lead, shape, cnp.PyArray_TYPE(like), strides,
                                     data, 0, cnp.NPY_ARRAY_WRITEABLE, NULL)
    Py_INCREF(owner)
    PyArray_SetBaseObject(array, owner)         # steals the reference
    return array


cdef cnp.ndarray same_layout(cnp.ndarray x):
    """Copy with the same strides, also negative ones: NumPy's loops may differ in the last bit for other strides."""
    cdef cnp.ndarray array
    cdef Buffer memory
    cdef Block block
    if is_vector(x):
        return kept(x)
    memory = new_buffer(x, None)
    if memory.span > 16 * <Py_ssize_t>cnp.PyArray_NBYTES(x) or not has_distinct_elements(x):
        return kept(x)
    block = take(max(1, memory.span))
    array = view_at(block.data + (<char *>cnp.PyArray_DATA(x) - memory.low), block, x, 0, 0)
    array[...] = x
    return array


cdef bint has_distinct_elements(cnp.ndarray x):
    """Return whether the strides, in order of size, guarantee that all elements occupy distinct memory."""
    cdef Py_ssize_t reach = cnp.PyArray_ITEMSIZE(x)
    for stride, size in sorted([(abs(step), n) for step, n in zip((<object>x).strides, (<object>x).shape)]):
        if size > 1:
            if stride < reach:
                return False
            reach = stride * size
    return True


cdef bint owns_memory(cnp.ndarray x):
    """Return whether no other array uses this memory, whether it belongs to NumPy or to the pool."""
    if cnp.PyArray_CHKFLAGS(x, cnp.NPY_ARRAY_OWNDATA):
        return True
    base = cnp.get_array_base(x)
    return type(base) is Block and Py_REFCNT(base) == 2       # the array's reference and the local variable


cdef cnp.ndarray kept(cnp.ndarray x):
    """Copy with the same memory order."""
    cdef cnp.ndarray copy
    if is_vector(x):
        copy = empty_array(cnp.PyArray_NDIM(x), cnp.PyArray_DIMS(x))
        memcpy(cnp.PyArray_DATA(copy), cnp.PyArray_DATA(x), cnp.PyArray_NBYTES(x))
        return copy
    return <cnp.ndarray>x.copy(order="K")


def empty(shape):
    """Return an uninitialised float64 array in C order, a large one from the pool."""
    cdef cnp.npy_intp dims[64]
    cdef int d, ndim = len(shape)
    for d in range(ndim):
        dims[d] = shape[d]
    return empty_array(ndim, dims)
