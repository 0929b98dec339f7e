"""Imports point one way: the layers of the package, read from its sources.

A unit is a module or subpackage directly below `wengert`.  Units of one group may import each other
and those of every earlier group; units of one layer that stand in different groups may not.
"""

import ast
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "src" / "wengert"

# errors <- registry <- {rules | core} <- {numpy, containers} <- ... <- scipy, lowest first.
LAYERS = [
    [{"errors"}, {"features"}, {"dependence"}],
    [{"registry"}],
    [{"rules"}, {"core"}],
    [{"numpy", "containers"}],
    [{"transforms"}],
    [{"program"}],
    [{"sparse"}, {"cuda"}, {"checkpointing"}],
    [{"api"}],
    [{"implicit"}],
    [{"scipy"}],
]
# May import anything; nothing imports them.  `__init__` is the package itself.
TOP = {"__init__", "distributed", "debug", "testing", "viz"}
# Imported by setuptools, before there is a package.
ALONE = {"_build"}

PLACE = {
    unit: (rank, group)
    for rank, layer in enumerate(LAYERS)
    for group, units in enumerate(layer)
    for unit in units
}

SOURCES = sorted(path for path in ROOT.rglob("*") if path.suffix in (".py", ".pyx", ".pxd"))

# `import a, b`, `cimport a as b`, `from ..a.b cimport c, d`, the last also over several lines.
IMPORT = re.compile(r"^[ \t]*c?import[ \t]+([^\n;#]+)", re.MULTILINE)
FROM = re.compile(
    r"^[ \t]*from[ \t]+(\.*)([\w.]*)[ \t]+c?import[ \t]+(\([^)]*\)|[^\n;#]+)", re.MULTILINE
)
TEXT = re.compile(r"(\"{3}|'{3})(?:\\.|[^\\])*?\1|#[^\n]*", re.DOTALL)


def unit_of(path):
    """Name of the module or subpackage directly below `wengert` that holds `path`."""
    return path.relative_to(ROOT).parts[0].split(".")[0]


def python_imports(source):
    """(dots, module, names) of each import statement, wherever in the file it stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield 0, alias.name, []
        elif isinstance(node, ast.ImportFrom):
            yield node.level, node.module or "", [alias.name for alias in node.names]


def cython_imports(source):
    """The same for Cython, whose grammar `ast` does not know."""
    source = TEXT.sub("", source)
    for match in IMPORT.finditer(source):
        for name in match[1].split(","):
            yield 0, name.split()[0], []
    for match in FROM.finditer(source):
        names = [name.split()[0] for name in match[3].strip("()").split(",") if name.strip()]
        yield len(match[1]), match[2], names


def imported_units(path, source):
    """Units of the package that `source`, standing at `path`, imports."""
    package = ("wengert", *path.relative_to(ROOT).parent.parts)
    find = python_imports if path.suffix == ".py" else cython_imports
    for dots, module, names in find(source):
        parts = package[: len(package) + 1 - dots] if dots else ()
        parts += tuple(module.split(".")) if module else ()
        if parts[0] != "wengert":
            continue
        if len(parts) > 1:
            yield parts[1]
        else:  # `from . import name`, `import wengert`: a module, or a name that __init__ binds
            known = PLACE.keys() | TOP | ALONE
            yield from [name if name in known else "__init__" for name in names] or ["__init__"]


def complaint(unit, other):
    """Why `unit` must not import `other`, or None if it may."""
    if unit == other:
        return None
    if unit in ALONE or other in ALONE:
        return f"{unit} imports {other}, and one of them stands alone"
    if other in TOP and unit != "__init__":  # which binds the public modules
        return f"{other} may import anything, so nothing imports it"
    if unit in TOP:
        return None
    (rank, group), (other_rank, other_group) = PLACE[unit], PLACE[other]
    if other_rank > rank:
        return f"{other} is a later layer than {unit}"
    if other_rank == rank and other_group != group:
        return f"{unit} and {other} are siblings"
    return None


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_imports_point_one_way(path):
    unit = unit_of(path)
    assert unit in PLACE.keys() | TOP | ALONE, f"{unit} has no place in LAYERS"
    others = set(imported_units(path, path.read_text(encoding="utf-8")))
    assert others <= PLACE.keys() | TOP | ALONE, f"no place in LAYERS for one of {sorted(others)}"
    complaints = [complaint(unit, other) for other in sorted(others)]
    assert [text for text in complaints if text] == []


@pytest.mark.parametrize(
    ("place", "source", "units"),
    [
        ("api.py", "import numpy as np\nfrom numpy import exp", set()),
        ("api.py", "from . import errors, grad", {"errors", "__init__"}),
        ("api.py", "def f():\n    from .transforms.dense import jacobian", {"transforms"}),
        ("core/dispatch/dispatch.pyx", "from ..registry import rows\nfrom .tape import Tape",
         {"registry", "core"}),
        ("core/__init__.py", "from . import tape", {"core"}),
        ("scipy/linalg.py", "import scipy.linalg, wengert.numpy as np", {"numpy"}),
        ("core/tape/tape.pyx", "cimport numpy as cnp\nfrom .dual cimport Dual", {"core"}),
        ("core/tape/tape.pyx", "from ..rules cimport (  # why\n    a,\n    b)\nimport wengert.api as x",
         {"rules", "api"}),
        ("core/tape/tape.pyx", "cdef f():\n    from wengert import numpy, grad", {"numpy", "__init__"}),
        ("core/tape/tape.pyx", '"""\nimport wengert.numpy as np\n"""\n# import wengert.api', set()),
        ("core/tape/tape.pyx", 'cdef extern from "wengert/kernels.h":\n    pass', set()),
    ],
)  # fmt: skip
def test_imports_are_found(place, source, units):
    assert set(imported_units(ROOT / place, source)) == units


@pytest.mark.parametrize(
    ("unit", "other", "allowed"),
    [
        ("rules", "registry", True),
        ("registry", "rules", False),
        ("rules", "core", False),
        ("core", "rules", False),
        ("numpy", "containers", True),
        ("sparse", "cuda", False),
        ("api", "sparse", True),
        ("api", "implicit", False),
        ("api", "__init__", False),
        ("viz", "scipy", True),
        ("viz", "testing", False),
        ("__init__", "api", True),
        ("__init__", "testing", True),
        ("_build", "errors", False),
    ],
)
def test_layers_are_those_of_the_design(unit, other, allowed):
    assert (complaint(unit, other) is None) == allowed


MODULES = sorted(
    ".".join(("wengert", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
    for path in SOURCES
    if path.suffix != ".pxd" and unit_of(path) not in ALONE
)

# Prints what each public name is, after the modules of sys.argv were imported in that order.
DESCRIBE = """
import importlib, sys, types
for name in sys.argv[1:]:
    importlib.import_module(name)
import wengert
for name in sorted(wengert.__all__):
    value = getattr(wengert, name)
    if isinstance(value, types.ModuleType):
        print(name, "module", value.__name__)
    else:
        place = [getattr(value, key, "") for key in ("__module__", "__qualname__")]
        print(name, type(value), *place)
"""


def public_names(*modules):
    """One line for each public name, from a new process in which `modules` were imported first."""
    run = [sys.executable, "-W", "error", "-c", DESCRIBE, *modules]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("seed", range(5))
def test_public_names_do_not_depend_on_the_order_of_imports(seed):
    modules = random.Random(seed).sample(MODULES, len(MODULES))
    bound = public_names()
    assert bound
    assert public_names(*modules) == bound, f"after importing {modules}"
