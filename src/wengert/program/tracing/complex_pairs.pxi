# Lowers complex scalars to pairs of real ones; included by ssa.pyx.
#
# Complex loops thus become real instructions, which run without Python.  Rounding follows NumPy: real operands get an
# imaginary part of 0.0, since the sign of a zero selects the side of a branch cut.

cdef int HYPOT = (<Kernel>kernels[np.hypot]).opcode
cdef int EXP = (<Kernel>kernels[np.exp]).opcode
cdef int SIN = (<Kernel>kernels[np.sin]).opcode
cdef int COS = (<Kernel>kernels[np.cos]).opcode
cdef int MAX_FACTORS = 8           # largest integer exponent expanded into multiplications


cdef int32_t real(Listing code, int op, int32_t a, int32_t b=-1) except -1:
    return emit(code, op, a, b, -1, SCALAR)


def _same(Listing code, tuple x):
    return x


def _product(Listing code, tuple x, tuple y):
    return (
        real(code, WG_SUBTRACT, real(code, WG_MULTIPLY, x[0], y[0]), real(code, WG_MULTIPLY, x[1], y[1])),
        real(code, WG_ADD, real(code, WG_MULTIPLY, x[0], y[1]), real(code, WG_MULTIPLY, x[1], y[0])),
    )


def _quotient(Listing code, tuple x, tuple y):
    """Divide, scaled by the divisor's larger part to avoid overflow (Smith 1962); a zero divisor acts like a real 0."""
    cdef int32_t a = x[0], b = x[1], c = y[0], d = y[1]
    cdef int32_t first = emit(code, GREATER_EQUAL, real(code, WG_ABSOLUTE, c), real(code, WG_ABSOLUTE, d), -1, FLAG)
    cdef int32_t large = choice(code, first, c, d), small = choice(code, first, d, c)
    cdef int32_t zero = code.constant(0.0), is_zero = emit(code, EQUAL, large, zero, -1, FLAG)
    cdef int32_t ratio = choice(code, is_zero, zero, real(code, WG_DIVIDE, small, large))
    cdef int32_t size = real(code, WG_ADD, choice(code, is_zero, zero, large), real(code, WG_MULTIPLY, small, ratio))
    cdef int32_t scale = real(code, WG_DIVIDE, code.constant(1.0), size)
    # x times the conjugate of y, divided by y's larger part
    cdef int32_t e = choice(code, first, a, b), f = choice(code, first, b, a)
    cdef int32_t cross = real(code, WG_MULTIPLY, e, ratio)
    return (
        real(code, WG_MULTIPLY, real(code, WG_ADD, e, real(code, WG_MULTIPLY, f, ratio)), scale),
        real(code, WG_MULTIPLY, choice(code, first, real(code, WG_SUBTRACT, f, cross),
                                       real(code, WG_SUBTRACT, cross, f)), scale),
    )


def _power(Listing code, tuple x, tuple y):
    """Expand a small positive integer exponent into products; None for other exponents."""
    if code.ops[<int32_t>y[0]] != CONST or code.ops[<int32_t>y[1]] != CONST:
        return None
    n, rest = code.constants[code.as_[<int32_t>y[0]]], code.constants[code.as_[<int32_t>y[1]]]
    if rest or not 1 <= n <= MAX_FACTORS or n % 1:
        return None
    found = None
    while n:
        if n % 2:
            found = x if found is None else _product(code, found, x)
            n -= 1
        x = _product(code, x, x) if n else x
        n /= 2
    return found


def _exponential(Listing code, tuple x):
    """Apply exp(re) as two factors exp(re / 2): exp(re) may overflow if a part of the result does not."""
    cdef int32_t root = real(code, EXP, real(code, WG_MULTIPLY, code.constant(0.5), x[0]))
    return (real(code, WG_MULTIPLY, real(code, WG_MULTIPLY, root, real(code, COS, x[1])), root),
            real(code, WG_MULTIPLY, real(code, WG_MULTIPLY, root, real(code, SIN, x[1])), root))


def _absolute(Listing code, tuple x):
    return real(code, HYPOT, x[0], x[1])


cdef int32_t choice(Listing code, int32_t flag, int32_t a, int32_t b) except -1:
    return emit(code, SELECT, flag, a, b, SCALAR)


#: functions of complex scalars by the registry column ``complex_parts``; "absolute" returns a real scalar
cdef dict PARTS = {
    "same": _same,
    "negative": lambda code, x: (real(code, WG_NEGATIVE, x[0]), real(code, WG_NEGATIVE, x[1])),
    "conjugate": lambda code, x: (x[0], real(code, WG_NEGATIVE, x[1])),
    "sum": lambda code, x, y: (real(code, WG_ADD, x[0], y[0]), real(code, WG_ADD, x[1], y[1])),
    "difference": lambda code, x, y: (real(code, WG_SUBTRACT, x[0], y[0]), real(code, WG_SUBTRACT, x[1], y[1])),
    "square": lambda code, x: _product(code, x, x),
    "product": _product, "quotient": _quotient, "power": _power, "exponential": _exponential, "absolute": _absolute,
}
COMPLEX_WORDS = frozenset(PARTS)


cdef bint is_complex_number(cnp.ndarray x) except -1:
    return x is not None and cnp.PyArray_NDIM(x) == 0 and cnp.PyArray_TYPE(x) == cnp.NPY_COMPLEX128


cdef bint lower_in_parts(Definitions ssa, Node node, Py_ssize_t i) except -1:
    """Lower a complex scalar operation to real instructions; False if it must remain a call."""
    cdef list operands = []
    cdef dict traced
    if ssa.exact or node.kwargs or (node.out is not None and not is_complex_number(node.y)):
        return False
    if node.kind == NodeKind.GATHER:
        rule, args = _same if type(node.key) is tuple and not node.key else None, (None,)
    else:
        rule, args = PARTS.get(node.row.complex_parts), node.args
    if rule is None or (node.out is None) != (rule is _absolute):
        return False
    traced = {source[0]: source for source in node.sources}
    for position, x in enumerate(args):
        operands.append(parts_of(ssa, traced[position]) if position in traced else constant_parts(ssa, x))
    if None in operands:
        return False
    found = rule(ssa.code, *operands)
    if found is None:
        return False
    if node.out is None:
        ssa.of_slot[i] = ssa.passive(found)
    else:
        define_parts(ssa, node.out, [ssa.passive(v) for v in found])
    return True


cdef tuple parts_of(Definitions ssa, tuple source):
    """Return the real and imaginary part of a scalar; None unless it has double precision."""
    cdef Memory memory
    cdef Py_ssize_t offset
    cdef Buffer buffer = source[2]
    cdef cnp.ndarray view = source[3]
    if buffer is None:
        return ssa.of_slot[<int32_t>source[4]], ssa.code.constant(0.0)
    if not is_complex_number(view):
        return None
    memory = ssa.memory(buffer, view)
    ssa.view_as(memory, DOUBLE)
    ssa.known(memory, buffer)
    offset = (<char *>cnp.PyArray_DATA(view) - buffer.low) // <Py_ssize_t>sizeof(double)
    return ssa.element(memory, offset), ssa.element(memory, offset + 1)


cdef tuple constant_parts(Definitions ssa, x):
    if isinstance(x, (np.ndarray, np.generic)):
        if x.ndim or x.dtype.char not in "dDbBhHiIlLqQ?":
            return None
        x = x.item()
    return ssa.code.constant(x.real), ssa.code.constant(x.imag)


cdef int define_parts(Definitions ssa, Buffer buffer, list parts) except -1:
    """Set the contents of a buffer to a complex scalar given by its parts."""
    cdef Memory memory = ssa.remember(buffer, -1, DOUBLE, (2,), None, 0)
    memory.know(2)
    memory.elements[0], memory.elements[1] = parts
    memory.changed = [0, 1]
    return 0


cdef bint write_parts(Definitions ssa, Node node, Memory memory) except -1:
    """Record a write to one complex element by its parts; False if the parts of the value are unknown."""
    cdef Buffer buffer = node.out
    cdef Py_ssize_t offset = (<char *>cnp.PyArray_DATA(node.y) - buffer.low) // <Py_ssize_t>sizeof(double)
    found = parts_of(ssa, node.sources[0]) if node.sources else constant_parts(ssa, node.saved)
    if found is None:
        return False
    ssa.view_as(memory, DOUBLE)
    ssa.known(memory, buffer)
    ssa.write_element(memory, offset, ssa.passive(found[0]))
    ssa.write_element(memory, offset + 1, ssa.passive(found[1]))
    return True
