# The interface of memory.pyx: blocks of the pool, buffers of traced arrays, and questions about layouts.

cimport numpy as cnp
from cpython.object cimport PyObject
from libc.stdint cimport int32_t


cdef class Block:                       # memory from the pool; goes back to it with its last reference
    cdef char *data
    cdef size_t size
    cdef object owner                   # an array whose memory this is, or None for the pool's

cdef enum:
    POOLED = 4096                       # bytes; smaller arrays come from NumPy's own cache

cdef int empty_pool() except -1
cdef Block take(size_t size)            # a block of at least `size` bytes
# arrays in C order, large ones from the pool: float64 unless told, and int32 all of whose bytes are one
cdef cnp.ndarray empty_array(int ndim, cnp.npy_intp *shape, int type_num=*, size_t itemsize=*)
cdef cnp.ndarray int32s(cnp.npy_intp n, int byte=*)


cdef enum:
    REVERSE, FORWARD, NESTED            # a tape of numbers; tangents carried along; a list of operands

cdef class Level:                       # which derivative a value belongs to
    cdef PyObject *tape                 # of a tape of numbers: it, or what records in its place; NULL when it has ended
    cdef readonly str name              # as messages print it
    cdef int kind
    cdef readonly bint live             # of the other kinds: has not ended
    cdef readonly bint silent           # inside a passive block
    cdef readonly bint recording        # its operations, or those around it, are recorded to be replayed
    cdef readonly int depth             # number of derivatives around this one
    cdef public int order               # of the derivative: 2 if its list is swept for second derivatives, else 1
    cdef readonly Py_ssize_t k          # of a forward level: directions
    cdef readonly object doubtful       # of a forward level: a row that had no tangents somewhere, and gave NaN
    cdef object recorder                # of a nested level: its list, until it ends
    cdef public list refused            # errors that only a derivative meets: (class, text); see `levels.remember`
    cdef public object spelled          # where a traced value became the text of a number, see `levels.spell`
    cdef str remedy                     # what to do about a value that outlived it, as the message says; None: as ever


cdef class Buffer:                      # memory of a traced array, and its adjoint as a shadow
    cdef char *low                      # lowest address, and the number of bytes from there on
    cdef Py_ssize_t span
    cdef cnp.ndarray owner              # keeps the memory alive where entries refer to it by address, else None
    cdef Block shadow                   # k directions of `span` bytes; None: the adjoint is 0
    cdef Level level                    # None: clean, a constant so far
    cdef int32_t id                     # number among the buffers with scalar entries, or -1
    cdef int32_t born                   # entry that made it, counted from 1; 0 where none did
    cdef bint written                   # something was stored into it
    cdef object escaped                 # where its ndarray was handed out, or None
    cdef object under                   # in a nested derivative: what it is around it, a buffer or a scalar
    cdef char *tangent                  # of a forward level: k directions of `span` bytes from here on
    cdef object tangent_owner           # array, or operand of the derivative around, in which they lie
    cdef object jet                     # its tangents during a second-order sweep: a Jet of second.pyx

cdef Buffer new_buffer(cnp.ndarray value, Level level)
cdef cnp.ndarray outline(cnp.ndarray array, bint always=*)    # shape, strides, address; no memory

cdef bint same_shape(cnp.ndarray x, cnp.ndarray y)
cdef cnp.ndarray view_at(char *data, object owner, cnp.ndarray like, Py_ssize_t k, Py_ssize_t span)
cdef bint owns_memory(cnp.ndarray x)            # no other array refers to it
cdef cnp.ndarray kept(cnp.ndarray x)            # a copy, from the pool
cdef cnp.ndarray same_layout(cnp.ndarray x)     # a copy with the same strides


cdef inline bint is_double(cnp.ndarray x):
    """float64 in native byte order, aligned."""
    return cnp.PyArray_TYPE(x) == cnp.NPY_DOUBLE and cnp.PyArray_ISBEHAVED_RO(x)


cdef inline bint is_vector(cnp.ndarray x):
    """Doubles that lie one after the other."""
    return is_double(x) and cnp.PyArray_IS_C_CONTIGUOUS(x)
