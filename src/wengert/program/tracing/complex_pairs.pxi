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


def _negative(Listing code, tuple x):
    return real(code, WG_NEGATIVE, x[0]), real(code, WG_NEGATIVE, x[1])


def _conjugate(Listing code, tuple x):
    return x[0], real(code, WG_NEGATIVE, x[1])


def _sum(Listing code, tuple x, tuple y):
    return real(code, WG_ADD, x[0], y[0]), real(code, WG_ADD, x[1], y[1])


def _difference(Listing code, tuple x, tuple y):
    return real(code, WG_SUBTRACT, x[0], y[0]), real(code, WG_SUBTRACT, x[1], y[1])


def _product(Listing code, tuple x, tuple y):
    return (
        real(code, WG_SUBTRACT, real(code, WG_MULTIPLY, x[0], y[0]), real(code, WG_MULTIPLY, x[1], y[1])),
        real(code, WG_ADD, real(code, WG_MULTIPLY, x[0], y[1]), real(code, WG_MULTIPLY, x[1], y[0])),
    )


def _quotient(Listing code, tuple x, tuple y):
    """Divide, scaled by the divisor's larger part to avoid overflow (Smith 1962); division by 0 is as for a real 0."""
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


def _square(Listing code, tuple x):
    return _product(code, x, x)


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
    """Apply exp(re) as two factors exp(re / 2): exp(re) may overflow where a part is finite or 0."""
    cdef int32_t root = real(code, EXP, real(code, WG_MULTIPLY, code.constant(0.5), x[0]))
    return (real(code, WG_MULTIPLY, real(code, WG_MULTIPLY, root, real(code, COS, x[1])), root),
            real(code, WG_MULTIPLY, real(code, WG_MULTIPLY, root, real(code, SIN, x[1])), root))


def _absolute(Listing code, tuple x):
    return real(code, HYPOT, x[0], x[1])


cdef int32_t choice(Listing code, int32_t flag, int32_t a, int32_t b) except -1:
    return emit(code, SELECT, flag, a, b, SCALAR)


#: functions of complex scalars, computed by parts; `np.absolute` returns a real scalar
cdef dict PARTS = {
    np.positive: _same, np.negative: _negative, np.conjugate: _conjugate, np.add: _sum, np.subtract: _difference,
    np.multiply: _product, np.true_divide: _quotient, np.square: _square, np.power: _power, np.exp: _exponential,
    np.absolute: _absolute,
}
