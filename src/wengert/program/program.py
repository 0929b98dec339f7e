"""The public `Program`: straight-line IR with the signature of the traced call, and the derivatives built from it."""

from __future__ import annotations

import copy
import io
import pickle
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from wengert import notebook
from wengert.containers import children_of
from wengert.core.levels import warn_search
from wengert.deferred import deferred
from wengert.program import backends, pickling
from wengert.program.derivatives import BUILDERS, DOUBLE, FIRST_OUTPUT, NotDerivable
from wengert.program.derive import source_transform
from wengert.program.ir import verify
from wengert.program.ir.ir import Listing, kind_of, stacked
from wengert.program.ir.verify import TIERS, MalformedProgram, Verifier, check_fields, expect, is_a, is_count
from wengert.program.passes import pipeline, simplify
from wengert.program.passes.loop import is_loop
from wengert.program.passes.scalarise import nanoseconds
from wengert.program.passes.unroll_loops import runs_to_pay
from wengert.program.signature import Form, Result, Slot, as_inputs, refuse_traced, shifted, without_strides
from wengert.program.tracing.arguments import Arguments
from wengert.program.vm.machine import Machine
from wengert.program.vm.runner import Runner, vectored

if TYPE_CHECKING:
    from wengert.program.report import summary
else:
    summary = deferred("wengert.program.report.summary")
dot = deferred("wengert.program.report.dot")
printer = deferred("wengert.program.ir.printer")
schedule = deferred("wengert.program.report.schedule")

#: first line of a saved file; the next lines are the IR version and a CRC-32 of the pickle that follows
_MAGIC = b"wengert program"

#: dtypes of captured values that do not prevent deriving a program
_CAPTURED_DTYPES = {np.dtype(float), np.dtype(complex)}


def checked_tier(tier: str, name: str) -> str:
    """Return `tier` if it is valid and available here, else raise."""
    if tier not in TIERS:
        raise ValueError(f"{name}: tier must be 'auto', 'vm' or 'llvm', not {tier!r}")
    if tier == "llvm":
        from wengert.program.codegen.llvm_jit import llvm  # rarely needed and slow to import

        llvm()
    return tier


@vectored
class Program(Runner):
    """A function compiled to straight-line IR, which runs without Python and can itself be differentiated.

    Made by `wengert.record`.  A program never changes: it may be called from any number of threads, copied and pickled.

    ``program(x, *args)`` returns what the function returns; ``program(x, out=y)`` writes the result into an array.
    Floats, complex numbers and arrays of them among the arguments are inputs; their shapes, dtypes and strides must be
    those of the recording.
    Everything else is constant: integers, flags, strings, and what the function read from outside.
    ``len(program)`` is the number of instructions; ``print(program)`` lists them, one per line.

    Raises
    ------
    GuardError
        If the function would take another branch for these arguments than it took when it was recorded.
    ValueError
        If the arguments differ from those of the recording in structure, shape, dtype or a constant value.

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> program = wg.record(lambda x: np.sin(x[0]) * x[1], [0.0, 2.0])
    >>> program([0.0, 3.0])
    np.float64(0.0)
    >>> program.grad()([0.0, 3.0])
    array([3., 0.])
    >>> print(program)
    v0: float64[2] = input 0
    v1 = v0[0]
    v2 = sin(v1)
    v3 = v0[1]
    v4 = multiply(v2, v3)
    return v4
    """

    _rolls = True
    _rolls_small = False  # whether loops over small arrays are rolled, see `_with_loops`
    _rolls_scalars = False  # whether loops over scalars are rolled too
    _unrolls = True  # whether loops with short bodies are unrolled before the program runs
    _later: tuple | None = None  # number of calls after which another form pays, and a function that builds it
    _gathers = True  # whether stencil fusion runs
    _keeps_arrays = False  # whether derivatives skip scalar replacement, because it did not pay for the function
    _tier = "auto"  # see `tiered`
    _assumes_finite = False  # whether derivatives are made without checking guards against NaN at the example
    _disabled: frozenset = frozenset()  # names of disabled passes
    _history: tuple = ()  # `pipeline.Run.log` of the passes that produced the IR
    _searches: tuple = ()  # lines of the function that lose the derivative: see `searches_of` in `tracing.trace`
    _source: Callable = staticmethod(lambda: None)  # weak reference to the recorded function, which is not pickled

    def __init__(self, name, listing, form, result, exact, example, floats=1):
        self._name = name
        self._listing = listing
        self._form = form
        self._result = result
        self._exact = exact
        self._example = list(example)  # the input leaves of the recording
        self._floats = floats  # number of leading arguments converted to floats, as derivatives do
        self._reset()

    def _reset(self):
        """Drop everything that is computed lazily."""
        self._machine = self._expanded = self._arguments = None
        self._derived: dict = {}

    # ------------------------------------------------------------------------------------------ running

    @property
    def _execute(self) -> Callable:
        """Function from argument leaves to outputs; its optional second argument is a list of output arrays."""
        return self._vm.run

    @property
    def _try_execute(self) -> Callable:
        """Like `run`, but returns the index of the guard (an int) if one fails or a result has another shape."""
        return self._vm.attempt

    @property
    def _single_vm(self) -> Machine | None:
        """The VM, if a call is one run that yields the result as its first output; else None."""
        return self._vm

    def _guard_size(self, index: int) -> int:
        """Return the number of elements that a guard, given by the index that an attempt returns, compares.

        Other indices stand for a result of another type.
        """
        guards = self._vm.guards
        return np.size(guards[index][0]) if index < len(guards) else 0

    @property
    def _vm(self) -> Machine:
        """The VM for this program, built on first use."""
        if self._machine is None:
            code = self._lowered_ir()
            pipeline.release_idle_memory(code)
            self._machine = Machine(code, self._exact, self._tier, self._disabled)
        return self._machine

    def _first_form(self) -> Program:
        """Return an equivalent program that keeps short loops as loops, which takes less time to prepare.

        Its `_later` is this program. Returns this program if it has no such loops.
        """
        if not self._rolls_small or self._exact or "loop_recovery" in self._disabled:
            return self
        code = self._vectorised_ir()
        runs = 0 if self._runs_once(code) else runs_to_pay(code)
        if not runs:
            return self
        made = copy.copy(self)
        made._derived = dict(self._derived)  # the vectorised IR
        made._unrolls, made._later = False, (runs, lambda: self)
        return made

    def tiered(self, tier: Literal["auto", "vm", "llvm"]) -> Program:
        """Return a copy that runs on another tier; so do derivatives made from it.

        Parameters
        ----------
        tier : {"auto", "vm", "llvm"}
            As in `wengert.compile`.

        Raises
        ------
        ImportError
            For "llvm" without llvmlite.
        """
        made = copy.copy(self)
        made._reset()
        made._tier = checked_tier(tier, "tiered")
        if "value" in self._derived:  # the vectorised IR does not depend on the tier
            made._derived["value"] = self._derived["value"]
        return made

    def _lowered_ir(self) -> Listing:
        """Return the IR that the VM lowers."""
        return self._lowering().code

    def _lowering(self) -> pipeline.Run:
        """Run the last stage of the pipeline before the VM."""
        if self._exact:
            return self._passed("run", self._listing)
        code = self._vectorised_ir()
        return self._passed("run", code, repeats=not self._runs_once(code), scalars=self._scalar_ir())

    def _runs_once(self, code):
        """Return whether the program reads no argument, so that later calls return the outputs of the first one.

        It may read captured values, such as the weights of a linear function in its gradient, since they seldom change.
        """
        if not all(is_loop(call) and not call.compute.body.calls for call in code.calls):
            return False
        uses = simplify.uses(code)
        return not any(uses[v] for v in code.inputs[: self._form.count])

    def _passed(self, stage, code, runs=1, repeats=True, **given):
        """Run one stage of the pipeline with this program's options; `given` are arguments of the stage.

        `repeats`: whether to do work that pays only after some calls.
        """
        gathers, unrolls = self._gathers and repeats, self._unrolls and repeats
        options = self._may_vectorise, self._keeps_arrays, gathers, self._tier == "llvm", runs, self._disabled
        loops = self._rolls_small, unrolls, self._rolls_scalars
        return pipeline.run(stage, code, pipeline.Options(self._exact, *options, *loops), **given)

    @property
    def _applied_passes(self) -> tuple:
        """Passes that produced the IR used for derivatives: stage, name, instruction counts before and after."""
        return (*self._history, *self._vectorising().log)

    @property
    def _output_shape(self) -> tuple:
        return kind_of(self._listing, self._listing.outputs[0])[1] if self._listing.outputs else ()

    @property
    def _result_of_outputs(self) -> Result | None:
        """Function from outputs to the result; None if the result is the first output."""
        return None if self._is_one and self._result.template.make is None else self._result

    @property
    def _returns_float(self) -> bool:
        """Whether the result is a single Python float."""
        return self._is_one and self._result.template.make is float

    @property
    def _is_one(self):
        """Whether the result is the first output, possibly converted."""
        return type(self._result) is Result and type(self._result.template) is Slot

    def _call(self, args, kwargs, out):
        refuse_traced(repr(self), args, kwargs)
        floats = self._floats
        taken = (*[as_inputs(x, self._name) for x in args[:floats]], *args[floats:])
        form = Form(taken, kwargs)
        if form.key != self._form.key and (self._exact or without_strides(form.key) != without_strides(self._form.key)):
            raise ValueError(
                f"{self!r} was recorded for other arguments: shapes, dtypes, strides and values that are not floats "
                "must match. Record it again with these arguments, or use wengert.compile, which does so automatically"
            )
        restore = self._result_of_outputs
        if all(given is x or type(given) is float for given, x in zip(args, taken)):
            self._run, self._restore, self._shape = self._execute, restore, self._output_shape
            self._direct = self._single_vm
            self._arguments = Arguments.of(args, kwargs)
        if out is None:
            y = self._execute(form.leaves)
            return y[0] if restore is None else restore(y)
        if restore is not None:
            raise TypeError(f"{self._name}: out= needs a single array as result")
        if np.shape(out) != self._output_shape:
            raise ValueError(f"{self._name}: out= has shape {np.shape(out)}, the result has shape {self._output_shape}")
        return self._execute(form.leaves, [out])[0]

    # ------------------------------------------------------------------------------------------ derivatives

    def grad(self, argnums: int = 0) -> Program:
        """Program of the gradient in one argument, an array or a container of arrays; the result must be scalar."""
        return self._made("grad", argnums)

    def vjp(self, argnums: int = 0) -> Program:
        """Program that maps ``(x, cotangent, *args)`` to the value and the pullback of the cotangent."""
        return self._made("vjp", argnums)

    def jvp(self, argnums: int = 0) -> Program:
        """Program that maps ``(x, direction, *args)`` to the value and the directional derivative."""
        return self._made("jvp", argnums)

    def hvp(self, argnums: int = 0) -> Program:
        """Program that maps ``(x, v, *args)`` to the Hessian-vector product with `v`."""
        return self._made("hvp", argnums)

    def jacobian(self, argnums: int = 0) -> Program:
        """Program of the Jacobian of an array result in one array argument, of shape ``y.shape + x.shape``."""
        return self._made("jacobian", argnums)

    def hessian(self, argnums: int = 0) -> Program:
        """Program of the Hessian in one array argument, exactly symmetric; the result must be scalar."""
        return self._made("hessian", argnums)

    def _vectorised_ir(self):
        return self._vectorising().code

    def _scalar_ir(self) -> Listing:
        """Return the IR in which loops are recovered: the original, or the one after scalar replacement."""
        return self._vectorising().scalars

    def _vectorising(self):
        return self._memoised("value", lambda: self._run_value_stage(self._listing))

    def _run_value_stage(self, code):
        run = self._passed("value", code)
        self._keeps_arrays = run.keeps_arrays
        return run

    @property
    def _may_vectorise(self) -> bool:
        return self._rolls and not self._exact

    @property
    def _runs_per_call(self) -> int:
        """Number of times that one call runs the IR."""
        return 1

    @property
    def _operation_count(self) -> int:
        """Scalar operations per call, without those inside called functions."""
        return sum(schedule.operations(self._listing))

    @property
    def _estimated_time(self) -> float:
        """Estimated run time in the VM in nanoseconds, summed over instructions and calls."""
        return nanoseconds(self._lowered_ir())

    @property
    def _is_approximate(self) -> bool:
        """Whether it contains calls with tolerances, such as integrations."""
        return any(getattr(call.compute, "is_approximate", False) for call in self._listing.calls)

    @property
    def _workspace_bytes(self) -> int:
        """Bytes of memory besides inputs and outputs."""
        return schedule.schedule(self._lowered_ir(), self._exact).nbytes

    def _made(self, word, argnums):
        """Return a derivative, building it on first use."""
        self._warn_about_searches()
        return self._memoised((word, argnums), lambda: BUILDERS[word](self, argnums))

    def _warn_about_searches(self):
        """Warn about loops of the function that find a root without its derivative."""
        for file, line in self._searches:
            warn_search(self._name, file, line)

    def _memoised(self, key: Any, make: Callable) -> Any:
        """Return the cached value of `key`, computing it on first use."""
        if key not in self._derived:
            self._derived[key] = make()
        return self._derived[key]

    def _with_loops(self, of_scalars=False):
        """Return a copy whose loops over small arrays are rolled; so are those of its one-sweep derivatives."""
        made = copy.copy(self)
        made._rolls_small, made._rolls_scalars = True, of_scalars
        return made

    def _with_ir(self, listing: Listing) -> Program:
        """Return a program like this one with other IR; its result is the first output of that IR."""
        return self._like(self._name, listing, FIRST_OUTPUT)

    def _with_nonzeros(self, name: str, listing: Listing) -> Program:
        """Return a program of the nonzeros of a derivative, given its simplified IR.

        Stencil fusion is off, because the IR contains no adjoints with slice additions to fuse.
        """
        made = Program(name, listing, self._form, FIRST_OUTPUT, self._exact, self._example, self._floats)
        made._rolls, made._gathers, made._tier, made._disabled = self._rolls, False, self._tier, self._disabled
        return made

    def _differentiable(self, word):
        """Return the vectorised IR with partial instructions expanded by their rules, and its one output."""
        if self._expanded is None:
            code = self._one_array(word)
            dtype = kind_of(code, code.outputs[0])[0]
            if dtype.kind not in "fc":
                raise NotDerivable(f"{word}({self._name}): the result is of dtype {dtype}: return floats")
            found = self._vectorised_ir() if code is self._listing else self._run_value_stage(code).code
            self._expanded = self._expand(found)
        return self._expanded, self._expanded.outputs[0]

    def _scalar_code(self, word):
        """Return the scalar IR with partial instructions expanded, and its one output."""
        code = self._passed("jacobian", self._expand(self._one_array(word))).code
        return code, code.outputs[0]

    def _derivative_only(self) -> Listing:
        """Return the IR of only the derivative, with all guards, if the program returns a value and a derivative."""
        code = simplify.live(self._listing if self._exact else self._vectorised_ir())
        code.outputs = code.outputs[1:]
        return self._passed("direction", code).code

    def _differentiable_ir(self) -> Listing:
        """Return the IR with all outputs and with partial instructions expanded, so that it can be differentiated."""
        return self._expand(self._vectorised_ir())

    def _expand(self, code):
        expanded = source_transform.expanded(code, self._exact)
        return code if expanded is self._listing else self._passed("derivative", expanded).code

    def _one_array(self, word):
        """Return IR that yields the result as one array or scalar."""
        template = self._result.template
        if type(template) is Slot:
            return self._listing
        error = NotDerivable(f"{word}({self._name}): the function must return one array or number")
        if children_of(template) is not None:
            raise error
        try:
            items = np.array(template, dtype=object)
            numbers = [item.number if type(item) is Slot else float(item) for item in items.flat]
        except (TypeError, ValueError):
            raise error from None
        found = stacked(self._listing, numbers, items.shape)
        if found is None:
            raise error
        return found

    @property
    def _is_float64(self) -> bool:
        """Whether all arguments and outputs are float64.

        Captured values are constants for differentiation, so they may be complex.
        """
        code = self._listing
        count = self._form.count
        arguments, captured = code.inputs[:count], code.inputs[count:]
        if {kind_of(code, v)[0] for v in [*arguments, *code.outputs]} != DOUBLE:
            return False
        return {kind_of(code, v)[0] for v in captured} <= _CAPTURED_DTYPES

    def _inputs(self, word, argnums):
        """Return the indices of the inputs that hold the leaves of an argument."""
        if not isinstance(argnums, int) or not 0 <= argnums < len(self._form.templates):
            raise TypeError(
                f"{word}({self._name}): argnums={argnums!r}, but the program has {len(self._form.templates)} "
                "positional arguments, and is differentiated in one of them"
            )
        found = self._form.inputs_of(argnums)
        if not found:
            raise NotDerivable(f"{word}({self._name}): argument {argnums} contains no floats: record it with floats")
        return found

    def _input(self, word, argnums):
        """Return the index of the input for an argument that is a single array."""
        found = self._inputs(word, argnums)
        if type(self._form.templates[argnums]) is not Slot:
            raise NotDerivable(f"{word}({self._name}): argument {argnums} is a container: pass one array")
        return found[0]

    def _argument_template(self, argnums, first):
        """Return the argument's template with its leaves numbered from `first`."""
        template = self._form.templates[argnums]
        return shifted(template, first - self._form.inputs_of(argnums)[0])

    def _like(self, name, listing, result):
        run = self._passed("derivative", listing)
        made = Program(name, run.code, self._form, result, self._exact, self._example, self._floats)
        made._rolls, made._tier, made._keeps_arrays = self._rolls, self._tier, self._keeps_arrays
        made._rolls_small = self._rolls_small and any(map(is_loop, self._vectorised_ir().calls))
        made._rolls_scalars = self._rolls_scalars
        made._disabled, made._history, made._source = self._disabled, tuple(run.log), self._source
        made._assumes_finite = self._assumes_finite
        return made

    # ------------------------------------------------------------------------------------------ what it is

    def __len__(self):
        return len(self._listing)

    def __repr__(self):
        without = f", disabled: {', '.join(sorted(self._disabled))}" if self._disabled else ""
        return f"<program of {self._name}: {len(self)} instructions{without}>"

    def __str__(self):
        return printer.printed(self._listing)

    def __dir__(self):
        return [name for name in super().__dir__() if name.startswith("__") or not name.startswith("_")]

    def _repr_html_(self):
        from wengert.program.report import drawing  # rarely needed

        return notebook.html(repr(self), lambda figure: drawing.draw(self, figure.subplots(1, 2)), size=(10.0, 4.0))

    def explain(self) -> summary.Summary:
        """Summarise the program: its instructions, the effect of the compiler passes, and the VM kernels.

        Examples
        --------
        >>> import numpy as np, wengert as wg
        >>> wg.record(lambda x: np.sum(np.exp(x)) * 2.0, np.ones(1000)).explain()
        <lambda>: 5 instructions
          inputs      float64[1000]
          outputs     float64
          opcodes     2 elementwise, 1 input, 1 sum, 1 const
          operations  2001 per call
          passes      no change
          loops       no loops over scalars
          kernels     2, with share of estimated time
                        100% vector, 1000 elements: 2 operations, 8 bytes read, 0 bytes written per element
                          0% scalar: 1 instruction
          memory      workspace 8.22 kB, constants 0 bytes
          tier        vm; llvm after 4e+05 runs if llvmlite is installed
        """
        return summary.summary(self)

    def to_dot(self, max_nodes: int = 200) -> str:
        """Return the program as the VM runs it, as a Graphviz graph.

        Instructions that one kernel executes share a box.

        Parameters
        ----------
        max_nodes : int
            Limit on the number of nodes. A longer program gets one node per kernel, and kernels beyond the limit are
            omitted; the title states both.

        Returns
        -------
        str
            DOT source for Graphviz or `wengert.viz.render`.
        """
        return dot.to_dot(self._name, self._lowered_ir(), self._exact, max_nodes)

    def to_cuda(
        self,
        dtype: Any = None,
        *,
        compile: Literal["auto", "never"] = "auto",
        chunk: int | str = "auto",
        debug: bool = False,
        target: Literal["cuda", "cpu"] = "cuda",
    ) -> Any:
        """Compile the program for a GPU, to evaluate it at many points at once, one thread per point.

        Parameters
        ----------
        dtype : {None, "float64", "float32"}
            Precision of the computation; by default the dtype of the first argument of a call.
        compile : {"auto", "never"}
            "auto" compiles a kernel unless the program is very long; "never" interprets the instructions.
        chunk : int or "auto"
            Points per launch for arrays on the host; by default as many as fit into GPU memory.
        debug : bool
            Wait for each kernel, and raise `FloatingPointError` if a result is not finite.
        target : {"cuda", "cpu"}
            Device. "cpu" runs the kernels' code on the CPU, for debugging.

        Returns
        -------
        wengert.cuda.Kernel
            ``g(X)``, ``g.value_and_grad(X)``, ``g.value_and_jacobian(X)``, ``g.hvp(X, V)``, ``g.report()``.
        """
        return backends.make_kernel(self, dtype, compile=compile, chunk=chunk, debug=debug, target=target)

    def __copy__(self):
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._reset()
        return made

    def __deepcopy__(self, memo):
        return copy.copy(self)  # a program never changes

    def __reduce__(self):
        try:
            content = pickled(self)
        except (pickle.PicklingError, AttributeError, TypeError):  # another pickler may support the functions it calls
            return _blank, (type(self),), self.__getstate__()
        return _unpickled, (verify.form(), zlib.crc32(content), content)

    def __getstate__(self):
        state = {**self.__dict__, "_version": verify.form()}
        for name in ("_machine", "_expanded", "_derived"):
            del state[name]
        for name in ("_source", "_later"):
            state.pop(name, None)
        return state

    def __setstate__(self, state):
        state = {**state}
        verify.check_form(state.pop("_version", None), "this program")
        self.__dict__.update(state)
        self._reset()
        self._verify()

    def _verify(self):
        """Raise `MalformedProgram` unless the unpickled state is that of a valid program."""
        try:
            verify.check(self)
        except MalformedProgram as error:
            self.__dict__.clear()
            raise MalformedProgram(f"this program is damaged: {error}. Record it again") from None

    #: optional attributes of a pickled state, with their types
    _optional = dict.fromkeys(("_rolls", "_rolls_small", "_rolls_scalars"), bool)
    _optional |= dict.fromkeys(("_unrolls", "_gathers", "_keeps_arrays"), bool)
    _optional |= dict.fromkeys(("_history", "_searches"), tuple)
    _optional |= {"_source": callable, "_assumes_finite": bool}
    _optional |= {"_tier": TIERS.__contains__, "_disabled": lambda x: type(x) is frozenset and x <= {*pipeline.names()}}

    def _check_parts(self, verifier: Verifier) -> None:
        """Raise `MalformedProgram` unless every part that calls and derivatives use is valid; see `ir.verify`."""
        parts = {"_listing": Listing, "_form": Form, "_result": is_a(Result), "_example": list}
        check_fields(self, parts | {"_name": str, "_exact": bool, "_floats": is_count}, self._optional)
        code = self._listing
        verifier.check(code)
        self._form.check_parts(verifier)
        self._result.check_parts(self, verifier)
        expect(self._floats <= len(self._form.templates), "it has fewer arguments than it takes as floats")
        expect(self._form.count <= len(code.inputs), "its IR has fewer inputs than its arguments have leaves")
        types = [kind_of(code, v) for v in self._exampled()]
        given = [(np.asarray(x).dtype, np.shape(x)) for x in self._example]
        expect(given == [kind[:2] for kind in types], "its example values have other types than its inputs")

    def _exampled(self):
        return self._listing.inputs

    def save(self, path: Any) -> None:
        """Write the program to a file with `pickle`.

        Raises
        ------
        TypeError
            If it calls a function that `pickle` cannot import by name, such as a lambda. No file is written then.
        """
        try:
            content = pickled(self)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise TypeError(
                f"{self!r} cannot be saved ({error}): functions that it calls must be defined at module level"
            ) from error
        with open(path, "wb") as file:
            file.write(b"%s\n%s\n%08x\n" % (_MAGIC, verify.form().encode(), zlib.crc32(content)))
            file.write(content)

    @classmethod
    def load(cls, path: Any) -> Program:
        """Read a program from a file. Only load files that you trust: like `pickle`, this detects damage, not malice.

        Raises
        ------
        ValueError
            If another version of wengert wrote the file in another format, or the file is damaged: record it again.
        TypeError
            If the file holds something else.
        """
        with open(path, "rb") as file:
            magic, form, checksum, content = [*file.read().split(b"\n", 3), b"", b"", b""][:4]
        if magic != _MAGIC:
            raise TypeError(f"{path} was not written by Program.save")
        verify.check_form(form.decode(errors="replace"), path)
        if checksum != b"%08x" % zlib.crc32(content):
            raise ValueError(f"{path} is damaged: its content is not what was saved. Record the program again")
        found = pickling.loaded(content)
        if not isinstance(found, cls):
            raise TypeError(f"{path} holds a {type(found).__name__}, not a {cls.__name__}")
        return found


class _Writer(pickling.Writer):
    def reducer_override(self, x):
        if isinstance(x, Program):  # part of the enclosing program's pickle, since they may share IR
            return _blank, (type(x),), x.__getstate__()
        return super().reducer_override(x)


def pickled(program: Program) -> bytes:
    """Pickle a program."""
    content = io.BytesIO()
    _Writer(content, protocol=5).dump(program)
    return content.getvalue()


def _unpickled(form, checksum, content):
    """Unpickle a program after checking that its bytes are as they were written."""
    verify.check_form(form, "this program")
    if type(content) is not bytes or checksum != zlib.crc32(content):
        raise MalformedProgram("this program is damaged: its content is not what was pickled. Record the program again")
    return pickling.loaded(content)


def _blank(cls):
    """Return an empty program whose state is set later, since the state may refer to it."""
    if not (isinstance(cls, type) and issubclass(cls, Program)):
        raise TypeError(f"the pickled state belongs to {cls!r}, which is not a class of programs")
    return cls.__new__(cls)
