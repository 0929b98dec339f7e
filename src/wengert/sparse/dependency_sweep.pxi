# A forward pass over a program that propagates index sets.  Scalar instructions are handled here, array instructions in
# a subclass.
#
# A scalar that is read only once gets no set of its own: the sets of its operands are united where it is read. So a sum
# of n terms takes O(n) steps, not O(n**2).

cdef int WG_POWER = (<Kernel>kernels[np.power]).opcode

cdef enum:
    AA = 1                      # second partials of an elementwise function that may be nonzero
    AB = 2
    BB = 4


cdef inline int differentiable(int op) noexcept:
    """Bit mask of the operand columns with respect to which an instruction has a derivative: 1 | 2 | 4."""
    if LESS <= op <= ISNAN or op == STOP or op == GUARD:
        return 0
    if op == SELECT:
        return 6
    if op == GATHER or op == SCATTER:
        return 1
    if op == PUT:
        return 5
    return names(op) & 7


def with_outputs(Listing code, list outputs):
    """Copy of the IR with other outputs."""
    cdef Listing found = code.copy()
    found.outputs = outputs
    return found


cdef class Sweep:
    """One forward pass over a program. A subclass implements array instructions in `array`."""

    cdef readonly Listing code
    cdef readonly Sets sets
    cdef public list values         # of arrays: None, a buffer, (buffers, set) for a deferred union, or False: released
    cdef const unsigned char[::1] curvature     # AA | AB | BB by opcode
    cdef const unsigned char[::1] sides         # operands that a select takes, by instruction; empty: all
    cdef int32_t *of                # sets of scalars; -1: union of the operands, computed on demand
    cdef int32_t *uses
    cdef int32_t *last              # last instruction that reads a scalar
    cdef Py_ssize_t done            # number of processed instructions
    cdef public list given          # sets of the inputs, in C order
    cdef int32_t *stack
    cdef int32_t *leaves
    cdef Py_ssize_t stacked, stack_room, leaves_room

    def __cinit__(self, Listing code, Sets sets, const unsigned char[::1] curvature, const unsigned char[::1] sides,
                  *args):
        cdef Py_ssize_t n = max(1, code.n)
        self.code, self.sets, self.curvature, self.sides = code, sets, curvature, sides
        self.values = [None] * code.n
        self.of = <int32_t *>reallocate(NULL, n * sizeof(int32_t))
        self.uses = <int32_t *>reallocate(NULL, n * sizeof(int32_t))
        memset(self.of, 0, n * sizeof(int32_t))
        memset(self.uses, 0, n * sizeof(int32_t))
        self.last = <int32_t *>reallocate(NULL, n * sizeof(int32_t))
        memset(self.last, 0xff, n * sizeof(int32_t))

    def __dealloc__(self):
        PyMem_RawFree(self.last)
        PyMem_RawFree(self.of)
        PyMem_RawFree(self.uses)
        PyMem_RawFree(self.stack)
        PyMem_RawFree(self.leaves)

    def run(self, list results):
        """Compute the sets of all values with respect to which the results have derivatives."""
        cdef Py_ssize_t i
        self.find_uses(results)
        self.sets.frames.append(self)
        for i in range(self.code.n):
            if self.uses[i] == 0:
                continue
            self.done = i
            if self.code.kinds[i] > FLAG or not self.number(i):
                self.array(i)
                self.release(i)
            if self.sets.is_full():
                self.done = i + 1
                self.sets.compact()
        self.sets.frames.pop()

    def array(self, Py_ssize_t i):
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------ references

    cdef int mark_referenced(self, int32_t[::1] new) except -1:
        """Mark the sets that are read later, including those of operands of deferred scalars."""
        cdef Py_ssize_t i
        cdef int k, count
        cdef int32_t given[3]
        cdef unsigned char[::1] marked = np.zeros(max(1, self.done), dtype=np.uint8)
        mark_referenced([self.values, self.given], new)
        for i in range(self.done - 1, -1, -1):
            if self.code.kinds[i] > FLAG or not (marked[i] or self.last[i] >= self.done):
                continue
            if self.of[i] >= 0:
                new[self.of[i]] = 1
                continue
            count = self.operands(i, given)
            for k in range(count):
                marked[given[k]] = 1
        return 0

    cdef int renumber(self, int32_t[::1] new, dict known) except -1:
        cdef Py_ssize_t i
        renumber([self.values, self.given], np.asarray(new), known)
        for i in range(self.code.n):
            if self.of[i] > 0:
                self.of[i] = new[self.of[i]]
        return 0

    # ------------------------------------------------------------------------------------------ liveness

    cdef int operands_in(self, Py_ssize_t i, int columns, int32_t *found) noexcept:
        """Find the operands of an instruction in these columns; return their number."""
        cdef int count = 0
        if columns & 1 and self.code.as_[i] >= 0:
            found[count] = self.code.as_[i]
            count += 1
        if columns & 2 and self.code.bs[i] >= 0:
            found[count] = self.code.bs[i]
            count += 1
        if columns & 4 and self.code.cs[i] >= 0:
            found[count] = self.code.cs[i]
            count += 1
        return count

    cdef inline void use(self, int32_t v, Py_ssize_t i) noexcept:
        self.uses[v] += 1
        if self.last[v] < 0:
            self.last[v] = <int32_t>i

    cdef int find_uses(self, list results) except -1:
        """Count the reads of each value by instructions that the results depend on; 0 if it has no derivative."""
        cdef Py_ssize_t i, j
        cdef int32_t v
        cdef int32_t operands[3]
        cdef int op, k
        cdef int32_t[::1] packed
        cdef unsigned char[::1] floats = np.array(
            [type[0].kind in "fc" and 0 not in type[1] for type in self.code.types], dtype=np.uint8)
        for v in results:
            self.use(v, self.code.n)
        for i in range(self.code.n - 1, -1, -1):
            if not floats[self.code.kinds[i]]:
                self.uses[i] = 0
            if self.uses[i] == 0:
                continue
            op = self.code.ops[i]
            for k in range(self.operands_in(i, differentiable(op), operands)):
                self.use(operands[k], i)
            if op == PACK:
                packed = self.code.packs[self.code.bs[i]][1]
                for j in range(packed.shape[0]):
                    self.use(packed[j], i)
            elif op == CALL:
                call = self.code.calls[self.code.as_[i]]
                if call.row is not None and call.row.kind == "constant":
                    self.uses[i] = 0
                    continue
                for v in call.operands:
                    self.use(v, i)
        return 0

    cdef int release(self, Py_ssize_t i) except -1:
        """Release operands of an instruction after their last use."""
        cdef int32_t operands[3]
        cdef int32_t v
        cdef int k
        for k in range(self.operands_in(i, differentiable(self.code.ops[i]), operands)):
            self.read(operands[k])
        if self.code.ops[i] == CALL:
            for v in self.code.calls[self.code.as_[i]].operands:
                self.read(v)
        return 0

    cdef int read(self, int32_t v) except -1:
        if self.code.kinds[v] > FLAG and self.uses[v] > 0:
            self.uses[v] -= 1
            if self.uses[v] == 0:
                self.values[v] = False
        return 0

    def is_shared(self, Py_ssize_t v):
        """Return whether several instructions read a value."""
        return self.uses[v] > 1

    # ------------------------------------------------------------------------------------------ scalars

    cdef bint number(self, Py_ssize_t i) except -1:
        """Compute or defer the set of a scalar; False if it comes from arrays."""
        cdef int op = self.code.ops[i]
        cdef int32_t given[3]
        cdef int32_t a = self.code.as_[i]
        cdef cnp.ndarray buffer
        if op == CONST or op == STOP or LESS <= op <= ISNAN or op == GUARD:
            return True
        if op == LOAD:
            found = self.values[a]
            if type(found) is not cnp.ndarray:
                found = self.buffer(a)
            if found is not None:
                buffer = found
                self.of[i] = (<int32_t *>cnp.PyArray_DATA(buffer))[self.code.bs[i]]
            self.read(a)
            return True
        if op >= INPUT and op != SELECT and op != STRONG:
            return False
        if self.sets.second:
            self.bend(i)
        self.of[i] = -1
        if self.uses[i] > 1 or self.operands(i, given) == 0:
            self.set_of(<int32_t>i)
        return True

    cdef int operands(self, Py_ssize_t i, int32_t *found) noexcept:
        """Find the differentiable operands of a scalar instruction; return their number."""
        cdef int op = self.code.ops[i], taken
        cdef int columns = differentiable(op)
        if op == WG_MULTIPLY or op == STRONG:       # a product with constant 0 depends on nothing
            if self.is_zero(self.code.as_[i]) or self.is_zero(self.code.bs[i]):
                return 0
        elif self.sides.shape[0]:
            taken = self.sides[i]
            columns &= taken << 1 if op == SELECT else taken | 4
        return self.operands_in(i, columns, found)

    cdef bint is_zero(self, int32_t v) noexcept:
        return self.code.ops[v] == CONST and <double>self.code.constants[self.code.as_[v]] == 0.0

    cpdef int32_t set_of(self, int32_t v) except -1:
        """Set of a scalar."""
        cdef int32_t given[3]
        cdef int32_t u
        cdef int k, count
        cdef Py_ssize_t leaves = 0
        if self.of[v] >= 0:
            return self.of[v]
        self.stacked = 0
        self.push(v)
        while self.stacked:
            self.stacked -= 1
            count = self.operands(self.stack[self.stacked], given)
            for k in range(count):
                u = given[k]
                if self.of[u] < 0:
                    self.push(u)
                elif self.of[u] > 0:
                    if leaves == self.leaves_room:
                        self.leaves_room = max(64, 2 * leaves)
                        self.leaves = <int32_t *>reallocate(self.leaves, self.leaves_room * sizeof(int32_t))
                    self.leaves[leaves] = self.of[u]
                    leaves += 1
        self.of[v] = self.sets.union_of(self.leaves, leaves)
        return self.of[v]

    cdef int push(self, int32_t v) except -1:
        if self.stacked == self.stack_room:
            self.stack_room = max(64, 2 * self.stack_room)
            self.stack = <int32_t *>reallocate(self.stack, self.stack_room * sizeof(int32_t))
        self.stack[self.stacked] = v
        self.stacked += 1
        return 0

    cdef int bend(self, Py_ssize_t i) except -1:
        """Record the interactions of an elementwise scalar instruction."""
        cdef int bits = self.curvature_bits(i)
        cdef int32_t a, b
        if bits == 0:
            return 0
        if self.code.ops[i] < INPUT and PARTIAL <= self.code.ops[i]:
            self.of[i] = -1
            a = self.set_of(<int32_t>i)
            return self.sets.pairs.add(a, a)
        a = self.set_of(self.code.as_[i])
        if bits & AA:
            self.sets.pairs.add(a, a)
        if bits & (AB | BB):
            b = self.set_of(self.code.bs[i])
            if bits & AB:
                self.sets.pairs.add(a, b)
            if bits & BB:
                self.sets.pairs.add(b, b)
        return 0

    cpdef int curvature_bits(self, Py_ssize_t i) except -1:
        """Bit mask of the second partials of an elementwise instruction that may be nonzero."""
        cdef int op = self.code.ops[i]
        cdef double exponent
        if op == STRONG:
            return AB
        if PARTIAL <= op < INPUT:
            return AA | AB | BB
        if op >= INPUT:
            return 0
        if (op == WG_POW or op == WG_POWER) and self.code.ops[self.code.bs[i]] == CONST:
            exponent = self.code.constants[self.code.as_[self.code.bs[i]]]
            return 0 if exponent == 0.0 or exponent == 1.0 else AA
        return self.curvature[op]

    def assign(self, Py_ssize_t i, int32_t s):
        """Assign the set of a scalar."""
        self.of[i] = s

    def pack_scalars(self, int32_t[::1] buffer, const int32_t[::1] offsets, const int32_t[::1] values):
        """Write the sets of scalars into a buffer."""
        cdef Py_ssize_t k
        for k in range(values.shape[0]):
            buffer[offsets[k]] = self.set_of(values[k])

    def stored(self, Py_ssize_t v):
        """Stored sets of an array: None, a buffer, or a deferred union."""
        found = self.values[v]
        if found is False:
            raise RuntimeError(f"value {v} of a list was forgotten before it was read")
        return found

    def buffer(self, Py_ssize_t v):
        """Sets of the elements of an array in memory order; None if it does not depend on the inputs."""
        found = self.stored(v)
        if type(found) is tuple:
            found = self.values[v] = self.sets.united(*found)
        return found
