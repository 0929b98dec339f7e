# The LLVM tier, included by machine.pyx: replaces the VM by one that runs scalar and vector steps as machine code.
#
# It is built once the time that it would have saved so far equals the time to compile (ski rental), or on request.

# costs in nanoseconds
cdef double COMPILE = cost.COMPILE, COMPILE_STATEMENT = cost.COMPILE_STATEMENT, TRACE_STATEMENT = cost.TRACE_STATEMENT
cdef double SAVED_SCALAR = cost.SAVED_SCALAR, SAVED_ELEMENT = cost.SAVED_ELEMENT, SAVED_CHUNK = cost.SAVED_CHUNK
cdef double COMPILED_STATEMENTS = cost.COMPILED_STATEMENTS

STEP_NAMES = {WG_NUMBERS: "scalar", WG_VECTOR: "vector", WG_COPY: "copy", WG_PACK: "pack", WG_PUT: "put",
              WG_SCATTER: "scatter"}
OPCODES = opcodes_of_machine()


cdef tuple described(tuple given):
    """Return a lowered VM instruction in the form that the LLVM tier reads."""
    cdef PythonStep step
    if given[0] == WG_PYTHON or given[0] == WG_NATIVE:
        step = given[len(given) - 1]
        return "python", slots_of(step.operands), slots_of([step.y] if step.y is not None else [])
    if given[0] == WG_PRODUCT:
        return "python", [], [given[2]] if given[2] >= 0 else []        # products are not compiled
    return (STEP_NAMES[given[0]], *given[1:]) if given[0] in STEP_NAMES else ("other",)


cdef list slots_of(list values):
    """Return the slots of those values that are scalars."""
    cdef Value value
    cdef list found = []
    for value in values:
        if value.is_scalar:
            found.append(value.where)
    return found


cdef Py_ssize_t runs_to_pay(Machine vm) except -1:
    """Return the run at which to compile: compiled code would by then have saved the time to compile."""
    cdef double lost = 0.0, spent = COMPILE
    cdef Py_ssize_t i
    for i in range(vm.count):
        if vm.steps[i].kind == WG_NUMBERS:
            lost += vm.steps[i].work * SAVED_SCALAR
            spent += vm.steps[i].work * TRACE_STATEMENT
            spent += min(vm.steps[i].work, COMPILED_STATEMENTS) * COMPILE_STATEMENT
        elif vm.steps[i].kind == WG_VECTOR:
            lost += vm.steps[i].work * SAVED_ELEMENT
            lost += vm.steps[i].count * SAVED_CHUNK
            spent += vm.steps[i].count * COMPILE_STATEMENT
    return <Py_ssize_t>(spent / lost) + 2 if lost > 0.0 else 0


cdef int build_llvm(Machine vm) except -1:
    listing, vm.listing = vm.listing, None
    vm.due = 0
    if listing is None:             # another thread is building it
        return 0
    from wengert.program.codegen import jit  # rarely needed and slow to import

    vm.report = jit.Report()
    if vm.exact:
        vm.report.refused.append("exact programs run NumPy's own loops")
        return 0
    listing = pipeline.run("llvm", listing, pipeline.Options(disabled=vm.disabled)).code
    cdef Lowering low = Lowering(listing, False, True)
    cdef list steps = [described(given) for given in low.emitted]
    emitted, extra, code = jit.compile_kernels(jit.Kernels(
        steps,
        {slot: np.frombuffer(bits)[0] for bits, slot in low.constants.items()},
        slots_of(low.outputs), low.slots, OPCODES, WG_CHUNK), vm.report)
    if code is None:
        return 0
    own = {id(step): given for step, given in zip(steps, low.emitted)}
    low.emitted = [(WG_COMPILED, *step[1:]) if step[0] == "compiled" else own[id(step)] for step in emitted]
    low.slots += extra
    cdef Machine llvm_vm = Machine.__new__(Machine)
    llvm_vm.tier, llvm_vm.disabled = "llvm", vm.disabled
    assemble(llvm_vm, low, listing)
    llvm_vm.kept.append(code)
    vm.llvm_vm = llvm_vm
    vm.spaces = []
    return 0


cdef int try_build_llvm(Machine vm) except -1:
    """Build the LLVM tier during an ordinary run; if that fails, note the reason and continue without it."""
    try:
        return build_llvm(vm)
    except Exception as reason:
        vm.report.refused.append(f"{type(reason).__name__}: {reason}")
        return 0
