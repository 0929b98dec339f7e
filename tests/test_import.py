"""`import wengert` is cheap: it imports no unneeded module."""

import subprocess
import sys

import pytest

UNWANTED = ("scipy", "numba", "llvmlite", "matplotlib")


def run(code):
    """Run `code` in a new process without test plugins, and return its output."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "use",
    ["", "; wengert.grad(lambda x: x * x)(2.0)"],
    ids=["import", "first derivative"],
)
def test_no_unwanted_module_is_loaded(use):
    loaded = run(f"import sys, wengert{use}; print(*sys.modules)").split()
    assert "wengert" in loaded
    assert [name for name in loaded if name.partition(".")[0] in UNWANTED] == []


def test_import_loads_few_modules_beyond_numpy():
    """Everything else is imported at first use; `benchmarks` times both."""
    code = "import sys, numpy; before = set(sys.modules); import wengert; print(*set(sys.modules) - before)"
    assert {name for name in run(code).split() if name != "gc"} == {
        "wengert",
        "wengert.deferred",
        "wengert.program",
        "wengert.program.backends",
    }


FINDER = """
import sys
import numpy as np
import wengert as wg

class Finder:
    def find_spec(self, name, path=None, target=None):
        return helped(name)

def helped(name):
    asked.append(name)

asked = []
sys.meta_path.insert(0, Finder())
compiled = wg.compile(lambda x: np.median(x))
print(compiled(np.arange(5.0)), compiled(np.arange(5.0)), "numpy.ma" in asked)
"""


@pytest.mark.parametrize("state", ["enable", "disable"])
def test_imports_leave_the_garbage_collector_as_it_was(state):
    code = f"import gc, wengert; gc.{state}(); wengert.grad, wengert.scipy; print(gc.isenabled())"
    assert run(code) == f"{state == 'enable'}\n"


def test_lazy_imports_of_numpy_do_not_prevent_compilation():
    assert run(FINDER).split() == ["2.0", "2.0", "True"]  # otherwise the code of the finder causes a CompileWarning


@pytest.mark.parametrize("first", ["levels", "tape.local_derivatives", "operands.var"])
def test_hooks_to_higher_layers_are_set_for_any_import_order(first):
    code = (
        f"import wengert.core.{first}; from wengert import errors, registry; from wengert.core.tape import "
        "local_derivatives; import numpy as np, wengert as wg; print(errors.Refusal.remember.__module__, "
        "registry.record_strong.__module__, registry.strong_product.__module__, "
        "local_derivatives.transposed.__module__, wg.jvp(lambda x: np.cumsum(x % 2.0)[1], [1.0, 2.5], [1.0, 1.0]))"
    )
    assert run(code).split("(")[0].split() == [
        "wengert.core.levels",
        "wengert.core.dispatch.dispatch",
        "wengert.core.tape.products",
        "wengert.core.hooks",
    ]


#: functions whose packages are registered when followed code first meets them
FIRST_USES = """
from scipy import cluster, fft, integrate, interpolate, linalg, ndimage, signal, spatial, special, stats
import scipy.cluster.vq, scipy.spatial.distance, statistics
whiten, dct, trapezoid, solve_ivp = cluster.vq.whiten, fft.dct, integrate.trapezoid, integrate.solve_ivp
make_interp_spline, expm, gaussian_filter1d = interpolate.make_interp_spline, linalg.expm, ndimage.gaussian_filter1d
lfilter, cdist, logsumexp, zscore = signal.lfilter, spatial.distance.cdist, special.logsumexp, stats.zscore
mean, quad = statistics.mean, integrate.quad
functions = [
    lambda x: whiten(np.outer([1.0, 3.0], x) ** 2),
    lambda x: dct(x),
    lambda x: trapezoid(x),
    lambda x: solve_ivp(lambda t, y: -x[0] * y, (0, 1), x, t_eval=[0.5, 1.0]).y,
    lambda x: make_interp_spline(np.arange(5.0), np.arange(5.0) ** 2 * x[0])(x[1]),
    lambda x: expm(np.outer(x, x)),
    lambda x: gaussian_filter1d(x, 1.0),
    lambda x: lfilter([1.0], [1.0, -0.5], x),
    lambda x: cdist(x[None], np.eye(2)),
    lambda x: logsumexp(x),
    lambda x: zscore(x),
    lambda x: mean([x[0], x[1] ** 2]),
    lambda x: quad(lambda t: np.exp(-x[0] * t), 0.0, x[1])[0],
]
"""


@pytest.mark.parametrize(
    "use", ["wengert.record(f, x)(2 * x)", "wengert.compile(f)(2 * x)"], ids=["record", "compile"]
)
def test_first_use_of_each_package(use):
    pytest.importorskip("scipy", minversion="1.17")
    checks = f"x = np.array([0.7, 0.4])\nfor f in functions:\n    assert np.allclose({use}, f(2 * x), rtol=1e-6)\n"
    run("import numpy as np, wengert\n" + FIRST_USES + checks)
