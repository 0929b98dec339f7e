cdef class Run:
    cdef object single(self, list inputs, given)
