"""Every name of ``scipy.special`` is in exactly one group: differentiable, constant, refused, or of integers alone."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import wengert as wg
import wengert.numpy  # declares the rows
from wengert.errors import TracedValueError, UnsupportedFunctionError
from wengert.registry import lookup

#: not functions of numbers
OTHERS = {"SpecialFunctionError", "SpecialFunctionWarning", "errstate", "geterr", "seterr"}

#: Python functions that are followed into the ufuncs they call, by a call of one number
FOLLOWED = {
    "assoc_laguerre": lambda f, x: f(x, 2, 0.5),
    "ivp": lambda f, x: f(1.5, x, 1),
    "jvp": lambda f, x: f(1.5, x, 1),
    "kvp": lambda f, x: f(1.5, x, 1),
    "sinc": lambda f, x: f(x),
    "softplus": lambda f, x: f(x),
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

#: Python functions that make plain arrays of their operands, and so raise; by the arguments of a call, None for traced
CLOSED = {
    "assoc_legendre_p": (2, 1, None),
    "assoc_legendre_p_all": (2, 1, None),
    "comb": (None, 2),
    "diric": (None, 3),
    "ellip_harm": (1.0, 2.0, 1, 1, None),
    "ellip_harm_2": (1.0, 2.0, 1, 1, None),
    "ellip_normal": (1.0, 2.0, 1, None),
    "factorial": (None,),
    "factorial2": (None,),
    "factorialk": (None, 2),
    "h1vp": (1, None),
    "h2vp": (1, None),
    "lambertw": (None,),
    "legendre_p": (2, None),
    "legendre_p_all": (2, None),
    "lmbda": (2, None),
    "log_softmax": ([0.5, None],),
    "logsumexp": ([0.5, None],),
    "lqmn": (1, 1, None),
    "lqn": (1, None),
    "mathieu_even_coef": (2, None),
    "mathieu_odd_coef": (2, None),
    "multigammaln": (None, 1),
    "obl_cv_seq": (1, 2, None),
    "pbdn_seq": (1, None),
    "pbdv_seq": (1, None),
    "pbvv_seq": (1, None),
    "perm": (None, 2),
    "polygamma": (1, None),
    "pro_cv_seq": (1, 2, None),
    "riccati_jn": (1, None),
    "riccati_yn": (1, None),
    "roots_gegenbauer": (3, None),
    "roots_genlaguerre": (3, None),
    "roots_jacobi": (3, None, 0.5),
    "roots_sh_jacobi": (3, 2.5, None),
    "softmax": ([0.5, None],),
    "sph_harm_y": (2, 1, None, 0.5),
    "sph_harm_y_all": (2, 1, None, 0.5),
    "sph_legendre_p": (2, 1, None),
    "sph_legendre_p_all": (2, 1, None),
    "spherical_in": (1, None),
    "spherical_jn": (1, None),
    "spherical_kn": (1, None),
    "spherical_yn": (1, None),
    "cg_roots": (3, None),
    "la_roots": (3, None),
    "j_roots": (3, None, 0.5),
    "js_roots": (3, 2.5, None),
}

#: tables of zeros, nodes and numbers: their arguments are integers by definition
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
    groups = [name in OTHERS, name in FOLLOWED, name in CLOSED, name in INTEGERS]
    if isinstance(fun, np.ufunc):
        assert group_of_ufunc(fun) in ("differentiable", "constant", "refuse")
        assert not any(groups)
    else:
        assert sum(groups) == 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(FOLLOWED))
def test_python_functions_are_followed_into_their_ufuncs(name):
    fun, call = getattr(scipy.special, name), FOLLOWED[name]
    x, h = 0.7, 1e-4
    expected = (8 * (call(fun, x + h) - call(fun, x - h)) - (call(fun, x + 2 * h) - call(fun, x - 2 * h))) / (12 * h)
    np.testing.assert_allclose(wg.grad(lambda x: call(fun, x))(x), expected, rtol=1e-8)
    np.testing.assert_allclose(wg.jvp(lambda x: call(fun, x), x, 1.0)[1], expected, rtol=1e-8)


def filled(arguments, x):
    return [filled(a, x) if isinstance(a, list) else x if a is None else a for a in arguments]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(CLOSED))
def test_the_others_raise(name):
    fun, arguments = getattr(scipy.special, name), CLOSED[name]

    def f(x):
        y = fun(*filled(arguments, x))
        while isinstance(y, tuple):
            y = y[0]
        return np.sum(np.real(y))

    with pytest.raises((TracedValueError, UnsupportedFunctionError)):
        wg.grad(f)(0.5)


@pytest.mark.parametrize("name", sorted(name for name in scipy.special.__all__ if name not in OTHERS))
def test_a_refusal_gives_a_reason(name):
    row = lookup(getattr(scipy.special, name))
    if row is not None and row.kind == "refuse":
        assert len(row.reason) > 20
    elif row is not None and row.kind == "elementwise":
        for partial in row.partials:
            if getattr(partial, "__qualname__", "").startswith("unknown."):
                with pytest.raises(UnsupportedFunctionError, match="has no known derivative in its"):
                    partial(None)
