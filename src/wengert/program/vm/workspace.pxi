# Workspaces, included by machine.pyx: the memory of a run, and access from Python to the values in it.

cdef char CANARY = -1                           # eight such bytes are a NaN
cdef cnp.dtype FLOAT = np.dtype(np.float64)
cdef cnp.dtype BOOL = np.dtype(np.bool)
cdef cnp.ndarray NOTHING = np.zeros(1)


cdef char *bytes_of(array) except NULL:
    return <char *>cnp.PyArray_DATA(<cnp.ndarray>array)


@cython.final
cdef class Workspace:
    """The state of one run: slots, chunks, memory of arrays, and the addresses of all arrays."""

    cdef wg_space space
    cdef list kept                  # owners of memory
    cdef list fenced                # in a debug build: address and size of each buffer
    cdef char *memory
    cdef list objects               # by allocation: the array that owns it
    cdef char **bottom              # by allocation: its lowest address

    def __dealloc__(self):
        PyMem_RawFree(self.space.where)
        PyMem_RawFree(self.bottom)
        for address, _ in self.fenced or ():
            PyMem_RawFree(<void *><size_t>address)

    cdef char *fence(self, Py_ssize_t size) except NULL:
        """Allocate a buffer of exactly this size between canaries, in a debug build."""
        cdef char *memory = <char *>PyMem_RawMalloc(size + 2 * WG_FENCE + 1)
        if memory == NULL:
            raise MemoryError()
        memset(memory, CANARY, size + 2 * WG_FENCE)         # a read of uninitialised memory gives NaN
        self.fenced = self.fenced or []
        self.fenced.append((<size_t>memory, size))
        return memory + WG_FENCE

    cdef int check_fences(self) except -1:
        """Raise if a canary was overwritten."""
        cdef const char *memory
        cdef Py_ssize_t i, n
        for address, size in self.fenced or ():
            memory, n = <const char *><size_t>address, size
            for i in range(WG_FENCE):
                if memory[i] != CANARY or memory[WG_FENCE + n + i] != CANARY:
                    raise SystemError(f"an instruction wrote outside a buffer of {n} bytes")
        return 0

    cdef double *doubles(self, Py_ssize_t n) except NULL:
        if WG_DEBUG:
            return <double *>self.fence(n * <Py_ssize_t>sizeof(double))
        cdef cnp.ndarray memory = np.empty(n + 8)
        self.kept.append(memory)
        return <double *>((<size_t>cnp.PyArray_DATA(memory) + 63) // 64 * 64)


cdef bint fits(cnp.ndarray x, Layout layout):
    """Return whether an array has this dtype, shape and these strides."""
    cdef int d
    if <object>cnp.PyArray_DESCR(x) is not layout.dtype and x.dtype != layout.dtype or not cnp.PyArray_ISALIGNED(x):
        return False
    if cnp.PyArray_NDIM(x) != layout.ndim:
        return False
    for d in range(layout.ndim):
        if cnp.PyArray_DIM(x, d) != layout.dims[d]:
            return False
        if layout.dims[d] > 1 and layout.size and cnp.PyArray_STRIDE(x, d) != layout.steps[d]:
            return False
    return True


cdef cnp.ndarray array_at(char *first, Layout layout, object owner):
    cdef cnp.ndarray array
    Py_INCREF(layout.dtype)
    array = <cnp.ndarray>PyArray_NewFromDescr(<PyTypeObject *>cnp.ndarray, layout.dtype, layout.ndim, layout.dims,
                                              layout.steps, first, cnp.NPY_ARRAY_WRITEABLE, NULL)
    Py_INCREF(owner)
    PyArray_SetBaseObject(array, owner)         # steals the reference
    return array


cdef cnp.ndarray new_array(Layout layout):
    cdef cnp.ndarray memory
    if layout.is_c and layout.kind == DOUBLES:
        return empty_array(layout.ndim, layout.dims)
    if layout.is_c:
        return np.empty(layout.shape, layout.dtype)
    memory = np.empty(layout.span, np.uint8)
    return array_at(<char *>cnp.PyArray_DATA(memory) + layout.low, layout, memory)


cdef cnp.ndarray copied(x, Layout layout):
    cdef cnp.ndarray array = new_array(layout)
    if layout.is_c and cnp.PyArray_CheckExact(x) and fits(<cnp.ndarray>x, layout):
        memcpy(bytes_of(array), bytes_of(x), layout.span)
    else:
        array[...] = x
    return array


cdef int put_alloc(Workspace w, Allocation alloc, char *bottom) except -1:
    """Set the address of an allocation and of all arrays in it."""
    cdef int i
    w.bottom[alloc.number] = bottom
    for i in range(alloc.count):
        w.space.where[alloc.numbers[i]] = bottom + alloc.firsts[i]
    return 0


cdef int set_input(Workspace w, Value value, x, Py_ssize_t j) except -1:
    cdef cnp.ndarray array
    if value.is_scalar:
        w.space.slots[value.where] = x
        return 0
    if not cnp.PyArray_Check(x) or not fits(x, value.layout):
        if np.shape(x) != value.layout.shape:
            raise ValueError(f"input {j} has shape {np.shape(x)}, the program was recorded for {value.layout.shape}")
        x = copied(x, value.layout)
    array = x
    w.objects[value.alloc.number] = array
    return put_alloc(w, value.alloc, bytes_of(array) - value.layout.low)


cdef object number(Workspace w, Value value):
    """Return a scalar as a NumPy scalar."""
    cdef double x = w.space.slots[value.where]
    cdef char truth = x != 0.0
    return PyArray_Scalar(&truth, BOOL, None) if value.is_truth else PyArray_Scalar(&x, FLOAT, None)


cdef object operand(Workspace w, Value value):
    """Return a value as a Python object; 0-d arrays of other dtypes become NumPy scalars."""
    if value.is_scalar:
        return number(w, value)
    owner = w.objects[value.alloc.number]
    if owner is None or not value.is_whole or value.layout is not value.alloc.layout:
        owner = array_at(w.space.where[value.where], value.layout, w if owner is None else owner)
    return owner[()] if value.layout.ndim == 0 and value.layout.kind == OTHER else owner
