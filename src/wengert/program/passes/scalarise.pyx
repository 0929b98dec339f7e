# cython: language_level=3
"""Scalar replacement of small arrays (Muchnick 1997, section 12.2).

Input: a program; output: a program with scalars in place of small arrays, or the same one if that does not pay.
The state of a small system is an array of two or three elements, and each time step computes a new one.
An instruction on such an array costs more than scalar instructions on its elements, packs and loads its elements
again, and separates isomorphic scalar expressions that could be vectorised.

The pass represents a small array by its elements, keyed by offset in its memory. An elementwise instruction becomes
one scalar instruction per element; views and loads disappear; an array is packed only for a call or an output.
"""

from libc.stdint cimport int32_t

import functools
import itertools
import math

import numpy as np

from wengert.core.tape.memory cimport Block, take
from wengert.core.tape.tape cimport WG_ADD, WG_DIVIDE, WG_MULTIPLY, WG_SUBTRACT
from wengert.program.ir.ir cimport (
    FLAG, IS_ELEMENTWISE, IS_FUNCTION, SCALAR, Listing, copied, emit, has, names, whole_view,
)
from wengert.program.ir.opcodes cimport *

from wengert.program.ir import access
from wengert.program.ir.call import Operand
from wengert.program.ir.ir import operands
from wengert.program.ir.opcode_table import OPCODES
from wengert.program.passes import cost
from wengert.program.passes.simplify import simplified
from wengert.program.ir.call_rules import filled, placed

cdef enum:
    MAX_SIZE = 16               # elements of an array that is replaced by scalars
    MAX_PRODUCTS = 64           # multiplications of a matrix product that is expanded
    MAX_EQUATIONS = 3           # order of a linear system that is expanded
    MIN_INSTRUCTIONS = 4        # instructions on small arrays, below which a program is left alone
    MAX_SCALARS = 2000000       # scalar instructions that replace array instructions, per program

# in nanoseconds
cdef double DISPATCH_COST = cost.DISPATCH, SCALAR_COST = cost.SCALAR, FUNCTION_COST = cost.SCALAR_FUNCTION
cdef double VECTOR_COST = cost.FUSED_VECTOR
cdef double ELEMENT_COST = cost.FUSED_ELEMENT, FUNCTION_ELEMENT_COST = cost.ELEMENT_FUNCTION
cdef double MOVED_COST = cost.ELEMENT_MOVED, ZEROED_COST = cost.ELEMENT_ZEROED, PYTHON_CALL_COST = cost.PYTHON_CALL

#: source location of the guard on pivots: LAPACK's rounding may differ by an ulp, so that only calling f decides
SINGULAR = "a matrix of numpy.linalg is singular"

cdef object FLOAT = np.dtype(float), BOOL = np.dtype(bool)
cdef int SQRT = OPCODES["sqrt"]


def replace_small_arrays(Listing code, double share=math.inf, bint to_run=False):
    """Return the program with small arrays replaced by scalars.

    The same program is returned if there are too few small arrays, if the result would be too long, or if its scalar
    arithmetic alone would take more than `share` of the estimated time.
    With `to_run`, which excludes later differentiation, functions are also expanded if the expansion has another
    derivative than the function at ties or singular points.
    """
    cdef list orders = [element_offsets(type) if kind > FLAG else None for kind, type in enumerate(code.types)]
    cdef Py_ssize_t i
    cdef int op, few = 0, size
    cdef int32_t kind
    cdef double count = 0.0, time = 0.0
    cdef Block room = take(len(orders) * sizeof(int32_t))
    cdef int32_t *sizes = <int32_t *>room.data      # element count by type id; 0 if the type is not a small array
    for i in range(len(orders)):
        sizes[i] = 0 if orders[i] is None else <int32_t>len(orders[i])
    for i in range(code.n):
        op, kind = code.ops[i], code.kinds[i]
        size = sizes[kind]
        few += size > 0 and (op < INPUT or op == PACK) or op == CALL and (size > 0 or kind == SCALAR)
        if size and op < INPUT:
            count += size
            time += size * (SCALAR_COST if not has(op, IS_FUNCTION) else FUNCTION_COST)
    if few < MIN_INSTRUCTIONS or count > MAX_SCALARS or time > share * nanoseconds(code):
        return code
    return simplified(Scalariser(code, orders, to_run).run(), False)


cdef list element_offsets(tuple type):
    """Return the memory offsets of a small array's elements, in order; None if the type is not a small array."""
    dtype, shape, strides = type
    if (dtype != FLOAT and dtype != BOOL) or not 0 < math.prod(shape) <= MAX_SIZE:
        return None
    if strides is None:
        return list(range(math.prod(shape)))
    return view_offsets(whole_view(type), dtype.itemsize)


cpdef double nanoseconds(Listing code) except -1.0:
    """Estimate the run time in program order: consecutive instructions on one type share one VM dispatch."""
    cdef Py_ssize_t i
    cdef int op, before = -1, here
    cdef bint cheap
    cdef double total = 0.0
    cdef list sizes = [math.prod(type[1]) for type in code.types]
    for i in range(code.n):
        op = code.ops[i]
        if op == CONST or op == ARRAY or op == INPUT or op == VIEW:
            continue
        cheap = not has(op, IS_FUNCTION)
        here = code.kinds[code.as_[i]] if op == SUM else code.kinds[i]
        if op == CALL or (op == GUARD and here > FLAG):
            here = -1
            total += PYTHON_CALL_COST + (call_cost(code, code.calls[code.as_[i]], i) if op == CALL else 0.0)
        elif here <= FLAG:
            here = SCALAR
            total += SCALAR_COST if cheap else FUNCTION_COST
        elif op == PACK:
            here = -1
            total += len(code.packs[code.bs[i]][0]) + (0.0 if code.as_[i] >= 0 else ZEROED_COST * <double>sizes[here])
        elif op == PLACE or op == PUT or op == GATHER or op == SCATTER:
            total += VECTOR_COST + move_cost(code, i, op, sizes)
        else:
            total += VECTOR_COST + (ELEMENT_COST if cheap else FUNCTION_ELEMENT_COST) * <double>sizes[here]
        if here != before or here < 0:
            total += DISPATCH_COST
        before = here
    return total


cdef double call_cost(Listing code, call, Py_ssize_t i) except -1.0:
    """Estimate the time of a called function or loop, without the Python call."""
    body = getattr(call.compute, "body", None)
    if isinstance(body, Listing):
        return call.compute.steps * nanoseconds(body)
    shapes = [code.types[code.kinds[<int32_t>v]][1] for v in call.operands]
    return cost.of_call(call, shapes, code.types[code.kinds[i]][1])


cdef double move_cost(Listing code, Py_ssize_t i, int op, list sizes) except -1.0:
    """Estimate the time of a store, gather or scatter."""
    cdef bint is_new = op == SCATTER or op == PLACE and code.as_[i] < 0
    cdef double set_first = ZEROED_COST * <double>sizes[code.kinds[i]] if is_new else 0.0
    if op == PLACE:
        size = <double>math.prod(code.views[code.bs[i]][1])
        is_zero = code.ops[code.cs[i]] == CONST and code.constants[code.as_[code.cs[i]]] == 0.0
        return set_first if is_zero and is_new else set_first + ELEMENT_COST * size
    return set_first + MOVED_COST * <double>sizes[code.kinds[i if op == GATHER else code.bs[i]]]


cdef class Scalariser:
    cdef Listing code, found
    cdef int32_t *of            # id in the new program, -1: represented by elements only
    cdef Block room             # allocation that holds `of`
    cdef list cells             # elements of each array, {offset: new id}; None: not loaded yet
    cdef list orders            # by type id: offsets of the elements in order; None: not a small array
    cdef dict store_offsets     # offsets of stores, by view and dtype
    cdef bint to_run            # whether the program will not be differentiated

    def __cinit__(self, Listing code, list orders, bint to_run):
        self.to_run, self.orders = to_run, orders
        self.room = take(code.n * sizeof(int32_t))
        self.of = <int32_t *>self.room.data
        self.code, self.found = code, code.successor()
        self.cells, self.store_offsets = [None] * code.n, {}

    cdef object run(self):
        cdef Py_ssize_t i
        cdef int32_t v
        for i in range(self.code.n):
            self.of[i] = -1
            if not self.replace(i):
                if not self.have_values(i):
                    for v in operands(self.code, i):
                        self.materialise(v)
                self.of[i] = copied(self.code, i, self.of, self.found)
                if self.code.ops[i] == GUARD:       # the value that the guard belongs to may no longer exist
                    self.found.cs[self.of[i]] = -1
        self.found.inputs = [self.of[<int32_t>v] for v in self.code.inputs]
        self.found.outputs = [self.materialise(v) for v in self.code.outputs]
        return self.found

    # ------------------------------------------------------------------------------------------ arrays and elements

    cdef bint have_values(self, Py_ssize_t i) noexcept:
        """Return whether all operands exist as values of the new program; False if unknown."""
        cdef int op = self.code.ops[i], columns = names(op)
        cdef int32_t a = self.code.as_[i], b = self.code.bs[i], c = self.code.cs[i]
        return (op != PACK and op != CALL and (not columns & 1 or a < 0 or self.of[a] >= 0)
                and (not columns & 2 or b < 0 or self.of[b] >= 0) and (not columns & 4 or c < 0 or self.of[c] >= 0))

    cdef list order(self, Py_ssize_t v):
        return self.orders[self.code.kinds[v]]

    cdef dict elements(self, Py_ssize_t v):
        """Return the elements of a small array by offset, loading them if it was not replaced."""
        cdef int32_t kind
        cdef Py_ssize_t u = v, low = 0
        if self.cells[v] is None and self.code.ops[v] == ARRAY and self.dtype(v) == FLOAT:
            numbers = self.code.arrays[self.code.as_[v]].ravel().tolist()
            self.cells[v] = {place: self.found.constant(x) for place, x in zip(self.order(v), numbers)}
        if self.cells[v] is None:
            dtype = self.dtype(v)
            kind = SCALAR if dtype == FLOAT else FLAG
            while self.code.ops[u] == VIEW and self.dtype(self.code.as_[u]) == dtype:   # load from the base array
                low += lowest_offset(self.code.views[self.code.bs[u]]) // dtype.itemsize
                u = self.code.as_[u]
            self.cells[v] = {place: emit(self.found, LOAD, self.of[u], low + place, -1, kind)
                             for place in sorted(set(self.order(v)))}
        return self.cells[v]

    cdef list ordered(self, Py_ssize_t v):
        """Return the elements of a small array in order."""
        cdef dict cells = self.elements(v)
        return [cells[place] for place in self.order(v)]

    cdef int32_t materialise(self, Py_ssize_t v) except -1:
        """Return the new id of a value, packing an array from its elements if needed."""
        cdef int32_t kind = self.code.kinds[v]
        if self.of[v] < 0:
            dtype, shape, strides = type = self.code.types[kind]
            cells = self.cells[v]
            at = np.array(list(cells), np.int32)
            self.found.packs.append((at, np.array(list(cells.values()), np.int32)))
            if strides is None:
                self.of[v] = emit(self.found, PACK, -1, len(self.found.packs) - 1, -1, kind)
            else:
                memory = self.found.type_of((dtype, (int(at.max()) + 1,), None))
                found = emit(self.found, PACK, -1, len(self.found.packs) - 1, -1, memory)
                self.of[v] = self.found.view(found, whole_view(type), dtype)
        return self.of[v]

    cdef dict relabelled(self, Py_ssize_t v, Py_ssize_t i):
        """Return the elements of one array, keyed by the offsets of another of the same shape."""
        if self.code.kinds[v] == self.code.kinds[i]:
            return dict(self.elements(v))
        return dict(zip(self.order(i), self.ordered(v)))

    # ------------------------------------------------------------------------------------------ instructions

    cdef bint replace(self, Py_ssize_t i) except -1:
        """Replace an instruction by scalars; return False if it must be copied."""
        cdef Listing code = self.code
        cdef int op = code.ops[i]
        cdef int32_t a = code.as_[i]
        if code.kinds[i] <= FLAG:
            if op == LOAD and self.cells[a] is not None:
                self.of[i] = self.cells[a][code.bs[i]]
                return True
            if op == SUM and self.order(a) is not None:
                self.of[i] = self.add_all(self.ordered(a))
                return True
            return op == CALL and self.expand_call(i)
        if self.order(i) is None:
            return self.store_elements(i) if op == PLACE else op == CALL and self.store_at_indices(i)
        if has(op, IS_ELEMENTWISE) or op == STOP:
            return self.replace_elementwise(i)
        if op == VIEW:
            return self.replace_view(i)
        if op == PACK and code.types[code.kinds[i]][0] == FLOAT:
            return self.replace_pack(i)
        if op == PLACE:
            return self.replace_store(i)
        return op == CALL and self.expand_call(i)

    cdef bint replace_elementwise(self, Py_ssize_t i) except -1:
        cdef Listing code = self.code
        cdef int mask = names(code.ops[i])
        cdef int32_t kind = SCALAR if code.types[code.kinds[i]][0] == FLOAT else FLAG
        cdef int32_t v
        cdef list columns = []
        for bit, v in ((1, code.as_[i]), (2, code.bs[i]), (4, code.cs[i])):
            if not mask & bit or v < 0:
                columns.append(None)
            elif code.ops[i] < INPUT and self.dtype(v) != FLOAT:     # arithmetic on bools is not supported
                return False
            elif code.kinds[v] <= FLAG:
                columns.append([self.of[v]] * len(self.order(i)))
            elif self.order(v) is None:
                return False
            else:
                columns.append(self.ordered(v))
        cells = {}
        for k, place in enumerate(self.order(i)):
            a, b, c = [-1 if column is None else column[k] for column in columns]
            cells[place] = emit(self.found, code.ops[i], a, b, c, kind)
        self.cells[i] = cells
        return True

    cdef int32_t add_all(self, list line) except -1:
        cdef int32_t s = line[0], term
        for term in line[1:]:
            s = emit(self.found, WG_ADD, s, term, -1, SCALAR)
        return s

    cdef int32_t multiply(self, int32_t a, int32_t b) except -1:
        return emit(self.found, WG_MULTIPLY, a, b, -1, SCALAR)

    cdef int32_t subtract(self, int32_t a, int32_t b) except -1:
        return emit(self.found, WG_SUBTRACT, a, b, -1, SCALAR)

    cdef int32_t sqrt_or_zero(self, int32_t a) except -1:
        """Emit the square root of a sum of squares; at 0 its derivative is 0, as in the rule of ``norm``."""
        cdef int32_t zero = self.found.constant(0.0)
        cdef int32_t is_zero = emit(self.found, EQUAL, a, zero, -1, FLAG)
        return emit(self.found, SELECT, is_zero, zero, emit(self.found, SQRT, a, -1, -1, SCALAR), SCALAR)

    cdef bint replace_view(self, Py_ssize_t i) except -1:
        """Resolve a view of a small array to elements; a view of a large array is copied."""
        cdef int32_t a = self.code.as_[i]
        dtype = self.code.types[self.code.kinds[i]][0]
        if self.cells[a] is None or self.code.types[self.code.kinds[a]][0] != dtype:
            return False
        cells = self.cells[a]
        at = self.offsets_of(self.code.bs[i], dtype)
        self.cells[i] = {place: cells[there] for place, there in zip(self.order(i), at)}
        return True

    cdef bint replace_pack(self, Py_ssize_t i) except -1:
        cdef int32_t a = self.code.as_[i]
        if a >= 0 and self.order(a) is None:
            return False
        offsets, values = self.code.packs[self.code.bs[i]]
        if a >= 0:
            cells = self.relabelled(a, i)
        elif len(values) < len(self.order(i)):
            zero = self.found.constant(0.0)
            cells = dict.fromkeys(self.order(i), zero)
        else:
            cells = {}
        for place, v in zip(offsets.tolist(), values.tolist()):
            cells[place] = self.of[<int32_t>v]
        self.cells[i] = cells
        return True

    cdef bint replace_store(self, Py_ssize_t i) except -1:
        cdef int32_t a = self.code.as_[i]
        found = self.stored_elements(i)
        if found is None or (a >= 0 and self.order(a) is None):
            return False
        cells = self.relabelled(a, i) if a >= 0 else {}
        cells.update(zip(*found))
        self.cells[i] = cells
        return True

    cdef bint store_elements(self, Py_ssize_t i) except -1:
        """Store a replaced array into a large one with a PACK of its elements."""
        cdef int32_t a = self.code.as_[i], c = self.code.cs[i]
        if a < 0 and self.code.kinds[c] == self.code.kinds[i] and self.of[c] >= 0 and self.covers_all(i):
            self.of[i] = self.of[c]
            return True
        if a < 0 or self.cells[c] is None or self.of[c] >= 0 or self.dtype(i) != FLOAT:
            return False
        if self.code.kinds[a] != self.code.kinds[i]:
            return False
        found = self.stored_elements(i)
        if found is None:
            return False
        at, values = found
        self.found.packs.append((np.array(at, np.int32), np.array(values, np.int32)))
        self.of[i] = emit(self.found, PACK, self.materialise(a), len(self.found.packs) - 1, -1, self.code.kinds[i])
        return True

    cdef bint covers_all(self, Py_ssize_t i) except -1:
        """Return whether a PLACE overwrites its whole array."""
        return self.code.views[self.code.bs[i]] == whole_view(self.code.types[self.code.kinds[i]])

    cdef bint store_at_indices(self, Py_ssize_t i) except -1:
        """As `store_elements`, at constant integer indices; at repeated indices the last write wins."""
        call = self.code.calls[self.code.as_[i]]
        if call.row is None or call.row.fun is not placed or call.kwargs or self.dtype(i) != FLOAT:
            return False
        base, key, value = call.args
        shape = self.code.types[self.code.kinds[i]][1]
        if type(base) is not Operand or self.code.kinds[call.operands[base.position]] != self.code.kinds[i]:
            return False
        places = index_offsets(key, shape)
        found = None if places is None else self.factor(call, value)
        if found is None:
            return False
        given, line = found
        given = given[max(0, len(given) - places.ndim):]
        values = np.broadcast_to(np.array(line(), np.int32).reshape(given), places.shape)
        cells = dict(zip(places.ravel().tolist(), values.ravel().tolist()))
        self.found.packs.append((np.array(list(cells), np.int32), np.array(list(cells.values()), np.int32)))
        v = self.materialise(call.operands[base.position])
        self.of[i] = emit(self.found, PACK, v, len(self.found.packs) - 1, -1, self.code.kinds[i])
        return True

    cdef object stored_elements(self, Py_ssize_t i):
        """Return the offsets and elements that a PLACE stores; None if it is no small store of known elements."""
        cdef int32_t c = self.code.cs[i]
        dtype = self.code.types[self.code.kinds[i]][0]
        shape = self.code.views[self.code.bs[i]][1]
        if not math.prod(shape) <= MAX_SIZE:
            return None
        if self.code.kinds[c] <= FLAG:
            if (dtype == FLOAT) != (self.code.kinds[c] == SCALAR):
                return None
            values = [self.of[c]] * math.prod(shape)
        elif self.order(c) is None or self.code.types[self.code.kinds[c]][0] != dtype:
            return None
        else:
            given = self.code.types[self.code.kinds[c]][1]
            line = np.array(self.ordered(c), np.int32).reshape(given[max(0, len(given) - len(shape)):])
            values = np.broadcast_to(line, shape).ravel().tolist()
        at = self.offsets_of(self.code.bs[i], dtype)
        return None if len(set(at)) < len(at) else (at, values)

    cdef list offsets_of(self, int32_t view, dtype):
        """Return the offsets of a view's elements in its array."""
        found = self.store_offsets.get((view, dtype))
        if found is None:
            found = self.store_offsets[view, dtype] = view_offsets(self.code.views[view], dtype.itemsize)
        return found

    cdef bint expand_call(self, Py_ssize_t i) except -1:
        """Expand a call of a function of small arrays."""
        call = self.code.calls[self.code.as_[i]]
        if call.row is None or self.dtype(i) != (BOOL if call.row.scalars in ("any", "all") else FLOAT):
            return False
        made = EXPANSIONS.get(call.row.scalars) or (EXPANSIONS_TO_RUN.get(call.row.scalars) if self.to_run else None)
        if made is not None:
            found = made(self, i, call)
        else:
            found = expand_rearrangement(self, call) if access.moves(call) and not access.heeds_memory(call) else None
        if found is None:
            return False
        if self.code.kinds[i] <= FLAG or self.dtype(i) == BOOL:
            (self.of[i],) = found
        else:
            self.cells[i] = dict(zip(self.order(i), found))
        return True

    cdef object factor(self, call, argument, bint with_truths=False):
        """Return the shape of a small array or scalar and a function that emits its elements; None for other values.

        `with_truths`: convert bools to 1.0 and 0.0 instead of returning None.
        """
        cdef int32_t v
        if type(argument) is Operand:
            v = call.operands[argument.position]
            if self.code.kinds[v] == SCALAR:
                return (), functools.partial(scalar_element, self, v)
            if self.code.kinds[v] == FLAG or self.order(v) is None:
                return None
            shape = self.code.types[self.code.kinds[v]][1]
            if self.dtype(v) != FLOAT:
                return (shape, functools.partial(bool_elements, self, v)) if with_truths else None
            return shape, functools.partial(array_elements, self, v)
        if type(argument) is not np.ndarray or argument.dtype != FLOAT or not 0 < argument.size <= MAX_SIZE:
            return None
        return argument.shape, functools.partial(constant_elements, self, argument)

    cdef object dtype(self, Py_ssize_t v):
        return self.code.types[self.code.kinds[v]][0]


cdef object index_offsets(key, tuple shape):
    """Return the offsets that integer arrays select in a C-order array; None for other or for large keys."""
    keys = key if type(key) is tuple else (key,)
    if len(keys) != len(shape) or not all([isinstance(k, (np.ndarray, np.integer, int)) for k in keys]):
        return None
    arrays = np.broadcast_arrays(*[np.asarray(k) for k in keys])
    if not 0 < arrays[0].size <= MAX_SIZE or any([k.dtype.kind not in "iu" for k in arrays]):
        return None
    return np.ravel_multi_index([k.astype(np.intp) + n * (k < 0) for k, n in zip(arrays, shape)], shape)


cdef Py_ssize_t lowest_offset(tuple view) except -1:
    """Return the byte offset of the lowest address of a view."""
    offset, shape, strides = view
    return offset + sum([(n - 1) * stride for n, stride in zip(shape, strides) if stride < 0])


cdef list view_offsets(tuple view, Py_ssize_t itemsize):
    """Return the offsets of a view's elements, in order."""
    offset, shape, strides = view
    cdef list found = [offset]
    for n, stride in zip(shape, strides):
        found = [at + k * stride for at in found for k in range(n)]
    return [at // itemsize for at in found]


def expand_product(Scalariser self, i, call):
    """Expand a product of small vectors or matrices; return its elements, or None if it does not match."""
    if call.kwargs or len(call.args) != 2:
        return None
    factors = [self.factor(call, argument) for argument in call.args]
    if None in factors:
        return None
    (first, left), (second, right) = factors
    if call.row.scalars == "matmul":
        first, second = squeeze_stack(first), squeeze_stack(second)
    if not (0 < len(first) <= 2 and 0 < len(second) <= 2):
        return None
    if len(first) + len(second) > 2 and call.row.scalars == "inner":
        return None
    rows, inner = (1, *first) if len(first) == 1 else first
    columns = second[1] if len(second) == 2 else 1
    if rows * inner * columns > MAX_PRODUCTS:
        return None
    left, right = left(), right()
    return [self.add_all([self.multiply(left[r * inner + k], right[k * columns + c]) for k in range(inner)])
            for r in range(rows) for c in range(columns)]


def squeeze_stack(tuple shape):
    """Drop leading axes of length 1 from a stack of one matrix."""
    return shape[-2:] if set(shape[:-2]) == {1} else shape


def expand_cross(Scalariser self, i, call):
    """Expand a cross product of two vectors."""
    if call.kwargs or len(call.args) != 2:
        return None
    factors = [self.factor(call, argument) for argument in call.args]
    if None in factors or [shape for shape, _ in factors] != [(3,), (3,)]:
        return None
    a, b = [line() for _, line in factors]
    return [self.subtract(self.multiply(a[j], b[k]), self.multiply(a[k], b[j])) for j, k in ((1, 2), (2, 0), (0, 1))]


def expand_norm(Scalariser self, i, call):
    """Expand the norm of a vector."""
    if call.kwargs or len(call.args) != 1:
        return None
    found = self.factor(call, call.args[0])
    if found is None or len(found[0]) != 1:
        return None
    return [self.sqrt_or_zero(self.add_all([self.multiply(v, v) for v in found[1]()]))]


def reduction_rule(fold, values_alone=math.inf):
    """Make the expansion rule of a reduction; `fold` combines a list of new values into one.

    From `values_alone` elements on it applies only to programs that are not differentiated.
    """
    def rule(Scalariser self, i, call):
        options = dict(call.kwargs)
        axes = options.pop("axis", None) if len(call.args) == 1 else call.args[1]
        options.pop("keepdims", None)
        if len(call.args) > 2 or options.pop("dtype", FLOAT) not in (None, float, FLOAT) or options:
            return None
        return expand_reduction(self, call, axes, fold, values_alone)

    return rule


def expand_reduction(Scalariser self, call, axes, fold, values_alone=math.inf):
    """Expand a reduction of the first argument along axes."""
    found = self.factor(call, call.args[0], True)
    if found is None or found[0] == ():
        return None
    shape, line = found
    axes = range(len(shape)) if axes is None else axes if type(axes) is tuple else (axes,)
    count = math.prod([shape[axis] for axis in axes])
    if count >= values_alone and not self.to_run:
        return None
    return [fold(self, terms) for terms in axes_last(np.reshape(line(), shape), axes).reshape(-1, count).tolist()]


def axes_last(array, axes):
    """Move these axes to the end."""
    return np.moveaxis(array, axes, range(-len(axes), 0))


def sum_terms(Scalariser self, terms):
    return self.add_all(terms)


def mean_terms(Scalariser self, terms):
    return emit(self.found, WG_DIVIDE, self.add_all(terms), self.found.constant(len(terms)), -1, SCALAR)


def fold_left(Scalariser self, terms, int op):
    cdef int32_t found = terms[0], term
    for term in terms[1:]:
        found = emit(self.found, op, found, term, -1, SCALAR)
    return found


def fold_left_by(name):
    return lambda self, terms: fold_left(self, terms, OPCODES[name])


def finite_max(Scalariser self, terms):
    """Emit the maximum, or 0 if that is not finite."""
    top = fold_left(self, terms, OPCODES["maximum"])
    size = emit(self.found, OPCODES["absolute"], top, -1, -1, SCALAR)
    is_finite = emit(self.found, LESS, size, self.found.constant(math.inf), -1, FLAG)
    return emit(self.found, SELECT, is_finite, top, self.found.constant(0.0), SCALAR)


def log_sum_exp(Scalariser self, terms):
    """Emit log(sum(exp(terms))), pairwise as ``np.logaddexp`` does it, which is accurate for results near 0."""
    found = terms[0]
    for term in terms[1:]:
        top = emit(self.found, OPCODES["maximum"], found, term, -1, SCALAR)
        low = emit(self.found, OPCODES["minimum"], found, term, -1, SCALAR)
        ratio = emit(self.found, OPCODES["exp"], self.subtract(low, top), -1, -1, SCALAR)
        more = emit(self.found, OPCODES["log1p"], ratio, -1, -1, SCALAR)
        is_same = emit(self.found, EQUAL, found, term, -1, FLAG)      # includes equal infinities
        more = emit(self.found, SELECT, is_same, self.found.constant(math.log(2.0)), more, SCALAR)
        found = emit(self.found, WG_ADD, top, more, -1, SCALAR)
    return found


def expand_log_sum_exp(Scalariser self, i, call):
    """Expand ``log_sum`` with unit weights."""
    _, b, axes = call.args
    if type(b) is not np.ndarray or not (b == 1.0).all():
        return None
    return expand_reduction(self, call, axes, log_sum_exp)


def expand_logaddexp(Scalariser self, i, call):
    """Expand ``np.logaddexp`` elementwise."""
    factors = [self.factor(call, argument) for argument in call.args]
    if call.kwargs or len(factors) != 2 or None in factors:
        return None
    columns = np.broadcast_arrays(*[np.reshape(line(), shape) for shape, line in factors])
    return [log_sum_exp(self, pair) for pair in zip(*[column.ravel().tolist() for column in columns])]


def exponentials(Scalariser self, terms, top):
    """Emit exp(term - top) for each term, and their sum."""
    found = [emit(self.found, OPCODES["exp"], self.subtract(term, top), -1, -1, SCALAR) for term in terms]
    return found, self.add_all(found)


def softmax(Scalariser self, terms):
    found, total = exponentials(self, terms, fold_left(self, terms, OPCODES["maximum"]))
    return [emit(self.found, WG_DIVIDE, e, total, -1, SCALAR) for e in found]


def log_softmax(Scalariser self, terms):
    top = finite_max(self, terms)
    _, total = exponentials(self, terms, top)
    log = emit(self.found, OPCODES["log"], total, -1, -1, SCALAR)
    return [self.subtract(self.subtract(term, top), log) for term in terms]


def normalisation_rule(share):
    """Make the expansion rule of a normalisation along axes; `share` maps the terms of one sum to as many results."""
    def rule(Scalariser self, i, call):
        found = self.factor(call, call.args[0])
        if found is None or found[0] == ():
            return None
        shape, line = found
        made = np.empty(shape, int)
        ids, places = [axes_last(x, call.args[1]) for x in (np.reshape(line(), shape), made)]
        for at in np.ndindex(*ids.shape[:ids.ndim - len(call.args[1])]):
            places[at] = np.reshape(share(self, ids[at].ravel().tolist()), ids[at].shape)
        return made.ravel().tolist()

    return rule


def expand_solve(Scalariser self, i, call):
    """Expand the solution of a small system by Gaussian elimination with partial pivoting, as in LAPACK."""
    found = small_matrix(self, call)
    if found is None or len(call.args) != 2:
        return None
    right = self.factor(call, call.args[1])
    if right is None or len(right[0]) not in (1, 2):
        return None
    rows = np.hstack([found, np.reshape(right[1](), (len(found), -1))]).tolist()
    return list(itertools.chain(*solve_rows(self, rows)))


def expand_inverse(Scalariser self, i, call):
    """Expand the inverse of a small matrix."""
    found = small_matrix(self, call)
    if found is None:
        return None
    unit = [[self.found.constant(j == k) for k in range(len(found))] for j in range(len(found))]
    return list(itertools.chain(*solve_rows(self, np.hstack([found, unit]).tolist())))


def expand_determinant(Scalariser self, i, call):
    """Expand the determinant of a small matrix, the signed product of the pivots."""
    found = small_matrix(self, call)
    if found is None:
        return None
    rows = found.tolist()
    sign = eliminate(self, rows)
    return [fold_left(self, [sign, *[row[k] for k, row in enumerate(rows)]], WG_MULTIPLY)]


def expand_slogdet(Scalariser self, i, call):
    """Expand sign and log of the absolute value of a determinant, as one array of two elements."""
    found = small_matrix(self, call)
    if found is None:
        return None
    rows = found.tolist()
    sign, logs = eliminate(self, rows), []
    zero, minus = self.found.constant(0.0), self.found.constant(-1.0)
    for k, row in enumerate(rows):
        size = emit(self.found, OPCODES["absolute"], row[k], -1, -1, SCALAR)
        logs.append(emit(self.found, OPCODES["log"], size, -1, -1, SCALAR))
        is_negative = emit(self.found, LESS, row[k], zero, -1, FLAG)
        is_zero = emit(self.found, EQUAL, row[k], zero, -1, FLAG)
        here = emit(self.found, SELECT, is_negative, minus, self.found.constant(1.0), SCALAR)
        sign = self.multiply(sign, emit(self.found, SELECT, is_zero, zero, here, SCALAR))
    return [sign, self.add_all(logs)]


def small_matrix(Scalariser self, call):
    """Return the elements of the first argument if it is a small square matrix, else None."""
    found = self.factor(call, call.args[0])
    if found is None or call.kwargs:
        return None
    shape, line = found
    return np.reshape(line(), shape) if len(shape) == 2 and 0 < shape[0] == shape[1] <= MAX_EQUATIONS else None


def eliminate(Scalariser self, list rows):
    """Reduce the rows of an augmented matrix to upper triangular form in place; return the sign of the permutation.

    Partial pivoting takes the largest element of a column; if that is 0, all elements below it are 0 or NaN.
    """
    cdef Py_ssize_t k, r, c, n = len(rows)
    zero, minus = self.found.constant(0.0), self.found.constant(-1.0)
    sign = self.found.constant(1.0)
    for k in range(n - 1):
        for r in range(k + 1, n):
            size, other = [emit(self.found, OPCODES["absolute"], rows[j][k], -1, -1, SCALAR) for j in (k, r)]
            is_less = emit(self.found, LESS, size, other, -1, FLAG)
            for c in range(k, len(rows[k])):
                above, below = rows[k][c], rows[r][c]
                rows[k][c] = emit(self.found, SELECT, is_less, below, above, SCALAR)
                rows[r][c] = emit(self.found, SELECT, is_less, above, below, SCALAR)
            sign = self.multiply(sign, emit(self.found, SELECT, is_less, minus, self.found.constant(1.0), SCALAR))
        for r in range(k + 1, n):
            factor = emit(self.found, WG_DIVIDE, rows[r][k], rows[k][k], -1, SCALAR)
            is_zero = emit(self.found, EQUAL, rows[r][k], zero, -1, FLAG)
            factor = emit(self.found, SELECT, is_zero, zero, factor, SCALAR)
            for c in range(k + 1, len(rows[k])):
                rows[r][c] = self.subtract(rows[r][c], self.multiply(factor, rows[k][c]))
    return sign


def solve_rows(Scalariser self, list rows):
    """Solve a linear system, given as an augmented matrix; a guard rejects zero pivots, for which NumPy raises."""
    cdef Py_ssize_t k, r, n = len(rows)
    eliminate(self, rows)
    zero, is_singular = self.found.constant(0.0), -1
    for k in range(n):
        is_zero = emit(self.found, EQUAL, rows[k][k], zero, -1, FLAG)
        is_singular = is_zero if k == 0 else emit(self.found, OR, is_singular, is_zero, -1, FLAG)
    self.found.guard(is_singular, False, SINGULAR)
    found = [row[n:] for row in rows]
    for k in range(n - 1, -1, -1):
        for r in range(k + 1, n):
            found[k] = [self.subtract(a, self.multiply(rows[k][r], b)) for a, b in zip(found[k], found[r])]
        found[k] = [emit(self.found, WG_DIVIDE, a, rows[k][k], -1, SCALAR) for a in found[k]]
    return found


def logical_rule(int op):
    """Make the expansion rule of ``any`` or ``all``, given the opcode OR or AND."""
    def rule(Scalariser self, i, call):
        if call.kwargs or len(call.args) != 1 or type(call.args[0]) is not Operand:
            return None
        v = call.operands[call.args[0].position]
        if self.code.kinds[v] == FLAG:
            return [self.of[<Py_ssize_t>v]]
        if self.order(v) is None or self.dtype(v) != BOOL or not self.ordered(v):
            return None
        found, *rest = self.ordered(v)
        for flag in rest:
            found = emit(self.found, op, found, flag, -1, FLAG)
        return [found]

    return rule


def expand_rearrangement(Scalariser self, call):
    """Expand a rearrangement, evaluated on element ids counted from 1; id 0 marks constants of the function itself."""
    values, zeros = [], {}

    def numbers(argument):
        if type(argument) is not Operand:
            return np.zeros(np.shape(argument), int)
        shape, line = self.factor(call, argument) or (None, None)
        if shape is None:
            raise Unknown
        zeros[argument.position] = np.zeros(shape)
        first = len(values) + 1
        values.extend(line())
        return np.arange(first, len(values) + 1).reshape(shape)

    try:
        where = access.rearranged(call, numbers, lambda _: None)
    except Unknown:
        return None
    if where is None:
        return None
    where = np.ravel(where).tolist()
    if 0 not in where:
        return [values[k - 1] for k in where]
    own = np.ravel(call.compute(*filled(call.args, zeros), **{k: filled(x, zeros) for k, x in call.kwargs.items()}))
    return [values[k - 1] if k else self.found.constant(x) for k, x in zip(where, own)]


class Unknown(Exception):
    """Raised for an operand that is not a small array."""


def scalar_element(Scalariser self, v):
    return [self.of[<Py_ssize_t>v]]


def array_elements(Scalariser self, v):
    return self.ordered(v)


def bool_elements(Scalariser self, v):
    cdef int32_t one = self.found.constant(1.0), zero = self.found.constant(0.0), flag
    return [emit(self.found, SELECT, flag, one, zero, SCALAR) for flag in self.ordered(v)]


def constant_elements(Scalariser self, array):
    return [self.found.constant(x) for x in array.ravel().tolist()]


#: expansion rules by the registry column ``scalars``: from the operands' elements to the result's
cdef dict EXPANSIONS = {
    **dict.fromkeys(("matmul", "dot", "inner"), expand_product),
    "cross": expand_cross,
    "norm": expand_norm,
    "sum": reduction_rule(sum_terms),
    "mean": reduction_rule(mean_terms),
    "prod": reduction_rule(fold_left_by("multiply")),
    "max": reduction_rule(fold_left_by("maximum"), 3),
    "min": reduction_rule(fold_left_by("minimum"), 3),
}
#: rules for programs that are only run: the derivative rules of these functions handle ties, infinities and singular
#: matrices, which the derivatives of the expansions do not
cdef dict EXPANSIONS_TO_RUN = {
    "logaddexp of all": reduction_rule(log_sum_exp),
    "finite maximum": reduction_rule(finite_max),
    "log sum exp": expand_log_sum_exp,
    "logaddexp": expand_logaddexp,
    "softmax": normalisation_rule(softmax),
    "log softmax": normalisation_rule(log_softmax),
    "solve": expand_solve,
    "inverse": expand_inverse,
    "determinant": expand_determinant,
    "log determinant": expand_slogdet,
    "any": logical_rule(OR),
    "all": logical_rule(AND),
}
#: values of `Primitive.scalars` that have a rule here
WORDS = frozenset((*EXPANSIONS, *EXPANSIONS_TO_RUN))


def is_expanded_late(call):
    """Return whether a call is expanded only in programs that will not be differentiated."""
    return call.row is not None and (call.row.scalars in ("max", "min") or call.row.scalars in EXPANSIONS_TO_RUN
                                     and call.row.scalars not in ("any", "all"))
