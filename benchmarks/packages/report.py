"""Results of `benchmarks.packages` as text and as a page of the documentation.

Results map a package to its version and, for each mode, to the outcomes of its functions; or to why it is skipped.
"""

import platform
from collections import Counter
from datetime import date
from importlib.metadata import version

from benchmarks.packages.verdict import VERDICTS

INTRODUCTION = """\
# Published packages

Packages that were written without differentiation in mind are called unmodified from a user's function.
The functions are in `benchmarks/packages/cases`, and their Jacobians are compared with extrapolated differences.
The table is written by `python -m benchmarks.packages --compiled --markdown`.

A derivative is *right* if it agrees with the differences, and *refused* if wengert raises an error, at the given place.
It is *warned* if it differs from them and wengert warns that it may, with the place and the remedy, and *nan* if it is
not a number where it is not right, and *slow* if it takes more than a minute.
*Uncompiled*: the derivative is right, but each call runs the Python code, as a `CompileWarning` says."""


def text_table(found, mode):
    """Return lines of text: a row for each function with its reason and place, and the counts."""
    lines = []
    for name, result in found.items():
        if "skipped" in result:
            lines.append(f"{name}: skipped, {result['skipped']}")
            continue
        for case, outcome in result[mode].items():
            lines.append(f"{name:22} {case:36} {outcome['verdict']:10} {outcome.get('reason', '')}".rstrip())
            lines += [f"    {key}: {outcome[key]}" for key in ("where", "line", "message") if outcome.get(key)]
    return [*lines, "", *counts(found, mode)]


def counts(found, mode):
    """Return lines of text: functions by verdict, and refusals and errors by reason."""
    outcomes = all_outcomes(found, mode)
    lines = [f"{mode}: {len(outcomes)} functions of {packages(found)} packages: {by_verdict(outcomes)}"]
    for verdict in ("refused", "error"):
        lines += [f"  {verdict}: {reason}: {count}" for reason, count in by_reason(outcomes, verdict)]
    return lines


def all_outcomes(found, mode):
    return [outcome for result in found.values() for outcome in result.get(mode, {}).values()]


def packages(found):
    """Return the number of packages: several files of cases may call the same one."""
    return len({result["package"] for result in found.values() if "package" in result})


def by_verdict(outcomes):
    """Return the number of outcomes of each verdict as text."""
    number = Counter(outcome["verdict"] for outcome in outcomes)
    return ", ".join(f"{number[verdict]} {verdict}" for verdict in VERDICTS if number[verdict])


def by_reason(outcomes, verdict):
    """Return the reasons of a verdict and their numbers, most frequent first."""
    return Counter(outcome["reason"] for outcome in outcomes if outcome["verdict"] == verdict).most_common()


def page(found, modes):
    """Return the page of the documentation."""
    found = {name: result for name, result in found.items() if "skipped" not in result}
    libraries = ", ".join(f"{title} {version(title.lower())}" for title in ("NumPy", "SciPy"))
    lines = [INTRODUCTION, "", f"Measured on {date.today()}: Python {platform.python_version()}, {libraries}.", ""]
    for mode in modes:
        outcomes = all_outcomes(found, mode)
        lines.append(f"- **{mode}**: {len(outcomes)} functions of {packages(found)} packages: {by_verdict(outcomes)}.")
    lines += ["", "| package | functions |" + "".join(f" {mode}: right |" for mode in modes)]
    lines[-1] += " uncompiled |" if "compiled" in modes else ""
    lines.append("|---|--:|" + "--:|" * (lines[-1].count("|") - 3))
    for name, result in found.items():
        cells = [f"{name} {result['version']}", len(result[modes[0]])]
        cells += [sum(outcome["verdict"] == "right" for outcome in result[mode].values()) for mode in modes]
        if "compiled" in modes:
            cells.append(sum("CompileWarning" in outcome.get("reason", "") for outcome in result["compiled"].values()))
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return [*lines, "", *failures(found, modes[0])]


def failures(found, mode):
    """Return a section with the functions that have no right derivative."""
    lines = ["## Functions without a derivative", "", "| function | | reason | place |", "|---|---|---|---|"]
    for name, result in found.items():
        for case, outcome in result[mode].items():
            if outcome["verdict"] != "right":
                place = outcome.get("where", "").partition(" ")[0]
                cells = f"{name}: {case}", outcome["verdict"], outcome.get("reason", ""), f"`{place}`" if place else ""
                lines.append(f"| {' | '.join(cells)} |")
    return lines
