"""`detect_nan` names the function and the line of the first NaN; `probe` shows adjoints and tangents."""

import re
import threading

import numpy as np
import pytest

import wengert as wg
from helpers import assert_rounding, assert_same_bits
from scenarios import TABLE
from wengert.core import levels

X = np.array([0.0, 1.0, 2.0])


def line_of(f, offset):
    return f"({__file__}:{f.__code__.co_firstlineno + offset}): "


# ---- detect_nan


def log_of_negative(x):
    y = np.log(x - 0.5)
    return np.sum(y * y)


def difference_of_roots(x):
    root = np.sqrt(x)
    return np.sum(root - np.sqrt(x))


def roots_of_elements(x):
    F = np.zeros(3)
    for i in range(3):
        F[i] = x[i] ** 0.5
    return F[0] - x[0] ** 0.5


def constant_in_a_product(x):
    squares = x * x
    return np.sum(squares * np.array([1.0, np.nan, 2.0]))


def infinity_minus_infinity(x):
    a = 1e308 * (x + 9)
    return np.sum(a - a)


def gradient_of_powers(x):
    return wg.grad(lambda z: np.sum(z**1.5 - z**1.5))(x)


# f, offset of the line, its text, message in forward mode, message in reverse mode (None: the same)
FIRST = [
    (
        log_of_negative,
        1,
        "y = np.log(x - 0.5)",
        "the value of numpy.log is NaN at index (0,), computed from -0.5",
        None,
    ),
    (
        difference_of_roots,
        2,
        "return np.sum(root - np.sqrt(x))",
        "the derivative of numpy.subtract is NaN: a tangent at index (0,)",
        ("root = np.sqrt(x)", 1, "the derivative of numpy.sqrt is infinite, and its sum with an infinite one of "
         "opposite sign is NaN at index (0,)"),
    ),
    (
        roots_of_elements,
        4,
        "return F[0] - x[0] ** 0.5",
        "the derivative of numpy.subtract is NaN: a tangent",
        ("F[i] = x[i] ** 0.5", 3, "the derivative of indexing is infinite, and its sum with an infinite one of "
         "opposite sign is NaN"),
    ),
    (
        constant_in_a_product,
        2,
        "return np.sum(squares * np.array([1.0, np.nan, 2.0]))",
        "the value of numpy.multiply is NaN at index (1,), operand 1 is NaN already",
        None,
    ),
    (
        infinity_minus_infinity,
        2,
        "return np.sum(a - a)",
        "the value of numpy.subtract is NaN at index (0,), computed from inf, inf",
        None,
    ),
    (
        gradient_of_powers,
        1,
        "return wg.grad(lambda z: np.sum(z**1.5 - z**1.5))(x)",
        "the derivative of numpy.add in the derivative of numpy.power is NaN: a tangent at index (0, 0)",
        ("return wg.grad(lambda z: np.sum(z**1.5 - z**1.5))(x)", 1,
         "the derivative of numpy.power in the derivative of numpy.power is infinite, and its sum with an infinite "
         "one of opposite sign is NaN at index (0,)"),
    ),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("case", FIRST, ids=lambda case: case[0].__name__)
def test_first_nan_is_named_with_its_line(case, mode):
    f, offset, code, text, by_sweep = case
    if mode == "reverse" and by_sweep is not None:
        code, offset, text = by_sweep
    for _ in range(2):
        with wg.detect_nan(), pytest.raises(FloatingPointError) as raised:
            wg.jacobian(f, X, mode=mode)
        assert str(raised.value) == f"{text} {line_of(f, offset)}{code}"
    assert levels.running.get() == ()
    assert_rounding(wg.grad(lambda x: np.sum(x * x), X), 2 * X)  # no state remains


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: wg.grad(np.sum, X * np.nan), "grad(sum): the input is NaN at index (0,)"),
        (lambda: wg.grad(np.multiply, 1.0, args=(np.nan,), argnums=(0, 1)), "grad(multiply): input 1 is NaN"),
        (lambda: wg.derivative(np.sin, np.nan), "derivative(sin): the input is NaN"),
        (lambda: wg.jvp(np.sin, X, [0.0, np.nan, 0.0]), "jvp(sin): the direction is NaN at index (1,)"),
        (
            lambda: wg.vjp(np.sin, X)[1]([0.0, 0.0, np.nan]),
            "vjp(sin): the cotangent of the result is NaN at index (2,)",
        ),
    ],
)
def test_nan_argument_is_named(call, text):
    with wg.detect_nan(), pytest.raises(FloatingPointError, match=f"^{re.escape(text)}$"):
        call()


def branch(x):
    return np.sum(np.where(x > 0, np.sqrt(np.abs(x)), 0.0))


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_nan_multiplied_by_exact_zero_is_ignored(mode):
    with wg.detect_nan():
        assert_rounding(wg.jacobian(branch, X, mode=mode), [0.0, 0.5, 0.5 / np.sqrt(2.0)])
        H = wg.jacobian(wg.grad(branch), X + 1, mode=mode)
    assert_rounding(H, np.diag(-0.25 * (X + 1) ** -1.5))


@pytest.mark.parametrize("s", [s for s in TABLE if not s.containers][::7], ids=lambda s: s.name.replace(" ", "_"))
@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.filterwarnings("ignore::wengert.MutatedInputWarning")
def test_detect_nan_does_not_change_derivatives(s, mode):
    with wg.detect_nan():
        J = wg.jacobian(s.f, s.x, args=s.args, mode=mode)
    assert_rounding(J, s.exact(), s.dtype)


def test_derivatives_outside_the_block_are_not_checked():
    _, pullback = wg.vjp(difference_of_roots, X)
    with wg.detect_nan():
        assert np.isnan(pullback(1.0)[0])
        found = []
        thread = threading.Thread(target=lambda: found.append(wg.grad(difference_of_roots, X)))
        thread.start()
        thread.join()
    assert np.isnan(found[0][0]) and np.isnan(wg.grad(difference_of_roots, X)[0])


def test_block_has_no_effect_outside_derivatives():
    import wengert.numpy as wnp

    with wg.detect_nan():
        assert type(wnp.zeros(2)) is np.ndarray
        assert np.isnan(np.float64(np.inf) - np.inf)

        @wg.detect_nan()
        def decorated():
            return wg.grad(difference_of_roots, X)

    with pytest.raises(FloatingPointError):
        decorated()


# ---- probe


def probed(callback):
    """Run in-place code on the result of a probe."""

    def f(x):
        y = wg.probe(x * x, callback)
        y[0] *= 3
        return np.sum(y * y)

    return f


def adjoint(x):
    """Return the adjoint of the squares in `probed`."""
    return 2 * x**2 * np.array([9.0, 1.0, 1.0])


def test_reverse_sweep_shows_adjoint_of_all_later_uses():
    seen = []
    gradient = wg.grad(probed(seen.append), X + 1)
    (shown,) = seen
    assert type(shown) is np.ndarray
    assert_rounding(shown, adjoint(X + 1))
    assert_rounding(gradient, adjoint(X + 1) * 2 * (X + 1))
    shown[:] = np.nan  # a copy: the gradient is unaffected
    assert np.isfinite(gradient).all()


def test_forward_mode_shows_the_tangent():
    seen = []
    _, dy = wg.jvp(probed(seen.append), X + 1, [1.0, 0.0, 2.0])
    assert_rounding(seen[0], [2.0, 0.0, 12.0])
    assert_rounding(dy, adjoint(X + 1) @ seen[0])


@pytest.mark.parametrize(("mode", "expected"), [("forward", 2 * np.eye(3)), ("reverse", 3 * np.eye(3))])
def test_several_directions_are_stacked(mode, expected):
    seen = []
    J = wg.jacobian(lambda x: 3 * wg.probe(2 * x, seen.append), X, mode=mode)
    assert_rounding(seen[0], expected)
    assert_rounding(J, 6 * np.eye(3))


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (lambda f: wg.grad(f, 3.0), [3.0]),
        (lambda f: wg.derivative(f, 3.0), [6.0]),
        (lambda f: wg.grad(wg.grad(f), 3.0), [3.0, 1.0]),
        (lambda f: wg.derivative(f, 3.0, order=2), [6.0, 6.0]),
        (lambda f: wg.derivative(wg.grad(f), 3.0), [6.0, 3.0]),
        (lambda f: wg.jacobian(f, 3.0, mode="reverse"), [3.0]),
    ],
)
def test_each_derivative_calls_back_with_plain_values(op, expected):
    seen = []
    op(lambda x: wg.probe(x * x, seen.append) * x)
    assert [type(item) for item in seen] == [np.float64] * len(expected)
    assert seen == expected


def test_value_is_unchanged_to_the_last_bit():
    seen = []
    for x in (X, X.astype(np.float32), 0.1, 3, np.float32(0.1), [1.0, 2.0]):
        assert_same_bits(wg.probe(x, seen.append), x)
    assert wg.probe(X, seen.append) is not X
    for x in (X, X.astype(np.float32), 0.1):
        y, _ = wg.vjp(lambda z: wg.probe(z, seen.append), x)
        assert_same_bits(y, x)
    assert seen == []


def test_exception_of_the_callback_propagates():
    def stop(cotangent):
        raise RuntimeError("seen enough")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="seen enough"):
            wg.grad(probed(stop), X)
    assert_rounding(wg.grad(probed(lambda cotangent: None), X + 1), adjoint(X + 1) * 2 * (X + 1))


def test_list_of_traced_values_raises():
    with pytest.raises(TypeError, match="probe: pass one number or array"):
        wg.grad(lambda x: wg.probe([x, x], print)[0], 1.0)


def test_probe_inside_detect_nan_reports_the_same_values():
    seen = []
    with wg.detect_nan():
        wg.grad(probed(seen.append), X + 1)
    assert_rounding(seen[0], adjoint(X + 1))
