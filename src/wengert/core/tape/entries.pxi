# A tape as Python data, for tests and for reading a recording.

def entries(Tape tape):
    """Return the entries of a tape as dicts of their type, operands, result and the type's own fields.

    An operand or result is the index of a slot, ``(buffer, offset, shape, strides, dtype)`` with the buffer's index in
    this listing, or ``("number", c)``; `memory` of the first entry holds the current bytes of the buffers.
    """
    cdef Py_ssize_t i
    cdef int op
    cdef int32_t a, b
    cdef Node node
    cdef list found = []
    seen = {}
    for i in range(tape.n):
        op, a, b = tape.entries.op[i], tape.entries.a[i], tape.entries.b[i]
        entry = {"kind": "SCALAR", "opcode": op, "result": i, "value": tape.entries.v[i]}
        if op == WG_INPUT:
            entry["kind"] = "INPUT"
        elif op == WG_LOAD:
            entry.update(kind="LOAD", operands=[element_of(tape, seen, a, b)])
        elif op == WG_STORE:
            entry.update(kind="STORE", result=element_of(tape, seen, tape.entries.a[i + 1], b), key=None,
                         operands=[a] if a >= 0 else [], saved=tape.entries.v[i])
        elif op == WG_TARGET:
            entry["kind"] = "TARGET"
        elif op == WG_NODE:
            node = <Node>tape.nodes[a]
            entry.update(node_fields(seen, node))
        else:
            form = 1 if op < WG_ADD else (op - WG_ADD) % 3
            entry["operands"] = ([a if form != 2 else ("number", tape.entries.constants[a])]
                                 + ([] if op < WG_ADD else [b if form != 1 else ("number", tape.entries.constants[b])]))
        found.append(entry)
    if found:
        found[0]["memory"] = [bytes_of(buffer) for buffer in seen]
    return found


cdef dict node_fields(dict seen, Node node):
    entry = {"kind": NodeKind(node.kind).name, "row": node.row, "opcode": node.opcode, "args": node.args,
             "kwargs": node.kwargs, "compute": node.compute, "key": node.key, "saved": node.saved}
    if node.out is not None:
        entry["result"] = location_of(seen, node.out, node.y)
    if node.kind == ELEMENTWISE or node.kind == SUM:
        sides = [(node.abuf, node.a, node.aslot, node.ac)]
        if node.kind == ELEMENTWISE and node.opcode >= WG_ADD:
            sides.append((node.bbuf, node.b, node.bslot, node.bc))
        entry["operands"] = [location_of(seen, buffer, view) if buffer is not None else slot if slot >= 0
                             else ("number", c if view is None else view) for buffer, view, slot, c in sides]
    else:
        entry["operands"] = [(position, item, location_of(seen, buffer, view) if buffer is not None else slot)
                             for position, item, buffer, view, slot in node.sources]
    return entry


cdef tuple location_of(dict seen, Buffer buffer, cnp.ndarray view):
    return (seen.setdefault(buffer, len(seen)), <char *>cnp.PyArray_DATA(view) - buffer.low, (<object>view).shape,
            (<object>view).strides, (<object>view).dtype)


cdef bytes bytes_of(Buffer buffer):
    """Return the memory of a buffer, or zeros if it was freed; memory that was stored into is never freed."""
    return buffer.low[:buffer.span] if buffer.written or buffer.owner is not None else bytes(buffer.span)


cdef tuple element_of(Tape tape, dict seen, int32_t buffer, int32_t offset):
    return seen.setdefault(tape.buffers[buffer], len(seen)), 8 * offset, (), (), np.dtype(np.float64)
