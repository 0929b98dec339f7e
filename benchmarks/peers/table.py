"""The figures as Markdown: one table of later calls, one of first calls."""

from statistics import geometric_mean, median

from benchmarks import measure
from benchmarks.peers.packages import TITLES

OURS = "wengert"


def summary(cells):
    """One cell of those of several processes: medians, or what went wrong."""
    wrong = [cell for cell in cells if "cold" not in cell]
    return wrong[0] if wrong else {name: median(cell[name] for cell in cells) for name in cells[0]}


def reason(cell, length=48):
    """What a cell without figures shows."""
    if "missing" in cell:
        return cell["missing"]
    words = cell["fails"].replace("`", "'").replace("|", "/")
    return f"fails: `{words if len(words) <= length else words[:length].rstrip() + '...'}`"


def compared(rows, figures, packages, name, text):
    """Lines of one table, the least `name` of each row in bold, and our figure over the best of the others."""
    ratios, lines = [], []
    for row in rows:
        cells = {package: figures[row.key][package] for package in packages}
        least = min((cell[name] for cell in cells.values() if name in cell), default=None)
        shown = []
        for package in packages:
            cell = cells[package]
            words = text(cell) if name in cell else reason(cell)
            shown.append(f"**{words}**" if cell.get(name) == least and name in cell else words)
        others = [cells[package][name] for package in packages if package != OURS and name in cells[package]]
        ratio = ""
        if others and name in cells.get(OURS, ()):
            ratios.append(cells[OURS][name] / min(others))
            ratio = f"{ratios[-1]:.3g}"
        functions = [cell["f"] for cell in cells.values() if "f" in cell]
        f = measure.shown(median(functions)) if functions else ""
        lines.append(f"| {' | '.join([row.title, row.size, f, *shown, ratio])} |")
    return lines, ratios


def verdict(ratios):
    if not ratios:
        return "No row has figures of wengert and of another package."
    wins = sum(ratio < 1.0 for ratio in ratios)
    return (
        f"wengert is the fastest in {wins} of {len(ratios)} rows; "
        f"the geometric mean of its time over that of the best other package is {geometric_mean(ratios):.2g}."
    )


def markdown(rows, figures, packages, setting):
    """The whole section.

    Parameters
    ----------
    rows : list of Row
    figures : dict
        For each row's key a dict that has a cell, as `summary` makes it, for each package.
    packages : list of str
    setting : list of str
        Sentences: machine, versions, what was left out.
    """
    titles = " | ".join(TITLES.get(name, name) for name in packages)
    header = f"| derivative | size | f | {titles} | wengert / best other |"
    rule = "|---|---:|---:|" + "---:|" * (len(packages) + 1)
    later, later_ratios = compared(
        rows, figures, packages, "ratio", lambda cell: f"{measure.shown(cell['warm'])} ({cell['ratio']:.3g})"
    )
    first, first_ratios = compared(rows, figures, packages, "cold", lambda cell: measure.shown(cell["cold"]))
    return "\n".join(
        [
            *setting,
            "",
            "### Later calls, at new points",
            "",
            "In brackets: the time over that of f in plain NumPy in the same process; the least is in bold.",
            verdict(later_ratios),
            "",
            *(header, rule, *later),
            "",
            "### The first call",
            "",
            "In a process that has imported everything: to trace, compile and run; the least is in bold.",
            verdict(first_ratios),
            "",
            *(header, rule, *first),
        ]
    )
