# Detects loops that find a root. Bisection moves plain floats until a traced residual vanishes. The residual at the
# root is zero for all parameters, but its recorded derivative is not: the derivative of the root itself is missing.
#
# A `Search` watches the comparisons at one instruction. If the differences of the two sides shrink geometrically but
# their derivatives do not shrink at a comparable rate, the derivative is lost. Iterations that carry the derivative,
# such as Newton's and fixed-point iterations, shrink both (Gilbert 1992; Griewank and Walther 2008, chapter 15).
#
# A comparison joins its search only if its sides are close relative to recent differences, so most cost little.
#
# A short search does not contract enough for this test. The first comparisons of a derivative therefore examine the
# local variables: if comparisons of traced values halve an interval of plain floats (a `Bracket`), the interval and the
# root in it have derivative 0. An instruction known to have no such variables costs only a table look-up.

cdef extern from "Python.h":
    ctypedef struct PyFrameObject
    ctypedef struct PyCodeObject
    PyFrameObject *PyEval_GetFrame()
    PyCodeObject *PyFrame_GetCode(PyFrameObject *frame)
    int PyFrame_GetLasti(PyFrameObject *frame)
    void Py_DECREF(PyObject *x)

cdef enum:
    BLOCK = 4                   # comparisons in a block; maxima of blocks are compared, since differences fluctuate
    WINDOW = 12                 # three blocks
    MIN_STREAK = 3              # successive windows that must contract
    FREE = 8                    # the first comparisons of a derivative are not watched
    SITES = 64                  # size of the table of searches, a power of two
    PERIOD = 64                 # comparisons after which old differences no longer count
    MAX_COMPARED = 4096         # elements of an array that are compared with the other side
    EARLY = 64                  # comparisons whose local variables are examined; each examination adds as many
    SAMPLING = 8                # and at one in this many of the others; a power of two
    MAX_EXAMINED = 1024         # examinations in a derivative
    PLACES = 1024               # size of the table of instructions, a power of two
    MIN_MISSES = 2              # derivatives without a bracket after which an instruction is ignored
    MAX_VARIABLES = 64          # functions with more local variables are not examined
    MAX_ELEMENTS = 64           # elements of local arrays that are examined
    MAX_BRACKETED = 16          # comparisons of a bracket that are examined

cdef double CLOSE = 1.0 / 16    # fraction of recent differences below which a difference is small
cdef double MIN_CONTRACTION = 16.0, MIN_BLOCK_CONTRACTION = 1.5, MAX_BLOCK_CONTRACTION = 1e5
cdef double MIN_TOTAL_CONTRACTION = 1e3
cdef double FINAL_CONTRACTION = 1e6     # enough to tell rates of convergence apart, and well above rounding


@cython.final
@cython.no_gc
cdef class Search:
    """The comparisons at one instruction since its two sides last moved apart."""


@cython.final
@cython.no_gc
cdef class Watch:
    """The searches of one derivative."""

    cdef Level level
    cdef Py_ssize_t compared, examined  # number of comparisons, and of those whose local variables were examined
    cdef Py_ssize_t early               # local variables are examined up to this comparison
    cdef double peak, earlier           # largest differences in this and in the last period
    cdef list searches
    cdef list found                     # searches that contracted and were restarted
    cdef dict brackets                  # place -> search whose local variables may bracket a root
    cdef bint contracts                 # did any search contract?

    def __cinit__(self):
        self.early = EARLY


cdef Watch watch = Watch.__new__(Watch)
cdef list watches = []                  # the most recent ones


cdef int turn_to(Level level) except -1:
    """Make the watch of `level` the current one."""
    global watch
    cdef Watch other
    for other in watches:
        if other.level is level:
            watch = other
            return 0
    for other in watches:
        other.brackets = None       # they belong to derivatives that ended with an error, or that enclose this one
    watch = Watch.__new__(Watch)
    watch.level = level
    if len(watches) > 3:
        del watches[0]
    watches.append(watch)
    return 0


cdef inline bint is_watched(Level level, double difference) except -1:
    """Count a comparison; return whether its sides are close, or whether it is time to examine local variables."""
    return is_close(level, difference) or is_examined()


cdef inline bint is_examined() noexcept:
    return watch.compared <= watch.early or watch.compared & (SAMPLING - 1) == 0


cdef inline bint is_close(Level level, double difference) except -1:
    """Count a comparison and return whether its sides are close."""
    if level is not watch.level:
        turn_to(level)
    difference = fabs(difference)
    watch.compared += 1
    if watch.compared & (PERIOD - 1) == 0:
        watch.earlier = watch.peak
        watch.peak = 0.0
    if watch.peak < difference < 1e300:
        watch.peak = difference
    return differs_little(difference)


cdef inline bint differs_little(double difference) noexcept:
    """Return whether a difference is small, relative to recent ones."""
    difference = fabs(difference)
    return (watch.compared > FREE and difference != 0.0
            and (difference < CLOSE * watch.peak or difference < CLOSE * watch.earlier))


cdef object running_code(int *last):
    """Return the running code and set `last` to its instruction; None outside Python code and in passive blocks."""
    cdef PyFrameObject *frame = PyEval_GetFrame()
    cdef PyObject *code
    if frame == NULL or is_in_passive_block(watch.level):
        return None
    last[0] = PyFrame_GetLasti(frame)
    code = <PyObject *>PyFrame_GetCode(frame)
    running = <object>code
    Py_DECREF(code)
    return running


cdef inline size_t slot_of(object code, int last, size_t size) noexcept:
    """Return the slot of an instruction in a table whose size is a power of two."""
    return ((<size_t><PyObject *>code >> 4) ^ <size_t>last ^ (<size_t>last >> 6)) & (size - 1)


cdef Search search_here():
    """Return the search at the running instruction, or None outside user code and in passive blocks."""
    cdef Search found
    cdef size_t slot
    cdef int last
    code = running_code(&last)
    if code is None:
        return None
    slot = slot_of(code, last, SITES)
    if watch.searches is None:
        watch.searches = [None] * SITES
        watch.found = []
    found = <Search>watch.searches[slot]
    if found is None or found.code is not code or found.last != last:
        found = Search.__new__(Search)
        found.code = code
        found.last = last
        found.is_users = is_user_code(code)
        watch.searches[slot] = found
    return found if found.is_users else None


cdef inline bint is_in_passive_block(Level level) noexcept:
    return level.silent or (level.tape != NULL and (<Tape>level.tape).paused > 0)


cdef bint is_user_code(object running) except -1:
    """Return whether the running code does not belong to this package, NumPy or SciPy."""
    frame = frames.user_frame()
    return frame is not None and frame.f_code is running


cdef double largest(Sample *samples, int first, int count, bint slopes) noexcept:
    cdef double found = 0.0, value
    cdef int i
    for i in range(first, first + count):
        value = samples[i].slope if slopes else samples[i].difference
        if value != value:
            return value
        found = max(found, value)
    return found


cdef int add_sample(Search search, Sample sample) except -1:
    """Append a comparison to its search and test whether the search contracts."""
    cdef Sample window[12]
    cdef double a, b, c, recent = largest(search.samples, 0, <int>min(search.n, WINDOW), False)
    cdef int i
    if search.n and sample.difference > 4 * recent:
        restart(search)
    if search.n == 0:
        search.first = sample
        search.integers = []
    note_speed(search, sample.difference)
    search.samples[search.n % WINDOW] = sample
    search.n += 1
    search.reference = max(search.reference, sample.difference)
    if 6 <= search.n <= 8:
        search.integers.append(local_integers())
        search.over_table = search.n == 8 and is_index_search(search.integers)
    if sample.difference * MIN_CONTRACTION > recent:
        search.streak = 0               # no contraction, which is the common case
        return 0
    if search.n < WINDOW or search.is_final:
        return 0
    for i in range(WINDOW):
        window[i] = search.samples[(search.n + i) % WINDOW]
    a = largest(window, 0, BLOCK, False)
    b = largest(window, BLOCK, BLOCK, False)
    c = largest(window, 2 * BLOCK, BLOCK, False)
    if not (a >= MIN_CONTRACTION * c and MIN_BLOCK_CONTRACTION * b <= a <= MAX_BLOCK_CONTRACTION * b
            and MIN_BLOCK_CONTRACTION * c <= b <= MAX_BLOCK_CONTRACTION * c):
        search.streak = 0
        return 0
    search.streak += 1
    if search.streak >= MIN_STREAK and search.reference >= MIN_TOTAL_CONTRACTION * c:
        for i in range(WINDOW):
            search.tail[i] = window[i]
        search.contracts = watch.contracts = True
        search.is_final = search.reference >= FINAL_CONTRACTION * c
    return 0


cdef int note_speed(Search search, double difference) except -1:
    """Note whether convergence is superlinear, as in Newton's method: of two steps, the second shrinks far more."""
    cdef double last, other
    if search.fast and difference > 3 * search.fast:
        search.fast = 0.0
    if search.n >= 2 and not search.fast:
        last = search.samples[(search.n - 1) % WINDOW].difference
        other = search.samples[(search.n - 2) % WINDOW].difference
        if difference < 1e-2 * last and last < 0.3 * other:
            search.fast = difference
    return 0


cdef int restart(Search search) except -1:
    """Restart a search; if it contracted, keep a copy of it in ``watch.found``."""
    cdef Search old
    if search.contracts and len(watch.found) < SITES:
        old = Search.__new__(Search)
        old.code, old.last, old.n, old.over_table = search.code, search.last, search.n, search.over_table
        old.reference, old.fast, old.contracts = search.reference, search.fast, True
        old.first, old.samples, old.tail = search.first, search.samples, search.tail
        watch.found.append(old)
    search.n = 0
    search.streak = 0
    search.reference = search.fast = 0.0
    search.contracts = search.over_table = search.is_final = False
    return 0


cdef dict local_integers():
    """Return the integers among the local variables of the running Python code."""
    frame = <object><PyObject *>PyEval_GetFrame()
    return {name: x for name, x in frame.f_locals.items() if type(x) is int or type(x) is np.int64}


cdef bint is_index_search(list samples) except -1:
    """Return whether an integer moves by unequal steps, as a bisected index does, unlike a counter or a flag."""
    for name, x in samples[0].items():
        if name in samples[1] and name in samples[2]:
            one, other = samples[1][name] - x, samples[2][name] - samples[1][name]
            if one != other and max(abs(one), abs(other)) > 2:
                return True
    return False


# ---- brackets

@cython.final
cdef class Place:
    """An instruction that compares traced values."""

    cdef PyObject *code                 # NULL once the code is gone
    cdef object ref                     # weak, so that code which runs once can be freed
    cdef int last
    cdef bint is_users
    cdef int misses                     # derivatives in which no bracket was confirmed

    def forget(self, _):
        self.code = NULL
        self.ref = None


cdef list places = [None] * PLACES


cdef Search bracket_here():
    """Return the search at the running instruction if its local variables may bracket a root, else None."""
    cdef Place place
    cdef Search found
    cdef size_t slot
    cdef int last
    code = running_code(&last)
    if code is None:
        return None
    slot = slot_of(code, last, PLACES)
    place = <Place>places[slot]
    if place is None or place.code != <PyObject *>code or place.last != last:
        place = Place.__new__(Place)
        place.code = <PyObject *>code
        place.ref = weakref.ref(code, place.forget)
        place.last = last
        place.is_users = is_user_code(code)
        places[slot] = place
    if not place.is_users or place.misses >= MIN_MISSES:
        return None
    if watch.brackets is None:
        watch.brackets = {}
    found = watch.brackets.get(place)
    if found is None:
        found = watch.brackets[place] = Search.__new__(Search)
        found.code, found.last, found.place = code, last, place
    if found.n >= MAX_BRACKETED or watch.examined >= MAX_EXAMINED:
        return None
    watch.examined += 1
    watch.early = max(watch.early, watch.compared + EARLY)
    return found


cdef int add_to_bracket(Search search, Sample sample, list outcome) except -1:
    """Append a comparison, and examine the local variables from the second one on."""
    cdef Py_ssize_t i, k = search.n - 1
    search.n += 1
    if k < 0:
        return 0
    if search.bracket is None:
        from wengert.core.brackets import Bracket
        search.bracket = Bracket()
    variables, traced = local_floats()
    search.bracket.add(variables, outcome)
    if search.bracket.is_over:
        if not search.bracket.is_confirmed:
            (<Place>search.place).misses += 1
            search.contracts = False
        search.n = MAX_BRACKETED
        return 0
    for i in range(k, BLOCK):                   # the tail begins with the first samples and ends with the last
        search.tail[i] = sample
    for i in range(2 * BLOCK, 3 * BLOCK):
        search.tail[i] = search.tail[i + 1] if k > 0 and i + 1 < 3 * BLOCK else sample
    search.first = sample if k == 0 else search.first
    search.reference = max(search.reference, sample.difference)
    search.samples[(search.n - 1) % WINDOW] = sample
    if search.bracket.is_confirmed:
        search.contracts = watch.contracts = True
        search.is_traced = not traced.isdisjoint(search.bracket.names())
    return 0


cdef tuple local_floats():
    """Return the local variables that are floats, integers or float arrays, as lists, and the names of traced ones.

    The attributes of `self` count as local variables.
    """
    cdef dict found = {}
    cdef set traced = set()
    frame = <object><PyObject *>PyEval_GetFrame()
    variables = dict(frame.f_locals)
    variables.update(space_of(variables.get("self")))
    for name, x in variables.items():
        value = x
        if is_var(x):
            value = value_of(x)
            if is_traced(x):
                traced.add(name)
        if PyFloat_Check(value):        # isinstance() would run code of the user's classes
            found[name] = [PyFloat_AS_DOUBLE(value)]
        elif PyLong_CheckExact(value):
            found[name] = [value]
        elif type(value) is ndarray and value.dtype == np.float64 and 0 < value.size <= MAX_COMPARED:
            found[name] = first_elements(value)
    return found if len(found) <= MAX_VARIABLES else {}, traced


cdef list first_elements(object x):
    """Return the first elements of an array as a list; a scalar becomes a list of one."""
    return np.ravel(x)[:MAX_ELEMENTS].tolist()


# ---- comparisons of scalars

cdef int watch_scalars(object x, object other, double difference) except -1:
    """Add a comparison of a traced scalar with a scalar to the search and the bracket at its instruction."""
    cdef Sample sample
    cdef Search search
    if is_examined():
        search = bracket_here()
        if search is not None:
            set_scalar_sample(&sample, x, other, difference)
            add_to_bracket(search, sample, [difference > 0])
    if differs_little(difference):
        search = search_here()
        if search is not None:
            set_scalar_sample(&sample, x, other, difference)
            add_sample(search, sample)
    return 0


cdef int set_scalar_sample(Sample *sample, object x, object other, double difference) except -1:
    """Fill in the sample for a comparison of a traced scalar with a scalar."""
    cdef Level level
    cdef double t
    cdef Py_ssize_t j
    cdef bint both = type(other) is type(x)
    sample[0] = Sample(fabs(difference), NAN, -1, -1)
    if type(x) is ScalarVar:
        sample.left = (<ScalarVar>x).slot
        if both:
            sample.right = (<ScalarVar>other).slot
    else:
        level = (<ScalarDual>x).level
        both = both and (<ScalarDual>other).level is level
        sample.slope = 0.0
        for j in range(level.k):
            t = fabs((<ScalarDual>x).t[j] - ((<ScalarDual>other).t[j] if both else 0.0))
            sample.slope = t if t > sample.slope or t != t else sample.slope
    return 0


# ---- comparisons of arrays, and of scalars of nested derivatives

cpdef int watch_comparison(object left, object right) except -1:
    """Add a comparison of operands to its search."""
    try:
        watch_operands(as_numpy(left), as_numpy(right))
    except LevelError:              # the comparison itself decides whether to raise
        pass
    return 0


cdef int watch_operands(object left, object right) except -1:
    cdef Level level
    cdef Search search
    cdef Sample sample
    cdef double a, b
    level = innermost((left, right))
    if level is not None and level.depth > 0:
        left, right = grounded(left), grounded(right)
        level = innermost((left, right))
    if level is None or level.depth > 0:
        return 0
    if is_scalar_var(left) and (is_scalar_var(right) or as_double(right, &b)):
        a, b = value_of(left), value_of(right)
        if is_watched(level, a - b):
            watch_scalars(left, right, a - b)
        return 0
    if level is not watch.level:
        turn_to(level)
    if is_examined():
        search = bracket_here()
        sample = Sample(NAN if search is None else distance(value_of(left), value_of(right)), 0.0, -1, -1)
        if sample.difference == sample.difference:
            if search.n > 2 and not level.recording:
                add_slope(level, &sample, left, right)
            add_to_bracket(search, sample, first_elements(value_of(left) > value_of(right)))
    if watch.compared <= FREE:
        watch.compared += 1
        return 0
    sample = Sample(distance(value_of(left), value_of(right)), NAN, -1, -1)
    if sample.difference == sample.difference and is_close(level, sample.difference):
        search = search_here()
        if search is not None:
            if search.n >= BLOCK and 2 * sample.difference < search.reference and not level.recording:
                add_slope(level, &sample, left, right)
            add_sample(search, sample)
    return 0


cdef double distance(object a, object b) except? -1.0:
    """Return the largest absolute difference of two arrays, or NaN if they are not floats or have too many elements."""
    cdef const double *x
    cdef const double *y
    cdef double c = 0.0, found = 0.0, d
    cdef Py_ssize_t i, n, step
    if type(b) is int or type(b) is float64:
        b = float(b)
    a, b = np.asarray(a), b if type(b) is float else np.asarray(b)
    if is_vector(<cnp.ndarray>a) and (type(b) is float or (is_vector(<cnp.ndarray>b) and (
            cnp.PyArray_SIZE(<cnp.ndarray>b) == 1 or same_shape(<cnp.ndarray>a, <cnp.ndarray>b)))):
        n = cnp.PyArray_SIZE(<cnp.ndarray>a)
        if not 0 < n <= MAX_COMPARED:
            return NAN
        x = <double *>cnp.PyArray_DATA(<cnp.ndarray>a)
        if type(b) is float:
            c = b
            y = &c
        else:
            y = <double *>cnp.PyArray_DATA(<cnp.ndarray>b)
        step = 0 if type(b) is float or cnp.PyArray_SIZE(<cnp.ndarray>b) == 1 else 1
        for i in range(n):
            d = fabs(x[i] - y[i * step])
            if d != d:
                return NAN
            found = max(found, d)
        return found
    b = np.asarray(b)
    if a.dtype.kind != "f" or b.dtype.kind not in "fiu" or not 0 < a.size <= MAX_COMPARED or b.size > MAX_COMPARED:
        return NAN
    try:
        with np.errstate(all="ignore"):
            return np.max(np.abs(a - b))
    except ValueError:              # shapes that do not match
        return NAN


cdef int add_slope(Level level, Sample *sample, object left, object right) except -1:
    """Set the slope of a difference of arrays; on a tape, set the slot of a weighted sum of that difference."""
    difference = left - right
    if level.kind == FORWARD:
        sample.slope = np.max(np.abs(tangents_of(difference)), initial=0.0)
        return 0
    weights = 1.0 + np.arange(np.size(difference)).reshape(np.shape(difference)) % 7
    total = dispatch.function(np.sum, (difference * weights,), {})
    if type(total) is ScalarVar:
        sample.left = (<ScalarVar>total).slot
    return 0


# ---- checks when a derivative ends

cpdef bint has_searches(Level level) except -1:
    """Return whether any search of a derivative contracted, so that a warning may be due when the derivative ends.

    If none did, drop the brackets of the derivative.
    """
    cdef Watch other
    for other in watches:
        if other.level is level:
            if not other.contracts:
                other.brackets = None
            return other.contracts
    return False


cdef list contracted(Level level):
    """Return the contracted searches of a derivative, and forget all its searches."""
    cdef Search search
    turn_to(level)
    found = [*(watch.brackets or {}).values(), *(watch.searches or ()), *(watch.found or ())]
    found = [search for search in found if search is not None and search.contracts and not search.over_table]
    watch.searches = watch.found = watch.brackets = None
    watch.contracts = False
    return found


cpdef bint take_searches(Level level) except -1:
    """Return whether any search of a derivative contracted, and forget its searches."""
    return has_searches(level) and bool(contracted(level))


cdef int samples_of(Search search, Sample **samples) noexcept:
    """Set pointers to the samples that `is_lost` reads: both ends of the tail, and the first and last comparison."""
    cdef int i
    for i in range(BLOCK):
        samples[i] = &search.tail[i]
        samples[BLOCK + i] = &search.tail[2 * BLOCK + i]
    samples[2 * BLOCK] = &search.first
    samples[2 * BLOCK + 1] = &search.samples[(search.n - 1) % WINDOW]
    return 0


cdef bint is_lost(Search search) noexcept:
    """Return whether the differences of a search vanish but their derivatives do not."""
    cdef double a = largest(search.tail, 0, BLOCK, False), c = largest(search.tail, 2 * BLOCK, BLOCK, False)
    cdef double slope_a = largest(search.tail, 0, BLOCK, True), slope_c = largest(search.tail, 2 * BLOCK, BLOCK, True)
    cdef double first = search.first.slope, last = search.samples[(search.n - 1) % WINDOW].slope
    if search.bracket is not None and not search.is_traced:
        return is_enclosed_root(search)
    if not (slope_a > 0 and slope_c >= 0.5 * slope_a * sqrt(c / a)):
        return False
    if first > 0 and slope_c < first * pow(c / search.reference, 0.7):
        return False
    return not (search.fast and last < 0.1 * slope_c)


cdef bint is_enclosed_root(Search search) noexcept:
    """Return whether the root in an interval of plain floats depends on the inputs of the derivative.

    It does not if the residual is a product g(inputs) * h(point). Then the derivative of each difference is the same
    multiple of the difference.
    """
    cdef double ratio, low = INFINITY, high = 0.0
    cdef int i
    for i in range(WINDOW):
        if not BLOCK <= i < 2 * BLOCK and search.tail[i].difference > 0:
            ratio = search.tail[i].slope / search.tail[i].difference
            low, high = min(low, ratio), max(high, ratio)
    return high > 1.01 * low


cdef dict harmless = {}             # (code, instruction) -> how often its search kept the derivative


cdef bint is_known(Search search) except -1:
    """Return whether to skip this search: one that keeps its derivative is checked ever less often."""
    cdef Py_ssize_t times = harmless.get((search.code, search.last), 0)
    return times & (times - 1) != 0 and note_harmless(search)


cdef bint note_harmless(Search search) except -1:
    if len(harmless) > 1000:
        harmless.clear()
    key = search.code, search.last
    harmless[key] = harmless.get(key, 0) + 1
    return True


cdef bint check_search(Level level, Search search) except -1:
    """Warn if a search with known slopes lost the derivative; return whether it did."""
    if is_lost(search):
        levels.warn_search(level.name, *frames.file_and_line((search.code, search.last)), level)
        return True
    if largest(search.tail, 0, BLOCK, True) > 0:      # not in a passive block
        note_harmless(search)
    return False


cpdef int check_forward(Level level) except -1:
    """Warn if a search lost a derivative of forward mode."""
    if has_searches(level):
        for search in contracted(level):
            if check_search(level, <Search>search):
                break               # other comparisons in the same loop would give the same warning
    return 0


cpdef list lost_searches(Level level):
    """Return the file and line of each search that lost a derivative of forward mode."""
    cdef Search search
    return [frames.file_and_line((search.code, search.last)) for search in contracted(level) if is_lost(search)]
