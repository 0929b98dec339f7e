# cython: language_level=3
"""Scalar replacement of small arrays (Muchnick 1997, section 12.2).

Input: a program; output: a program with scalars in place of small arrays, or the same one if that does not pay.
The state of a small system is an array of two or three elements, and each time step computes a new one.
An instruction on such an array costs more than scalar instructions on its elements. It also requires packs and loads,
and separates isomorphic scalar expressions that could be vectorised.

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
from wengert.program.ir.call import PRODUCTS, Operand, product_of
from wengert.program.ir.ir import operands
from wengert.program.ir.native_calls import native_guard
from wengert.program.ir.opcode_table import OPCODES
from wengert.program.passes import cost
from wengert.program.passes.simplify import simplified
from wengert.program.ir.call_rules import filled, placed

cdef enum:
    MAX_SIZE = 16               # larger arrays are not replaced by scalars
    MAX_REDUCED = 64            # reductions of arrays up to this size are expanded, which saves a Python call
    MAX_PRODUCTS = 64           # limit on the multiplications of an expanded matrix product
    MAX_EQUATIONS = 3           # limit on the order of an expanded linear system
    MIN_INSTRUCTIONS = 4        # programs with fewer instructions on small arrays are left alone
    MAX_SCALARS = 2000000       # limit on the scalar instructions that replace array instructions, per program

cdef object FLOAT = np.dtype(float), BOOL = np.dtype(bool)


def replace_small_arrays(Listing code, double share=math.inf, bint to_run=False):
    """Return the program with small arrays replaced by scalars.

    The same program is returned if there are too few small arrays, if the result would be too long, or if its scalar
    arithmetic alone would take more than `share` of the estimated time.
    With `to_run`, the program will not be differentiated, so that calls are also expanded if the derivative of the
    expansion differs from that of the function at ties or singular points.
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
        few += size > 0 and (op < INPUT or op == PACK)
        if op == CALL and (size > 0 or kind == SCALAR):
            few += MIN_INSTRUCTIONS if is_expanded(code.calls[code.as_[i]], to_run) else 1
        if size and op < INPUT:
            count += size
            time += size * (SCALAR_COST if not has(op, IS_FUNCTION) else FUNCTION_COST)
    if few < MIN_INSTRUCTIONS or count > MAX_SCALARS or time > share * nanoseconds(code):
        return code
    return simplified(Scalariser(code, orders, to_run).run(), False)


cdef bint is_expanded(call, bint to_run) except -1:
    """Return whether a rule can replace a call by scalar instructions."""
    word = expanded_word(call)
    return word in EXPANSIONS or to_run and word in EXPANSIONS_TO_RUN


cdef object expanded_word(call):
    """Return the name of the rule that expands a call; None for functions of Python's standard library.

    Python's ``sum`` of floats, for example, has the derivative of ``np.sum``, but compensates rounding errors.
    """
    return None if call.row is None or hasattr(call.compute, "is_kernel") else call.row.scalars


cdef list element_offsets(tuple type):
    """Return the memory offsets of a small array's elements, in order; None if the type is not a small array."""
    dtype, shape, strides = type
    if (dtype != FLOAT and dtype != BOOL) or not 0 < math.prod(shape) <= MAX_SIZE:
        return None
    if strides is None:
        return list(range(math.prod(shape)))
    return view_offsets(whole_view(type), dtype.itemsize)


cdef class Scalariser:
    cdef Listing code, found
    cdef int32_t *of            # id in the new program, -1: represented by elements only
    cdef Block room             # allocation that holds `of`
    cdef list cells             # elements of each array, {offset: new id}; None: not loaded yet
    cdef list orders            # by type id: offsets of the elements in order; None: not a small array
    cdef dict store_offsets     # offsets of views and stores, by view and bytes of an element
    cdef bint to_run            # whether the program will not be differentiated
    cdef list squares           # squares of expanded norms; derivatives are those of `norm` only if these are finite

    def __cinit__(self, Listing code, list orders, bint to_run):
        self.to_run, self.orders, self.squares = to_run, orders, []
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
        if self.squares:
            total = self.add_all(self.squares)      # finite only if each is, as none is negative
            is_changed = emit(self.found, ISNAN, self.subtract(total, total), -1, -1, FLAG)
            self.found.guard(is_changed, False, INFINITE)
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
        if self.cells[v] is None and self.code.ops[v] == ARRAY and self.dtype(v) == FLOAT:
            numbers = self.code.arrays[self.code.as_[v]].ravel().tolist()
            self.cells[v] = {place: self.found.constant(x) for place, x in zip(self.order(v), numbers)}
        if self.cells[v] is None:
            self.cells[v] = self.loads(v, self.order(v))
        return self.cells[v]

    cdef dict loads(self, Py_ssize_t v, list order):
        """Load elements of an array, given their offsets; return them by offset."""
        cdef Py_ssize_t u = v, low = 0
        dtype = self.dtype(v)
        kind = SCALAR if dtype == FLOAT else FLAG
        while self.code.ops[u] == VIEW and self.dtype(self.code.as_[u]) == dtype:   # load from the base array
            low += lowest_offset(self.code.views[self.code.bs[u]]) // dtype.itemsize
            u = self.code.as_[u]
        return {place: emit(self.found, LOAD, self.of[u], low + place, -1, kind) for place in sorted(set(order))}

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
                self.of[i] = (<dict>self.cells[a])[code.bs[i]]
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
        if op == PACK and self.is_float(i):
            return self.replace_pack(i)
        if op == PLACE:
            return self.replace_store(i)
        return op == CALL and self.expand_call(i)

    cdef bint replace_elementwise(self, Py_ssize_t i) except -1:
        cdef Listing code = self.code
        cdef int op = code.ops[i], mask = names(op), j
        cdef int32_t v
        cdef int32_t kind = SCALAR if self.is_float(i) else FLAG
        cdef int32_t[3] ids = [-1, -1, -1], columns = [code.as_[i], code.bs[i], code.cs[i]]
        cdef list arrays = [None, None, None]           # elements of the operands by offset in this array
        cdef dict cells = {}
        for j in range(3):
            v = columns[j]
            if not mask >> j & 1 or v < 0:
                continue
            if op < INPUT and not self.is_float(v):     # arithmetic on bools is not supported
                return False
            if code.kinds[v] <= FLAG:
                ids[j] = self.of[v]
            elif self.order(v) is None:
                return False
            else:
                arrays[j] = self.elements(v) if code.kinds[v] == code.kinds[i] else self.relabelled(v, i)
        for place in self.order(i):
            for j in range(3):
                if arrays[j] is not None:
                    ids[j] = (<dict>arrays[j])[place]
            cells[place] = emit(self.found, op, ids[0], ids[1], ids[2], kind)
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
        """Replace an assignment at constant integer indices by a PACK; at repeated indices the last write wins."""
        call = self.code.calls[self.code.as_[i]]
        if call.row is None or call.row.fun is not placed or call.kwargs or self.dtype(i) != FLOAT:
            return False
        base, key, value = call.args
        dtype, shape, strides = layout = self.code.types[self.code.kinds[i]]
        if type(base) is not Operand or self.code.kinds[call.operands[base.position]] != self.code.kinds[i]:
            return False
        places = index_offsets(key, shape)
        found = None if places is None else self.factor(call, value)
        if found is None:
            return False
        given, line = found
        given = given[max(0, len(given) - places.ndim):]
        if strides is not None:
            places = np.array(view_offsets(whole_view(layout), dtype.itemsize))[places]
        values = np.broadcast_to(np.array(line(), np.int32).reshape(given), places.shape)
        cells = dict(zip(places.ravel().tolist(), values.ravel().tolist()))
        self.found.packs.append((np.array(list(cells), np.int32), np.array(list(cells.values()), np.int32)))
        v = self.materialise(call.operands[base.position])
        self.of[i] = emit(self.found, PACK, v, len(self.found.packs) - 1, -1, self.code.kinds[i])
        return True

    cdef object stored_elements(self, Py_ssize_t i):
        """Return the offsets and elements that a PLACE stores; None if they are many or not known."""
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
        key = view, dtype.itemsize
        found = self.store_offsets.get(key)
        if found is None:
            found = self.store_offsets[key] = view_offsets(self.code.views[view], dtype.itemsize)
        return found

    cdef bint expand_call(self, Py_ssize_t i) except -1:
        """Expand a call of a function of small arrays."""
        call = self.code.calls[self.code.as_[i]]
        if call.row is None or self.dtype(i) != (BOOL if call.row.scalars in ("any", "all") else FLOAT):
            return False
        word = expanded_word(call)
        made = EXPANSIONS.get(word) or (EXPANSIONS_TO_RUN.get(word) if self.to_run else None)
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

    cdef object factor(self, call, argument, bint with_truths=False, int most=MAX_SIZE):
        """Return the shape of a small array or scalar and a function that emits its elements; None for other values.

        `with_truths`: convert bools to 1.0 and 0.0 instead of returning None.
        `most`: arrays that were not replaced are loaded if they have at most this many elements.
        """
        cdef int32_t v
        if type(argument) is Operand:
            v = call.operands[argument.position]
            if self.code.kinds[v] == SCALAR:
                return (), functools.partial(scalar_element, self, v)
            shape = self.code.types[self.code.kinds[v]][1]
            if self.code.kinds[v] == FLAG:
                return None
            if self.order(v) is None:
                is_loaded = self.dtype(v) == FLOAT and 0 < math.prod(shape) <= most
                return (shape, functools.partial(loaded_elements, self, v)) if is_loaded else None
            if self.dtype(v) != FLOAT:
                return (shape, functools.partial(bool_elements, self, v)) if with_truths else None
            return shape, functools.partial(array_elements, self, v)
        if type(argument) is not np.ndarray or argument.dtype != FLOAT or not 0 < argument.size <= most:
            return None
        return argument.shape, functools.partial(constant_elements, self, argument)

    cdef object dtype(self, Py_ssize_t v):
        return self.code.types[self.code.kinds[v]][0]

    cdef bint is_float(self, Py_ssize_t v) except -1:
        dtype = self.dtype(v)
        return dtype is FLOAT or dtype == FLOAT         # identity is much cheaper


include "scalarise_cost.pxi"
include "expansions.pxi"


cdef object index_offsets(key, tuple shape):
    """Return the positions, in C order, that integer arrays select; None for other or for large keys."""
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


class Unknown(Exception):
    """Raised for an operand that is not a small array."""


def is_expanded_late(call):
    """Return whether a call is expanded only in programs that will not be differentiated."""
    return call.row is not None and (call.row.scalars in ("max", "min") or call.row.scalars in EXPANSIONS_TO_RUN
                                     and call.row.scalars not in ("any", "all"))
