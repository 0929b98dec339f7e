# Opcode tables of lowering, included by machine.pyx: how the VM executes each IR opcode.
#
# Built when the module is imported, from the opcode table of `program.ir` and the VM's opcodes in vm_loops.h.

cdef enum:
    DOUBLES, BOOLS, OTHER                   # classes of element types
    GIVEN, CONSTANT, WORK, FRESH, RESULT    # allocations: input, constant, workspace, new output, result of a call
    NUMBERS, VECTOR, PACKING, MOVING, NATIVE, PYTHON        # kinds of steps in the schedule
    CUBE = 1100, FOURTH, ROOT               # opcodes of powers with constant exponent
    END = 1 << 30                           # position of the last use of an output
    MIN_BROADCAST = 8       # reading an array that is repeated at least this often is considered free
    MAX_SUNK = 8            # maximum length of a chain of instructions that is sunk
    MANY_ARRAYS = -4
    NO_ARRAY, SMALL_ARRAYS      # -3, -2: results of `array_read` that are not values
    MIN_IN_WORKSPACE = 1 << 16              # calls write results of at least this many bytes to the workspace

cdef dict CONSTANT_POWERS = {CUBE: "CUBE", FOURTH: "FOURTH", ROOT: "ROOT"}


cdef dict named_ops():
    """Map opcodes of elementwise instructions outside ``kernels.h`` and of constant powers to VM opcodes."""
    cdef const wg_named_op *item = wg_named_ops
    cdef dict found = {}
    opcodes = {name: op for op, name in CONSTANT_POWERS.items()}
    own = [(op, row) for op, row in ROWS.items() if op >= Op.INPUT and row.lowering == "elementwise"]
    opcodes.update({row.name.upper(): op for op, row in own})
    while item.name != NULL:
        found[opcodes.pop(item.name.decode())] = item.op
        item += 1
    if opcodes:
        raise TypeError(f"the VM has no opcode for {', '.join(opcodes)}: see vm_loops.h")
    return found


cdef dict NAMED_OPS = named_ops()

#: opcodes that give the same bits for a single element as within a chunk
cdef set PLAIN = {op for op in range(256) if wg_is_correctly_rounded(op)} | (set(NAMED_OPS) - set(CONSTANT_POWERS)) | {
    <int>Op.PARTIAL + 2 * op + side for op in (WG_DIVIDE, WG_LOG, WG_SQUARE, WG_RECIPROCAL, WG_SQRT)
    for side in range(2 if op == WG_DIVIDE else 1)}

cdef int reads[2048]                # by opcode: which of a, b, c are values, as bits 1, 2, 4
cdef int machine_op[2048]           # by opcode: VM opcode of an elementwise instruction, else -1
cdef dict row_kernels = {}          # by opcode: the Kernel of a row, created on first use


cdef int fill_tables() except -1:
    cdef int op
    for op in range(2048):
        reads[op] = 0
        machine_op[op] = wg_machine_op(op)
    for op, row in ROWS.items():
        reads[op] = row.mask
    for op, found in NAMED_OPS.items():
        machine_op[op] = found
    for op in CONSTANT_POWERS:
        reads[op] = 1
    return 0


fill_tables()


def opcodes_of_machine():
    """Return, by VM opcode, the IR opcode or name of its operation, and the number of operands."""
    cdef int op, code, k
    names = {op: name.lower() for op, name in CONSTANT_POWERS.items()}
    found = {
        WG_M_LOOP: ("loop", 2), WG_M_LOAD: ("load", 0), WG_M_LOAD_BOOL: ("load_bool", 0), WG_M_GUARD: ("guard", 2),
        WG_M_GUARD_INT: ("guard_int", 2), WG_M_END: ("end", 0), WG_M_EXACT: ("exact", 3), WG_M_GET: ("get", 1),
        WG_M_PUT: ("put", 1), WG_M_GET_BOOL: ("get_bool", 1), WG_M_PUT_BOOL: ("put_bool", 1), WG_M_SUM: ("sum", 1),
        WG_M_GATHER: ("gather", 2), WG_M_SUM_ROWS: ("sum_rows", 1), WG_M_ONE: ("one", 0),
        WG_M_QUOTIENT: ("quotient", 2),
        WG_M_FOLD: ("fold", 2), WG_M_GET_ROWS: ("get_rows", 2),
        WG_M_PUT_ROWS: ("put_rows", 2), WG_M_GET_BOOL_ROWS: ("get_bool_rows", 2),
        WG_M_PUT_BOOL_ROWS: ("put_bool_rows", 2)}
    for op in range(2048):
        code = machine_op[op]
        if code >= 0:
            for k in range(3 if reads[op] == 3 else 1):         # also the variants with one scalar operand
                found[code + k] = names.get(op, op), {1: 1, 3: 2, 7: 3}[reads[op]]
    return found


cdef Kernel kernel_of(int op):
    if op not in row_kernels:
        row_kernels[op] = by_opcode[op] if by_opcode[op] is not None else Kernel(function(op), op, 0, 0)
    return row_kernels[op]
