# Interface of memory.pyx: pooled blocks, buffers of traced arrays, and predicates on memory layouts.

cimport numpy as cnp
from cpython.object cimport PyObject
from libc.stdint cimport int32_t


cdef class Block:                       # memory from the pool, returned to it with the last reference
    cdef char *data
    cdef size_t size
    cdef object owner                   # array that owns the memory, or None: it belongs to the pool

cdef enum:
    MIN_POOLED_BYTES = 4096             # smaller arrays come from NumPy's own cache

cdef int empty_pool() except -1
cdef Block take(size_t size)            # a block of at least `size` bytes
# Arrays in C order, large ones from the pool: float64 by default, and int32 with all bytes set to `byte`.
cdef cnp.ndarray empty_array(int ndim, cnp.npy_intp *shape, int type_num=*, size_t itemsize=*)
cdef cnp.ndarray int32s(cnp.npy_intp n, int byte=*)


cdef enum:
    REVERSE, FORWARD, NESTED            # a tape of scalars and arrays; propagated tangents; a tape of operands

cdef class Level:                       # identifies the derivative that a value belongs to
    cdef PyObject *tape                 # REVERSE: the tape or its tail, not owned; NULL when it has ended
    cdef readonly str name              # as printed in messages
    cdef int kind
    cdef readonly bint live             # FORWARD, NESTED: has not ended
    cdef readonly bint silent           # inside a passive block
    cdef readonly bint recording        # operations at this level, or at one around it, are recorded for replay
    cdef readonly int depth             # number of enclosing derivatives
    cdef public int order               # of the derivative: 2 if the tape is swept for second derivatives, else 1
    cdef public bint is_gradient        # REVERSE: of one scalar, so that each call is pulled back once
    cdef readonly Py_ssize_t k          # FORWARD: number of directions
    cdef readonly object doubtful       # FORWARD: row of a function without derivative here (NaN); or None
    cdef object recorder                # NESTED: its tape, until it ends
    cdef public list refused            # errors of traced values, raised if f caught them: (class, text)
    cdef public object spelled          # where a traced value was converted to text, see `levels.spell`
    cdef readonly str remedy                     # advice in the error about a value used after its end, or None


cdef class Buffer:                      # memory of a traced array, with its adjoint as a shadow
    cdef char *low                      # lowest address
    cdef Py_ssize_t span                # size in bytes
    cdef cnp.ndarray owner              # keeps the memory alive if entries refer to it by address, else None
    cdef Block shadow                   # k directions of `span` bytes; None: the adjoint is 0
    cdef Level level                    # None: clean, so far a constant
    cdef int32_t id                     # index among the buffers that scalar entries use, or -1
    cdef int32_t born                   # 1 + index of the entry that produced it; 0: none did
    cdef bint written                   # something was stored into it
    cdef object escaped                 # where its ndarray was handed out, or None
    cdef object under                   # in a nested derivative: its buffer or scalar at the enclosing level
    cdef char *tangent                  # FORWARD: address of k directions of `span` bytes
    cdef object tangent_owner           # array, or operand of the enclosing level, that holds them
    cdef object jet                     # its tangents during a second-order sweep: a Jet of second.pyx
    cdef list windows                   # copies of its elements that follow its stores, see `note_windows`; or None
    cdef object __weakref__

cdef Buffer new_buffer(cnp.ndarray value, Level level)
cdef cnp.ndarray view_descriptor(cnp.ndarray array, bint always=*)    # shape, strides, address; no memory

cdef bint same_shape(cnp.ndarray x, cnp.ndarray y)
cdef cnp.ndarray view_at(char *data, object owner, cnp.ndarray like, Py_ssize_t k, Py_ssize_t span)
cdef bint owns_memory(cnp.ndarray x)            # no other array refers to it
cdef cnp.ndarray kept(cnp.ndarray x)            # a copy, from the pool if it is large
cdef cnp.ndarray same_layout(cnp.ndarray x)     # a copy with the same strides


cdef inline bint is_double(cnp.ndarray x):
    """Return whether `x` is a float64 array in native byte order, aligned."""
    return cnp.PyArray_TYPE(x) == cnp.NPY_DOUBLE and cnp.PyArray_ISBEHAVED_RO(x)


cdef inline bint is_vector(cnp.ndarray x):
    """Return whether `x` is a contiguous float64 array in C order."""
    return is_double(x) and cnp.PyArray_IS_C_CONTIGUOUS(x)
