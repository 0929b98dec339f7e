"""Local variables that enclose a root: ends of an interval, or a point with its steps, that shrink at a constant rate.

Bisection, golden-section and ternary search multiply the width of an interval by a constant in each iteration, and a
comparison decides which end moves.  A point that moves by halved steps, up or down as a comparison decides, does the
same.  Other iterations, such as Newton's method and step-size control, have no such variable.
"""

from __future__ import annotations

MIN_RATIO, MAX_RATIO = 0.3, 0.75  # of successive widths: bisection 1/2, golden section 0.62, thirds 2/3
TOLERANCE, INTEGER_TOLERANCE = 1e-6, 0.3  # of the ratio: rounding of floats, and of halved indices
MIN_RATIOS = 3  # equal ones in a row


class Track:
    """Successive sizes of an interval or a step, in lists with one number for each element of an array."""

    def __init__(self, size: list, is_integer: bool):
        self.size, self.is_integer = size, is_integer
        self.ratio: float | None = None
        self.ratios = 0
        self.agrees: bool | None = None  # does the upper end move, or the point rise, where a comparison is true?
        self.outcomes: set = set()

    def add(self, size: list, is_upper: list, outcome: list) -> bool:
        """Append a size; return False if the sizes do not shrink at one rate, or comparisons do not decide the side."""
        tolerance = INTEGER_TOLERANCE if self.is_integer else TOLERANCE
        for old, new in zip(self.size, size, strict=True):
            ratio = new / old if old else 0.0
            self.ratio = self.ratio or ratio
            if not MIN_RATIO <= ratio <= MAX_RATIO or abs(ratio - self.ratio) > tolerance:
                return False
        self.size = size
        self.ratios += 1
        return self.is_decided(is_upper, outcome)

    def is_decided(self, is_upper: list, outcome: list) -> bool:
        """Note which side each outcome selects; return False if an outcome selects now one side and now the other."""
        outcome = outcome if len(outcome) == len(is_upper) else outcome * len(is_upper)
        if len(outcome) != len(is_upper):
            return False
        for side, value in zip(is_upper, outcome, strict=True):
            self.agrees = side == value if self.agrees is None else self.agrees
            if (side == value) != self.agrees:
                return False
        self.outcomes.update(outcome)
        return True

    def is_confirmed(self) -> bool:
        return self.ratios >= MIN_RATIOS and len(self.outcomes) == 2


class Bracket:
    """The variables of a function at successive comparisons at one instruction."""

    def __init__(self):
        self.variables: dict | None = None
        self.outcome: list = []
        self.tracks: dict | None = None
        self.is_confirmed = self.is_over = False

    def add(self, variables: dict[str, list], outcome: list) -> None:
        """Append a comparison: the values of variables, in lists, and its outcomes.

        `is_over` becomes true if no variable shrinks at a constant rate, or if an integer index does: the search is in
        a table, which has the derivative that its author wants.
        """
        before, was = self.variables, self.outcome
        self.variables, self.outcome = variables, outcome
        if before is None:
            return
        keys = candidates(before, variables) if self.tracks is None else self.tracks
        moves = {key: move for key in keys if (move := moved(key, before, variables)) is not None}
        if self.tracks is None:
            self.tracks = {key: Track(move[0], isinstance(variables[key[0]][0], int)) for key, move in moves.items()}
        sizes = {key: track.size for key, track in self.tracks.items() if track.is_confirmed()}
        self.tracks = {
            key: track for key, track in self.tracks.items() if key in moves and follows(track, moves[key], was)
        }
        confirmed = [track for track in self.tracks.values() if track.is_confirmed()]
        if confirmed:
            self.is_confirmed = not any(track.is_integer for track in confirmed)
            self.is_over = not self.is_confirmed
        elif not self.tracks:
            self.is_over = True
            if any(key in moves and max(moves[key][1]) < max(size) for key, size in sizes.items()):
                self.is_confirmed = False  # it goes on in other steps, as Brent's method does

    def names(self) -> set[str]:
        """Return the names of the variables that shrink at a constant rate."""
        return {name for key, track in (self.tracks or {}).items() if track.is_confirmed() for name in key}


def follows(track: Track, move: tuple, outcome: list) -> bool:
    """Append a move to a track; the first step of a point has no earlier one to compare with."""
    _, size, is_upper = move
    if not track.size:
        track.size = size
        return all(size) and track.is_decided(is_upper, outcome)
    return track.add(size, is_upper, outcome)


def candidates(before: dict[str, list], now: dict[str, list]) -> list[tuple]:
    """Return what may shrink: points, each a name, and intervals, a pair of names of which at least one changed."""
    names = [name for name in now if name in before]
    changed = [name for name in names if before[name] != now[name]]
    pairs = [(one, other) for one in changed for other in names if one != other]
    return [(name,) for name in changed] + [pair for one, other in pairs for pair in ((one, other), (other, one))]


def moved(key: tuple, before: dict[str, list], now: dict[str, list]) -> tuple[list, list, list] | None:
    """Return old size, new size, and whether the upper end moved, or the point rose, for each element.

    The size of a point is that of its step, and has no old value.  If a variable did not move so, return None.
    """
    if not all(name in before and name in now and len(before[name]) == len(now[name]) for name in key):
        return None
    low, high = key[0], key[-1]
    if low == high:
        steps = [b - a for a, b in zip(before[low], now[low], strict=True)]
        return [], [abs(step) for step in steps], [step > 0 for step in steps]
    if len(now[low]) != len(now[high]):
        return None
    is_upper = []
    for a, b, c, d in zip(before[low], before[high], now[low], now[high], strict=True):
        if not (a < b and c < d and (a != c) != (b != d)):
            return None
        is_upper.append(b != d)
    old = [b - a for a, b in zip(before[low], before[high], strict=True)]
    return old, [d - c for c, d in zip(now[low], now[high], strict=True)], is_upper
