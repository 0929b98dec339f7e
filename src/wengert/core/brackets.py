"""Detects bracketing searches by the local variables of a loop: intervals, or steps, that shrink by a constant factor.

Bisection, golden-section and ternary search multiply the width of an interval by a constant in each iteration, and a
comparison decides which end moves.  Other loops move a point up or down, as a comparison decides, by steps that they
halve.  Newton's method, step-size control and the like have no such variable.
"""

from __future__ import annotations

MIN_RATIO, MAX_RATIO = 0.3, 0.75  # of successive widths: bisection 1/2, golden section 0.62, thirds 2/3
TOLERANCE, INTEGER_TOLERANCE = 1e-6, 0.3  # of the ratio: rounding of floats, and of halved indices
MIN_RATIOS, MIN_RATIOS_OF_GUESS = 3, 5  # equal ones in a row; after an unequal first one


class Track:
    """Follows the size of an interval or of a step; sizes are lists with one number for each element of an array."""

    def __init__(self, size: list):
        self.size = size
        self.first_ratios: list | None = None
        self.ratio: float | None = None  # of the second and later ones
        self.ratios = 0  # number of these
        self.agrees: bool | None = None  # does the upper end move, or the point rise, where a comparison is true?
        self.outcomes: set = set()

    def add(self, size: list, is_upper: list, outcome: list) -> bool:
        """Append a size; return False if the factor is not constant or the side does not depend on the outcome."""
        ratios = [new / old if old else 0.0 for old, new in zip(self.size, size, strict=True)]
        self.size = size
        if self.first_ratios is None:  # a search may begin at a guess, not in the middle
            self.first_ratios = ratios
            return all(0.0 < ratio < 1.0 for ratio in ratios) and self.is_decided(is_upper, outcome)
        self.ratio = self.ratio or ratios[0]
        self.ratios += 1
        return self.is_constant(ratios) and self.is_decided(is_upper, outcome)

    def is_constant(self, ratios: list) -> bool:
        tolerance = INTEGER_TOLERANCE if self.is_integer() else TOLERANCE
        return all(MIN_RATIO <= ratio <= MAX_RATIO and abs(ratio - self.ratio) <= tolerance for ratio in ratios)

    def is_integer(self) -> bool:
        """Report whether the ends are integers; a search for a root may begin at integers and leave them."""
        return isinstance(self.size[0], int)

    def is_decided(self, is_upper: list, outcome: list) -> bool:
        """Record which side each outcome selects; return False if one outcome selects both."""
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
        if self.ratios < MIN_RATIOS - 1 or len(self.outcomes) < 2:
            return False
        return self.ratios >= MIN_RATIOS_OF_GUESS or self.is_constant(self.first_ratios)


class Bracket:
    """Compares the local variables of a function each time it runs one comparison."""

    def __init__(self):
        self.variables: dict | None = None
        self.outcome: list = []
        self.tracks: dict | None = None
        self.is_confirmed = self.is_over = False

    def add(self, variables: dict[str, list], outcome: list) -> None:
        """Append a comparison with the values of the variables.

        `is_over` becomes true if nothing shrinks by a constant factor, or if an integer does: a search for an index in
        a table has derivative 0 by intention.
        """
        before, was = self.variables, self.outcome
        self.variables, self.outcome = variables, outcome
        if before is None:
            return
        keys = candidates(before, variables) if self.tracks is None else self.tracks
        moves = {key: move for key in keys if (move := moved(key, before, variables)) is not None}
        if self.tracks is None:
            self.tracks = {key: Track(move[0]) for key, move in moves.items()}
        sizes = {key: track.size for key, track in self.tracks.items() if track.is_confirmed()}
        self.tracks = {
            key: track for key, track in self.tracks.items() if key in moves and follows(track, moves[key], was)
        }
        confirmed = [track for track in self.tracks.values() if track.is_confirmed()]
        if confirmed:
            self.is_confirmed = not any(track.is_integer() for track in confirmed)
            self.is_over = not self.is_confirmed
        elif not self.tracks:
            self.is_over = True
            if any(key in moves and max(moves[key][1]) < max(size) for key, size in sizes.items()):
                self.is_confirmed = False  # it goes on in other steps, as Brent's method does

    def names(self) -> set[str]:
        """Return the names of the variables that form the bracket."""
        return {name for key, track in (self.tracks or {}).items() if track.is_confirmed() for name in key}


def follows(track: Track, move: tuple, outcome: list) -> bool:
    """Append a move to a track; the first step of a point only sets its size."""
    _, size, is_upper = move
    if not track.size:
        track.size = size
        return all(size) and track.is_decided(is_upper, outcome)
    return track.add(size, is_upper, outcome)


def candidates(before: dict[str, list], now: dict[str, list]) -> list[tuple]:
    """Return the points that moved, each a name, and pairs of names that may be the ends of an interval."""
    names = [name for name in now if name in before]
    changed = [name for name in names if before[name] != now[name]]
    found, moving = [(name,) for name in changed], {*changed}
    for one in changed:
        for other in names:
            if len(now[one]) == len(now[other]) == len(before[one]) == len(before[other]) == 1:
                if other not in moving and _shrinks(one, other, before, now):
                    found.append((one, other) if now[one][0] < now[other][0] else (other, one))
            elif one != other:
                found += [(one, other), (other, one)]
    return found


def _shrinks(one: str, other: str, before: dict[str, list], now: dict[str, list]) -> bool:
    """Return whether two scalars came closer, without which they are no ends of an interval."""
    return abs(now[one][0] - now[other][0]) < abs(before[one][0] - before[other][0])


def moved(key: tuple, before: dict[str, list], now: dict[str, list]) -> tuple[list, list, list] | None:
    """Return old size, new size, and for each element whether the upper end moved, or whether the point rose.

    The size of a point is that of its step, and has no old value.  Return None if not exactly one end moved.
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
