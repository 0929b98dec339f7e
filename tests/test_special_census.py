"""Every name of ``scipy.special`` is in exactly one group: differentiable, constant, refused, or integer-only."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import wengert as wg
import wengert.numpy  # declares the rules
from wengert.errors import UnsupportedFunctionError
from wengert.registry import lookup
from wengert.rules import transcendental

#: not numeric functions
OTHERS = {"SpecialFunctionError", "SpecialFunctionWarning", "errstate", "geterr", "seterr"}

#: Python functions with a derivative, as a call with one scalar
DIFFERENTIABLE = {
    "assoc_laguerre": lambda f, x: f(x, 2, 0.5),
    "assoc_legendre_p": lambda f, x: f(3, 1, x)[0],
    "comb": lambda f, x: f(x + 3, x),
    "diric": lambda f, x: f(x, 5),
    "factorial": lambda f, x: f(x),
    "ivp": lambda f, x: f(1.5, x, 1),
    "jvp": lambda f, x: f(1.5, x, 1),
    "kvp": lambda f, x: f(1.5, x, 1),
    "legendre_p": lambda f, x: np.sum(f(3, x, diff_n=2)),
    "log_softmax": lambda f, x: f([0.2, x, 2 * x])[0],
    "logsumexp": lambda f, x: f([0.2, x], b=[x, 1.0]),
    "multigammaln": lambda f, x: f(x + 1, 3),
    "perm": lambda f, x: f(x + 3, x),
    "polygamma": lambda f, x: f(1, x),
    "sinc": lambda f, x: f(x),
    "softmax": lambda f, x: f([0.2, x, 2 * x])[0],
    "softplus": lambda f, x: f(x),
    "sph_legendre_p": lambda f, x: f(3, -1, x)[0],
    **{f"spherical_{kind}": lambda f, x: f(2, x) + f(2, x, derivative=True) for kind in ("in", "jn", "kn", "yn")},
    "yvp": lambda f, x: f(1.5, x, 1),
    "zeta": lambda f, x: f(2.5, x),
    **{
        name: lambda f, x: f(4)(x)
        for name in ("chebyc", "chebys", "chebyt", "chebyu", "hermite", "hermitenorm", "laguerre", "legendre")
    },
    **{name: lambda f, x: f(4)(x) for name in ("sh_chebyt", "sh_chebyu", "sh_legendre")},
    "gegenbauer": lambda f, x: f(4, 0.7)(x),
    "genlaguerre": lambda f, x: f(4, 0.7)(x),
    "jacobi": lambda f, x: f(4, 0.7, 1.2)(x),
    "sh_jacobi": lambda f, x: f(4, 2.7, 1.2)(x),
}

#: the same with complex values
COMPLEX = {
    "h1vp": lambda f, x: f(1, x, 2),
    "h2vp": lambda f, x: f(1, x, 2),
    "lambertw": lambda f, x: f(x),
    "sph_harm_y": lambda f, x: f(3, -2, x, 2 * x),
}

#: ufuncs with complex values for real operands
COMPLEX_UFUNCS = {
    "hankel1": lambda f, x: f(1.5, x) + f(1.5, 80 * x),
    "hankel1e": lambda f, x: f(1.5, x) + f(1.5, 80 * x),
    "hankel2": lambda f, x: f(1.5, x) + f(1.5, 80 * x),
    "hankel2e": lambda f, x: f(1.5, x) + f(1.5, 80 * x),
    "kelvin": lambda f, x: sum(f(x)),
    "modfresnelm": lambda f, x: sum(f(x)),
    "modfresnelp": lambda f, x: sum(f(x)),
    "wofz": lambda f, x: f(x) + f(x + 0.2j) + f(x * (7 + 2j)),
}

SPECIAL_OF_ONE = "expm1 log1p exp1 expi gamma loggamma rgamma spence wrightomega erf erfc erfi erfcx ndtr dawsn".split()

#: functions with an operand that may be complex, as a function of that operand
OFF_AXIS = {
    **{name: lambda f, z: f(z) for name in SPECIAL_OF_ONE},
    **{name: lambda f, z: f(1.3, z) + f(2, z) for name in "jv yv iv kv kve hyp0f1".split()},
    **{name: lambda f, z: sum(k * y for k, y in enumerate(f(z), 1)) for name in "airy sici shichi fresnel".split()},
    "hyp1f1": lambda f, z: f(1.2, 2, z),
    "hyp2f1": lambda f, z: f(1.2, 0.4, 2, z / 9),
    "xlogy": lambda f, z: f(z, 1j * z) + f(2.0, z),
    "xlog1py": lambda f, z: f(z, 1j * z) + f(2.0, z),
    **{
        f"eval_{name}": lambda f, z: f(3, z) + f(2.3, z)
        for name in "legendre chebyt chebyu chebyc chebys sh_legendre sh_chebyt sh_chebyu laguerre".split()
    },
    "eval_genlaguerre": lambda f, z: f(3, 0.4, z),
    "eval_gegenbauer": lambda f, z: f(3, 0.4, z),
    "eval_jacobi": lambda f, z: f(3, 0.4, 0.7, z),
    "eval_sh_jacobi": lambda f, z: f(3, 2.4, 0.7, z),
}

#: Python functions without derivative, by the arguments of a call; None marks the traced one
REFUSED = {
    "assoc_legendre_p_all": (2, 1, None),
    "ellip_harm": (1.0, 2.0, 1, 1, None),
    "ellip_harm_2": (1.0, 2.0, 1, 1, None),
    "ellip_normal": (1.0, 2.0, 1, None),
    "factorial2": (None,),
    "factorialk": (None, 2),
    "legendre_p_all": (2, None),
    "lmbda": (2, None),
    "lqmn": (1, 1, None),
    "lqn": (1, None),
    "mathieu_even_coef": (2, None),
    "mathieu_odd_coef": (2, None),
    "obl_cv_seq": (1, 2, None),
    "pbdn_seq": (1, None),
    "pbdv_seq": (1, None),
    "pbvv_seq": (1, None),
    "pro_cv_seq": (1, 2, None),
    "riccati_jn": (1, None),
    "riccati_yn": (1, None),
    "roots_gegenbauer": (3, None),
    "roots_genlaguerre": (3, None),
    "roots_jacobi": (3, None, 0.5),
    "roots_sh_jacobi": (3, 2.5, None),
    "sph_harm_y_all": (2, 1, None, 0.5),
    "sph_legendre_p_all": (2, 1, None),
    "cg_roots": (3, None),
    "la_roots": (3, None),
    "j_roots": (3, None, 0.5),
    "js_roots": (3, 2.5, None),
}

#: tables of zeros, nodes and constants: their arguments are integers by definition
INTEGERS = {
    *(name for name in scipy.special.__all__ if name.endswith("_zeros")),
    *("bernoulli", "euler", "stirling2"),
    *(f"roots_{name}" for name in ("legendre", "chebyt", "chebyu", "chebyc", "chebys", "laguerre", "hermite")),
    *("roots_hermitenorm", "roots_sh_legendre", "roots_sh_chebyt", "roots_sh_chebyu"),
    *("p_roots", "t_roots", "u_roots", "c_roots", "s_roots", "l_roots", "h_roots", "he_roots"),
    *("ps_roots", "ts_roots", "us_roots"),
}


def group_of_ufunc(fun):
    row = lookup(fun)
    return {"elementwise": "differentiable", "composed": "differentiable"}.get(row.kind, row.kind) if row else None


@pytest.mark.parametrize("name", sorted(scipy.special.__all__))
def test_every_name_is_in_exactly_one_group(name):
    fun = getattr(scipy.special, name)
    groups = [name in group for group in (OTHERS, DIFFERENTIABLE, COMPLEX, REFUSED, INTEGERS)]
    if isinstance(fun, np.ufunc):
        assert group_of_ufunc(fun) in ("differentiable", "constant", "refuse")
        assert not any(groups)
    else:
        assert sum(groups) == 1


def differences(f, x, h=1e-4):
    return (8 * (f(x + h) - f(x - h)) - (f(x + 2 * h) - f(x - 2 * h))) / (12 * h)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(DIFFERENTIABLE))
def test_python_functions_have_first_and_second_derivatives_and_programs(name):
    fun, call = getattr(scipy.special, name), DIFFERENTIABLE[name]

    def f(x):
        return call(fun, x)

    first, second = differences(f, 0.7), differences(lambda x: differences(f, x), 0.7)
    np.testing.assert_allclose(wg.grad(f)(0.7), first, rtol=1e-8)
    np.testing.assert_allclose(wg.jvp(f, 0.7, 1.0)[1], first, rtol=1e-8)
    np.testing.assert_allclose(wg.derivative(f, 0.7, order=2), second, rtol=1e-4)
    program = wg.record(f, 0.6)
    np.testing.assert_allclose(program(0.7), f(0.7), rtol=1e-13)
    np.testing.assert_allclose(program.grad()(0.7), first, rtol=1e-8)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(COMPLEX | COMPLEX_UFUNCS))
def test_functions_of_complex_values_have_derivatives_in_both_modes(name):
    fun, call = getattr(scipy.special, name), (COMPLEX | COMPLEX_UFUNCS)[name]
    found = wg.jvp(lambda x: call(fun, x), 0.7, 1.0)[1]
    np.testing.assert_allclose(found, differences(lambda x: call(fun, x), 0.7), rtol=1e-8)
    parts = [wg.grad(lambda x, turn=turn: np.real(turn * call(fun, x)))(0.7) for turn in (1, -1j)]
    np.testing.assert_allclose(parts, [found.real, found.imag], rtol=1e-14)


@pytest.mark.filterwarnings("ignore")
def test_functions_of_a_complex_operand_have_derivatives_off_the_axis():
    z = np.array([0.7 + 0.4j, -1.3 + 0.8j, 2.5 - 1.2j, -0.4 - 3.1j, 0.02 + 0.01j, 5 + 2j, -7.5 + 1j])
    for name, call in OFF_AXIS.items():
        f = lambda z: call(getattr(scipy.special, name), z)
        expected = differences(f, z)
        found = wg.jvp(f, z, np.ones_like(z))[1]
        np.testing.assert_allclose(found, expected, rtol=2e-7, atol=1e-9, err_msg=name)
        np.testing.assert_allclose(wg.jvp(f, z, 1j * np.ones_like(z))[1], 1j * found, rtol=1e-14, err_msg=name)
        np.testing.assert_allclose(wg.grad(lambda z: np.sum(f(z)).real)(z), np.conj(found), rtol=1e-13, err_msg=name)
        if name not in ("gamma", "loggamma", "rgamma"):  # their partials have no derivative off the axis
            second = wg.jvp(lambda z: wg.jvp(f, z, np.ones_like(z))[1], z, np.ones_like(z))[1]
            by_slopes = differences(lambda z: wg.jvp(f, z, np.ones_like(z))[1], z)
            np.testing.assert_allclose(second, by_slopes, rtol=2e-7, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("name", ["jve", "ive", "yve", "digamma", "log_ndtr"])
def test_functions_without_derivative_off_the_axis_raise(name):
    fun = getattr(scipy.special, name)
    with pytest.raises(UnsupportedFunctionError, match="has no derivative rule for complex values"):
        wg.jvp(lambda z: fun(z) if fun.nin == 1 else fun(1.0, z), 0.7 + 0.4j, 1.0)
    with pytest.raises(UnsupportedFunctionError, match=r"kv with a complex argument has no derivative"):
        wg.jvp(lambda v: scipy.special.kv(v, 0.7 + 0.4j), 1.5, 1.0)


def filled(arguments, x):
    return [x if a is None else a for a in arguments]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(REFUSED))
def test_unsupported_functions_state_a_reason(name):
    fun, arguments = getattr(scipy.special, name), REFUSED[name]
    with pytest.raises(UnsupportedFunctionError, match="has no derivative"):
        wg.grad(lambda x: np.sum(fun(*filled(arguments, x))))(0.5)


@pytest.mark.parametrize("name", sorted(name for name in scipy.special.__all__ if name not in OTHERS))
def test_refusal_states_a_reason(name):
    row = lookup(getattr(scipy.special, name))
    if row is not None and row.kind == "refuse":
        assert len(row.reason) > 20
    elif row is not None and row.kind == "elementwise":
        for partial in row.partials:
            if getattr(partial, "__qualname__", "").startswith("unknown."):
                with pytest.raises(UnsupportedFunctionError, match="has no known derivative in its"):
                    partial(None)


#: arguments that are integers by definition, by function; degrees of polynomials are not, as SciPy continues those
INTEGER_ARGUMENTS = {
    **dict.fromkeys(("bdtr", "bdtrc", "bdtri", "nbdtr", "nbdtrc", "nbdtri"), (0, 1)),
    **dict.fromkeys(("pdtr", "pdtrc", "pdtri", "expn", "kn", "yn", "eval_hermite", "eval_hermitenorm"), (0,)),
    **dict.fromkeys(("smirnov", "smirnovi", "lpmv"), (0,)),
    **{name: (0,) for name in scipy.special.__all__ if name.startswith("mathieu_")},
    **{name: (0, 1) for name in scipy.special.__all__ if name.startswith(("obl_", "pro_"))},
}


def partials_of(fun):
    """Return the partials of a ufunc, or of its first result; None for a missing one."""
    row = lookup(fun)
    if row.kind == "composed":
        row = lookup(getattr(transcendental, f"{fun.__name__}_0"))
    return row.partials if row.kind == "elementwise" else [None] * fun.nin


def is_known(partial):
    return partial is not None and not hasattr(partial, "operand")


def test_few_arguments_are_not_differentiable():
    ufuncs = {f for name in scipy.special.__all__ if isinstance(f := getattr(scipy.special, name), np.ufunc)}
    known = [
        is_known(partial)
        for fun in ufuncs
        if lookup(fun).kind != "constant"
        for i, partial in enumerate(partials_of(fun))
        if i not in INTEGER_ARGUMENTS.get(fun.__name__, ())
    ]
    assert known.count(False) <= 0.3 * len(known)


def test_integer_arguments_raise():
    for name, positions in INTEGER_ARGUMENTS.items():
        fun = getattr(scipy.special, name)
        if isinstance(fun, np.ufunc):
            assert not any(is_known(partials_of(fun)[i]) for i in positions)


def test_no_argument_has_derivative_declared_zero():
    for name in scipy.special.__all__:
        row = lookup(getattr(scipy.special, name))
        if row is not None and row.kind == "elementwise":
            assert 0 not in [partial for partial in row.partials if not callable(partial)], name
    assert {name for name in scipy.special.__all__ if group_of(name) == "constant"} == {"gammasgn", "round"}


def group_of(name):
    return getattr(lookup(getattr(scipy.special, name)), "kind", None)
