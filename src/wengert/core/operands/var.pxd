# The interface of var.pyx: the operand classes, and ufuncs recorded on them.

cimport numpy as cnp
from libc.stdint cimport int32_t, uint8_t

from wengert.core.tape.kernel cimport Kernel
from wengert.core.tape.memory cimport Buffer, Level
from wengert.core.tape.tape cimport Node, Tape


cdef class ScalarVar:           # stands for a numpy.float64
    cdef Tape tape
    cdef int32_t slot
    cdef double v


cdef class FloatVar:            # stands for a Python float
    cdef object x               # the scalar as a numpy.float64: ScalarVar, ScalarDual, or a 0-d ArrayVar


cdef class ScalarDual:          # stands for a numpy.float64 with tangents
    cdef Level level
    cdef double v
    cdef double *t              # level.k tangents: in `few`, or allocated
    cdef double few[8]


cdef class ArrayVar:            # stands for an ndarray
    cdef Buffer buffer
    cdef cnp.ndarray v          # a view of the buffer's memory
    cdef bint scalar            # 0-d; stands for a NumPy scalar of a dtype other than float64, or of a nested level


cdef struct Sample:             # a comparison in a loop that may find a root: see searches.pxi
    double difference
    double slope                # largest derivative of the difference, if it is known; else NaN
    int32_t left, right         # slots of a tape, or -1


cdef class Search:              # comparisons at one instruction since the two sides last moved apart
    cdef object code
    cdef int last
    cdef bint is_users                  # is it code of the user?
    cdef Py_ssize_t n
    cdef double reference               # largest difference
    cdef Sample first
    cdef Sample samples[12]             # ring
    cdef Sample tail[12]                # the last window that contracted linearly, oldest sample first
    cdef bint contracts                 # whether `tail` is set
    cdef int streak                     # number of successive windows that contract
    cdef bint is_final                  # is the contraction up to `tail` large enough to decide?
    cdef double fast                    # the difference at which convergence became superlinear, or 0
    cdef list integers                  # integer local variables at the first comparisons
    cdef bint over_table                # is an integer index bisected?
    cdef object place                   # of a bracket: the `Place` of its instruction
    cdef object bracket                 # `brackets.Bracket` of the local variables, or None
    cdef bint is_traced                 # is an end of the bracket traced?


cdef enum:
    DIRECTIONS = 10             # samples of a search whose slopes decide whether it lost the derivative


cdef object unary(Kernel u, object operand)
cdef object binary(Kernel u, object left, object right)
cpdef bint scalar_list(items)
cpdef Level level_of(x)
cpdef Level inner(Level one, Level other)
cdef str mixed_message(Level one, Level other)
cpdef bint is_var(x)
cpdef Level innermost(x)
cpdef object lower(x, Level level)
cdef object array_of_clean(ArrayVar x)
cpdef object value_of(x)
cdef object unary_value(Kernel u, object x, double y)
cdef object scalar_ufunc(Kernel u, object left, object right, const double *value)
cpdef object as_numpy(x)
cpdef object float_of(x)
cpdef bint holds_float(x)
cpdef int note_complex(Level level) except -1
cpdef object clean(array)
cpdef bint is_traced(x)
cpdef object observed(x)
cpdef bint holds_var(x)
cpdef bint holds_traced(x)
cpdef object plain(x)
cpdef bint shares_memory(ArrayVar x, y)
cpdef object grounded(x)
cpdef bint is_passive(x)
cpdef Level recording_level(x)
cpdef bint may_record() noexcept
cpdef object tangents_of(x)
cpdef object with_tangents(Level level, y, t)
cdef ArrayVar wrap(Level level, object y)
cdef Buffer same_memory(Buffer buffer, Level level)
cdef cnp.ndarray flat(Buffer buffer, cnp.ndarray like)
cdef int store(Buffer buffer, cnp.ndarray view, object key, object value) except -1
cdef object last_written(cnp.ndarray view, object key)
cdef ScalarDual new_dual(Level level, double v)
cdef ArrayVar dual_array(Level level, cnp.ndarray y, cnp.ndarray t)
cpdef int watch_comparison(object left, object right) except -1
cpdef bint has_searches(Level level) except -1
cdef list contracted(Level level)
cdef int samples_of(Search search, Sample **samples) noexcept
cdef bint check_search(Level level, Search search) except -1
cdef bint is_known(Search search) except -1
cpdef int check_forward(Level level) except -1
cdef bint has_sum_entry(ArrayVar x) except -1
cdef object result(Tape tape, Node node, object y)
cdef ScalarVar append_scalar_slowly(Tape tape, int op, int32_t a, int32_t b, double y)


cdef inline Level active_level(Level level):
    """Return the level that records operations on values of `level`: itself, or the level of its tail."""
    return level if level is None or level.tape == NULL else (<Tape>level.tape).level


cdef inline ScalarVar scalar(Tape tape, int32_t slot, double v):
    cdef ScalarVar x = ScalarVar.__new__(ScalarVar)
    x.tape = tape
    x.slot = slot
    x.v = v
    return x


cdef inline ScalarVar append_scalar(Tape tape, int op, int32_t a, int32_t b, double y):
    """Append a scalar entry and return its operand."""
    cdef Py_ssize_t i = tape.n
    if i == tape.capacity:
        return append_scalar_slowly(tape, op, a, b, y)
    tape.entries.op[i] = <uint8_t>op
    tape.entries.a[i] = a
    tape.entries.b[i] = b
    tape.entries.v[i] = y
    tape.n = i + 1
    return scalar(tape, <int32_t>i, y)


cdef inline ArrayVar array_var(Buffer buffer, cnp.ndarray v):
    cdef ArrayVar x = ArrayVar.__new__(ArrayVar)
    x.buffer = buffer
    x.v = v
    return x
