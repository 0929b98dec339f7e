"""Lets the user choose which packages are followed, and reports what a function reaches."""

from __future__ import annotations

import threading
import types

from wengert.core.rebind.follow import (
    CHOSEN,
    CHOSEN_IN_BLOCKS,
    FOREIGN,
    REASONS,
    is_followed,
    is_standard,
    parts_of,
    top_package,
    why_unfollowed,
)
from wengert.core.rebind.plan import Plan
from wengert.core.rebind.rebind import full_name, note_unplanned, unplanned
from wengert.core.rebind.registration import forget_plans

_lock = threading.Lock()
_ABSENT = object()


class _Choice:
    """Result of `follow`: the choice applies at once, and as a context manager only until the end of the block."""

    def __init__(self, package, on):
        self._pair = package, on
        with _lock:
            self._before = CHOSEN.get(package, _ABSENT)
            CHOSEN[package] = on
            _renew()

    def __repr__(self):
        return "wengert.follow({!r}, {!r})".format(*self._pair)

    def __enter__(self):
        package, _ = self._pair
        with _lock:
            if self._before is _ABSENT:
                CHOSEN.pop(package, None)
            else:
                CHOSEN[package] = self._before
            CHOSEN_IN_BLOCKS.append(self._pair)
            _renew()
        return self

    def __exit__(self, *error):
        with _lock:
            CHOSEN_IN_BLOCKS.remove(self._pair)
            _renew()


def _renew():
    REASONS.clear()
    forget_plans()


def follow(package: str | types.ModuleType, on: bool = True) -> _Choice:
    """Choose whether the Python code of a package is followed, that is, differentiated like f itself.

    By default the code of all packages that f reaches is followed, except that of NumPy, SciPy, the standard library,
    other packages that compute derivatives, and packages for tables, plots and tools.
    `explain` lists what was followed, and what was not and why.

    Parameters
    ----------
    package : str or module
        A package such as ``"torch"``, or a module such as ``"mypackage.plots"``, with everything below it.
        The longest name that matches decides.
    on : bool
        Whether its code is followed.

    Returns
    -------
    context manager
        The choice applies at once to all threads, and remains.
        In ``with wengert.follow(...):`` it ends with the block.

    Raises
    ------
    ValueError
        If `on` is true for a package whose functions have rules, such as NumPy.

    See Also
    --------
    explain : List what was followed.

    Examples
    --------
    >>> import wengert as wg
    >>> with wg.follow("mypackage.plots", False):
    ...     ...
    Ellipsis
    """
    name = vars(package).get("__name__") if isinstance(package, types.ModuleType) else package
    if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")):
        raise TypeError(f"follow: package must be the name of a package, such as 'mypackage', not {package!r}")
    if not isinstance(on, bool):
        raise TypeError(f"follow: on must be True or False, not {on!r}; call follow once for each package")
    if on and top_package(name) in FOREIGN:
        raise ValueError(f"follow: {name} cannot be followed, since wengert differentiates its functions by rules")
    return _Choice(name, on)


def survey(f) -> tuple[dict, dict]:
    """Return the followed packages that a function reaches, with their numbers of functions, and the other packages.

    The others are given with the reason; NumPy, SciPy and the standard library are left out.
    Functions and classes that cannot be inspected are listed by name.
    """
    followed, others = {}, {}
    nodes = []
    try:
        nodes = Plan.reached(f)[0] if is_followed(f) else []
    except Exception as error:
        note_unplanned(f, error)
    met = {*map(id, nodes)}
    for value in nodes or [f]:
        if (name := full_name(value)) in unplanned:
            others[name] = unplanned[name]
            continue
        if type(value) is types.FunctionType:
            package = top_package(value.__globals__.get("__name__")) or "__main__"
            followed[package] = followed.get(package, 0) + 1
        for part in parts_of(value):
            if id(part) in met:
                continue
            module = part.__module__ if isinstance(part, (type, types.FunctionType)) else None
            package = top_package(vars(part).get("__name__") if type(part) is types.ModuleType else module)
            reason = why_unfollowed(package)
            if package and reason and package not in FOREIGN and not is_standard(package):
                others[package] = reason
    return followed, others
