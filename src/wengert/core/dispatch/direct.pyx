# cython: language_level=3, boundscheck=False, wraparound=False
"""Direct path of ordinary NumPy calls: float64 and complex operands of one outermost derivative, and plain options.

Most calls of eager code have this form.
For these calls `recorded` gives the result of `dispatch.function` without the steps that cannot apply: weakly typed
floats, subclasses, other dtypes, nested levels, ``out=``. In a recording for replay, it handles
functions with a rule for each differentiable argument, and those that move elements.
Which functions and options qualify is read from the registry row once and cached in its column `route`.
"""

cimport cython
cimport numpy as cnp
from libc.stdint cimport uint64_t

import numpy as np

cimport wengert.core.operands.var as var  # this form lets Cython track the dependency
from wengert.core.operands.var cimport ArrayVar, ScalarDual, ScalarVar, active_level, array_var
from wengert.core.tape.memory cimport FORWARD, NESTED, REVERSE, Level, is_double, view_descriptor
from wengert.core.tape.tape cimport CALL, REARRANGE, Node, Tape, kept_constant, new_node

from wengert import registry
from wengert.core.dispatch import repeated
from wengert.core.dispatch.arguments import numbers_like, out_position
from wengert.core.operands import var
from wengert.features import parameters_of as signature

cdef dict rows = registry.rows
cdef type ndarray = np.ndarray, float64 = np.float64
cdef type complex128 = np.complex128
cdef object np_ndim = np.ndim, np_shape = np.shape, np_sum = np.sum

#: functions whose calls always need a step of `dispatch.function`; set by `dispatch`
cdef object special = frozenset()

#: replacements of creation functions: `dispatch.creation`
cdef dict creation = {}

cdef enum Kind:
    OTHER, VIEW, REARRANGEMENT, CONSTANT, COMPOSED, ELEMENTWISE, STRUCTURAL

cdef dict KINDS = {"view": VIEW, "rearrangement": REARRANGEMENT, "constant": CONSTANT, "composed": COMPOSED,
                   "elementwise": ELEMENTWISE, "linear": STRUCTURAL, "structural": STRUCTURAL}

#: types of options, which are passed on unchanged
cdef set OPTIONS = {bool, int, float, str, type(None), type(np._NoValue), np.bool, np.int64, float64}

cdef enum:
    MAX_POSITIONS = 64


def set_special(functions, dict replacements):
    """Set the functions and the creation functions (a dict) that never take the direct path."""
    global special, creation
    special, creation = functions, replacements


@cython.final
cdef class Route:
    """Properties of a registry row that the direct path reads."""

    cdef int kind               # OTHER: the direct path never applies
    cdef object keywords        # keywords that the rule supports; None: any
    cdef Py_ssize_t most        # maximum number of positional arguments
    cdef uint64_t wrt           # bit i: argument i is differentiable
    cdef bint is_sequence       # the first argument is a sequence of operands
    cdef bint is_any            # any argument is differentiable
    cdef bint has_names         # whether the names of its parameters are known; if not, one may be a positional ``out``
    cdef bint is_recorded       # recordings for replay take the direct path, too

    def __init__(self, row):
        fun = row.fun
        self.kind = KINDS.get(row.kind, OTHER)
        if (fun in special or row.watch is not None or row.simpler is not None or row.is_formula or row.unheeded
                or (self.kind == CONSTANT and (row.on_complex is not None or row.reason))):
            self.kind = OTHER
        self.keywords = row.keywords
        if self.kind in (VIEW, REARRANGEMENT, CONSTANT):
            self.keywords = None
        elif self.kind == ELEMENTWISE:
            self.keywords = frozenset()
        self.most = min(MAX_POSITIONS, out_position(fun), MAX_POSITIONS if row.most is None else row.most)
        self.is_sequence = row.sequence
        self.is_any = self.kind in (CONSTANT, COMPOSED) or row.variadic is not None
        self.wrt = 0
        for i in range(MAX_POSITIONS):
            if self.kind == ELEMENTWISE:
                differentiable = i < len(row.partials) and row.partials[i] is not None
            elif self.kind in (VIEW, REARRANGEMENT):
                differentiable = i == 0
            else:
                differentiable = i in row.vjps
            self.wrt |= <uint64_t>differentiable << i
        self.has_names = signature(fun) is not None
        self.is_recorded = self.kind in (VIEW, REARRANGEMENT) or (
            self.kind == STRUCTURAL and row.condition is None and row.variadic is None)


cdef bint is_option(object x):
    """Return whether `x` is an option: a plain scalar, string or None, or a list or tuple of options."""
    if type(x) in OPTIONS:
        return True
    if type(x) is tuple or type(x) is list:
        for item in x:
            if not is_option(item):
                return False
        return True
    return False


@cython.final
cdef class Operands:
    """The operands of one call, as far as they have been collected."""

    cdef Level level
    cdef list sources           # (position, item, buffer, view, slot)
    cdef bint has_constant      # an argument is a plain array
    cdef bint has_names         # as in `Route`
    cdef bint takes_complex     # the rule may support complex operands
    cdef bint has_complex       # an argument is complex

    cdef bint allows(self, cnp.ndarray x) except -1:
        """Return whether an array may be an operand."""
        if is_double(x):
            return True
        if self.takes_complex and is_complex(x):
            self.has_complex = True
            return True
        return False

    cdef object take(self, int position, int item, object x, bint differentiable, object number):
        """Return the plain value of an argument, noting a traced one; None if the call needs the general path."""
        cdef ArrayVar array
        cdef Level own
        if type(x) is ArrayVar:
            array = <ArrayVar>x
            if array.scalar or not self.allows(array.v):
                return None
            if array.buffer.level is None:
                self.has_constant = True
                return array.v if differentiable or self.has_names else None
            own = active_level(array.buffer.level)
            source = position, item, array.buffer, array.v, -1
            value = array.v
        elif type(x) is ScalarVar:
            own = active_level((<ScalarVar>x).tape.level)
            source = position, item, None, None, (<ScalarVar>x).slot
            value = float64((<ScalarVar>x).v)
        elif type(x) is ScalarDual:
            own = (<ScalarDual>x).level
            source = position, item, None, None, -1
            value = float64((<ScalarDual>x).v)
        elif type(x) is ndarray:
            self.has_constant = True
            if differentiable:
                return x if self.allows(<cnp.ndarray>x) else None
            return x if cnp.PyArray_ISNUMBER(<cnp.ndarray>x) or cnp.PyArray_ISBOOL(<cnp.ndarray>x) else None
        elif differentiable:
            if type(x) is complex and self.takes_complex:
                self.has_complex = True
                return x                        # its operators may round differently from those of complex128
            return number(x) if type(x) is float or type(x) is int or type(x) is float64 else None
        else:
            return None
        if not differentiable or own.depth or own.kind == NESTED:
            return None
        if own.tape == NULL and not own.live:
            return None
        if self.level is None:
            self.level = own
        elif self.level is not own:
            return None
        self.sources.append(source)
        return value


cdef bint has_operand(tuple args):
    """Return whether an argument is an operand, or the first argument a sequence that holds an array operand."""
    for x in args:
        if type(x) is ArrayVar or type(x) is ScalarVar or type(x) is ScalarDual:
            return True
    if len(args) and (type(args[0]) is list or type(args[0]) is tuple):
        for x in args[0]:
            if type(x) is ArrayVar:
                return True
    return False


cdef object shape_or_sum(fun, ArrayVar x):
    """Return ``np.ndim``, ``np.shape`` or ``np.sum`` of an array, which need no row; None for other functions."""
    if fun is np_ndim:
        return cnp.PyArray_NDIM(x.v)
    if fun is np_shape:
        return (<object>x.v).shape
    return x.sum() if fun is np_sum and var.has_sum_entry(x) else None


cpdef object recorded(fun, args, dict kwargs, compute=None):
    """Call a function on operands and record it; `NotImplemented` if the call needs the general path."""
    cdef Route route
    cdef Py_ssize_t i, n
    cdef bint differentiable
    cdef Operands operands
    cdef list values
    if type(args) is not tuple or not has_operand(<tuple>args):
        return NotImplemented
    if len(<tuple>args) == 1 and not kwargs and type((<tuple>args)[0]) is ArrayVar:
        x = shape_or_sum(fun, <ArrayVar>(<tuple>args)[0])
        if x is not None:
            return x
    row = rows.get(fun)
    if row is None:
        return NotImplemented
    if row.route is None:
        row.route = Route(row)
    route = <Route>row.route
    n = len(<tuple>args)
    if route.kind == OTHER or n > route.most or n == 0 or fun in creation:
        return NotImplemented
    if var.may_record() and not route.is_recorded:
        return NotImplemented
    if kwargs:
        if "out" in kwargs or "where" in kwargs or "dtype" in kwargs:
            return NotImplemented
        for name, value in kwargs.items():
            if not is_option(value) or (route.keywords is not None and name not in route.keywords):
                return NotImplemented
    operands = Operands.__new__(Operands)
    operands.sources = []
    operands.has_names = route.has_names
    operands.takes_complex = route.kind == ELEMENTWISE or route.kind == STRUCTURAL
    values = []
    number = float64 if route.kind == ELEMENTWISE else float
    for i in range(n):
        x = (<tuple>args)[i]
        if i == 0 and route.is_sequence:
            if type(x) is not list and type(x) is not tuple:
                return NotImplemented
            value = []
            for item in x:
                part = operands.take(0, <int>len(value), item, True, float)
                if part is None or type(part) is not ndarray:
                    return NotImplemented
                value.append(part)
        elif type(x) is int and route.kind == ELEMENTWISE:
            return NotImplemented       # some loops take integers
        else:
            differentiable = route.is_any or (route.wrt >> i) & 1
            if is_option(x) and (route.is_any or not differentiable):
                value = x
            else:
                value = operands.take(<int>i, -1, x, differentiable, number)
                if value is None:
                    return NotImplemented
        values.append(value)
    if operands.level is None:
        return NotImplemented
    if operands.has_complex and not keeps_complex(row, operands):
        return NotImplemented
    if route.kind == COMPOSED:
        if row.replayed and (y := repeated.replayed(row, fun, args, kwargs)) is not NotImplemented:
            return y
        return row.variadic(*args, **kwargs)
    if route.kind == CONSTANT:
        y = (compute or fun)(*values, **kwargs)
        if type(y) is ndarray:
            return var.clean(y) if y.dtype.kind in "fc" else y
        return y if isinstance(y, (np.generic, bool, int)) else NotImplemented
    if operands.level.recording:
        try:
            y = (compute or fun)(*values, **kwargs)
        except (ArithmeticError, np.linalg.LinAlgError):
            return NotImplemented               # the general path ends the recording
    else:
        y = (compute or fun)(*values, **kwargs)
    if type(y) is not float64 and not (type(y) is ndarray and is_double(<cnp.ndarray>y)):
        if type(y) is complex:
            y = complex128(y)
        if not (type(y) is complex128 or (type(y) is ndarray and is_complex(<cnp.ndarray>y))):
            return NotImplemented
        if not (operands.takes_complex and keeps_complex(row, operands)):
            return NotImplemented
        if route.kind == ELEMENTWISE:
            values = [complex128(x) if type(args[i]) is float else x for i, x in enumerate(values)]
    elif operands.has_complex:
        if row.on_complex is True:
            return NotImplemented               # the general path raises
        var.note_complex(operands.level)
    return finished((compute or fun) if operands.level.recording else fun, row, route, operands, <tuple>args, values,
                    kwargs, y)


cdef bint keeps_complex(row, Operands operands) except -1:
    """Return whether a call with complex operands or a complex result can be recorded."""
    if operands.level.kind != REVERSE or operands.level.recording:
        return False
    return bool(row.on_complex or row.adjoints)


cdef bint is_complex(cnp.ndarray x):
    """Return whether `x` is a complex128 array in native byte order, aligned."""
    return cnp.PyArray_TYPE(x) == cnp.NPY_CDOUBLE and cnp.PyArray_ISBEHAVED_RO(x)


cdef object finished(compute, row, Route route, Operands operands, tuple args, list values, dict kwargs, y):
    """Append the entry of a call with result `y`; a result in the memory of an operand is a view of it."""
    cdef Node node
    cdef Level level = operands.level
    found = None
    if type(y) is ndarray:
        for source in operands.sources:
            operand = args[source[0]] if source[1] < 0 else args[source[0]][source[1]]
            if type(operand) is ArrayVar and var.shares_memory(<ArrayVar>operand, y):
                return array_var((<ArrayVar>operand).buffer, <cnp.ndarray>y)
    if (route.kind == VIEW or route.kind == REARRANGEMENT) and not level.recording:
        found = index_map(compute, operands, values, kwargs)
        if found is None:
            return NotImplemented
    if level.kind == FORWARD:
        traced = [(position, item, args[position] if item < 0 else args[position][item])
                  for position, item, _, _, _ in operands.sources]
        return var.record(level, row, tuple(values), kwargs, traced, y,
                          None if found is None else lambda entry: found, compute)
    node = new_node(CALL if found is None else REARRANGE, row)
    if found is None:
        if operands.has_constant:
            keep_constants(<Tape>level.tape, operands, values)
        node.args = tuple(values)
        node.kwargs = kwargs
    else:
        node.args = ()
        node.kwargs = {}
        node.key = found
    node.sources = operands.sources
    node.compute = compute
    if level.recording:
        return replayable(<Tape>level.tape, node, y)
    return var.result(<Tape>level.tape, node, y)


cdef object replayable(Tape tape, Node node, y):
    """Append an entry to a recording for replay; it needs only the layout of traced arrays."""
    cdef list values = list(node.args), sources = []
    for position, item, buffer, view, slot in node.sources:
        if item < 0:
            values[position] = None
        else:
            (<list>values[position])[item] = None       # a list that the direct path made
        sources.append((position, item, buffer, None if view is None else view_descriptor(view, True), slot))
    node.args = tuple(values)
    node.sources = sources
    x = var.result(tape, node, y)
    if node.y is not None:
        node.y = view_descriptor(node.y, True)
    return x


#: index maps of rearrangements, by function, shapes, strides and options
cdef dict index_maps = {}
cdef enum:
    MAX_INDEX_MAPS = 1024
    MAX_MAPPED = 4096           # elements of a map that is kept


def clear_caches():
    """Forget the index maps of rearrangements."""
    index_maps.clear()


cdef object index_map(fun, Operands operands, list values, dict kwargs):
    """Return the source of each element of a rearrangement, numbered as by `dispatch.apply`, or None."""
    cdef set traced = {source[0] for source in operands.sources}
    key = [fun]
    for i, value in enumerate(values):
        if type(value) is ndarray:
            if i in traced:
                key.append(layout_of(<cnp.ndarray>value))
            elif cnp.PyArray_SIZE(<cnp.ndarray>value) > MAX_MAPPED:
                return None
            else:               # indices, for example
                key.append((value.dtype, value.shape, value.tobytes()))
        elif len(key) == 1 and type(value) is list:
            if len(value) != len(operands.sources):
                return None                     # an item is constant
            key.append(tuple([layout_of(<cnp.ndarray>part) for part in value]))
        elif is_option(value):
            key.append((type(value), value))    # True is not 1
        else:
            return None
    for option in kwargs.items():
        key.append(option)
    try:
        key = tuple(key)
        found = index_maps.get(key)
    except TypeError:               # a list among the options
        return None
    if found is None:
        found = new_index_map(fun, operands, values, kwargs)
        if found.size <= MAX_MAPPED:
            if len(index_maps) >= MAX_INDEX_MAPS:
                index_maps.clear()
            index_maps[key] = found
    return found


cdef tuple layout_of(cnp.ndarray x):
    return (<object>x).shape, (<object>x).strides


cdef object new_index_map(fun, Operands operands, list values, dict kwargs):
    cdef list numbered = list(values)
    start = 1
    for position, item, _, _, _ in operands.sources:
        value = values[position] if item < 0 else values[position][item]
        numbers = numbers_like(np.asarray(value), start)
        start += numbers.size
        if item < 0:
            numbered[position] = numbers
        else:
            numbered[position] = [*numbered[position][:item], numbers, *numbered[position][item + 1:]]
    found = np.ravel(fun(*numbered, **kwargs))
    found = found.astype(np.intp)   # a copy, so no other code holds a view of it
    found.flags.writeable = False
    return found


cdef int keep_constants(Tape tape, Operands operands, list values) except -1:
    """Replace constant arrays by copies, since f may change them before the sweep."""
    cdef Py_ssize_t i, j
    cdef set own = {(source[0], source[1]) for source in operands.sources}
    for i in range(len(values)):
        value = values[i]
        if type(value) is list:
            values[i] = [part if (i, j) in own or type(part) is not ndarray else kept_constant(tape, <cnp.ndarray>part)
                         for j, part in enumerate(value)]
        elif type(value) is ndarray and (i, -1) not in own:
            values[i] = kept_constant(tape, <cnp.ndarray>value)
    return 0
