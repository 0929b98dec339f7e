# The rows of ``kernels.h``, elementwise functions with their partials, as Python data and as tables by opcode.

cdef extern from "sweep.h" nogil:
    ctypedef struct wg_row:
        const char *name
        int opcode
        int operands
        int cheap
        int reads_a
        int reads_b
        const char *value
        const char *pa
        const char *pb

    const wg_row wg_rows[]
    const char *const wg_helpers[]

    void wg_partials(int op, double a, double b, double y, double *pa, double *pb)

cdef bint opcode_cheap[256]
cdef int opcode_reads[256][2]           # WG_A | WG_B | WG_Y, for the partials in a and b
memset(opcode_cheap, 0, sizeof(opcode_cheap))
memset(opcode_reads, 0, sizeof(opcode_reads))


def kernel_rows():
    """Name, opcode, arity, and what each partial reads, of every row of ``kernels.h``."""
    cdef const wg_row *row = wg_rows
    cdef list found = []
    while row.name != NULL:
        opcode_cheap[row.opcode] = row.cheap
        opcode_reads[row.opcode][0], opcode_reads[row.opcode][1] = row.reads_a, row.reads_b
        found.append((row.name.decode(), row.opcode, row.operands, row.reads_a, row.reads_b))
        row += 1
    return found


def kernel_formulas():
    """C expressions of the value and first partials of each row of ``kernels.h``, by opcode."""
    cdef const wg_row *row = wg_rows
    cdef dict found = {}
    while row.name != NULL:
        found[row.opcode] = tuple([text.decode() for text in (row.value, row.pa, row.pb)[:1 + row.operands]])
        row += 1
    return found


def kernel_helpers():
    """Texts of the C functions that these expressions call, from ``helpers.h``."""
    cdef Py_ssize_t i = 0
    cdef list found = []
    while wg_helpers[i] != NULL:
        found.append(wg_helpers[i].decode())
        i += 1
    return found


def kernel_is_cheap(int opcode):
    """Return whether a row's partials are cheap in a scalar loop, or vectorised by this platform's libm."""
    return opcode_cheap[opcode]


def kernel_partials(int opcode, double a, double b, double y):
    """Partials of one row of ``kernels.h`` at one point."""
    cdef double pa = 0.0, pb = 0.0
    wg_partials(opcode, a, b, y, &pa, &pb)
    return pa, pb


kernel_rows()
