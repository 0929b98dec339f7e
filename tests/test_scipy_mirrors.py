"""Mirrors of SciPy's modules: names, signatures, groups, and how they are reached."""

import importlib
import inspect
import os
import subprocess
import sys
import types

import numpy as np
import pytest
import scipy
import scipy.linalg
from scipy import linalg as la
from scipy.linalg import inv

import wengert as wg
import wengert.scipy
from scipy_cases import check
from wengert import registry
from wengert.rules.scipy import functions
from wengert.scipy import copies, namespace

MIRRORS = (
    "cluster cluster.hierarchy cluster.vq constants fft fftpack integrate interpolate linalg ndimage signal sparse "
    "sparse.csgraph sparse.linalg spatial spatial.distance spatial.transform stats stats.contingency "
    "stats.distributions stats.mstats stats.qmc"
).split()
GROUPS = {"composed", "constant", "elementwise", "linear", "refuse", "structural"}
A = np.array([[2.0, 1.0], [0.5, 3.0]])


def mirror(name):
    return importlib.import_module(f"wengert.scipy.{name}")


def signature(fun):
    """Return the signature of a function, None for one in C that does not tell it."""
    try:
        return inspect.signature(fun)
    except ValueError:
        return None


@pytest.mark.parametrize("name", MIRRORS)
def test_mirror_has_scipys_names_and_signatures(name):
    original, ours = importlib.import_module(f"scipy.{name}"), mirror(name)
    public = set(namespace.public_names(original))
    assert public <= set(dir(ours))
    for word, proxy in functions.known(original).items():
        if word not in public:  # imported from another module
            continue
        assert getattr(ours, word) is proxy
        if (expected := signature(getattr(original, word))) is not None:
            assert str(inspect.signature(proxy)) == str(expected), word  # NaN as default
        assert registry.rows[proxy].name.startswith("scipy.")
        assert registry.rows[proxy].kind in GROUPS


@pytest.mark.parametrize("name", MIRRORS)
def test_every_public_function_is_in_one_group(name):
    original, ours = importlib.import_module(f"scipy.{name}"), mirror(name)
    known = functions.known(original)
    missing = [
        word
        for word in namespace.public_names(original)
        if callable(value := getattr(original, word))
        and not (isinstance(value, type) and issubclass(value, BaseException))
        and word not in known
        and getattr(ours, word) is value
        and word not in getattr(ours, "_PLAIN", ())
    ]
    assert not missing


def imported_inside(a):
    from scipy.linalg import inv

    return inv(a)


def package_inside(a):
    import scipy.linalg

    return scipy.linalg.inv(a)


FORMS = {
    "package": lambda a: scipy.linalg.inv(a),
    "alias": lambda a: la.inv(a),
    "name": lambda a: inv(a),
    "function": inv,
    "import inside": imported_inside,
    "package inside": package_inside,
    "mirror": lambda a: wengert.scipy.linalg.inv(a),
    "keyword": lambda a: inv(a=a),
    "list": lambda a: inv([[a[0, 0], a[0, 1]], [a[1, 0], a[1, 1]]]),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_way_of_naming_a_function_is_differentiated(form):
    y = np.linalg.inv(A)
    np.testing.assert_allclose(wg.grad(lambda a: np.sum(FORMS[form](a)))(A), -np.outer(y.sum(0), y.sum(1)), rtol=1e-14)


def test_import_loads_no_module_of_scipy():
    code = "import sys, wengert, wengert.scipy; print([m for m in sys.modules if m.partition('.')[0] == 'scipy'])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


_FIRST_CALLS_IN_THREADS = """
import sys
import numpy as np
from scipy import signal, stats
import wengert as wg
from helpers import in_threads

functions = [
    lambda x: signal.savgol_filter(x, 7, 2),
    lambda x: signal.filtfilt([0.5, 0.5], [1.0, -0.2], x),
    lambda x: signal.detrend(x),
    lambda x: signal.welch(x, nperseg=16)[1],
    lambda x: stats.contingency.expected_freq(x.reshape(8, 5)),
    lambda x: stats.skew(x),
]
x, found, count = np.linspace(0.1, 1.0, 40), [None] * 12, len(functions)

def work(i):
    found[i] = wg.jacobian(functions[i % count])(x)

sys.setswitchinterval(1e-6)
in_threads(work, len(found))
for i, f in enumerate(functions):
    np.testing.assert_array_equal(found[i], wg.jacobian(f)(x))
    np.testing.assert_array_equal(found[i + count], found[i])
"""


def test_threads_wait_for_a_copy_that_another_makes():
    code = f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r})\n{_FIRST_CALLS_IN_THREADS}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr


def test_unknown_option_is_named():
    with pytest.raises(wg.errors.UnsupportedFunctionError, match=r"scipy\.linalg\.inv .* option foo"):
        wg.grad(lambda a: np.sum(inv(a, foo=1)))(A)


def test_second_copy_uses_differentiable_functions_and_leaves_scipy_unchanged():
    before = dict(vars(sys.modules["scipy.linalg._special_matrices"]))
    copy = copies.second_copy("scipy.linalg._special_matrices")
    assert copy.np is wengert.numpy
    assert isinstance(copy, types.ModuleType)
    assert vars(sys.modules["scipy.linalg._special_matrices"]) == before


def test_bytecode_of_copies_is_kept_on_disk_and_made_again_if_it_is_corrupt(tmp_path, monkeypatch):
    monkeypatch.setenv("WENGERT_CACHE_DIR", str(tmp_path / "cache"))
    module = tmp_path / "module.py"
    module.write_text("y = x.dot(x)")
    code = copies._code_of(module)
    with monkeypatch.context() as patch:
        patch.delattr(copies, "_made_differentiable")
        assert copies._code_of(module) == code
    (kept,) = (tmp_path / "cache").iterdir()
    kept.write_bytes(kept.read_bytes()[:-1])
    assert copies._code_of(module) == code
    module.write_text("y = x.dot(x) + 1")
    assert copies._code_of(module) != code


def test_formula_gives_derivatives_and_the_function_itself_gives_values():
    def rough(x):
        return np.exp(x) * (1 + 1e-12)

    proxy = functions.proxy_of(rough, "scipy.linalg", "rough")
    row = registry.by_formula(proxy, lambda x: np.exp(x))
    try:
        x = np.array([0.3, 1.2])
        check(lambda x: proxy(x), x, compiled=False)
        value, pullback = wg.vjp(proxy, x)
        np.testing.assert_array_equal(value, rough(x))
        np.testing.assert_allclose(pullback(np.ones(2)), np.exp(x), rtol=1e-15)
    finally:
        del registry.rows[proxy], functions._proxies[id(rough)]
    assert row.is_formula


@pytest.mark.parametrize("body", [lambda x, power=1: x, lambda x, power=1: np.sum(x**power)])
def test_formula_that_gives_another_value_raises(body):
    def powers(x, power=1):
        return x**power

    proxy = functions.proxy_of(powers, "scipy.linalg", "powers")
    registry.by_formula(proxy, body)
    try:
        with pytest.raises(wg.errors.UnsupportedFunctionError, match=r"scipy\.linalg\.powers .*another value"):
            wg.grad(lambda x: np.sum(proxy(x, 2)))(np.array([0.3, 1.2]))
    finally:
        del registry.rows[proxy], functions._proxies[id(powers)]


RNG = np.random.default_rng(4)
SAMPLES = RNG.normal(size=(3, 12))
#: arguments of functions that are declared constant and take floats; others take lengths, names or truth values
ARGUMENTS = {
    "scipy.stats.percentileofscore": (SAMPLES[0], 0.3),
    "scipy.stats.rankdata": (SAMPLES[0],),
    "scipy.stats.tiecorrect": (np.arange(12.0),),
    **dict.fromkeys(
        [
            f"scipy.stats.{name}"
            for name in (
                "ansari brunnermunzel chatterjeexi kendalltau kruskal mannwhitneyu mood ranksums spearmanr weightedtau "
                "wilcoxon"
            ).split()
        ],
        (SAMPLES[0], SAMPLES[1]),
    ),
    "scipy.stats.friedmanchisquare": tuple(SAMPLES),
    **{f"scipy.signal.{name}": (SAMPLES[0],) for name in ("argrelmax", "argrelmin")},
    "scipy.ndimage.maximum_position": (SAMPLES,),
    "scipy.ndimage.minimum_position": (SAMPLES,),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_functions_declared_constant_are_piecewise_constant(name):
    module, _, word = name.rpartition(".")
    fun = getattr(importlib.import_module(module), word)
    assert registry.rows[getattr(mirror(module.removeprefix("scipy.")), word)].kind == "constant"
    arguments = ARGUMENTS[name]
    moved = [x + 1e-9 * np.cos(np.arange(np.size(x)).reshape(np.shape(x))) for x in arguments]
    np.testing.assert_equal(np.asarray(fun(*moved)), np.asarray(fun(*arguments)))


DISTRIBUTIONS = """
import sys
import numpy as np
import scipy.stats as st
import wengert as wg
from scipy.stats import norm

class Line(st.rv_continuous):
    def _pdf(self, x, a):
        return 1 + a * (x - 0.5)

def of_several(x):
    return st.multivariate_normal.logpdf(x, np.zeros(2), np.eye(2))

def imported(x):
    from scipy.stats import norm as normal
    return normal.logpdf(x[0])

line, frozen, table, x = Line(a=0, b=1, name="line"), norm(0.0, 1.0), {"normal": norm}, np.array([0.5, 1.0])
of_one = {
    "name": lambda x: norm.logpdf(x[0]),
    "module": lambda x: st.norm.logpdf(x[0]),
    "import": imported,
    "frozen": lambda x: frozen.logpdf(x[0]),
    "table": lambda x: table["normal"].logpdf(x[0]),
    "class": lambda x: line.pdf(0.0, x[1]),
    "object": lambda x: st.Normal(mu=0.0, sigma=1.0).logpdf(x[0]),
}
assert np.array_equal(wg.gradient(of_several)(x), -x)
assert not {"wengert.scipy.stats.univariate", "wengert.scipy.stats.random_variables"} & {*sys.modules}
print(np.round(wg.gradient(of_one[sys.argv[1]])(x), 12))
"""


@pytest.mark.parametrize(
    ("form", "expected"),
    [(form, "[-0.5  0. ]") for form in ("name", "module", "import", "frozen", "table", "object")]
    + [("class", "[ 0.  -0.5]")],
)
def test_distributions_are_loaded_when_one_is_met(form, expected):
    run = subprocess.run([sys.executable, "-c", DISTRIBUTIONS, form], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == expected


SOLVERS = """
import sys
import numpy as np
import scipy.integrate
import wengert as wg
from scipy.integrate import odeint, solve_ivp, trapezoid

of_one = {
    "solve_ivp": lambda x: solve_ivp(lambda t, y: -x * y, (0.0, 1.0), [1.0], rtol=1e-10, atol=1e-10).y[0, -1],
    "odeint": lambda x: odeint(lambda y, t: -x * y, [1.0], [0.0, 1.0], rtol=1e-10, atol=1e-10)[-1, 0],
    "module": lambda x: scipy.integrate.solve_ivp(lambda t, y: -x * y, (0, 1), [1], rtol=1e-10, atol=1e-10).y[0, -1],
}
assert wg.grad(lambda x: trapezoid([x, 2 * x, x]))(1.0) == 3.0
assert "wengert.scipy.initial_value" not in sys.modules
print(wg.grad(of_one[sys.argv[1]])(1.0))
"""


@pytest.mark.parametrize("form", ["solve_ivp", "odeint", "module"])
def test_solvers_of_differential_equations_are_loaded_when_one_is_met(form):
    run = subprocess.run([sys.executable, "-c", SOLVERS, form], capture_output=True, text=True, check=True)
    np.testing.assert_allclose(float(run.stdout), -np.exp(-1.0), rtol=1e-7)
