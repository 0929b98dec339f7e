"""Formats the results as Markdown: tables of warm calls, of first calls, and of both malloc settings."""

from statistics import geometric_mean, median

from benchmarks import measure
from benchmarks.peers.packages import OURS, TITLES

#: packages that compile or replay a trace; the others are eager, as wengert without `compile`
COMPILED = ("advect_staged", "jax", "casadi", "casadi_jit")
#: lower bounds rather than packages, excluded from the comparisons
LIMITS = ("hand",)
#: marks later calls of linear functions, which return the first result again and are left out of the means
MARK = " (linear)"
LINEAR = (
    f"Rows marked `{MARK.strip()}` are left out of the counts and means: the derivative of a linear function is "
    "constant, so later calls of compiled ones return the first result."
)
#: wengert's columns and the packages they are compared with, for warm and for first calls
LATER = (("wengert", "eager"), ("vm", "all"), ("llvm", "all"))
FIRST = (("wengert", "all"), ("vm", "all"), ("llvm", "all"))


def summary(cells):
    """Combine the cells of several processes: medians and the widest quartiles, or the error."""
    wrong = [cell for cell in cells if "cold" not in cell]
    if wrong:
        return wrong[0]
    made = {name: median(cell[name] for cell in cells) for name in ("cold", "f", "warm", "ratio", "pace")}
    return made | {"low": min(cell["low"] for cell in cells), "high": max(cell["high"] for cell in cells)}


def reason(cell, length=40):
    """Return the text of a cell without a measurement."""
    if "missing" in cell:
        return cell["missing"]
    words = cell["fails"].replace("`", "'").replace("|", "/")
    return f"fails: `{words if len(words) <= length else words[:length].rstrip() + '...'}`"


def over_best(cells, ours, name, which):
    """Return the ratio of our time to the best of the other packages, or None."""
    left_out = (*OURS, *LIMITS, *(COMPILED if which == "eager" else ()))
    others = [cell[name] for package, cell in cells.items() if package not in left_out and name in cell]
    return cells[ours][name] / min(others) if others and name in cells.get(ours, ()) else None


def over_hand(cells):
    """Return the ratio of the faster of VM and LLVM to the hand-written derivative, or None."""
    ours = [cells[package]["ratio"] for package in ("vm", "llvm") if "ratio" in cells.get(package, ())]
    hand = cells.get("hand", {}).get("ratio")
    return min(ours) / hand if ours and hand else None


def label(row):
    return f"{row.title} ({row.size})"


def times(ratio):
    """Format a ratio in two digits."""
    return f"{ratio:.2g}x" if ratio < 10.0 else f"{ratio:.0f}x"


def compared(rows, figures, packages, contests, name, text):
    """Return table lines with the minimum of `name` in bold, and our ratios by row for each comparison.

    Ratios of later calls leave out linear functions.
    """
    ratios, lines = {contest: {} for contest in contests}, []
    for row in rows:
        kept = row.is_linear and name == "ratio"
        cells = {package: figures[row.key].get(package, {"missing": ""}) for package in packages}
        measured = [cell for cell in cells.values() if name in cell]
        theirs = [cell[name] for package, cell in cells.items() if name in cell and package not in LIMITS]
        least = min(theirs, default=None)
        f = measure.shown(median(cell["f"] for cell in measured)) if measured else ""
        columns = [row.title + MARK * kept, row.size, f]
        for package, cell in cells.items():
            words = text(package, cell) if name in cell else reason(cell)
            columns.append(f"**{words}**" if name in cell and cell[name] == least else words)
        for ours, which in contests:
            ratio = over_best(cells, ours, name, which)
            columns.append(times(ratio) if ratio else "")
            if ratio and not kept:
                ratios[ours, which][label(row)] = ratio
        if "hand" in packages:
            ratio = over_hand(cells)
            columns.append(times(ratio) if ratio else "")
        lines.append(f"| {' | '.join(columns)} |")
    return lines, ratios


def verdict(ratios):
    """Yield for each comparison the share of rows won and the geometric mean, then the rows lost."""
    for (ours, which), found in ratios.items():
        if not found:
            continue
        won = sum(ratio <= 1.0 for ratio in found.values())
        yield (
            f"- **{TITLES[ours]}** relative to the best of {which} packages: at most 1.0x in {won} of {len(found)} "
            f"rows ({won / len(found):.0%}), geometric mean {times(geometric_mean(found.values()))}, "
            f"maximum {times(max(found.values()))}."
        )
        lost = sorted((row for row in found if found[row] > 1.0), key=found.get, reverse=True)
        if lost:
            yield f"  Above 1.0x: {'; '.join(f'{row} {times(found[row])}' for row in lost)}."


def later_text(package, cell):
    """Return a time and its ratio to f, ours with the quartiles."""
    spread = f", {cell['low']:.3g} to {cell['high']:.3g}" if package in OURS else ""
    return f"{measure.shown(cell['warm'])} ({cell['ratio']:.3g}{spread})"


def spread(figures):
    """Return the median over all cells of the interquartile range relative to the ratio."""
    cells = [cell for row in figures.values() for cell in row.values() if "ratio" in cell]
    return median((cell["high"] - cell["low"]) / cell["ratio"] for cell in cells)


def malloc(rows, figures, raised):
    """Yield the ratio of times with raised to those with default malloc thresholds, where both were measured."""
    packages = list(dict.fromkeys(package for cells in raised.values() for package in cells))

    def changed(name, what):
        """Return the ratio of times, each relative to a reference loop in its process, because clock speeds drift."""
        after, before = (cells[name][what] / cells[name]["pace"] for cells in (later, earlier))
        return after / before

    yield f"| derivative | size | f | {' | '.join(TITLES.get(name, name) for name in packages)} |"
    yield "|---|---:|---:|" + "---:|" * len(packages)
    for row in rows:
        earlier, later = figures.get(row.key, {}), raised.get(row.key, {})
        both = [name for name in packages if "warm" in earlier.get(name, ()) and "warm" in later.get(name, ())]
        if both:
            columns = [row.title, row.size, f"{median(changed(name, 'f') for name in both):.2f}"]
            columns += [f"{changed(name, 'warm'):.2f}" if name in both else "" for name in packages]
            yield f"| {' | '.join(columns)} |"


def summaries(figures):
    return {key: {name: summary(found) for name, found in cells.items() if found} for key, cells in figures.items()}


def markdown(rows, figures, raised, packages, setting):
    """Return the Markdown section.

    Parameters
    ----------
    rows : list of Row
        Rows without results are omitted.
    figures, raised : dict
        For each row's key, a dict with a list of process results for each package; with malloc's
        default settings and with raised thresholds.
    packages : list of str
    setting : list of str
        Sentences on hardware, versions and omitted packages.
    """
    keys = [row.key for row in rows]
    figures, raised = ({key: cells[key] for key in keys if key in cells} for cells in map(summaries, (figures, raised)))
    rows = [row for row in rows if figures.get(row.key)]
    contests, of_first = ([one for one in ours if one[0] in packages] for ours in (LATER, FIRST))
    later, later_ratios = compared(rows, figures, packages, contests, "ratio", later_text)
    called = [name for name in packages if name not in LIMITS]
    first, first_ratios = compared(rows, figures, called, of_first, "cold", lambda _, cell: measure.shown(cell["cold"]))
    return "\n".join(
        [
            *setting,
            "",
            "### Warm calls, at new points",
            "",
            "In parentheses: the time relative to f in plain NumPy, timed alternately in the same process; for wengert "
            "with the lowest first and highest third quartile of all processes.",
            f"The median interquartile range is {spread(figures):.0%} of the ratio.",
            "The fastest package is in bold.",
            "The columns at the right are quotients of these ratios; the last one takes the faster of VM and LLVM.",
            *([LINEAR] if any(row.is_linear for row in rows) else []),
            "",
            *verdict(later_ratios),
            "",
            *header(packages, contests, ["ours / hand-written"] if "hand" in packages else []),
            *later,
            "",
            "### First call",
            "",
            "Tracing, compilation and one run, after all imports; the fastest is in bold.",
            "Disk caches are cold.",
            "",
            *verdict(first_ratios),
            "",
            *header(called, of_first),
            *first,
            "",
            "### malloc settings",
            "",
            "By default, glibc returns large freed buffers to the operating system, which slows down plain NumPy code.",
            "With `MALLOC_MMAP_THRESHOLD_` and `MALLOC_TRIM_THRESHOLD_` raised it reuses them.",
            "Ratio of warm call times with raised thresholds to those with default settings, in separate processes, "
            "each relative to a Python loop timed in the same process:",
            "",
            *malloc(rows, figures, raised),
        ]
    )


def header(packages, contests, more=()):
    """Return the header lines of a table."""
    best = [f"{TITLES[ours]} / best{' eager' * (which == 'eager')}" for ours, which in contests]
    titles = ["derivative", "size", "f", *(TITLES.get(name, name) for name in packages), *best, *more]
    return f"| {' | '.join(titles)} |", f"|---|{'---:|' * (len(titles) - 1)}"
