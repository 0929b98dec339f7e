"""The documentation matches the code: code blocks of its pages run, docstrings run, the site builds.

``docs/_blocks.py`` describes how a page states what a block prints or raises.
"""

import doctest
import functools
import importlib
import importlib.util
import inspect
import itertools
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import wengert as wg

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(p for p in DOCS.rglob("*.md") if "_build" not in p.parts) + [ROOT / "README.md"]


def load(name):
    """Import a module of the documentation, which is not part of the package."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    sys.path.insert(0, str(DOCS))  # the modules import each other
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(DOCS))
        del sys.modules[name]
    return module


pages = load("_blocks")


def words(text):
    """Return text with whitespace normalised, because pages break lines anywhere."""
    return " ".join(text.split())


# ---- pages ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [p for p in PAGES if pages.blocks(p)], ids=lambda p: str(p.relative_to(ROOT)))
def test_code_blocks_of_pages_behave_as_stated(path):
    with pages.page_module(path) as module:
        for block in pages.blocks(path):
            seen = pages.run(block, module)
            if block.shown is not None:
                assert words(seen) == words(block.shown), str(block)
            else:
                assert block.ends or not seen, f"{block} prints what the page does not show:\n{seen}"


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_prose_has_one_sentence_a_line(path):
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"`[^`]*`", "code", text)
    for line in text.splitlines():
        if line.lstrip().startswith(("|", "<!--")):
            continue
        assert not re.search(r"[.?!] +[A-Z]", line.replace("et al. ", "")), f"{path.name}: {line}"


def test_page_announcing_an_error_fails_without_it(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- raises: ValueError -->\n```python\n1 + 1\n```\n")
    (block,) = pages.blocks(page)
    with pages.page_module(page) as module, pytest.raises(AssertionError, match="was announced"):
        pages.run(block, module)


# ---- docstrings ----------------------------------------------------------------------------------

DOCUMENTED = [
    "wengert.api",
    "wengert.containers",
    "wengert.core.levels",
    "wengert.cuda.availability",
    "wengert.cuda.batch",
    "wengert.cuda.paths",
    "wengert.debug",
    "wengert.errors",
    "wengert.implicit.solve",
    "wengert.program.program",
    "wengert.sparse.colours",
    "wengert.sparse.compression",
    "wengert.testing",
    "wengert.transforms.explain",
    "wengert.viz",
]


@pytest.mark.parametrize("name", DOCUMENTED)
def test_examples_of_docstrings_run(name):
    module = importlib.import_module(name)
    # a separate namespace: functions of wengert run unchanged, without rebinding
    tests = doctest.DocTestFinder().find(module, globs={"__name__": "__main__"})
    found = [test for test in tests if test.examples]
    assert found
    for test in found:
        report = []
        options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
        result = doctest.DocTestRunner(optionflags=options).run(test, out=report.append)
        assert result.failed == 0, "".join(report)


def sections(docstring):
    """Return the headings of a numpydoc docstring."""
    lines = inspect.cleandoc(docstring).splitlines()
    return {line for line, rule in itertools.pairwise(lines) if line and rule == "-" * len(line)}


#: parameters documented at another function
ALIASES = {name for name in wg.__all__ if isinstance(getattr(wg, name), functools.partial)}
NAMES = [name for name in wg.__all__ if name not in ALIASES]


@pytest.mark.parametrize("name", NAMES)
def test_public_names_are_documented_in_sections(name):
    value = getattr(wg, name)
    assert value.__doc__
    assert value.__doc__.strip().partition("\n")[0].endswith(".")
    found = sections(value.__doc__)
    assert "Examples" in found
    if isinstance(value, type):
        return
    if inspect.signature(value).parameters:
        assert "Parameters" in found
    if name != "clear_caches":
        assert found & {"Returns", "Yields"}


@pytest.mark.parametrize(
    "name", [n for n in NAMES if not isinstance(getattr(wg, n), type) and n not in ("clear_caches", "passive")]
)
def test_every_parameter_is_described(name):
    value = getattr(wg, name)
    described = inspect.cleandoc(value.__doc__).partition("Parameters\n---")[2].partition("\nReturns\n---")[0]
    entries = re.findall(r"^([a-z][\w, ]*?)(?: :.*)?$", described, re.MULTILINE)
    named = {p.name for p in inspect.signature(value).parameters.values() if p.annotation != "Never"}
    assert named <= set(re.findall(r"\w+", ",".join(entries)))


# ---- the site ------------------------------------------------------------------------------------


def test_the_reference_lists_every_public_name():
    text = (DOCS / "reference" / "api.md").read_text(encoding="utf-8")
    text += (DOCS / "reference" / "errors.md").read_text(encoding="utf-8")
    # a line of a summary table, or a directive
    entry = r"^(?:   |\.\. (?:autoexception|autofunction|py:data):: )wengert\.(\w+)$"
    listed = re.findall(entry, text, re.MULTILINE)
    assert sorted(listed) == sorted(wg.__all__)


def test_readme_gives_the_command_that_builds_the_site():
    assert 'pip install ".[docs]" && sphinx-build -W -n docs docs/_build/html' in (ROOT / "README.md").read_text()


def test_chart_of_the_readme_shows_the_measured_figures():
    pytest.importorskip("sphinx", reason="sphinx is not installed: pip install '.[docs]'")
    charts = load("_charts")
    shown, measured = (
        re.findall(r"<text[^>]*>([^<]*)</text>", text)
        for text in (charts.README_CHART.read_text(encoding="utf-8"), charts.svg("derivative-times"))
    )
    assert shown == measured and "wengert, compiled" in shown
    stated = re.search(r":alt: Time of a derivative.*", (DOCS / "index.md").read_text(encoding="utf-8"))
    assert set(re.findall(r"\d+\.?\d*(?=,| and| times)", stated[0])) <= set(shown)
    assert f"docs/_static/{charts.README_CHART.name}" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_means_of_the_performance_page_are_those_of_the_tables():
    """The page repeats counts and geometric means that the tables state."""
    tables = (DOCS / "performance" / "tables.md").read_text(encoding="utf-8")
    found = re.findall(r"at most 1.0x in (\d+ of \d+) rows .*?, geometric mean ([\d.]+)x", tables)
    page = (DOCS / "performance.md").read_text(encoding="utf-8")
    stated = re.findall(r"\| (\d+ of \d+) \| ([\d.]+) \|$", page, re.MULTILINE)
    assert stated == found[:3] + found[6:8]


def test_the_gallery_lists_each_script_once():
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install '.[docs]'")
    scripts = (ROOT / "examples" / "gallery").glob("plot_*.py")
    assert sorted(load("_gallery").ORDER) == sorted(script.stem.removeprefix("plot_") for script in scripts)


#: the page that the search of the site gives first, by an index entry marked as main
FOUND_FIRST = {
    "install": "install",
    "uncertainty": "how-to/uncertainty",
    "pytorch": "how-to/coming-from",
    "jax": "how-to/coming-from",
    "sparse": "how-to/sparse",
    "solve_ivp": "how-to/ode-sensitivities",
    "gpu": "how-to/gpu",
    "bayesian": "how-to/bayesian",
    "fit": "tutorial/first-jacobian",
}


def test_the_site_builds_without_warnings(tmp_path):
    modules = "sphinx myst_parser numpydoc furo matplotlib sphinx_copybutton sphinx_design sphinx_gallery"
    for needed in modules.split():
        pytest.importorskip(needed, reason=f"{needed} is not installed: pip install '.[docs]'")
    command = [sys.executable, "-m", "sphinx", "-W", "-n", "-q", "-d", tmp_path / "trees", DOCS, tmp_path / "html"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    html = (tmp_path / "html" / "reference" / "coverage.html").read_text(encoding="utf-8")
    assert "numpy.linalg.solve" in html and "scipy.special.erf" in html
    html = (tmp_path / "html" / "reference" / "scipy.html").read_text(encoding="utf-8")
    assert "spsolve_triangular" in html and "solve for the gain with wengert.scipy.optimize.root" in html
    html = (tmp_path / "html" / "how-to" / "ode-sensitivities.html").read_text(encoding="utf-8")
    links = set(re.findall(r'href="[^"]*/reference/generated/([\w.]+).html#', html))
    assert {"wengert.grad", "scipy.integrate.solve_ivp"} <= links  # names in prose
    search = (tmp_path / "html" / "searchindex.js").read_text(encoding="utf-8")
    assert "How-to guides" in search and "The tape records opcodes" not in search  # a decision
    entries = json.loads(re.search(r'"indexentries":({.*?}),"', search)[1])
    names = json.loads(re.search(r'"docnames":(\[.*?\])', search)[1])
    for word, page in FOUND_FIRST.items():
        assert page in [names[place] for place, _, is_main in entries[word] if is_main], word
    for page in ("explanation/tape", "tutorial/first-jacobian", "tutorial/second-derivatives", "index", "performance"):
        assert "<svg" in (tmp_path / "html" / f"{page}.html").read_text(encoding="utf-8")
