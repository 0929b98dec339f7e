"""The figures as Markdown: one table of later calls, one of first calls."""

from statistics import geometric_mean, median

from benchmarks import measure
from benchmarks.peers.packages import TITLES

OURS = ("wengert", "compiled")
COMPILED = (
    "jax",
    "casadi",
)  # what they trace is compiled, or made a program; the others run it once, as wengert does
CONTESTS = (("wengert", "eager"), ("compiled", "all"))


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


def over_best(cells, ours, name, left_out):
    """Our figure over the least of the others, or None."""
    others = [
        cell[name] for package, cell in cells.items() if package not in (*OURS, *left_out) and name in cell
    ]
    return cells[ours][name] / min(others) if others and name in cells.get(ours, ()) else None


def compared(rows, figures, packages, name, text):
    """Lines of one table, the least `name` of each row in bold; our figures over the best of each of `CONTESTS`."""
    ratios, lines = {contest: [] for contest in CONTESTS}, []
    for row in rows:
        cells = {package: figures[row.key][package] for package in packages}
        measured = [cell for cell in cells.values() if name in cell]
        least = min((cell[name] for cell in measured), default=None)
        f = measure.shown(median(cell["f"] for cell in measured)) if measured else ""
        columns = [row.title, row.size, f]
        for cell in cells.values():
            words = text(cell) if name in cell else reason(cell)
            columns.append(f"**{words}**" if name in cell and cell[name] == least else words)
        for ours, which in CONTESTS:
            ratio = over_best(cells, ours, name, COMPILED if which == "eager" else ())
            columns.append(f"{ratio:.3g}" if ratio else "")
            ratios[ours, which] += [ratio] if ratio else []
        lines.append(f"| {' | '.join(columns)} |")
    return lines, ratios


def verdict(ratios):
    """How many rows are won, among eager packages and among all; one sentence each."""
    return [
        f"Of {which} packages {TITLES.get(ours, ours)} is the fastest in {sum(ratio < 1.0 for ratio in found)} of "
        f"{len(found)} rows; the geometric mean of its time over that of the best other one is "
        f"{geometric_mean(found):.2g}."
        for (ours, which), found in ratios.items()
        if found
    ]


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
    contests = " | ".join(f"{ours} / best{' eager' if which == 'eager' else ''}" for ours, which in CONTESTS)
    header = f"| derivative | size | f | {titles} | {contests} |"
    rule = "|---|---:|---:|" + "---:|" * (len(packages) + len(CONTESTS))
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
            *verdict(later_ratios),
            "",
            *(header, rule, *later),
            "",
            "### The first call",
            "",
            "In a process that has imported everything: to trace, compile and run; the least is in bold.",
            *verdict(first_ratios),
            "",
            *(header, rule, *first),
        ]
    )
