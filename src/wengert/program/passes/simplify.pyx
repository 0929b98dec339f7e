# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Constant folding, algebraic simplification, CSE, DCE and store-to-load forwarding.

Each function takes a program and returns an equivalent new one, built in one forward traversal.
`folded` folds constants, removes identities and forwards stores; `shared` eliminates common subexpressions by local
value numbering (Cocke and Schwartz 1970; straight-line code has one block); `live` eliminates dead code, keeping
guards; `simplified` combines them.
"""

cimport numpy as cnp
from libc.stdint cimport int32_t, uint32_t
from libc.string cimport memchr, memset

import math

import numpy as np

from wengert.core.tape.kernel cimport Kernel, by_opcode
from wengert.core.tape.memory cimport Block, take
from wengert.core.tape.tape cimport (
    WG_ABSOLUTE, WG_ADD, WG_DIVIDE, WG_MULTIPLY, WG_NEGATIVE, WG_POSITIVE, WG_POW, WG_RECIPROCAL, WG_SINGLE, WG_SQRT,
    WG_SQUARE, WG_SUBTRACT,
)
from wengert.program.ir.ir cimport (
    FLAG, IS_COMMUTATIVE, IS_ELEMENTWISE, READS_ELEMENTS, SCALAR, Listing, copied, count_uses, emit, filtered,
    has, names, set_ends, whole_view,
)
from wengert.program.ir.opcodes cimport *
from wengert.program.ir.view_overlap cimport Boxes, are_disjoint

from wengert.core.tape.tape import kernel_partials
from wengert.program.ir.call import Operand, fold_of, is_function, product_of, static
from wengert.program.ir.opcode_table import function, primitive

cnp.import_array()


def simplified(Listing code, bint exact=True, bint fold=True, bint cse=True, bint dce=True):
    """Return the program after constant folding, CSE and DCE, or some of them; `exact` keeps the sign of zeros."""
    if not (fold or cse):
        return live(code) if dce else code
    cdef Listing found = fold_and_number(code, fold, cse, exact)
    return eliminate_dead_in_place(found) if dce else found


def folded(Listing code, bint exact=True):
    """Return the program after constant folding, algebraic simplification and store-to-load forwarding."""
    return fold_and_number(code, True, False, exact)


def shared(Listing code):
    """Return the program after common-subexpression elimination."""
    return fold_and_number(code, False, True, True)


cdef Listing fold_and_number(Listing code, bint to_fold, bint to_number, bint exact):
    """Fold and number values in one traversal: each instruction maps to an existing value or to one new one."""
    cdef Listing found = code.successor()
    cdef Py_ssize_t i
    cdef int32_t v, n
    cdef Block block = take(code.n * sizeof(int32_t))
    cdef int32_t *of = <int32_t *>block.data
    cdef ValueTable known = ValueTable(found, code.n if to_number else 0)
    cdef StoredElements contents = StoredElements(found)
    cdef Boxes boxes = Boxes(found)
    cdef bytearray in_memory = layout_matters(code) if to_fold and not exact else None
    for i in range(code.n):
        n = <int32_t>found.n
        v = copied(code, i, of, found)
        if to_fold and code.ops[i] == VIEW and found.ops[v] == VIEW:
            v = forward_to_view(found, v, exact or in_memory[i], boxes)
        elif to_fold:
            v = fold_one(found, v, exact, contents)
        if to_number and v == n:
            v = number_one(found, v, known)
        of[i] = v
    set_ends(code, of, found)
    return found


cpdef bint contains(Listing code, int op) noexcept:
    """Return whether a program contains an instruction with this opcode."""
    cdef Py_ssize_t i
    for i in range(code.n):
        if code.ops[i] == op:
            return True
    return False


def lowered(Listing code, bint exact=True):
    """Return the program without STOP marks, which only source transformation needs.

    Unless `exact`, arithmetic on reduced rows that is broadcast follows the broadcast: see `hoist_rows`.
    """
    cdef Listing found = code.successor()
    cdef Py_ssize_t i
    cdef Block block = take(code.n * sizeof(int32_t))
    cdef int32_t *of = <int32_t *>block.data
    cdef dict known = {}
    if not (contains(code, STOP) or contains(code, ISNAN) or (not exact and broadcasts_any_rows(code))):
        return code
    for i in range(code.n):
        of[i] = of[code.as_[i]] if code.ops[i] == STOP else copied(code, i, of, found)
        if code.ops[i] == VIEW:
            of[i] = hoist_isnan(found, of[i])
            if not exact and found.ops[of[i]] == VIEW:
                of[i] = hoist_rows(found, of[i], known)
    set_ends(code, of, found)
    return eliminate_dead_in_place(found)


cdef int32_t hoist_isnan(Listing code, int32_t i) except -1:
    """Rewrite a broadcast of ``isnan(x)`` as ``isnan`` of a broadcast of x, which the VM can fuse into chunks."""
    cdef int32_t a = code.as_[i], source = code.as_[a]
    if code.ops[a] != ISNAN or code.kinds[a] <= FLAG or code.types[code.kinds[a]][2] is not None:
        return i
    offset, shape, strides = code.views[code.bs[i]]
    dtype, _, own_strides = code.types[code.kinds[source]]
    if 0 not in strides or dtype != np.float64 or own_strides is not None:
        return i
    code.n = i
    size = dtype.itemsize
    source = code.view(source, (offset * size, shape, tuple([size * s for s in strides])), dtype)
    return emit(code, ISNAN, source, -1, -1, code.type_of((np.dtype(bool), shape, None)))


cdef enum:
    MAX_ROW = 512               # elements of a chunk of the VM, which reduces rows up to this length within a kernel
    MAX_ON_ROWS = 8             # limit on the operations in sequence that follow a broadcast

#: operations that cost no more than a pass over memory, by opcode
cdef frozenset ON_ROWS = frozenset((
    WG_SINGLE, WG_NEGATIVE, WG_ABSOLUTE, WG_SQUARE, WG_RECIPROCAL, WG_SQRT, WG_ADD, WG_SUBTRACT, WG_MULTIPLY, WG_DIVIDE,
    STRONG, *[PARTIAL + 2 * op + side for op in (WG_DIVIDE, WG_SQUARE, WG_RECIPROCAL, WG_SQRT) for side in range(2)],
))


cdef int32_t hoist_rows(Listing code, int32_t i, dict known) except -1:
    """Rewrite a broadcast of arithmetic on reduced rows as arithmetic on broadcasts.

    An operation on an array of another shape would end the kernel that reduces the rows, and the arrays that the rest
    of this kernel reads would be stored. `known` maps broadcasts to their values, for later ones.
    """
    cdef int32_t[3] column
    cdef int32_t a = code.as_[i]
    cdef int k, op = code.ops[a], mask
    if not broadcasts_rows(code, i):
        return i
    view = code.views[code.bs[i]]
    code.n = i
    key = a, view
    if key not in known:
        column, mask = [code.as_[a], code.bs[a], code.cs[a]], names(op)
        for k in range(3):
            if mask & 1 << k and column[k] >= 0 and code.kinds[column[k]] > FLAG:
                column[k] = hoist_rows(code, code.view(column[k], view, np.dtype(np.float64)), known)
        kind = code.type_of((np.dtype(np.float64), view[1], None))
        known[key] = emit(code, op, column[0], column[1], column[2], kind)
    return known[key]


cdef bint broadcasts_any_rows(Listing code) except -1:
    cdef Py_ssize_t i
    for i in range(code.n):
        if code.ops[i] == VIEW and broadcasts_rows(code, <int32_t>i):
            return True
    return False


cdef bint broadcasts_rows(Listing code, int32_t i) except -1:
    """Return whether a view is a broadcast of arithmetic on reduced rows."""
    cdef tuple view = code.views[code.bs[i]], shape = view[1], strides = view[2]
    if not strides or strides[len(strides) - 1] or not 1 < shape[len(shape) - 1] <= MAX_ROW:
        return False
    return code.types[code.kinds[i]][0] == np.float64 and is_on_rows(code, code.as_[i], shape, MAX_ON_ROWS)


cdef bint is_on_rows(Listing code, int32_t v, tuple shape, int depth) except -1:
    """Return whether a value is arithmetic on the reductions of an array of this shape over its last axis."""
    cdef int32_t[3] column
    cdef int32_t u
    cdef int k, mask = names(code.ops[v])
    cdef bint found = False
    if depth == 0 or <int>code.ops[v] not in ON_ROWS or code.kinds[v] <= FLAG:
        return False
    dtype, _, own_strides = code.types[code.kinds[v]]
    if dtype != np.float64 or own_strides is not None:
        return False
    column = [code.as_[v], code.bs[v], code.cs[v]]
    for k in range(3):
        u = column[k]
        if not mask & 1 << k or u < 0 or code.kinds[u] <= FLAG:
            continue
        if code.kinds[u] != code.kinds[v]:
            return False
        found = found or is_reduced_row(code, u, shape) or is_on_rows(code, u, shape, depth - 1)
    return found


cdef bint is_reduced_row(Listing code, int32_t v, tuple shape) except -1:
    """Return whether a value has the reductions over the last axis of an array of this shape."""
    cdef Py_ssize_t size = math.prod(shape[:len(shape) - 1])
    while code.ops[v] == VIEW and math.prod(code.types[code.kinds[v]][1]) == size:
        v = code.as_[v]
    if code.ops[v] != CALL or code.kinds[v] <= FLAG or math.prod(code.types[code.kinds[v]][1]) != size:
        return False
    call = code.calls[code.as_[v]]
    return (fold_of(call) is not None and len(call.operands) == 1
            and code.types[code.kinds[<int32_t>call.operands[0]]][1] == shape)


cdef enum:
    MAX_STORES = 64             # a view is moved before at most this many stores, or else before all of them
    MAX_FAR_STORES = 4096       # limit on the stores searched for the stored value, or for the array before all stores
    MAX_STEPS = 1 << 22         # limit on the stores that these searches visit in one traversal


cdef int32_t fold_one(Listing code, int32_t v, bint exact, StoredElements contents) except -1:
    """Return a simpler value equal to v, the newest value of the program, or v itself if none is found."""
    if code.ops[v] == LOAD:
        return forward_to_load(code, v, contents)
    if code.kinds[v] <= FLAG or code.ops[v] == SELECT or code.ops[v] == STRONG:
        return fold_elementwise(code, v, exact)
    if code.ops[v] == WG_ADD and not exact:
        return fold_add_zeros(code, v)
    if code.ops[v] == CALL:
        v = fold_expand_dims(code, fold_identity_call(code, v))
        return v if exact else fold_call_add_zeros(code, v)
    return v


cdef bint is_call_of(call, fun):
    """Return whether a call applies a function to one operand, without keywords."""
    return (call.row is not None and call.row.fun is fun and len(call.args) == 1 and len(call.operands) == 1
            and not call.kwargs)


cdef int32_t fold_identity_call(Listing code, int32_t i) except -1:
    """Remove ``+x`` and conjugates of conjugates, which derivatives of complex functions contain."""
    cdef int32_t v
    call = code.calls[code.as_[i]]
    if not is_call_of(call, np.conjugate) and not is_call_of(call, np.positive):
        return i
    v = call.operands[0]
    if call.row.fun is np.conjugate:
        if code.ops[v] != CALL or not is_call_of(code.calls[code.as_[v]], np.conjugate):
            return i
        v = code.calls[code.as_[v]].operands[0]
    if code.kinds[v] != code.kinds[i]:
        return i
    code.calls.pop()
    code.n = i
    return v


cdef int32_t forward_to_load(Listing code, int32_t i, StoredElements contents) except -1:
    """Replace a LOAD by the scalar that a PACK or fill stored, or else load from the array before these stores."""
    cdef int32_t a = code.as_[i]
    if code.ops[a] == PACK:
        value = contents.element(a, code.bs[i])
        if value is not None:
            code.n = i
            return value
        a = contents.base
    if a < 0:
        code.n = i
        return code.constant(0.0)
    if code.ops[a] == PLACE and code.as_[a] < 0 and code.kinds[code.cs[a]] == SCALAR:     # filled with a scalar
        code.n = i
        return code.cs[a]
    code.as_[i] = a
    return i


cdef class StoredElements:
    """The scalars stored into arrays by chains of PACK, for store-to-load forwarding.

    A loop that fills an array makes a chain and mostly reads its newest array. The elements of a chain therefore are
    one dict, which moves to the newest array.
    """

    cdef Listing code
    cdef dict newest        # newest array of each chain: (elements of the chain, base of its first array)
    cdef dict own           # older arrays: elements stored by their PACK alone, None until needed
    cdef int32_t base       # base of the chain of the latest query, which holds all other elements; -1: zeros

    def __cinit__(self, Listing code):
        self.code, self.newest, self.own = code, {}, {}

    cdef object element(self, int32_t a, int32_t offset):
        """Return the last value stored at an offset of an array; None if there is none."""
        cdef dict elements
        cdef list line = []
        cdef int32_t v = a
        while v >= 0 and self.code.ops[v] == PACK and v not in self.newest:
            if v in self.own:
                return self.older(a, offset)
            line.append(v)
            v = self.code.as_[v]
        elements, self.base = self.newest.pop(v, None) or ({}, v)
        while line:
            v = line.pop()
            elements.update(self.put(v))
            self.own[v] = None
        self.newest[a] = elements, self.base
        return elements.get(offset)

    cdef object older(self, int32_t a, int32_t offset):
        """Return the same as `element`, for any array of a chain, by walking the chain."""
        cdef dict elements
        while a >= 0 and self.code.ops[a] == PACK:
            elements = self.own.get(a)
            if elements is None:
                elements = self.own[a] = self.put(a)
            value = elements.get(offset)
            if value is not None:
                return value
            a = self.code.as_[a]
        self.base = a
        return None

    cdef dict put(self, int32_t a):
        """Return the values that a PACK stores, by offset."""
        offsets, values = self.code.packs[self.code.bs[a]]
        return dict(zip(offsets.tolist(), values.tolist()))


cdef int32_t forward_to_view(Listing code, int32_t i, bint keep_layout, Boxes boxes) except -1:
    """Forward a store to a view of the same part, or move the view before stores that it does not overlap.

    `keep_layout`: the memory layout of the view matters to its users, so that the stored value must have the same.
    A view that is moved far back keeps an array alive that would be overwritten in place otherwise. So it is moved far
    only to the array before all stores, which all such views share.
    """
    cdef int32_t a = code.as_[i], base
    cdef int steps = 0
    cdef tuple type = code.types[code.kinds[i]], other
    dtype = type[0]
    cdef Py_ssize_t itemsize = dtype.itemsize
    while True:
        base = code.as_[a]
        if code.ops[a] != PLACE or (code.kinds[a] != code.kinds[i] and code.types[code.kinds[a]][0] != dtype):
            break
        if code.bs[a] == code.bs[i]:
            other = code.types[code.kinds[code.cs[a]]]
            if other == type or (not keep_layout and code.kinds[code.cs[a]] > FLAG and other[:2] == type[:2]):
                code.n = i
                return code.cs[a]
        if base < 0 or code.kinds[base] != code.kinds[a]:
            break
        if not are_disjoint(boxes.of(code.bs[i]), boxes.of(code.bs[a]), itemsize):
            if steps >= MAX_STORES:
                return i
            break
        steps += 1
        boxes.steps += 1
        if steps == MAX_FAR_STORES or (steps == MAX_STORES and boxes.steps > MAX_STEPS):
            return i
        a = base
    code.as_[i] = a
    return i


cpdef bytearray layout_matters(Listing code):
    """Mark arrays whose layout matters: outputs, and arrays read by address."""
    cdef bytearray found = bytearray(max(1, code.n))
    cdef unsigned char *marks = found
    cdef Py_ssize_t i
    cdef int32_t v
    for i in range(code.n):
        if code.ops[i] == CALL:
            if code.calls[code.as_[i]].row is None:     # a loop body was typed with the layouts of these operands
                for v in code.calls[code.as_[i]].operands:
                    marks[v] = 1
            continue
        if code.ops[i] == PUT:
            marks[code.cs[i]] = 1
        if names(code.ops[i]) & 1 and code.as_[i] >= 0 and not has(code.ops[i], READS_ELEMENTS):
            marks[code.as_[i]] = 1
    for v in code.outputs:
        marks[v] = 1
    return found


def holds(Listing code, Boxes boxes, int32_t v, int32_t u, int32_t view, int max_stores):
    """Return whether v and u agree in a view: v must be u after fewer than `max_stores` stores outside the view."""
    cdef int _
    for _ in range(max_stores):
        if v == u:
            return True
        if code.ops[v] != PLACE or code.as_[v] < 0 or code.kinds[v] != code.kinds[u]:
            return False
        if not are_disjoint(boxes.of(view), boxes.of(code.bs[v]), code.types[code.kinds[v]][0].itemsize):
            return False
        v = code.as_[v]
    return False


cdef int32_t fold_elementwise(Listing code, int32_t i, bint exact) except -1:
    """Simplify an elementwise instruction by identities and constant folding."""
    cdef int op = code.ops[i]
    cdef int32_t a = code.as_[i], b = code.bs[i]
    cdef double x = 0.0, y = 0.0
    cdef bint left, right
    if op == SELECT:
        if is_constant(code, a, &x) and code.kinds[code.cs[i] if x == 0.0 else b] == code.kinds[i]:
            code.n = i
            return code.cs[i] if x == 0.0 else b
        return i
    if PARTIAL <= op < INPUT:
        return fold_partial(code, i)
    if not has(op, IS_ELEMENTWISE) or a < 0:
        return i
    left = is_constant(code, a, &x)
    right = b >= 0 and is_constant(code, b, &y)
    if op == STRONG or op == WG_MULTIPLY:
        if left and x == 1.0 and code.kinds[b] == code.kinds[i]:
            code.n = i
            return b
        if right and y == 1.0 and code.kinds[a] == code.kinds[i]:
            code.n = i
            return a
        if not exact and left != right:
            return fold_scale(code, i, b if left else a, x if left else y)
    if op == WG_POSITIVE or (op == WG_DIVIDE and right and y == 1.0 and code.kinds[a] == code.kinds[i]):
        code.n = i
        return a
    if op == WG_NEGATIVE and code.ops[a] == WG_NEGATIVE:
        code.n = i
        return code.as_[a]
    if code.kinds[i] > FLAG or not left or (b >= 0 and not right):
        return i
    if op == STRONG:
        value = 0.0 if x == 0.0 or y == 0.0 else x * y
    elif op >= LESS:
        code.n = i
        i = code.constant(function(op)(x, y) if b >= 0 else function(op)(x))
        code.kinds[i] = FLAG
        return i
    elif by_opcode[op] is None:             # not a NumPy function: no scalar kernel
        return i
    elif op < WG_ADD:
        value = (<Kernel>by_opcode[op]).value1(x)
    elif op == WG_POW:
        value = float(np.float64(x) ** y)
    else:
        value = (<Kernel>by_opcode[op]).value2(x, y)
    code.n = i
    return code.constant(value)


cdef int32_t fold_add_zeros(Listing code, int32_t i) except -1:
    """Simplify ``a + b`` to one operand if the other is an array of zeros, or a view of one."""
    cdef int32_t a = code.as_[i], b = code.bs[i]
    if is_zeros(code, b) and code.kinds[a] == code.kinds[i]:
        code.n = i
        return a
    if is_zeros(code, a) and code.kinds[b] == code.kinds[i]:
        code.n = i
        return b
    return i


cdef int32_t fold_expand_dims(Listing code, int32_t i) except -1:
    """Rewrite ``expand_dims`` of a scalar as an array filled with it."""
    cdef tuple type = code.types[code.kinds[i]]
    if code.ops[i] != CALL:
        return i
    call = code.calls[code.as_[i]]
    if call.compute is not np.expand_dims or len(call.operands) != 1 or type[0] != np.float64 or type[2] is not None:
        return i
    if code.kinds[<int32_t>call.operands[0]] != SCALAR:
        return i
    code.calls.pop()
    code.n = i
    return code.place(-1, whole_view(type), call.operands[0], type)


cdef int32_t fold_call_add_zeros(Listing code, int32_t i) except -1:
    """Remove a call that adds constant zeros, with which adjoints of dtypes other than float64 start."""
    cdef int side
    if code.ops[i] != CALL:
        return i
    call = code.calls[code.as_[i]]
    if call.row is not primitive(WG_ADD) or len(call.args) != 2 or call.kwargs:
        return i
    for side in range(2):
        other = call.args[1 - side]
        if type(other) is not Operand or code.kinds[<int32_t>call.operands[other.position]] != code.kinds[i]:
            continue
        zeros = known_array(code, call, call.args[side])
        if zeros is not None and not zeros.any():
            code.calls.pop()
            code.n = i
            return call.operands[other.position]
    return i


cdef object known_array(Listing code, call, argument):
    """Return the array that an argument of a call is, or of which it is a view; None if it is not constant."""
    cdef int32_t v
    if type(argument) is Operand:
        v = call.operands[argument.position]
        v = code.as_[v] if code.ops[v] == VIEW else v
        return code.arrays[code.as_[v]] if code.ops[v] == ARRAY else None
    return argument if isinstance(argument, np.ndarray) else None


cdef bint is_zeros(Listing code, int32_t v) except -1:
    cdef double value = 1.0
    if code.ops[v] == VIEW:
        v = code.as_[v]
    return code.ops[v] == PLACE and code.as_[v] < 0 and is_constant(code, code.cs[v], &value) and value == 0.0


cdef int32_t fold_partial(Listing code, int32_t i) except -1:
    """Fold a partial at constants, if it is finite."""
    cdef int opcode = (code.ops[i] - PARTIAL) // 2
    cdef double x[3]
    cdef int k
    cdef int32_t v
    if by_opcode[opcode] is None:           # not a NumPy function: no scalar kernel
        return i
    for k, v in enumerate((code.as_[i], code.bs[i], code.cs[i])):
        x[k] = 0.0
        if v >= 0 and not is_constant(code, v, &x[k]):
            return i
    value = kernel_partials(opcode, x[0], x[1], x[2])[(code.ops[i] - PARTIAL) % 2]
    if not math.isfinite(value):
        return i
    code.n = i
    return code.constant(value)


cdef int32_t fold_scale(Listing code, int32_t i, int32_t v, double x) except -1:
    """Simplify a product with a constant: -1 gives a NEGATIVE, and a finite nonzero constant needs no strong zero."""
    if x == -1.0 and code.kinds[v] == code.kinds[i]:
        code.ops[i], code.as_[i], code.bs[i] = WG_NEGATIVE, v, -1
        if code.ops[v] == WG_NEGATIVE:
            code.n = i
            return code.as_[v]
    elif x != 0.0 and math.isfinite(x):     # 0 times such a constant is 0 anyway
        code.ops[i] = WG_MULTIPLY
    return i


cdef inline bint is_constant(Listing code, int32_t v, double *value) except -1:
    if v < 0 or code.ops[v] != CONST:
        return False
    value[0] = code.constants[code.as_[v]]
    return True


include "value_numbering.pxi"
include "dead_code.pxi"
include "nan_guards.pxi"
