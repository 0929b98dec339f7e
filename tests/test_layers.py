"""Imports point one way: the layers of the package, and no import cycles.

Reads Python and Cython sources.  Imports in functions, at the end of a file, for type checkers and by
``import_module("wengert...")``, ``deferred`` or ``load`` count like any other; included files count as part of the
including module.
"""

import ast
import graphlib
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "src" / "wengert"

# The import order, lowest layer first.  A unit is a module or sub-package directly below `wengert`; it may import units
# of earlier lines.  Units of one set may import each other, different sets on a line may not.
LAYERS = [
    [{"errors"}, {"features"}, {"dependence"}, {"deferred"}, {"notebook"}, {"progress"}],  # they import nothing
    [{"registry"}],  # a row per function
    [{"rules"}, {"core"}],  # derivatives of functions; the engine: they meet in the registry
    [{"standard_library"}],  # math, cmath and conversions of followed code
    [{"standard_statistics"}],  # statistics
    [{"numpy", "containers"}],  # the NumPy proxy; container structure
    [{"masked_arrays"}, {"array_expressions"}],  # numpy.ma; numexpr
    [{"transforms"}],  # functions of functions: grad, jacobian, vmap
    [{"program"}],  # recorded programs
    [{"sparse"}, {"cuda"}, {"checkpointing"}],
    [{"distributed"}],
    [{"api"}],
    [{"implicit"}],
    [{"scipy"}],
]
# May import anything; nothing imports them.  `__init__` is the package itself.
TOP = {"__init__", "config", "debug", "testing", "typing", "viz"}
# Imported by setuptools, before there is a package.
ALONE = {"_build"}

# The same for sub-packages of a unit: each may import itself and those before it.
PARTS = {
    "core": [
        "frames",  # the user's line of code
        "brackets",  # variables that enclose a root
        "advice",  # what to write there instead
        "levels",  # which derivative a value belongs to
        "rebind",  # rebinding of f's global names
        "messages",  # texts of errors
        "tape",  # the tape and its reverse sweep
        "operands",  # values that are recorded or carry tangents
        "dispatch",  # NumPy's protocols to rules of the registry
        "modes",  # sweeps of first and second order
        "hooks",  # lets lower modules call higher ones
    ],
    "program": [
        "backends",  # filled in by higher layers
        "banded",  # factors of matrices with a narrow band
        "memo",  # caches of methods' results
        "ir",  # instructions, verifier, interpreter, printer
        "tracing",  # f to instructions; guards on arguments and captured state
        "passes",  # instructions to fewer instructions, or to arrays and loops
        "codegen",  # VM instructions to native code
        "vm",  # executes instructions
        "derive",  # the program of a derivative; it evaluates instructions at an example, so it stands above the VM
        "jacobian",  # accumulation of Jacobian entries
        "report",  # readable reports on a program
        "signature",  # structure of arguments and results
        "pickling",  # programs as bytes
        "derivatives",  # builds the programs of derivatives
        "program",  # the public object
        "swept",  # derivatives that run one sweep per direction
        "integration",  # differential equations within programs
        "roots",  # Newton's method, and linear equations with Jacobians, within programs
        "elements",  # the program of a batch from that of one element
        "single_precision",  # float32 code in double precision
        "record",
        "implicit_op",
        "specialise",  # specialised programs behind guards
    ],
}

PLACE = {
    unit: (rank, group) for rank, layer in enumerate(LAYERS) for group, units in enumerate(layer) for unit in units
}


def module_of(path):
    """Return the name of the module that a file, given relative to ROOT, belongs to."""
    return ".".join(("wengert", *Path(path).with_suffix("").parts)).removesuffix(".__init__")


SOURCES = sorted(path.relative_to(ROOT) for path in ROOT.rglob("*") if path.suffix in (".py", ".pyx", ".pxd"))
MODULES = sorted({module_of(path) for path in SOURCES})

# `import a, b`, `cimport a as b`, `from ..a.b cimport c, d`, the last also over several lines.
IMPORT = re.compile(r"^[ \t]*c?import[ \t]+([^\n;#]+)", re.MULTILINE)
FROM = re.compile(r"^[ \t]*from[ \t]+(\.*)([\w.]*)[ \t]+c?import[ \t]+(\([^)]*\)|[^\n;#]+)", re.MULTILINE)
BY_NAME = re.compile(r"(?:import_module|deferred|load)\(\s*[\"'](wengert[\w.]*)[\"']")
INCLUDE = re.compile(r"^include[ \t]+[\"']([\w./]+)[\"']", re.MULTILINE)
TEXT = re.compile(r"(\"{3}|'{3})(?:\\.|[^\\])*?\1|#[^\n]*", re.DOTALL)


def read(path):
    """Return the source of a file, with include statements replaced by the included text."""
    path = ROOT / path
    return INCLUDE.sub(lambda found: read(path.parent / found[1]), path.read_text(encoding="utf-8"))


def python_imports(source):
    """Yield (dots, module, names) for each import anywhere in the file."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield 0, alias.name, []
        elif isinstance(node, ast.ImportFrom):
            yield node.level, node.module or "", [alias.name for alias in node.names]
    for name in BY_NAME.findall(source):
        yield 0, name, []


def cython_imports(source):
    """Do the same for Cython, whose grammar `ast` does not know."""
    source = TEXT.sub("", source)
    for match in IMPORT.finditer(source):
        for name in match[1].split(","):
            yield 0, name.split()[0], []
    for match in FROM.finditer(source):
        names = [name.split()[0] for name in match[3].strip("()").split(",") if name.strip()]
        yield len(match[1]), match[2], names
    for name in BY_NAME.findall(source):
        yield 0, name, []


def imported(path, source):
    """Return the package's modules that a file imports; the package itself if a name is none of its modules."""
    package = ("wengert", *Path(path).parent.parts)
    find = python_imports if Path(path).suffix == ".py" else cython_imports
    for dots, module, names in find(source):
        base = package[: len(package) + 1 - dots] if dots else ()
        base += tuple(module.split(".")) if module else ()
        if base[0] != "wengert":
            continue
        for name in names or [""]:
            parts = (*base, name)
            while ".".join(parts) not in MODULES:
                parts = parts[:-1]
            yield ".".join(parts)


def graph():
    """Return the modules that each module imports."""
    found = {}
    for path in SOURCES:
        module = module_of(path)
        found.setdefault(module, set()).update(set(imported(path, read(path))) - {module})
    return found


def circle(edges):
    """Return an import cycle as a list of modules, empty if there is none."""
    try:
        graphlib.TopologicalSorter(edges).prepare()
    except graphlib.CycleError as error:
        return error.args[1][:0:-1]
    return []


def unit_of(module):
    """Return the name of the module or sub-package directly below `wengert` that contains a module."""
    return [*module.split("."), "__init__"][1]


def part_of(module):
    """Return the sub-package within its unit."""
    return module.split(".")[2]


def complaint(module, other):
    """Return why `module` must not import `other`, or None if it may."""
    unit, other_unit = unit_of(module), unit_of(other)
    if unit == other_unit:
        return complaint_within(unit, module, other) if unit in PARTS and module.count(".") > 1 else None
    if unit in ALONE or other_unit in ALONE:
        return f"{module} imports {other}, and one of them stands alone"
    if other_unit in TOP and unit != "__init__":  # `__init__` binds the public modules
        return f"{module} imports {other}: that may import anything, so nothing imports it"
    if unit in TOP:
        return None
    (rank, group), (other_rank, other_group) = PLACE[unit], PLACE[other_unit]
    if other_rank > rank:
        return f"{module} imports {other}, which is of a later layer"
    if other_rank == rank and other_group != group:
        return f"{module} imports {other}, and {unit} and {other_unit} are siblings"
    return None


def complaint_within(unit, module, other):
    order = PARTS[unit]
    if order.index(part_of(other)) > order.index(part_of(module)):
        return f"{module} imports {other}, and {part_of(other)} comes after {part_of(module)}"
    return None


@pytest.fixture(scope="module")
def imports():
    return graph()


def test_every_module_belongs_to_a_layer():
    assert {unit_of(module) for module in MODULES} == PLACE.keys() | TOP | ALONE
    for unit, parts in PARTS.items():
        assert sorted(parts) == sorted({part_of(m) for m in MODULES if unit_of(m) == unit and m.count(".") > 1})


def test_imports_point_one_way(imports):
    complaints = [complaint(module, other) for module, others in imports.items() for other in sorted(others)]
    assert [text for text in complaints if text] == []


def test_no_import_cycles(imports):
    assert circle(imports) == []


def test_modules_are_cimported_by_their_full_name():
    """Cython's dependency tree does not see the module in ``from package cimport module``: it is not rebuilt then."""
    modules = {str(path.with_suffix("")).replace("/", ".") for path in SOURCES}
    for path in ROOT.rglob("*.p[yx][xdi]"):
        for package, name in re.findall(r"^from wengert\.([\w.]+) cimport (\w+)", path.read_text("utf-8"), re.M):
            assert f"{package}.{name}" not in modules, f"{path}: cimport wengert.{package}.{name} as {name}"


@pytest.mark.parametrize(
    ("place", "source", "modules"),
    [
        ("api.py", "import numpy as np\nfrom numpy import exp", ""),
        ("api.py", "from . import errors, grad", "errors ."),
        ("api.py", "def f():\n    from .transforms.dense import jacobian", "transforms.dense"),
        ("api.py", "from wengert.program.vm.machine import Machine, machine", "program.vm.machine"),
        ("api.py", "def f():\n    return import_module('wengert.cuda.batch').Kernel", "cuda.batch"),
        ("api.py", "if TYPE_CHECKING:\n    from wengert.program import record, ir", "program.record program.ir"),
        ("core/dispatch/dispatch.pyx", "from ...registry import rows\nfrom ..tape.tape import Tape",
         "registry core.tape.tape"),
        ("core/__init__.py", "from . import tape", "core.tape"),
        ("scipy/linalg.py", "import scipy.linalg, wengert.numpy as np", "numpy"),
        ("core/tape/tape.pyx", "cimport numpy as cnp\nfrom .memory cimport Block", "core.tape.memory"),
        ("core/tape/tape.pyx", "from ...rules cimport (  # why\n    linalg,\n    b)\nimport wengert.api as x",
         "rules.linalg rules api"),
        ("core/tape/tape.pyx", "cdef f():\n    from wengert import numpy, grad", "numpy ."),
        ("core/tape/tape.pyx", "cdef f():\n    import_module(\n        'wengert.core.levels')", "core.levels"),
        ("core/tape/tape.pyx", '"""\nimport wengert.numpy as np\n"""\n# import wengert.api', ""),
        ("core/tape/tape.pyx", 'cdef extern from "wengert/kernels.h":\n    pass', ""),
    ],
)  # fmt: skip
def test_import_statements_are_found(place, source, modules):
    assert set(imported(place, source)) == {f"wengert.{name}".rstrip(".") for name in modules.split()}


def test_included_files_count_as_part_of_the_module():
    assert (ROOT / "program/vm/bounds.pxi").read_text(encoding="utf-8") in read("program/vm/machine.pyx")


@pytest.mark.parametrize(
    ("edges", "found"),
    [
        ({"a": {"b", "c"}, "b": {"c"}, "c": set()}, set()),
        ({"a": {"b"}, "b": {"a"}}, {"a", "b"}),
        ({"a": {"b"}, "b": {"c"}, "c": {"d"}, "d": {"b"}}, {"b", "c", "d"}),
    ],
)
def test_import_cycles_are_found(edges, found):
    assert set(circle(edges)) == found
    assert all(other in edges[module] for module, other in zip(circle(edges), circle(edges)[1:]))


@pytest.mark.parametrize(
    ("module", "other", "allowed"),
    [
        ("rules", "registry", True),
        ("registry", "rules", False),
        ("rules.linalg", "core.levels", False),
        ("core.levels", "rules", False),
        ("numpy", "containers", True),
        ("sparse.drivers", "cuda.batch", False),
        ("api", "sparse.drivers", True),
        ("api", "implicit", False),
        ("api", "", False),
        ("viz", "scipy", True),
        ("viz", "testing", False),
        ("", "api", True),
        ("", "testing", True),
        ("_build", "errors", False),
        ("core.dispatch.flat", "core.tape.tape", True),
        ("core.tape.tape", "core.dispatch.flat", False),
        ("program.ir.printer", "program.ir.ir", True),
        ("program.ir.printer", "program.passes.vectorise", False),
        ("program.vm.machine", "program.specialise.fast_call", False),
        ("program.program", "program.record", False),
        ("program.record", "program.vm.machine", True),
    ],
)
def test_layers_are_those_of_the_design(module, other, allowed):
    module, other = (f"wengert.{name}".rstrip(".") for name in (module, other))
    assert (complaint(module, other) is None) == allowed


#: importable modules
IMPORTABLE = [module for module in MODULES if unit_of(module) not in ALONE]

# Prints each public name after importing the modules of sys.argv in that order.
DESCRIBE = """
import importlib, sys, types
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ImportError as error:
        if "SciPy 1.17" not in str(error):
            raise
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
    """Return one line per public name, from a new process that imports `modules` first."""
    run = [sys.executable, "-W", "error", "-c", DESCRIBE, *modules]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("seed", range(5))
def test_public_names_do_not_depend_on_the_order_of_imports(seed):
    modules = random.Random(seed).sample(IMPORTABLE, len(IMPORTABLE))
    bound = public_names()
    assert bound
    assert public_names(*modules) == bound, f"after importing {modules}"
