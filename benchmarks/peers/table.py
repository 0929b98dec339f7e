"""The figures as Markdown: tables of later calls, of first calls, and of both settings of malloc."""

from statistics import geometric_mean, median

from benchmarks import measure
from benchmarks.peers.packages import OURS, TITLES

#: packages that compile a trace or turn it into a program; the others run it once, as eager wengert does
COMPILED = ("jax", "casadi", "casadi_jit")
#: not packages, so they are left out of wins and losses
LIMITS = ("hand",)
#: wengert's columns and the packages they are compared with, for later calls and for the first
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
    """Return the text of a cell without figures."""
    if "missing" in cell:
        return cell["missing"]
    words = cell["fails"].replace("`", "'").replace("|", "/")
    return f"fails: `{words if len(words) <= length else words[:length].rstrip() + '...'}`"


def over_best(cells, ours, name, which):
    """Return our figure over the minimum of the others, or None."""
    left_out = (*OURS, *LIMITS, *(COMPILED if which == "eager" else ()))
    others = [cell[name] for package, cell in cells.items() if package not in left_out and name in cell]
    return cells[ours][name] / min(others) if others and name in cells.get(ours, ()) else None


def over_hand(cells):
    """Return the faster of our programs relative to the hand-written derivative, or None."""
    ours = [cells[package]["ratio"] for package in ("vm", "llvm") if "ratio" in cells.get(package, ())]
    hand = cells.get("hand", {}).get("ratio")
    return min(ours) / hand if ours and hand else None


def label(row):
    return f"{row.title} ({row.size})"


def times(ratio):
    """Format a ratio in two digits."""
    return f"{ratio:.2g}x" if ratio < 10.0 else f"{ratio:.0f}x"


def compared(rows, figures, packages, contests, name, text):
    """Return table lines with the minimum `name` of each row in bold, and for each contest our ratios by row."""
    ratios, lines = {contest: {} for contest in contests}, []
    for row in rows:
        cells = {package: figures[row.key].get(package, {"missing": ""}) for package in packages}
        measured = [cell for cell in cells.values() if name in cell]
        theirs = [cell[name] for package, cell in cells.items() if name in cell and package not in LIMITS]
        least = min(theirs, default=None)
        f = measure.shown(median(cell["f"] for cell in measured)) if measured else ""
        columns = [row.title, row.size, f]
        for package, cell in cells.items():
            words = text(package, cell) if name in cell else reason(cell)
            columns.append(f"**{words}**" if name in cell and cell[name] == least else words)
        for ours, which in contests:
            ratio = over_best(cells, ours, name, which)
            columns.append(times(ratio) if ratio else "")
            if ratio:
                ratios[ours, which][label(row)] = ratio
        if "hand" in packages:
            ratio = over_hand(cells)
            columns.append(times(ratio) if ratio else "")
        lines.append(f"| {' | '.join(columns)} |")
    return lines, ratios


def verdict(ratios):
    """Return for each contest the share of rows won and the geometric mean, and a line of the rows lost."""
    for (ours, which), found in ratios.items():
        if not found:
            continue
        won = sum(ratio <= 1.0 for ratio in found.values())
        yield (
            f"- **{TITLES[ours]}** beside {which} packages: at most 1.0x the best in {won} of {len(found)} rows "
            f"({won / len(found):.0%}), geometric mean {times(geometric_mean(found.values()))}, "
            f"worst {times(max(found.values()))}."
        )
        lost = sorted((row for row in found if found[row] > 1.0), key=found.get, reverse=True)
        if lost:
            yield f"  Above 1.0x: {'; '.join(f'{row} {times(found[row])}' for row in lost)}."


def later_text(package, cell):
    """Return a time and its ratio to f; ours with its spread."""
    spread = f", {cell['low']:.3g} to {cell['high']:.3g}" if package in OURS else ""
    return f"{measure.shown(cell['warm'])} ({cell['ratio']:.3g}{spread})"


def spread(figures):
    """Return the median over all cells of the distance of the quartiles, relative to the figure."""
    cells = [cell for row in figures.values() for cell in row.values() if "ratio" in cell]
    return median((cell["high"] - cell["low"]) / cell["ratio"] for cell in cells)


def malloc(rows, figures, raised):
    """Return times with the raised settings over the default ones, for rows and packages that have both."""
    packages = list(dict.fromkeys(package for cells in raised.values() for package in cells))

    def changed(name, what):
        """Return each time in units of a loop timed beside it, because the processes ran at different times."""
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
    """Return the whole section.

    Parameters
    ----------
    rows : list of Row
        Those without figures are left out.
    figures, raised : dict
        For each row's key, a dict with a list of process results for each package; with malloc's
        default settings and with raised thresholds.
    packages : list of str
    setting : list of str
        Sentences: machine, versions, what was left out.
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
            "### Later calls, at new points",
            "",
            "In brackets: the time over that of f in plain NumPy in the same process, in strict alternation; for "
            "wengert with the quartiles, the widest of all processes.",
            f"Over all cells the quartiles are {spread(figures):.0%} of the figure apart, in the median.",
            "The least of the packages is in bold.",
            "The columns at the right compare what is in brackets; the last has the faster of VM and llvm.",
            "",
            *verdict(later_ratios),
            "",
            *header(packages, contests, ["ours / by hand"] if "hand" in packages else []),
            *later,
            "",
            "### The first call",
            "",
            "In a process that has imported everything: to trace, compile and run; the least is in bold.",
            "Nothing is found in caches on disk.",
            "",
            *verdict(first_ratios),
            "",
            *header(called, of_first),
            *first,
            "",
            "### Settings of malloc",
            "",
            "glibc gives large buffers that are freed back to the kernel, which makes plain NumPy code slower.",
            "With `MALLOC_MMAP_THRESHOLD_` and `MALLOC_TRIM_THRESHOLD_` raised it keeps them.",
            "Times of later calls with raised thresholds over those with default settings, in processes of their own, "
            "each in units of a loop in Python that was timed beside it:",
            "",
            *malloc(rows, figures, raised),
        ]
    )


def header(packages, contests, more=()):
    """Return the first two lines of a table."""
    best = [f"{TITLES[ours]} / best{' eager' * (which == 'eager')}" for ours, which in contests]
    titles = ["derivative", "size", "f", *(TITLES.get(name, name) for name in packages), *best, *more]
    return f"| {' | '.join(titles)} |", f"|---|{'---:|' * (len(titles) - 1)}"
