# Bounds checks are off, since users supply no indices here; C division is on, since they supply no divisors:
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Interface between the transforms and a recording: independent variables, outputs, sweeps, checkpointed loops.

`quick` and `quick_push` compute a first derivative of a function of float64 arrays in one call, which avoids most of
the overhead for small functions.
"""

cimport numpy as cnp
from cpython.contextvars cimport PyContextVar_Reset, PyContextVar_Set, get_value
from libc.stdint cimport int32_t
from libc.string cimport memcpy

import numpy as np

from wengert.core import levels
from wengert.core.tape.memory cimport (
    Buffer, Level, is_double, is_vector, kept, new_buffer, same_layout, same_shape, view_at,
)
from wengert.core.tape.tape cimport (
    LOOP, WG_INPUT, Node, Tape, begin_adjoints, check_tail, new_node, new_tail, push, wg_in_groups, wg_range, wg_whole,
    wg_widen,
)
from wengert.core.operands.var cimport (
    DIRECTIONS, ArrayVar, Sample, ScalarDual, ScalarVar, Search, array_var, as_numpy, check_forward, check_search,
    clean, contracted, dual_array, has_searches, is_known, is_var, level_of, mixed_message, note_complex, samples_of,
    scalar, scalar_list, tangents_of, with_tangents,
)

from wengert.errors import LevelError

cnp.import_array()

cdef object float64 = np.float64, ndarray = np.ndarray, running = levels.running


def independent(recorder, value, bint owned=False):
    """Return a traced copy of an array or scalar as an independent variable; `owned`: use its memory uncopied."""
    cdef Tape tape
    cdef Buffer buffer
    cdef cnp.ndarray array
    if type(recorder) is not Tape:
        return recorder.independent(value, owned)
    tape = <Tape>recorder
    if type(value) is float64:
        return scalar(tape, push(tape, WG_INPUT, 0, 0, value), value)
    array = <cnp.ndarray>np.asarray(value)
    if not owned:
        array = same_layout(array)
    buffer = new_buffer(array, tape.level)
    buffer.owner = array
    tape.roots.append(buffer)
    if cnp.PyArray_ISCOMPLEX(array):
        note_complex(tape.level)
    if tape.recording and array.dtype.kind in "fc":
        tape.active.add(buffer)
    x = array_var(buffer, array)
    x.scalar = not isinstance(value, ndarray)
    return x


def carried(Level level, value, t):
    """Return a copy of an array or scalar with tangents, as an independent variable of forward mode."""
    if level.depth == 0:
        t = np.array(t)             # a copy, since f may store in place
        if type(value) is float64:
            return with_tangents(level, value, t)
        value = same_layout(<cnp.ndarray>np.asarray(value)) if isinstance(value, ndarray) else value
    else:
        value = own_copy(value)
    return with_tangents(level, value, t)


def own_copy(value):
    """Copy of an array (or operand) with the same strides, on which the last bit of NumPy's results may depend."""
    cdef ArrayVar copy
    if type(value) is ndarray:
        return same_layout(<cnp.ndarray>value)
    if type(value) is not ArrayVar or (<ArrayVar>value).scalar:
        return value
    copy = <ArrayVar>clean(same_layout((<ArrayVar>value).v))
    copy[...] = value
    return copy


def carried_identity(Level level, value, Py_ssize_t first):
    """Call `carried` with tangents from the identity matrix: direction j is unit vector ``first + j``."""
    cdef Py_ssize_t j, n = np.size(value)
    cdef cnp.ndarray t
    if type(value) is not ndarray or level.depth or not is_vector(<cnp.ndarray>value):
        t = <cnp.ndarray>np.eye(level.k, n, first, dtype=value.dtype)
        return carried(level, value, (<object>t).reshape(level.k, *np.shape(value)))
    t = <cnp.ndarray>np.zeros((level.k, *value.shape))
    for j in range(max(0, -first), min(level.k, n - first)):
        (<double *>cnp.PyArray_DATA(t))[j * n + first + j] = 1.0
    return dual_array(level, kept(<cnp.ndarray>value), t)


def columns(Level level, y):
    """Tangents of an output as a matrix with one column per direction."""
    cdef Py_ssize_t k = level.k, i, j, m, span
    cdef cnp.npy_intp shape[2]
    cdef cnp.ndarray matrix, v
    cdef double *out
    cdef char *t
    cdef Buffer buffer
    shape[1] = k
    if type(y) is ArrayVar and level.depth == 0 and (<ArrayVar>y).buffer.level is level and is_vector((<ArrayVar>y).v):
        v = (<ArrayVar>y).v
        buffer = (<ArrayVar>y).buffer
        m = shape[0] = cnp.PyArray_SIZE(v)
        matrix = <cnp.ndarray>cnp.PyArray_EMPTY(2, shape, cnp.NPY_DOUBLE, 0)
        out = <double *>cnp.PyArray_DATA(matrix)
        t = buffer.tangent + (<char *>cnp.PyArray_DATA(v) - buffer.low)
        span = buffer.span
        for i in range(m):
            for j in range(k):
                out[i * k + j] = (<double *>(t + j * span))[i]
        return matrix
    if type(y) is list or type(y) is tuple:     # scalars that represent an array
        shape[0] = len(y)
        matrix = <cnp.ndarray>cnp.PyArray_ZEROS(2, shape, cnp.NPY_DOUBLE, 0)
        for i, x in enumerate(y):
            if type(x) is ScalarDual:
                memcpy(<double *>cnp.PyArray_DATA(matrix) + i * k, (<ScalarDual>x).t, k * sizeof(double))
        return matrix
    if level_of(y) is not level:
        return np.zeros((np.size(y), k), dtype=getattr(y, "dtype", float))
    transposed = np.transpose(np.reshape(tangents_of(y), (k, np.size(y))))
    return np.ascontiguousarray(transposed) if level.depth == 0 else transposed


cpdef bint is_output(Level level, y) except -1:
    """Return whether `y` is an operand of this derivative, or a list of its scalars; raise if it has ended.

    A value of an enclosing derivative is a constant here.
    """
    cdef Level own
    if type(y) is list or type(y) is tuple:
        if not scalar_list(y):
            return False
        for x in y:
            own = level_of(x)
            if own is not None and own is not level:
                check_around(own, level)
                return False
        return True
    if not is_var(y):
        return False
    own = level_of(y)
    if own is not None and own is not level:
        check_around(own, level)
    return True


cdef int check_around(Level own, Level level) except -1:
    """Raise unless `own` encloses `level`."""
    if own.depth >= level.depth:
        raise LevelError(mixed_message(own, level))
    return 0


def has_stores(recorder):
    """Return whether an in-place store occurred."""
    return (<Tape>recorder).has_stores if type(recorder) is Tape else recorder.has_stores


def was_written(x):
    """Return whether a store changed the array of this input."""
    return type(x) is ArrayVar and (<ArrayVar>x).buffer.written


def pull_back(recorder, list inputs, list outputs, cotangents, Py_ssize_t k, bint stacked, bint consume):
    """Sweep once and return the cotangent of each input, with a leading axis of length k if `stacked`.

    `cotangents` holds one array per output (None: no contribution), or is a pair ``(first, last)``, which selects
    rows `first` to `last` of the identity over all elements of the outputs.
    """
    if type(recorder) is not Tape:
        return recorder.pull_back(inputs, outputs, cotangents, k, stacked, consume)
    return pull_tape(<Tape>recorder, inputs, outputs, cotangents, k, stacked, consume)


cdef list pull_tape(Tape tape, list inputs, list outputs, cotangents, Py_ssize_t k, bint stacked, bint consume):
    cdef Py_ssize_t offset = 0
    tape.begin(k, stacked)
    try:
        for i, y in enumerate(outputs):
            if type(cotangents) is tuple:
                offset = seed_rows(tape, y, offset, cotangents[0], k)
            elif cotangents[i] is not None:
                seed(tape, y, cotangents[i])
        tape.sweep(consume)
        return [adjoint_of(tape, x) for x in inputs]
    finally:
        tape.end()


def pull_tail(recorder, list inputs, list outputs, list cotangents):
    """Sweep a tail and return the cotangents of its inputs, with None for 0."""
    cdef Tape tail
    if type(recorder) is not Tape:
        return recorder.pull_tail(inputs, outputs, cotangents)
    tail = <Tape>recorder
    check_tail(tail)
    begin_adjoints(tail)
    for y, cotangent in zip(outputs, cotangents):
        if cotangent is not None:
            seed(tail, y, cotangent)
    tail.sweep(True)
    return [None if type(x) is ArrayVar and (<ArrayVar>x).buffer.shadow is None else adjoint_of(tail, x)
            for x in inputs]


def add_loop(recorder, compute, list inputs, list values, Py_ssize_t elements):
    """Append the entry of a loop and return its results as operands.

    The sweep calls ``compute(recorder, entry, cotangents, values)`` with the cotangents and values of the results; it
    returns the cotangents of the inputs. `elements` counts further elements that are live at once while it runs.
    """
    cdef Tape tape
    cdef Node node
    if type(recorder) is not Tape:
        return recorder.add_loop(compute, inputs, values)
    tape = <Tape>recorder
    node = new_node(LOOP, None)
    node.compute = compute
    node.sources = [(0, -1, *storage_of(x)) for x in inputs]
    born = tape.add_node(node, 0.0)
    outputs = [independent(tape, value, True) for value in values]
    for x in outputs:
        if type(x) is ArrayVar:
            (<ArrayVar>x).buffer.born = born + 1
    node.args = tuple([storage_of(x) for x in outputs])
    tape.has_loops = True
    tape.elements += elements
    return outputs


def open_tail(recorder, Py_ssize_t entry, str name, bint forgets):
    """Return a tail of a recorder; `entry` is the entry of the loop being swept, or -1."""
    cdef Tape tail
    if type(recorder) is not Tape:
        return recorder.open_tail(entry, name, forgets)
    tail = new_tail(<Tape>recorder, name, forgets)
    if entry >= 0:
        tail.gap = entry
    return tail


cdef tuple storage_of(x):
    """Buffer and view, or slot, of an operand."""
    x = as_numpy(x)
    if type(x) is ScalarVar:
        return None, None, (<ScalarVar>x).slot
    return (<ArrayVar>x).buffer, (<ArrayVar>x).v, -1


cdef int seed(Tape tape, object y, object cotangent) except -1:
    if type(y) is ScalarVar:
        if type(cotangent) is float:
            tape.adjoint[(<ScalarVar>y).slot] += <double>cotangent
        else:
            tape.accumulate(None, None, (<ScalarVar>y).slot, cotangent)
    elif type(y) is ArrayVar and level_of(y) is tape.level:
        tape.accumulate((<ArrayVar>y).buffer, (<ArrayVar>y).v, -1, cotangent)
    elif type(y) is list or type(y) is tuple:       # scalars that represent an array
        for i, x in enumerate(y):
            seed(tape, x, cotangent[..., i])
    return 0


cdef Py_ssize_t seed_rows(Tape tape, object y, Py_ssize_t offset, Py_ssize_t first, Py_ssize_t k) except -1:
    """Seed direction j with element ``first + j`` of the outputs; return the offset of the next output."""
    cdef Py_ssize_t size = 1, j, e
    cdef Buffer buffer
    cdef cnp.ndarray v
    if type(y) is ScalarVar:
        if first <= offset < first + k:
            seed_unit(tape, (<ScalarVar>y).slot, offset - first)
        return offset + 1
    if type(y) is list or type(y) is tuple:             # scalars that represent an array
        for x in y:
            if type(x) is ScalarVar and first <= offset < first + k:
                seed_unit(tape, (<ScalarVar>x).slot, offset - first)
            offset += 1
        return offset
    size = np.size(y) if type(y) is not ArrayVar else cnp.PyArray_SIZE((<ArrayVar>y).v)
    wanted = first < offset + size and offset < first + k
    if wanted and type(y) is ArrayVar and (<ArrayVar>y).buffer.level is tape.level:
        buffer = (<ArrayVar>y).buffer
        v = (<ArrayVar>y).v
        adjoint = None
        for j in range(k):
            e = first + j - offset
            if not 0 <= e < size:
                continue
            if is_vector(v):
                (<double *>(tape.shadow_of(buffer) + j * buffer.span
                            + (<char *>cnp.PyArray_DATA(v) - buffer.low)))[e] += 1.0
            else:
                if adjoint is None:
                    adjoint = tape.adjoint_view(buffer, v)
                adjoint[j, ...].flat[e] += 1.0
    return offset + size


cdef inline int seed_unit(Tape tape, int32_t slot, Py_ssize_t j) except -1:
    """Add 1 in direction j to the adjoint of a slot."""
    cdef double *row = tape.adjoint + slot * tape.width
    cdef wg_range unit
    if tape.k > 1:
        unit.low, unit.high = <int32_t>j, <int32_t>(j + 1)
        wg_widen(row, &tape.ranges[slot], wg_in_groups(unit))
    row[j] += 1.0
    return 0


cdef object adjoint_of(Tape tape, object x):
    """Adjoint of an input, in memory that stays valid after the sweep."""
    cdef ArrayVar v
    cdef cnp.ndarray adjoint
    cdef cnp.npy_intp k = tape.k
    if type(x) is ScalarVar:
        if not tape.stacked:
            return float64(tape.adjoint[(<ScalarVar>x).slot])
        adjoint = <cnp.ndarray>cnp.PyArray_EMPTY(1, &k, cnp.NPY_DOUBLE, 0)
        memcpy(cnp.PyArray_DATA(adjoint), wg_whole(tape.adjoint, tape.ranges, (<ScalarVar>x).slot, tape.width),
               k * sizeof(double))
        return adjoint
    v = <ArrayVar>x
    adjoint = tape.adjoint_view(v.buffer, v.v)   # keeps the shadow alive, which the tape drops after the sweep
    if not cnp.PyArray_IS_C_CONTIGUOUS(v.v):
        adjoint = adjoint.copy()
    return adjoint[()] if v.scalar and not tape.stacked else adjoint


def check_searches(recorder, list inputs):
    """Warn if a loop that iterated until a traced value vanished lost the derivative of its result."""
    cdef Tape tape
    if type(recorder) is not Tape:
        if type(recorder) is Level:
            check_forward(recorder)
        return
    tape = <Tape>recorder
    if not has_searches(tape.level) or tape.has_loops or tape.recording or tape.tail is not None:
        return
    for search in contracted(tape.level):
        if not is_known(<Search>search):
            set_slopes(tape, inputs, <Search>search)
            if check_search(tape.level, <Search>search):
                break


cdef int set_slopes(Tape tape, list inputs, Search search) except -1:
    """Set the slope of each sample of a search, its largest derivative with respect to the inputs, by a sweep."""
    cdef Sample *samples[DIRECTIONS]
    cdef Py_ssize_t j
    samples_of(search, samples)
    tape.begin(DIRECTIONS, True)
    try:
        for j in range(DIRECTIONS):
            if samples[j].left >= 0:
                seed_unit(tape, samples[j].left, j)
            if samples[j].right >= 0:
                seed_unit(tape, samples[j].right, j)
                tape.adjoint[samples[j].right * tape.width + j] -= 2.0
        tape.sweep(False)
        slopes = np.zeros(DIRECTIONS)
        for x in inputs:
            found = np.abs(np.reshape(adjoint_of(tape, x), (DIRECTIONS, -1)))
            slopes = np.maximum(slopes, np.max(found, axis=1, initial=0.0))
    finally:
        tape.end()
    for j in range(DIRECTIONS):
        samples[j].slope = slopes[j] if samples[j].left >= 0 else 0.0
    return 0


def quick(call, str name, tuple args, dict kwargs, Py_ssize_t position, Py_ssize_t n, Py_ssize_t m, accept):
    """Compute the derivative of a scalar or 1-D output with respect to one array of n doubles, in one call.

    m is the size of the result, 0 for a scalar (whose derivative is a gradient), or -1 if unknown;
    ``accept(n, m, size)`` then decides whether m rows are swept at once on a tape of that size.
    Returns None if `call` was not called. If the output has another type or shape, returns the tape, the traced input
    and the output, for the general path. Otherwise closes the tape and returns the derivative.
    """
    cdef Tape tape
    cdef ArrayVar v
    cdef cnp.ndarray x
    if not 0 <= position < len(args) or type(args[position]) is not ndarray or get_value(running):
        return None
    x = <cnp.ndarray>args[position]
    if not is_double(x) or (n >= 0 and cnp.PyArray_SIZE(x) != n):
        return None
    tape = Tape.__new__(Tape, name)
    tape.level.is_gradient = m == 0
    v = <ArrayVar>independent(tape, x)
    traced = (v,) if len(args) == 1 else (*args[:position], v, *args[position + 1:])
    y = call_inside(tape, tape.level, call, traced, kwargs)
    try:
        if has_searches(tape.level):
            check_searches(tape, [v])
        size = size_of_1d(tape, y)
        if size < 0 or v.buffer.written or (m >= 0 and size != m) or (m == 0) != (type(y) is ScalarVar):
            return tape, v, y
        if m < 0 and not accept(cnp.PyArray_SIZE(x), size, tape.n + tape.elements):
            return tape, v, y
        if m == 0:
            found = pull_tape(tape, [v], [y], [1.0], 1, False, True)
        else:
            found = pull_tape(tape, [v], [y], (0, size), size, True, True)
    except BaseException:
        tape.close()
        raise
    tape.close()
    return found[0]


cdef object call_inside(recorder, Level level, call, tuple args, dict kwargs):
    """Call the function of a new innermost derivative; close the recorder of the derivative if the call raises."""
    token = PyContextVar_Set(running, (recorder,))
    try:
        y = as_numpy(call(*args, **kwargs) if kwargs else call(*args))
        if level.refused is not None or level.spelled is not None:
            levels.check_end(level)
        return y
    except BaseException as error:
        recorder.close()
        levels.explain(level, error)
        raise
    finally:
        PyContextVar_Reset(running, token)


cdef Py_ssize_t size_of_1d(Tape tape, object y) except -2:
    """Size of a 1-D array, or of a list of scalars, of this tape; 0 for a scalar, -1 for anything else."""
    if type(y) is ScalarVar:
        return 0 if (<ScalarVar>y).tape is tape else -1
    if type(y) is ArrayVar:
        if ((<ArrayVar>y).buffer.level is not tape.level or cnp.PyArray_NDIM((<ArrayVar>y).v) != 1
                or cnp.PyArray_ISCOMPLEX((<ArrayVar>y).v)):
            return -1
        return cnp.PyArray_SIZE((<ArrayVar>y).v)
    if type(y) is not list and type(y) is not tuple or not y:
        return -1
    for x in y:
        if type(x) is not ScalarVar or (<ScalarVar>x).tape is not tape:
            return -1
    return len(y)


def quick_push(call, str name, tuple args, dict kwargs, v):
    """Compute a value and its derivative in direction `v` with respect to the first argument, an array of doubles.

    Returns None if `call` was not called. If the output is not one array or scalar, returns the level, the traced input
    and the output, for the general path. Otherwise returns the pair.
    """
    cdef Level level
    cdef ArrayVar x
    cdef Buffer buffer
    cdef cnp.ndarray at, y
    if type(args[0]) is not ndarray or type(v) is not ndarray or get_value(running):
        return None
    at = <cnp.ndarray>args[0]
    if not is_vector(at) or not is_vector(<cnp.ndarray>v) or not same_shape(at, <cnp.ndarray>v):
        return None
    level = Level(name, 0, 1)
    x = dual_array(level, kept(at), kept(<cnp.ndarray>v))
    found = call_inside(level, level, call, (x, *args[1:]), kwargs)
    if has_searches(level):
        check_forward(level)
    if not x.buffer.written and level.doubtful is None:
        if type(found) is ScalarDual and (<ScalarDual>found).level is level:
            level.close()
            return float64((<ScalarDual>found).v), float64((<ScalarDual>found).t[0])
        if (type(found) is ArrayVar and (<ArrayVar>found).buffer.level is level and not (<ArrayVar>found).scalar
                and is_vector((<ArrayVar>found).v)):
            buffer = (<ArrayVar>found).buffer
            y = (<ArrayVar>found).v
            pair = kept(y), kept(view_at(buffer.tangent + (<char *>cnp.PyArray_DATA(y) - buffer.low),
                                         buffer.tangent_owner, y, 0, 0))
            level.close()
            return pair
    return level, x, found
