# Bounds checks, included by machine.pyx: a debug build (WG_DEBUG) checks each VM instruction before it first runs.
#
# After lowering, all addresses that the VM computes are known: slots by their index, elements by offset and strides.
# The only exceptions are the indices of a GATHER, which are constant and checked by ir/verify.py.


cdef class Bounds:
    """The bounds of arrays in their allocations, and the checks of VM instructions against them."""

    cdef dict arrays            # by array: bytes before its first element, bytes from there to the end, item size
    cdef Py_ssize_t slots
    cdef object step            # the VM instruction being checked

    def __init__(self, Lowering low):
        cdef Allocation alloc
        self.slots = low.slots
        self.arrays = {}
        for alloc in low.allocs:
            for array, first in alloc.arrays:
                self.arrays[array] = first, alloc.layout.span - first, min(alloc.layout.itemsize, <int>sizeof(double))

    cdef int expect(self, bint holds, str what) except -1:
        if not holds:
            raise SystemError(f"an instruction accesses memory outside its buffers: {what}: {self.step!r}")
        return 0

    cdef int inside(self, array, low, high) except -1:
        """Check that bytes `low` to `high` from an array's first element are within its allocation."""
        before, behind, _ = self.arrays[array]
        return self.expect(-before <= low <= high <= behind, f"array {array} from {low} to {high}")

    cdef int among_slots(self, slots) except -1:
        for slot in slots:
            self.expect(0 <= slot < self.slots, f"slot {slot} of {self.slots}")
        return 0

    cdef int at_places(self, array, places) except -1:
        return self.inside(array, 8 * int(places.min()), 8 * int(places.max()) + 8) if len(places) else 0

    cdef int spread(self, array, dims, strides, size) except -1:
        """Check elements at regular strides, given in bytes."""
        if 0 in dims:
            return 0
        ends = [(n - 1) * step for n, step in zip(dims, strides)]
        return self.inside(array, sum([min(0, end) for end in ends]), sum([max(0, end) for end in ends]) + size)

    cdef int numbers(self, code) except -1:
        cdef Py_ssize_t i = 0
        rows = code.tolist()
        while rows[i][0] != WG_M_END:
            op, a, b, y = rows[i]
            word, count = OPCODES[op]
            if word in ("load", "load_bool"):
                size = 8 if word == "load" else 1
                self.inside(a, size * b, size * b + size)
            else:
                self.among_slots((a, b)[:count])
            self.among_slots((y,) if word not in ("guard", "guard_int") else ())
            if count == 3 or word == "loop":
                i += 1
                self.among_slots((rows[i][1],) if count == 3 else ())
            i += 1
        return self.expect(i == len(rows) - 1, "code after the end")

    cdef int vector(self, tuple given) except -1:
        _, _, dims, strides, walk, number, fill, sums, first, chunks, _, _, _ = given
        for (slot, array), steps in zip(walk, strides):
            self.spread(array, dims, steps, self.arrays[array][2])
        self.among_slots([slot for _, slot in number + fill])
        self.among_slots(sums)
        self.expect(all([slot < first for slot, _ in walk + number]), "slots of arrays and numbers")
        return self.expect(all([first <= slot < first + chunks for slot, _ in fill]), "slots of chunks")

    cdef int one(self, tuple given) except -1:
        kind = given[0]
        if kind == WG_NUMBERS:
            self.numbers(given[1])
        elif kind == WG_VECTOR:
            self.vector(given)
        elif kind == WG_COPY:
            for array in given[1:3]:
                if array >= 0:
                    self.inside(array, 0, given[3])
        elif kind == WG_PACK:
            self.at_places(given[1], given[2])
            self.among_slots(given[3].tolist())
        elif kind == WG_NATIVE:
            _, _, operands, result, _ = given
            for array, slot, _, _, dims, strides, _ in [*operands, result] if result is not None else operands:
                if array >= 0:
                    self.spread(array, dims, strides, self.arrays[array][2])
                self.among_slots([slot] if slot >= 0 else [])
        elif kind == WG_PUT or kind == WG_SCATTER:
            self.at_places(given[1], given[3])
            self.inside(given[2], 0, 8 * len(given[3]))
            self.inside(given[1], 0, 8 * given[4])
        elif kind == WG_PRODUCT:
            _, array, slot, factors, (m, k, n) = given
            self.among_slots([slot] if array < 0 else [])
            if array >= 0:
                self.inside(array, 0, 8 * m * n)
            for (array, constant, row, column), dims in zip(factors, ((m, k), (k, n))):
                if constant is None:
                    self.spread(array, dims, (8 * row, 8 * column), 8)
                else:
                    self.expect(constant.size >= math.prod(dims), "a constant factor")
        return 0


cdef int check_bounds(Lowering low) except -1:
    """Raise SystemError unless all VM instructions stay within their buffers."""
    cdef Bounds bounds = Bounds(low)
    for given in low.emitted:
        bounds.step = given
        bounds.one(given)
    return 0
