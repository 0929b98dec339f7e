"""Traced arrays are objects of the Python array API, whose namespace is `wengert.numpy`."""

import importlib
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp

X = np.array([[0.5, 1.5, 2.5], [0.25, 1.75, 0.8]])


def xp(x):
    return x.__array_namespace__(api_version="2023.12")


def after(name, *args):
    """Return a function that sums weighted squares of the results of a function of the namespace, given by name."""

    def f(x):
        fun = xp(x)
        for part in name.split("."):
            fun = getattr(fun, part)
        y = fun(x, *args)
        y = y[0] if isinstance(y, tuple) else y
        return xp(x).sum(y * y * xp(x).reshape(xp(x).arange(1.0, y.size + 1), y.shape))

    return f


#: functions of an array with a scalar value
FUNCTIONS = {
    **{name: after(name) for name in "abs atan cosh exp log1p positive real reciprocal sign sqrt square tanh".split()},
    **{name: after(name, 0.7) for name in "add atan2 divide floor_divide hypot maximum multiply pow subtract".split()},
    **{f"linalg.{name}": after(f"linalg.{name}") for name in "diagonal matrix_norm svdvals trace vector_norm".split()},
    **{name: after(name) for name in "matrix_transpose tril max mean std unstack".split()},
    "astype": lambda x: xp(x).sum(xp(x).astype(x, xp(x).float64) ** 2),
    "asarray": lambda x: xp(x).sum(xp(x).asarray(x, dtype=xp(x).float64, device=x.device, copy=True) ** 2),
    "full": lambda x: xp(x).sum(xp(x).full((2,), x[0, 0]) ** 2) + xp(x).sum(xp(x).zeros_like(x) + x),
    "concat": lambda x: xp(x).sum(xp(x).concat([x, x * x], axis=1) ** 2) + xp(x).sum(xp(x).concat((x, x), axis=None)),
    "permute_dims": lambda x: xp(x).sum(xp(x).permute_dims(x, (1, 0))[0] ** 2),
    "expand_dims": lambda x: xp(x).sum(xp(x).expand_dims(x, axis=1)[:, 0] ** 2),
    "take": lambda x: xp(x).sum(xp(x).take(x, xp(x).asarray([0, 2]), axis=1) ** 2),
    "take_along_axis": lambda x: xp(x).sum(xp(x).take_along_axis(x, xp(x).argsort(x, axis=1), axis=1)[:, 0] ** 2),
    "where": lambda x: xp(x).sum(xp(x).where(x > 1, x, x * x)),
    "cumulative_sum": lambda x: xp(x).sum(xp(x).cumulative_sum(x, axis=1, include_initial=True) ** 2),
    "var": lambda x: xp(x).var(x, correction=1),
    "vecdot": lambda x: xp(x).sum(xp(x).vecdot(x, x, axis=-1)) + xp(x).sum(xp(x).tensordot(x, x)),
    "linalg.eigh": lambda x: xp(x).sum(xp(x).linalg.eigh(x @ x.mT).eigenvalues ** 2),
    "linalg.solve": lambda x: xp(x).sum(xp(x).linalg.solve(x[:, :2], x[:, 2])),
    "fft": lambda x: xp(x).sum(xp(x).real(xp(x).fft.rfft(x)) * xp(x).fft.fftfreq(4)[:2]),
    "dtypes": lambda x: xp(x).isdtype(x.dtype, ("real floating", "bool")) * xp(x).sum(x) * xp(x).finfo(x.dtype).bits,
    "a scalar": lambda x: xp(x[0, 0]).sin(x[0, 0]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_the_namespace_are_differentiated(name):
    f, h = FUNCTIONS[name], 1e-6
    expected = [(f(X + e) - f(X - e)) / (2 * h) for e in np.eye(6).reshape(6, 2, 3) * h]
    found = wg.grad(f, X)
    np.testing.assert_allclose(found.ravel(), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(wg.jacobian(f, X, mode="forward"), found, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(wg.grad(wg.compile(f))(X), found, rtol=1e-12, atol=1e-14)


def test_namespace_is_this_module_and_describes_itself():
    found = []
    wg.grad(lambda x: found.append((x.__array_namespace__(), x[0].__array_namespace__() is np)) or x.sum(), X[0])
    wg.taylor(lambda x: found.append((x.__array_namespace__(), True)) or x.sum(), X[0], X[0], 1)
    assert found == [(wnp, True)] * 2
    assert wnp.__array_namespace_info__().default_dtypes() == np.__array_namespace_info__().default_dtypes()
    assert wnp.__array_api_version__ == np.__array_api_version__
    with pytest.raises(ValueError, match="Array API"):
        wg.grad(lambda x: x.__array_namespace__(api_version="1999.1").sum(x), X)


COMPAT = ("array_api_compat", "scipy._lib.array_api_compat", "scipy._lib.array_api_compat.array_api_compat")


def compat():
    for name in COMPAT:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return pytest.skip("no array_api_compat")


def test_array_api_compat_returns_namespaces_that_differentiate():
    helpers, found = compat(), []

    def f(x):
        found.extend([helpers.array_namespace(x, x[0], 1.0), helpers.array_namespace(x, X)])
        return found[0].sum(found[1].multiply(x, X))

    assert np.array_equal(wg.grad(f, X), X)
    names = [namespace.__name__ for namespace in found]
    assert names[1].endswith("array_api_compat.numpy")
    assert names[0] in (wnp.__name__, names[1])  # the latter from array_api_compat 1.16 on


def test_scipy_with_its_array_api_differentiates_and_refuses_iterations():
    """SciPy reads the switch when it is imported, so this runs in a process of its own."""
    source = """
        import numpy as np, wengert as wg
        from scipy import stats, special, integrate, differentiate
        from scipy._lib import _array_api

        X = np.array([0.5, 1.5, 2.5, 0.25])
        for f in (special.logsumexp, stats.zscore, stats.gmean, lambda x: integrate.cumulative_trapezoid(x * x)):
            J, h = wg.jacobian(f, X), 1e-6
            D = np.stack([(f(X + e) - f(X - e)) / (2 * h) for e in np.eye(4) * h], -1)
            assert np.allclose(J, D, atol=1e-6), f

        def library_code(x):  # runs where names are not replaced
            return namespace["derivative"](np.sin, x).df.sum()

        namespace = dict(vars(differentiate))
        try:
            wg.grad(library_code, X)
        except wg.TracedValueError as error:
            assert "iterates to convergence" in str(error), error
            print("refused")
        """
    run = [sys.executable, "-c", textwrap.dedent(source)]
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "SCIPY_ARRAY_API": "1"}
    if not importlib.util.find_spec("scipy.differentiate"):
        pytest.skip("SciPy is older than its functions of the array API")
    done = subprocess.run(run, capture_output=True, text=True, check=False, env=paths)
    assert done.stdout == "refused\n", done.stderr


scipy = pytest.importorskip("scipy")
optimize, integrate = importlib.import_module("scipy.optimize"), importlib.import_module("scipy.integrate")

ITERATIONS = {
    "bracket": lambda x: optimize.bracket(lambda t: (t - x[0]) ** 2)[0],
    "line_search": lambda x: optimize.line_search(
        lambda t: np.sum((t - x[:2]) ** 2), lambda t: 2 * (t - x[:2]), np.zeros(2), np.ones(2)
    )[0],
    "nsum": lambda x: integrate.nsum(lambda k: x[0] / k**2, 1, np.inf).sum,
    "of another module": lambda x: scipy.optimize.bracket(lambda t: (t - x[0]) ** 2)[0],
}


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("name", ITERATIONS)
def test_functions_that_iterate_to_convergence_are_refused(name, mode):
    with pytest.raises(wg.TracedValueError, match=r"scipy\.\w+\.\w+ .*iterates to convergence.*Instead, "):
        wg.jacobian(ITERATIONS[name], X[0], mode=mode)


def test_functions_that_iterate_on_constants_run_as_in_plain_code():
    def f(x):
        return x[0] * optimize.brent(lambda t: (t - 1) ** 2) * integrate.quad_vec(np.exp, 0, np.ones(1)[0])[0]

    assert wg.grad(f, X[0])[0] == f([1.0])
