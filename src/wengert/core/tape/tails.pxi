# A tail continues a tape, its head, and is swept and dropped separately, for example one step of a checkpointed loop.
#
# While a tail is open it owns the head's arrays, and the levels of all tapes before it point to it.
# Its values have their own level, so that using one after the tail is cut raises.

cdef Tape new_tail(Tape tape, str name, bint forgets):
    """Return a tape that continues `tape` until it is cut; `forgets`: it will not be swept."""
    cdef Tape tail = Tape.__new__(Tape, name, False, tape)
    tail.forgets = forgets
    tail.level.remedy = messages.STEP_REMEDY
    tail.level.order = tape.level.order
    return tail


cdef int begin_tail(Tape tail) except -1:
    cdef Tape head = tail.head, tape = head
    tail.nodes, tail.buffers, tail.roots = head.nodes, head.buffers, head.roots
    hand_over(head, tail)
    tail.mark = tail.gap = tail.n
    tail.constants_mark = tail.nconstants
    tail.nodes_mark, tail.buffers_mark, tail.roots_mark = len(tail.nodes), len(tail.buffers), len(tail.roots)
    head.tail = tail
    while tape is not None:
        tape.level.tape = <PyObject *>tail
        tape = tape.head
    return 0


cdef int hand_over(Tape tape, Tape other) except -1:
    """Move the arrays of a tape, and the adjoints of a running sweep, to another tape."""
    other.entries, other.n, other.capacity = tape.entries, tape.n, tape.capacity
    other.nconstants, other.constants_capacity = tape.nconstants, tape.constants_capacity
    other.buffers_capacity = tape.buffers_capacity
    other.adjoint, other.ranges, other.adjoint_block, other.adjoint_capacity = (
        tape.adjoint, tape.ranges, tape.adjoint_block, tape.adjoint_capacity)
    other.k, other.width, other.stacked = tape.k, tape.width, tape.stacked
    other.unneeded, other.float_errors_token = tape.unneeded, tape.float_errors_token
    memset(&tape.entries, 0, sizeof(wg_list))
    tape.n = tape.capacity = tape.nconstants = tape.constants_capacity = tape.buffers_capacity = 0
    tape.adjoint_capacity = 0
    tape.adjoint_block = tape.unneeded = tape.float_errors_token = None
    tape.adjoint = NULL
    return 0


cdef int cut_tail(Tape tail) except -1:
    """Drop the tail unless it was cut already; its values then belong to an ended derivative."""
    cdef Tape head = tail.head, tape = head
    cdef Buffer buffer
    if head is None:
        return 0
    tail.n = tail.mark
    tail.nconstants = tail.constants_mark
    for buffer in tail.buffers[tail.buffers_mark:]:
        buffer.id = -1
    del tail.buffers[tail.buffers_mark:], tail.nodes[tail.nodes_mark:], tail.roots[tail.roots_mark:]
    hand_over(tail, head)
    head.tail = tail.head = None
    while tape is not None:
        tape.level.tape = <PyObject *>head
        tape = tape.head
    tail.close()
    return 0


def can_move(Tape tail):
    """Return whether the entries of the tail can be appended to another tape.

    They must use no slots and no numbered buffers of their own.
    An array that was clean until a step stored into it must not be referenced elsewhere, since it could then be
    changed before the sweep.
    """
    cdef Py_ssize_t i
    cdef Node node
    cdef Buffer buffer
    if len(tail.buffers) > tail.buffers_mark:
        return False
    references = Counter([id(buffer) for buffer in tail.roots[tail.roots_mark:]])
    for node in tail.nodes[tail.nodes_mark:]:
        if node is not None:
            for buffer in (node.out, node.abuf, node.bbuf, *[source[2] for source in node.sources or ()]):
                references[id(buffer)] += 1
    for i in range(tail.mark, tail.n):
        if tail.entries.op[i] != WG_NODE:
            return False
        node = <Node>tail.nodes[tail.entries.a[i]]
        if node is not None and (node.kind == LOOP or (node.kind != STORE and node.out is None)):
            return False
        if node is not None and node.is_first:
            buffer = node.out
            if Py_REFCNT(buffer) > references[id(buffer)] + 1:      # + 1: the local variable
                return False
    return True


def detach(Tape tail):
    """Cut the tail and return its entries as arguments for `attach`."""
    cdef Node node
    nodes, roots = tail.nodes[tail.nodes_mark:], tail.roots[tail.roots_mark:]
    for node in nodes:
        if node is not None and node.kind != STORE:
            node.out.born = 0
    tail.cut()
    return nodes, roots


def attach(Tape tail, Tape head, Py_ssize_t gap, list nodes, list roots):
    """Append the entries of a detached tail to a tape whose sweep is running."""
    tail.head = head
    tail.level.tape = <PyObject *>tail
    begin_tail(tail)
    tail.gap = gap
    tail.roots += roots
    for node in nodes:
        push(tail, WG_NODE, <int32_t>len(tail.nodes), 0, 0.0)
        tail.nodes.append(node)


cdef enum:
    NODE_BYTES = 800            # estimate for the Python objects of one array entry


cdef object held_bytes(Tape tail):
    """Bytes of the tail and of its slots' adjoints, without adjoints of arrays, which live only during a sweep."""
    cdef Py_ssize_t total = (tail.n - tail.mark) * (sizeof(uint8_t) + 2 * sizeof(int32_t) + 2 * sizeof(double))
    cdef Py_ssize_t i
    cdef Node node
    seen = set()
    for i in range(tail.nodes_mark, len(tail.nodes)):
        node = <Node>tail.nodes[i]
        if node is not None:
            total += NODE_BYTES + sum([
                bytes_once(seen, x) for x in (node.y if not node.descriptors & WG_Y else None,
                                              node.a if not node.descriptors & WG_A else None,
                                              node.b if not node.descriptors & WG_B else None,
                                              node.saved, node.key, *(node.args or ()))])
    return total + sum([(<Buffer>buffer).span for buffer in tail.buffers[tail.buffers_mark:]])


cdef Py_ssize_t bytes_once(set seen, object x) except -1:
    """Return the bytes of the allocation that holds an array, or 0 if `seen` contains it."""
    if not isinstance(x, np.ndarray):
        return 0
    while isinstance(x.base, np.ndarray):
        x = x.base
    if id(x) in seen:
        return 0
    seen.add(id(x))
    return x.nbytes


cdef int begin_adjoints(Tape tail) except -1:
    """Allocate zero adjoints for the slots of a tail and for the buffers numbered in it."""
    cdef Py_ssize_t i, capacity = tail.adjoint_capacity, row = tail.width * sizeof(double)
    cdef Block block
    cdef Buffer buffer
    if tail.n > capacity:
        capacity = tail.n + (tail.n - tail.mark) // 2
        block = take(capacity * (row + sizeof(wg_range)))
        memcpy(block.data, tail.adjoint, tail.mark * row)
        if tail.k != 1:
            memcpy(block.data + capacity * row, tail.ranges, tail.mark * sizeof(wg_range))
        tail.adjoint_block = block
        tail.adjoint = <double *>block.data
        tail.ranges = <wg_range *>(block.data + capacity * row)
        tail.adjoint_capacity = capacity
    if tail.k == 1:
        memset(tail.adjoint + tail.mark, 0, (tail.n - tail.mark) * row)
    else:
        memset(tail.ranges + tail.mark, 0, (tail.n - tail.mark) * sizeof(wg_range))
    for i in range(tail.buffers_mark, len(tail.buffers)):
        buffer = <Buffer>tail.buffers[i]
        tail.entries.shadow[i] = tail.shadow_of(buffer)
    return 0


cdef int check_tail(Tape tail) except -1:
    """Raise if an entry refers to a value recorded after the loop, whose adjoint has been swept already."""
    cdef Py_ssize_t i
    cdef int op, form
    cdef int32_t a, b
    cdef bint gone
    for i in range(tail.mark, tail.n):
        op, a, b = tail.entries.op[i], tail.entries.a[i], tail.entries.b[i]
        if op == WG_INPUT or op == WG_TARGET:
            continue
        elif op == WG_LOAD:
            gone = a < tail.buffers_mark and is_gone(tail, (<Buffer>tail.buffers[a]).born - 1)
        elif op == WG_STORE:
            gone = is_gone(tail, a)
        elif op == WG_NODE:
            gone = refers_to_gone(tail, <Node>tail.nodes[a])
        else:
            form = 1 if op < WG_ADD else (op - WG_ADD) % 3      # 0: two operands, 1: only a, 2: only b
            gone = (form != 2 and is_gone(tail, a)) or (form != 1 and is_gone(tail, b))
        if gone:
            raise ReplayMismatchError(messages.gone_message(tail.level.name))
    return 0


cdef bint is_gone(Tape tail, Py_ssize_t slot) noexcept:
    cdef Tape tape = tail
    while tape is not None:
        if tape.gap <= slot < tape.mark:
            return True
        tape = tape.head
    return False


cdef bint refers_to_gone(Tape tail, Node node):
    cdef Buffer buffer
    if node is None:
        return False
    if is_gone(tail, node.aslot) or is_gone(tail, node.bslot):
        return True
    for buffer in (node.abuf, node.bbuf):
        if buffer is not None and is_gone(tail, buffer.born - 1):
            return True
    for _, _, found, _, slot in node.sources or ():
        if is_gone(tail, slot) if found is None else is_gone(tail, (<Buffer>found).born - 1):
            return True
    return False
