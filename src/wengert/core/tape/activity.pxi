# Forward activity analysis of a recording tape: which values depend on an input. Python code may read the others.

cdef bint is_active(Tape tape, Buffer buffer, int32_t slot) except -1:
    """Return whether a value of a recording tape depends on the inputs. If not, Python code may read it."""
    analyse(tape)
    return buffer in tape.active if buffer is not None else tape.active_slots[slot]


cdef int analyse(Tape tape) except -1:
    """Extend the forward activity analysis to the last entry: a value is active if it depends on an input."""
    cdef Py_ssize_t i, first = len(tape.active_slots)
    cdef int op, form
    cdef int32_t a, b
    cdef bint active
    cdef Node node
    cdef bytearray slots = tape.active_slots
    slots.extend(bytes(tape.n - first))
    for i in range(first, tape.n):
        op, a, b = tape.entries.op[i], tape.entries.a[i], tape.entries.b[i]
        if op == WG_INPUT:
            active = True
        elif op == WG_LOAD:
            active = tape.buffers[a] in tape.active
        elif op == WG_TARGET:
            active = False
        elif op == WG_STORE:
            active = a >= 0 and slots[a]
        elif op == WG_NODE:
            active = has_active_operand(tape, <Node>tape.nodes[a])
        else:
            form = 1 if op < WG_ADD else (op - WG_ADD) % 3      # 0: two operands, 1: only a, 2: only b
            active = (form != 2 and slots[a]) or (form != 1 and slots[b])
        if not active or in_ranges(i, tape.passive):
            continue
        if op == WG_STORE:
            tape.active.add(tape.buffers[tape.entries.a[i + 1]])
            continue
        node = <Node>tape.nodes[a] if op == WG_NODE else None
        if node is not None and node.out is not None:
            tape.active.add(node.out)
        else:
            slots[i] = True
    return 0


cdef bint has_active_operand(Tape tape, Node node) except -1:
    if node.kind == GUARD or (node.row is not None and node.row.kind == "constant"):
        return False
    if node.kind == ELEMENTWISE or node.kind == SUM:
        for buffer, slot in ((node.abuf, node.aslot), (node.bbuf, node.bslot)):
            if buffer in tape.active or (slot >= 0 and tape.active_slots[slot]):
                return True
        return False
    for _, _, buffer, _, slot in node.sources:
        if buffer in tape.active or (slot >= 0 and tape.active_slots[slot]):
            return True
    return False


cdef bint in_ranges(Py_ssize_t i, list ranges) except -1:
    for start, stop in ranges:
        if start <= i < stop:
            return True
    return False
