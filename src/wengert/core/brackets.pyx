# cython: language_level=3
"""Detects bracketing searches by the local variables of a loop: intervals, or steps, that shrink by a constant factor.

Bisection, golden-section and ternary search multiply the width of an interval by a constant in each iteration, and a
comparison decides which end moves.  Other loops halve a step in each iteration, and a comparison decides whether a
point moves up or down by it.  Newton's method and step-size control have no such variable.
"""

MIN_RATIO, MAX_RATIO = 0.3, 0.75  # of successive widths: bisection 1/2, golden section 0.62, thirds 2/3
TOLERANCE, INTEGER_TOLERANCE = 1e-6, 0.3  # between ratios that count as equal: rounding of floats, of halved indices
cdef double SHORTEST = 0.29, LONGEST = 0.76  # the limits of a ratio with a margin for rounding
MIN_RATIOS, MIN_RATIOS_OF_GUESS = 3, 5  # equal ratios in a row that confirm a search; those after an unequal first one


cdef class Track:
    """Tracks the size of an interval or step; a size is a list with one value per element of an array."""

    cdef list size, first_ratios
    cdef object ratio  # the constant ratio, from the second one on; or None
    cdef int ratios  # number of ratios from the second one on
    cdef object agrees  # does the upper end move, or the point rise, where a comparison is true? None if unknown
    cdef bint has_true, has_false  # outcomes

    def __cinit__(self, list size):
        self.size = size

    cdef bint add(self, list size, list is_upper, list outcome) except -1:
        """Append a size; return False if the ratio is not constant or the outcome does not determine the side."""
        cdef list ratios = [new / old if old else 0.0 for old, new in zip(self.size, size)]
        self.size = size
        if self.first_ratios is None:  # it may differ: a search may begin at a guess, not in the middle
            self.first_ratios = ratios
            for ratio in ratios:
                if not 0.0 < ratio < 1.0:
                    return False
            return self.is_decided(is_upper, outcome)
        self.ratio = self.ratio or ratios[0]
        self.ratios += 1
        return self.is_constant(ratios) and self.is_decided(is_upper, outcome)

    cdef bint is_constant(self, list ratios) except -1:
        tolerance = INTEGER_TOLERANCE if self.is_integer() else TOLERANCE
        for ratio in ratios:
            if not (MIN_RATIO <= ratio <= MAX_RATIO and abs(ratio - self.ratio) <= tolerance):
                return False
        return True

    cdef bint is_integer(self) except -1:
        """Return whether the size is still an integer; a root search may begin with integers and go on with floats."""
        return isinstance(self.size[0], int)

    cdef bint is_decided(self, list is_upper, list outcome) except -1:
        """Record which side each outcome selects; return False if one outcome selects both."""
        outcome = outcome if len(outcome) == len(is_upper) else outcome * len(is_upper)
        if len(outcome) != len(is_upper):
            return False
        for side, value in zip(is_upper, outcome):
            if self.agrees is None:
                self.agrees = side == value
            if (side == value) != self.agrees:
                return False
        for value in outcome:
            if value:
                self.has_true = True
            else:
                self.has_false = True
        return True

    cdef bint is_confirmed(self) except -1:
        if self.ratios < MIN_RATIOS - 1 or not (self.has_true and self.has_false):
            return False
        return self.ratios >= MIN_RATIOS_OF_GUESS or self.is_constant(self.first_ratios)


cdef class Bracket:
    """Tracks the local variables of a function whenever it runs one comparison, to detect a bracketing search."""

    cdef list seen  # variables and outcomes of the first comparisons, until there are three
    cdef dict variables, tracks
    cdef list outcome
    cdef readonly bint is_confirmed, is_over

    def __cinit__(self):
        self.seen = []

    def add(self, dict variables, list outcome):
        """Append a comparison with the values of the variables.

        `is_over` becomes true if nothing shrinks by a constant factor, or if an integer does: an index found by
        searching a table has derivative 0.
        """
        if self.tracks is not None:
            self.follow(self.variables, variables, self.outcome, self.tracks)
        else:
            self.seen.append((variables, outcome))
            if len(self.seen) < 3:
                return
            (first, first_outcome), (second, second_outcome), _ = self.seen
            self.follow(first, second, first_outcome, candidates(first, second, variables))
            if not self.is_over:
                self.follow(second, variables, second_outcome, self.tracks)
            self.seen = None
        self.variables, self.outcome = variables, outcome

    cdef int follow(self, dict before, dict now, list outcome, keys) except -1:
        """Append the moves between two comparisons; `outcome` belongs to the first."""
        cdef Track track
        cdef dict moves = {}, sizes = {}, kept = {}
        cdef bint has_confirmed = False, has_integer = False
        for key in keys:
            move = moved(key, before, now)
            if move is not None:
                moves[key] = move
        if self.tracks is None:
            self.tracks = {key: Track(move[0]) for key, move in moves.items()}
        for key, track in self.tracks.items():
            if track.is_confirmed():
                sizes[key] = track.size
            if key in moves and follows(track, moves[key], outcome):
                kept[key] = track
                if track.is_confirmed():
                    has_confirmed = True
                    has_integer = has_integer or track.is_integer()
        self.tracks = kept
        if has_confirmed:
            self.is_confirmed = not has_integer
            self.is_over = has_integer
        elif not kept:
            self.is_over = True
            for key, size in sizes.items():
                if key in moves and max(moves[key][1]) < max(size):
                    self.is_confirmed = False  # the search continues with other steps, as Brent's method does
        return 0

    def names(self):
        """Return the names of the variables that form the bracket."""
        cdef Track track
        cdef set found = set()
        for key, track in (self.tracks or {}).items():
            if track.is_confirmed():
                found.update(key)
        return found


cdef bint follows(Track track, tuple move, list outcome) except -1:
    """Append a move to a track; the first step of a point only sets its size."""
    cdef list size = move[1], is_upper = move[2]
    if not track.size:
        track.size = size
        return 0 not in size and track.is_decided(is_upper, outcome)
    return track.add(size, is_upper, outcome)


cdef list candidates(dict first, dict second, dict third):
    """Return the names of the points that moved, and pairs of names that may be the ends of an interval.

    Scalars must shrink in both of the moves between three comparisons, as `Track.add` demands.
    """
    cdef list names = [name for name in second if name in first and name in third]
    cdef list changed = [name for name in names if first[name] != second[name]]
    cdef list found = [], fixed = [], values = [], later = [], arrays = []
    cdef set moving = set(changed), scalars = set()
    cdef double a, b, c, d, e
    cdef Py_ssize_t i
    for name in names:
        if len(second[name]) != 1:
            arrays.append(name)
        elif name not in moving and len(third[name]) == 1:
            fixed.append(name)
            values.append(as_float(second[name][0]))
            later.append(as_float(third[name][0]))
    for one in changed:
        if len(first[one]) == len(second[one]) == len(third[one]) == 1:
            a, b, c = as_float(first[one][0]), as_float(second[one][0]), as_float(third[one][0])
            if 0.0 < abs(c - b) < abs(b - a):
                found.append((one,))
            for i in range(len(fixed)):
                d, e = values[i], later[i]
                if (abs(b - d) < abs(a - d) and (b < d) == (a < d)
                        and SHORTEST * abs(b - d) < abs(c - e) < LONGEST * abs(b - d)):
                    found.append((one, fixed[i]) if b < d else (fixed[i], one))
            scalars.add(one)
        else:
            found.append((one,))
    for one in changed:
        for other in arrays if one in scalars else names:
            if one != other:
                found += [(one, other), (other, one)]
    return found


cdef double as_float(value) except? -1.0:
    try:
        return value
    except OverflowError:  # an integer
        return float("inf")


cdef tuple moved(tuple key, dict before, dict now):
    """Return the old size, the new size, and for each element whether the upper end moved or the point increased.

    The size of a point is its step; the old size is then empty.  Return None unless exactly one end moved.
    """
    cdef list low, high, low_now, high_now
    for name in key:
        if name not in before or name not in now or len(before[name]) != len(now[name]):
            return None
    low, low_now = before[key[0]], now[key[0]]
    if len(key) == 1:
        steps = [b - a for a, b in zip(low, low_now)]
        return [], [abs(step) for step in steps], [step > 0 for step in steps]
    high, high_now = before[key[1]], now[key[1]]
    if len(low) != len(high):
        return None
    is_upper = []
    for a, b, c, d in zip(low, high, low_now, high_now):
        if not (a < b and c < d and (a != c) != (b != d)):
            return None
        is_upper.append(b != d)
    return [b - a for a, b in zip(low, high)], [d - c for c, d in zip(low_now, high_now)], is_upper
