# Bound runs, included by machine.pyx: a VM that runs again and again on the same arrays, called from C.

@cython.final
cdef class BoundRun(Repeated):
    """A VM bound to input and output arrays of float64 in C order, whose elements the caller changes between runs."""

    cdef Machine owner, vm          # the VM of the program, and the VM that runs: the same, or that of the LLVM tier
    cdef Workspace w
    cdef list held                  # the arrays
    cdef list moved                 # pairs of a Value and the array to which it is copied after each run

    def __init__(self, Machine owner, list inputs, list outputs):
        cdef Machine vm = owner if owner.llvm_vm is None else owner.llvm_vm
        cdef Workspace w = vm.spaces.pop() if vm.spaces else new_workspace(vm)
        cdef Allocation alloc
        cdef Value value
        cdef Py_ssize_t j
        self.owner, self.vm, self.w, self.moved, self.held = owner, vm, w, [], [inputs, outputs]
        if len(inputs) != len(vm.inputs) or len(outputs) != len(vm.outputs):
            raise ValueError("a bound run needs an array for each input and output")
        for j in range(len(inputs)):
            value = vm.inputs[j]
            if value is not None:
                if value.is_scalar or not fits(inputs[j], value.layout):
                    raise TypeError(f"input {j} of a bound run must be a float64 array in C order")
                set_input(w, value, inputs[j], j)
        taken = set()
        for j in range(len(outputs)):
            value = vm.outputs[j]
            if (not value.is_scalar and value.is_returned and value.alloc.kind == FRESH
                    and value.alloc.number not in taken and fits(outputs[j], value.layout)):
                alloc = value.alloc
                taken.add(alloc.number)
                w.objects[alloc.number] = outputs[j]
                put_alloc(w, alloc, bytes_of(outputs[j]) - alloc.layout.low)
            else:
                self.moved.append((value, outputs[j]))

    cdef int again(self) except -2:
        cdef int failed = self.vm.run_steps(self.w)
        if failed < 0 and self.moved:
            for value, array in self.moved:
                array[...] = self.vm.result(self.w, value)
        return failed

    def count(self, Py_ssize_t runs):
        """Add to the run count that triggers the LLVM tier; return whether a new bound run would use that tier."""
        self.owner.runs += runs
        return self.owner.llvm_vm is not None and self.vm is self.owner or 0 < self.owner.due <= self.owner.runs

    def release(self):
        """Return the workspace to the VM; the bound run cannot be used afterwards."""
        self.vm.put_back(self.w)
        self.w = None
