# Local value numbering, included by simplify.pyx: finds the first instruction that is equal to a new one.

cdef enum:
    MAX_LINEAR = 8   # instructions per last operand that are searched linearly; more go to the hash table


cdef struct User:
    int32_t last        # newest instruction whose last operand is this value, -1: none
    int32_t next        # list link: the next older instruction with the same last operand as this one
    int32_t count       # length of the list


cdef struct Entry:
    int32_t value
    uint32_t hash


cdef class ValueTable:
    """The expressions seen so far: short lists by last operand, which stay in cache, then one hash table."""

    cdef Listing code
    cdef Block users, entries
    cdef Py_ssize_t size, used      # entries of the hash table, and how many are in use
    cdef dict calls     # calls seen so far, by function, type and operands

    def __cinit__(self, Listing code, Py_ssize_t n):
        self.code, self.calls = code, {}
        self.users = take(n * sizeof(User))

    cdef inline int reset_users(self, int32_t i) noexcept:
        """Register an instruction that is not subject to CSE."""
        cdef User *users = <User *>self.users.data
        users[i].last, users[i].next, users[i].count = -1, -1, 0
        return 0

    cdef int32_t find_or_add(self, int32_t i) except -1:
        """Return the first instruction that is equal to this one."""
        cdef User *users = <User *>self.users.data
        cdef int32_t last = last_operand(self.code, i), v
        self.reset_users(i)
        if last < 0:
            return self.find_in_table(i)
        v = users[last].last
        while v >= 0:
            if is_equal(self.code, v, i):
                return v
            v = users[v].next
        if users[last].count == MAX_LINEAR:
            return self.find_in_table(i)
        users[i].next, users[last].last = users[last].last, i
        users[last].count += 1
        return i

    cdef int32_t find_in_table(self, int32_t i) except -1:
        cdef Entry *table
        cdef uint32_t hash = hash_of(self.code, i), h
        if 2 * self.used >= self.size:
            self.enlarge()
        table = <Entry *>self.entries.data
        h = hash & <uint32_t>(self.size - 1)
        while table[h].value >= 0 and not (table[h].hash == hash and is_equal(self.code, table[h].value, i)):
            h = (h + 1) & <uint32_t>(self.size - 1)
        if table[h].value < 0:
            table[h].value, table[h].hash = i, hash
            self.used += 1
        return table[h].value

    cdef int enlarge(self) except -1:
        """Make the hash table four times as large, which keeps it at most half full."""
        cdef Py_ssize_t size = max(1024, 4 * self.size), k
        cdef Block block = take(size * sizeof(Entry))
        cdef Entry *table = <Entry *>block.data
        cdef Entry *former = NULL if self.entries is None else <Entry *>self.entries.data
        cdef uint32_t h
        memset(table, 0xff, size * sizeof(Entry))
        for k in range(self.size):
            if former[k].value >= 0:
                h = former[k].hash & <uint32_t>(size - 1)
                while table[h].value >= 0:
                    h = (h + 1) & <uint32_t>(size - 1)
                table[h] = former[k]
        self.entries, self.size = block, size
        return 0

    cdef int32_t find_call(self, int32_t i) except -1:
        """Return the first call that is equal to call i, the newest; if there is an earlier one, drop call i."""
        cdef list known
        call = self.code.calls[len(self.code.calls) - 1]
        self.reset_users(i)
        if not is_function(call):
            return i
        known = self.calls.setdefault((id(call.compute), self.code.kinds[i], *call.operands), [])
        for v, other in known:
            if other.row is call.row and static((other.args, other.kwargs)) == static((call.args, call.kwargs)):
                self.code.calls.pop()
                return v
        known.append((i, call))
        return i


cdef int32_t number_one(Listing code, int32_t v, ValueTable known) except -1:
    """Return the first value equal to v, the newest value, and remove v if another one is found."""
    cdef int32_t first = v
    cdef int op = code.ops[v]
    if op == CALL:
        first = known.find_call(v)
    elif op != PACK and op != INPUT and op != GUARD:
        if has(op, IS_COMMUTATIVE) and code.as_[v] > code.bs[v]:        # which changes no bit of the result
            code.as_[v], code.bs[v] = code.bs[v], code.as_[v]
        first = known.find_or_add(v)
    else:
        known.reset_users(v)
    if first != v:
        code.n = v              # drop the duplicate
    return first


cdef inline int32_t last_operand(Listing code, Py_ssize_t i) noexcept:
    """Return the largest value id that an instruction reads; -1 if it reads none."""
    cdef int columns = names(code.ops[i])
    cdef int32_t last = code.as_[i] if columns & 1 else -1
    if columns & 2 and code.bs[i] > last:
        last = code.bs[i]
    if columns & 4 and code.cs[i] > last:
        last = code.cs[i]
    return last


cdef inline uint32_t hash_of(Listing code, int32_t i) noexcept:
    cdef uint32_t h = <uint32_t>code.ops[i]
    h = (h ^ <uint32_t>code.as_[i]) * 0x9E3779B1u
    h = (h ^ (h >> 15) ^ <uint32_t>code.bs[i]) * 0x85EBCA77u
    h = (h ^ (h >> 13) ^ <uint32_t>code.cs[i]) * 0xC2B2AE3Du
    h = (h ^ (h >> 16) ^ <uint32_t>code.kinds[i]) * 0x27D4EB2Fu
    return h ^ (h >> 15)


cdef inline bint is_equal(Listing code, int32_t i, int32_t j) noexcept:
    return (code.ops[i] == code.ops[j] and code.as_[i] == code.as_[j] and code.bs[i] == code.bs[j]
            and code.cs[i] == code.cs[j] and code.kinds[i] == code.kinds[j])
