"""`check_derivatives` passes correct derivatives and names wrong ones; its reference estimates its own error."""

import dataclasses
import re
import warnings

import numpy as np
import pytest
from wengert.core.operands.var import is_var

import wengert as wg
from scenarios import TABLE
from wengert import api, registry
from wengert.testing import Check, check_derivatives
from wengert.transforms.slopes import Slopes

X = np.array([0.3, 1.2, -0.7])


def named(table):
    return pytest.mark.parametrize("s", table, ids=[s.name.replace(" ", "_") for s in table])


# ---- correct derivatives pass


#: one-sided at the point of the scenario table
AT_THE_EDGE = {"where with a dead branch of infinite slope", "entropy with a zero"}


@named([s for s in TABLE if s.name not in AT_THE_EDGE])
def test_scenarios_pass(s):
    report = check_derivatives(s.f, s.x, args=s.args)
    assert isinstance(report, Check) and not report.failures


@dataclasses.dataclass
class Model:
    rate: np.ndarray
    offset: float


def of_a_model(model, t, scale=1.0):
    return {"decay": np.exp(-model.rate * t) * scale, "sum": [np.sum(model.rate) * model.offset, np.ones(2) * t]}


@pytest.mark.parametrize(
    ("f", "x", "options"),
    [
        (of_a_model, Model(np.array([0.5, 2.0]), 3.0), {"args": (0.7,), "kwargs": {"scale": 2.0}}),
        (of_a_model, Model(np.array([0.5, 2.0]), 3.0), {"args": (0.7,), "argnums": 1}),
        (of_a_model, Model(np.array([0.5, 2.0]), 3.0), {"args": (0.7,), "argnums": (0, 1)}),
        (lambda a, b: a * b**2, 2.0, {"args": (3.0,), "argnums": (0, 1)}),
        (lambda x: [x[0] * x[1], x[1] ** 2], [1, 2], {}),
        (lambda x: np.exp(x) * x, X.astype(np.float32), {}),
        (lambda x: 3.0, 2.0, {}),
        (lambda x: np.floor(x) * x, 2.5, {}),
        (np.log, np.array([1e-3, 1e3]), {}),
        (lambda x: np.sum(x) * np.ones(0), X, {}),
        (lambda x: np.sum(x**2), np.zeros(0), {}),
    ],
)
def test_scalars_arrays_and_containers_pass(f, x, options):
    assert not check_derivatives(f, x, **options).failures


def test_report_lists_each_method_with_its_digits():
    report = check_derivatives(lambda x: np.sin(x) * x[0], X)
    text = repr(report)
    assert text.startswith("test_report_lists_each_method_with_its_digits.<locals>.<lambda>: derivatives agree\n")
    for way in (
        "value, forward",
        "J v, forward",
        "w J v, reverse",
        "H v, forward over reverse",
        "H v, reverse over forward",
        "H v, reverse over reverse",
        "u H v, forward over forward",
    ):
        assert re.search(rf"^  {way} +([\d.]+|all) digits, against ", text, re.MULTILINE), way
    first, second = ([f.digits for f in report.findings if f.reference == r and f.digits < np.inf]
                     for r in ("complex step", "differences of gradients"))  # fmt: skip
    assert min(first) > 14 and min(second) > 10


@pytest.mark.parametrize(
    ("modes", "ways"),
    [
        (("forward",), {"forward", "forward over forward"}),
        (("reverse",), {"reverse", "reverse over reverse"}),
        (("mixed",), {"forward over reverse", "reverse over forward"}),
    ],
)
def test_modes_select_what_is_checked(modes, ways):
    report = check_derivatives(lambda x: np.sin(x) * x[0], X, modes=modes)
    found = {f.method.rpartition(", ")[2] for f in report.findings if "," in f.method}
    assert found - {"hvp", "hessian"} == ways


def test_hessian_products_are_checked(monkeypatch):
    def f(x):
        return np.sin(x) * x[0]

    def hvp(f, x, v, *, args, kwargs, argnums):
        return wg.jvp(wg.grad(f), x, v)[1]

    def hessian(f, x, *, args, kwargs, argnums):
        return wg.jacobian(wg.grad(f), x) * factor

    monkeypatch.setattr(api, "hvp", hvp, raising=False)
    monkeypatch.setattr(api, "hessian", hessian, raising=False)
    factor = 1.0
    report = check_derivatives(f, X, modes=("mixed",))
    assert {"H v, hvp", "H v, hessian"} <= {finding.method for finding in report.findings}
    factor = np.array([1.0, 1.0, 1.01])
    with pytest.raises(AssertionError, match=r"u H v, hessian .* against v H u: FAILED"):
        check_derivatives(f, X, modes=("mixed",))


# ---- wrong derivatives fail


@wg.primitive(vjp=lambda ybar, y, x: 1.01 * ybar * np.cos(x))
def wrong_sine(x):
    return np.sin(x)


@wg.primitive(vjp=lambda ybar, y, x: ybar * wg.stop_gradient(np.cos(x)))
def constant_rule(x):
    return np.sin(x)


@wg.primitive(vjp=lambda ybar, y, a, b: (ybar * b, ybar * a * 1.001))
def wrong_in_one_argument(a, b):
    return a * b


class Noisy:
    def __init__(self):
        self.random = np.random.default_rng(3)

    def __call__(self, x):
        return x * self.random.normal()


WRONG = [
    (
        lambda x: wrong_sine(x) * x,
        [r"J v, forward .* FAILED", r"w J v, reverse .* FAILED",
         r"worst entry \(0, 0\): reverse 0\.584\d+, complex step 0\.582\d+ \(2\.3 digits\)", r"your own rules"],
    ),
    (
        lambda x: np.sum(constant_rule(x) * x),
        [r"H v, forward over reverse .*against differences of gradients: FAILED",
         r"worst entry \(\d, \d\): forward over reverse ", r"first derivatives agree: look for a rule"],
    ),
    (
        lambda x: {"a": wrong_in_one_argument(x["p"][0], x["p"][1]), "b": x["q"] ** 2},
        [r"worst entry \(\) of output 0, \(1,\) of input 0: forward 0\.300[23]\d*, complex step 0\.[23]\d+ "],
    ),
    (lambda x: x * wg.stop_gradient(x), [r"worst entry \(2, 2\): forward -0\.[67]\d*, complex step -1\.[34]\d*"]),
    (lambda x: x[0] * float(f"{x[1]:.8g}"), [r"stop_gradient, passive"]),
    (Noisy(), [r"value, forward .*: FAILED", r"plain NumPy gives"]),
    (lambda x: np.abs(x - X), [r"smoothness .*: FAILED", r"at \(\d,\) the one-sided derivatives differ by"]),
    (lambda x: np.maximum(x, X[0]), [r"smoothness .*: FAILED\n +at \(0,\)", r"f has a kink"]),
    (
        lambda x: np.sum(np.abs(x - X) * (x - X)),
        [r"smoothness of the gradient .*: FAILED", r"a first derivative has a kink here"],
    ),
    (lambda x: np.sqrt(x - X), [r"f is NaN next to this point", r"f is not differentiable here: move x"]),
    (lambda x: x if not is_var(x) else x + 1e-9, [r"value, .*: FAILED"]),
]  # fmt: skip


@pytest.mark.parametrize(("f", "texts"), WRONG)
def test_wrong_derivative_raises_and_names_the_failure(f, texts):
    x = {"p": X, "q": 2.0} if "worst entry \\(\\) of output 0" in texts[0] else X
    with pytest.raises(AssertionError) as raised:
        check_derivatives(f, x)
    message = str(raised.value)
    assert re.search(r"\d+ of \d+ checks failed\n", message)
    for text in texts:
        assert re.search(text, message), f"{text} is not in\n{message}"


def test_agreement_in_forward_mode_is_reported_as_a_hint(monkeypatch):
    row = registry.rows[np.cumsum]
    monkeypatch.setattr(row, "vjps", {0: lambda ybar, y, x, axis=None: 1.5 * ybar})
    monkeypatch.setattr(row, "jvps", {0: lambda t, y, x, axis=None: np.cumsum(t, axis=-1)})
    with pytest.raises(AssertionError, match="forward mode agrees: look at the pullbacks of the rules"):
        check_derivatives(lambda x: np.cumsum(x) * x, X)


def test_wrong_entry_of_a_large_jacobian_is_named_by_its_output():
    scale = np.ones(300)
    scale[123] = 1.1

    @wg.primitive(vjp=lambda ybar, y, x: ybar * scale)
    def copy(x):
        return x.copy()

    with pytest.raises(AssertionError, match=r"along a random direction, at \(123,\)"):
        check_derivatives(copy, np.linspace(1, 2, 300), order=1)


def test_large_outputs_do_not_hide_wrong_small_ones():
    @wg.primitive(vjp=lambda ybar, y, x: ybar * 1e-6 * 1.01)
    def small(x):
        return 1e-6 * x

    for modes in (("forward",), ("reverse",)):
        with pytest.raises(AssertionError, match=r"worst entry \(1, 0\)"):
            check_derivatives(lambda x: np.stack([1e6 * x[1], small(x[0])]), X, modes=modes)


def test_single_precision_has_separate_tolerances():
    x = X.astype(np.float32)
    check_derivatives(lambda z: np.exp(z) * z, x)
    with pytest.raises(AssertionError):
        check_derivatives(lambda z: wrong_sine(z) * z, x)


# ---- arguments


def test_tolerances_are_configurable():
    check_derivatives(lambda x: wrong_sine(x) * x, X, order=1, rtol=0.1)
    check_derivatives(lambda x: wrong_sine(x) * x, X, order=1, atol=1.0)


def test_reference_is_configurable():
    def reference(**options):
        report = check_derivatives(np.sin, X, order=1, **options)
        return {finding.reference for finding in report.findings if finding.method == "J v, forward"}

    assert reference() == reference(reference="complex-step") == {"complex step"}
    assert reference(reference="differences") == {"differences"}
    with pytest.raises(TypeError, match=r"a complex step through .* failed: the function returns real values"):
        check_derivatives(lambda x: np.abs(x) * 2, X, reference="complex-step")
    assert any(f.reference == "differences" for f in check_derivatives(lambda x: np.abs(x) * 2, X).findings)
    # analytic code with a branch on the real part, where complex arguments take the other side
    assert not check_derivatives(lambda x: np.where(np.conj(x) == x, x * x, 0.0), X, order=1).failures


@pytest.mark.parametrize(
    "options", [{"order": 3}, {"modes": ("backward",)}, {"reference": "symbolic"}], ids=lambda o: str(*o)
)
def test_invalid_option_raises(options):
    with pytest.raises(ValueError, match=f"check_derivatives: {next(iter(options))} must"):
        check_derivatives(np.sin, X, **options)


def test_errors_of_the_derivative_propagate_unchanged():
    with pytest.raises(wg.UnsupportedFunctionError, match=r"numpy\.intersect1d"):
        check_derivatives(lambda x: np.intersect1d(x, x), X)
    with pytest.raises(TypeError, match="complex input"):
        check_derivatives(np.sin, np.array([1.0 + 2.0j]))


def test_argument_is_unchanged_and_no_warning_is_shown():
    def f(x):
        x[0] *= 2
        return x * x

    x = X.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_derivatives(f, x)
    np.testing.assert_array_equal(x, X)


# ---- the reference


@pytest.mark.parametrize(
    ("f", "x", "exact", "tolerance"),
    [
        (np.exp, 1.0, np.exp(1.0), 1e-11),
        (lambda x: np.sin(40 * x), 0.3, 40 * np.cos(12.0), 1e-8),
        (np.log, 0.01, 100.0, 1e-7),
        (lambda x: np.sqrt(1e6 + x), 1.0, 0.5 / np.sqrt(1e6 + 1), 1e-9),
        (lambda x: x**3 - x, 0.0, -1.0, 1e-13),
        (lambda x: np.floor(9 * x) + x, 0.3, 1.0, 1e-11),  # jumps within the first steps
        (lambda x: np.floor(0.7 / x) * x, 0.249, 2.0, 1e-11),
    ],
)
def test_differences_estimate_their_error(f, x, exact, tolerance):
    found = Slopes(lambda z: np.array([f(z[0])]), np.array([x]), np.ones((1, 1)))
    error = abs(found.values[0, 0] - exact)
    assert error <= tolerance * abs(exact)
    assert error <= 10 * found.errors[0, 0] + found.noise[0]
    assert found.jumps[0, 0] == 0


@pytest.mark.parametrize(
    ("f", "jump"), [(np.abs, 2.0), (lambda x: np.maximum(3 * x, x), 2.0), (lambda x: x * np.abs(x), 0.0)]
)
def test_one_sided_derivatives_are_compared(f, jump):
    found = Slopes(lambda z: np.array([f(z[0])]), np.array([0.0]), np.ones((1, 1)))
    np.testing.assert_allclose(found.jumps[0, 0], jump, rtol=1e-12)
