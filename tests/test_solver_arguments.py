"""A traced value in any argument of a solver is differentiated, has derivative zero, or raises: it is never lost."""

import inspect
import types

import numpy as np
import pytest
import scipy.optimize
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint
from tests.test_older_solvers import OLDER

import wengert as wg
from wengert.scipy import optimize

P = 1.3
IS_RNG = "rng" in inspect.signature(scipy.optimize.differential_evolution).parameters  # SciPy 1.15
SOLVERS = [
    name
    for name in optimize.__all__
    if callable(f := getattr(optimize, name)) and not isinstance(f, type) and name not in OLDER
]
REFUSED = (wg.TracedValueError, wg.UnsupportedFunctionError, wg.SingularJacobianError, wg.ConvergenceError)

#: arguments that select behaviour and hold no floats
WORDS = {
    *("method", "full_output", "disp", "col_deriv", "maxfev", "maxiter", "max_nfev", "verbose", "tr_solver"),
    *("k", "band", "workers", "lsq_solver", "lsmr_maxiter", "max_iter", "absolute_sigma", "check_finite", "nan_policy"),
    *("increasing", "maximize", "strategy", "popsize", "rng", "seed", "polish", "updating", "vectorized"),
    *("integrality", "maxfun", "no_local_search", "n", "iters", "sampling_method", "niter", "interval"),
    *("niter_success", "Ns", "locally_biased"),
}


def square(x, p=2.0):
    return x * x - p


def halved(x, p=1.0):
    return (x + 2 * p / x) / 2


def bowl(x, p=2.0):
    return np.sum((x - p) ** 4 + (x - p) ** 2)


def custom(fun, x0, args=(), **options):
    """A method for `minimize` that returns the known minimum."""
    return scipy.optimize.OptimizeResult(x=np.array([2.0]), success=True, message="", fun=0.0)


held = types.SimpleNamespace(p=P)


def system(**given):
    options = {"fun": square, "x0": [1.0], "tol": 1e-12, **given}
    return optimize.root(**options).x[0]


def fsolve(**given):
    return optimize.fsolve(**{"func": square, "x0": [1.0], "xtol": 1e-12, **given})[0]


def scalar(**given):
    bracket = {} if {"x0", "x1", "fprime", "fprime2"} & {*given} else {"bracket": (0.5, 3.0)}
    return optimize.root_scalar(**{"f": square, **bracket, **given}).root


def newton(**given):
    return optimize.newton(**{"func": square, "x0": 1.0, "tol": 1e-12, **given})


def bracketing(name):
    return lambda **given: getattr(optimize, name)(**{"f": square, "a": 0.5, "b": 3.0, **given})


def fixed_point(**given):
    return optimize.fixed_point(**{"func": halved, "x0": 1.0, "xtol": 1e-12, **given})


def least_squares(**given):
    return optimize.least_squares(**{"fun": lambda x: x - 2.0, "x0": [1.0], "xtol": 1e-14, "gtol": 1e-14, **given}).x[0]


def minimize(**given):
    return optimize.minimize(**{"fun": bowl, "x0": [1.0], "tol": 1e-10, **given}).x[0]


def lsq_linear(**given):
    return optimize.lsq_linear(**{"A": np.eye(2), "b": [1.0, 2.0], "tol": 1e-14, **given}).x[0]


def nnls(**given):
    return optimize.nnls(**{"A": np.eye(2), "b": [1.0, 2.0], **given})[0][0]


def linprog(**given):
    return optimize.linprog(**{"c": [-1.0, -1.0], "A_ub": [[2.0, 1.0], [1.0, 3.0]], "b_ub": [2.0, 3.0], **given}).fun


def minimize_scalar(**given):
    return optimize.minimize_scalar(**{"fun": lambda x, q=2.0: (x - q) ** 2, **given}).x


T = np.linspace(0.0, 2.0, 6)
Y = 1.5 * np.exp(-0.7 * T) + np.array([0.01, -0.02, 0.01, 0.02, -0.01, 0.01])


def decay(t, a, b):
    return a * np.exp(-b * t)


def curve_fit(**given):
    options = {} if "bounds" in given else {"xtol": 1e-14, "ftol": 1e-14}
    x, covariance = optimize.curve_fit(**{"f": decay, "xdata": T, "ydata": Y, "p0": [1.0, 1.0], **options, **given})
    return x[0] + 10 * covariance[0, 1]


def leastsq(**given):
    options = {"func": lambda x: decay(T, *x) - Y, "x0": [1.0, 1.0], "xtol": 1e-14, "ftol": 1e-14}
    return optimize.leastsq(**{**options, **given})[0][0]


def milp(**given):
    options = {"c": [-1.0, -1.0], "constraints": (np.array([[2.0, 1.0], [1.0, 3.0]]), -np.inf, [2.0, 3.0])}
    return optimize.milp(**{**options, **given}).fun


def quadratic_assignment(options=(), **given):
    options = {"rng": np.random.default_rng(0), **dict(options)}
    return optimize.quadratic_assignment(**{"A": FLOWS, "B": FLOWS.T, **given}, options=options).fun


FLOWS = np.array([[0.0, 1.0, 3.0], [2.0, 0.0, 5.0], [3.0, 2.5, 0.0]])


def isotonic_regression(**given):
    return optimize.isotonic_regression(**{"y": [1.0, 3.0, 2.0], **given}).x[1]


def linear_sum_assignment(**given):
    cost = given["cost_matrix"]
    rows, columns = optimize.linear_sum_assignment(cost)
    return cost[rows, columns].sum()


def search(name, **options):
    """Return the value of the minimum that a global minimiser finds, which has a larger relative accuracy than x."""
    place = {"brute": "ranges", "basinhopping": "x0"}.get(name, "bounds")
    start = {"func": parabola, place: [1.0] if place == "x0" else [(-3.0, 4.0)], **options}

    def run(**given):
        found = getattr(optimize, name)(**{**start, **given})
        return found[1] if name == "brute" else found.fun

    return run


def simplex(f, x, args=(), full_output=True, disp=False):
    return scipy.optimize.fmin(f, x, args, xtol=1e-10, ftol=1e-15, full_output=full_output, disp=False)


def parabola(x, p=2.0):
    return np.sum((x - 1.0) ** 2 + p * x)


def slsqp(constraints, method="SLSQP"):
    """Return the first variable of the feasible point with minimum norm."""
    return optimize.minimize(lambda x: x @ x, [1.0, 2.0], method=method, constraints=constraints).x[0]


def callback(p):
    def seen(*state):
        assert p > 0

    return seen


#: solver: (argument, a call that passes a value of p in it, whether it is traced, has derivative zero or raises)
TOLERANCES = ("xtol", "rtol", "tol", "ftol", "gtol")
CASES = {
    "root": (
        system,
        {
            "fun": (lambda p: {"fun": lambda x: x * x - p}, "followed"),
            "args": (lambda p: {"args": (p,)}, "followed"),
            "x0": (lambda p: {"x0": [p]}, "zero"),
            "jac": (lambda p: {"jac": lambda x: np.diag(2 * x) * (p / p)}, "zero"),
            "callback": (lambda p: {"callback": callback(p), "method": "krylov"}, "zero"),
            "options": (lambda p: {"options": {"xtol": 1e-12 * p}}, "zero"),
        },
    ),
    "fsolve": (
        fsolve,
        {
            "func": (lambda p: {"func": lambda x: x * x - p}, "followed"),
            "args": (lambda p: {"args": p}, "followed"),
            "x0": (lambda p: {"x0": [p]}, "zero"),
            "fprime": (lambda p: {"fprime": lambda x: np.diag(2 * x) * (p / p)}, "zero"),
            "epsfcn": (lambda p: {"epsfcn": 1e-12 * p}, "zero"),
            "factor": (lambda p: {"factor": 10 * p}, "zero"),
            "diag": (lambda p: {"diag": (p,)}, "zero"),
        },
    ),
    "root_scalar": (
        scalar,
        {
            "f": (lambda p: {"f": lambda x: x * x - p}, "followed"),
            "args": (lambda p: {"args": (p,)}, "followed"),
            "bracket": (lambda p: {"bracket": (0.5 * p, 3.0)}, "zero"),
            "fprime": (lambda p: {"x0": 1.0, "fprime": lambda x: 2 * x * (p / p)}, "zero"),
            "fprime2": (lambda p: {"x0": 1.0, "fprime": lambda x: 2 * x, "fprime2": lambda x: 2 * (p / p)}, "zero"),
            "x0": (lambda p: {"x0": p, "fprime": lambda x: 2 * x}, "zero"),
            "x1": (lambda p: {"x0": 1.0, "x1": p}, "zero"),
            "options": (lambda p: {"options": {"xtol": 1e-12 * p}}, "zero"),
        },
    ),
    "newton": (
        newton,
        {
            "func": (lambda p: {"func": lambda x: x * x - p}, "followed"),
            "args": (lambda p: {"args": (p,)}, "followed"),
            "x0": (lambda p: {"x0": p}, "zero"),
            "x1": (lambda p: {"x1": p}, "zero"),
            "fprime": (lambda p: {"fprime": lambda x: 2 * x * (p / p)}, "zero"),
            "fprime2": (lambda p: {"fprime": lambda x: 2 * x, "fprime2": lambda x: 2 * (p / p)}, "zero"),
        },
    ),
    "fixed_point": (
        fixed_point,
        {
            "func": (lambda p: {"func": lambda x: (x + p / x) / 2}, "followed"),
            "args": (lambda p: {"args": (p,)}, "followed"),
            "x0": (lambda p: {"x0": p}, "zero"),
        },
    ),
    "least_squares": (
        least_squares,
        {
            "fun": (lambda p: {"fun": lambda x: x - p}, "followed"),
            "args": (lambda p: {"fun": square, "args": (p,)}, "followed"),
            "kwargs": (lambda p: {"fun": square, "kwargs": {"p": p}}, "followed"),
            "x0": (lambda p: {"x0": [p]}, "zero"),
            "jac": (lambda p: {"jac": lambda x: np.eye(1) * (p / p)}, "zero"),
            "bounds": (lambda p: {"bounds": ([0.0], [p])}, "followed"),
            "x_scale": (lambda p: {"x_scale": p}, "zero"),
            "loss": (
                lambda p: {
                    "fun": lambda x: np.array([x[0] - 1.0, 2.0 * x[0] - 3.0]),
                    "loss": lambda z: np.array([z + 0.1 * p * z**2, 1 + 0.2 * p * z, 0.2 * p + 0 * z]),
                },
                "followed",
            ),
            "f_scale": (
                lambda p: {"fun": lambda x: np.array([x[0] - 1.0, 2.0 * x[0] - 3.0]), "loss": "soft_l1", "f_scale": p},
                "followed",
            ),
            "diff_step": (lambda p: {"jac": "2-point", "diff_step": 1e-8 * p}, "zero"),
            "tr_options": (lambda p: {"tr_solver": "lsmr", "tr_options": {"atol": 1e-12 * p}}, "zero"),
            "jac_sparsity": (lambda p: {"jac_sparsity": [[p]]}, "zero"),
            "callback": (lambda p: {"callback": callback(p)}, "zero"),
        },
    ),
    "minimize": (
        minimize,
        {
            "fun": (lambda p: {"fun": lambda x: bowl(x, p)}, "followed"),
            "args": (lambda p: {"args": (p,)}, "followed"),
            "x0": (lambda p: {"x0": [p]}, "zero"),
            "jac": (lambda p: {"jac": lambda x: (4 * (x - 2) ** 3 + 2 * (x - 2)) * (p / p)}, "zero"),
            "hess": (
                lambda p: {"method": "trust-exact", "hess": lambda x: np.diag(12 * (x - 2) ** 2 + 2) * (p / p)},
                "zero",
            ),
            "hessp": (
                lambda p: {"method": "newton-cg", "hessp": lambda x, v: (12 * (x - 2) ** 2 + 2) * v * (p / p)},
                "zero",
            ),
            "bounds": (lambda p: {"bounds": [(None, p)]}, "followed"),
            "constraints": (lambda p: {"constraints": {"type": "ineq", "fun": lambda x: p - x[0]}}, "followed"),
            "callback": (lambda p: {"callback": callback(p)}, "zero"),
            "options": (lambda p: {"options": {"gtol": 1e-10 * p}}, "zero"),
        },
    ),
}
CASES |= {
    "lsq_linear": (
        lsq_linear,
        {
            "A": (lambda p: {"A": [[p, 1.0], [0.0, 1.0]]}, "followed"),
            "b": (lambda p: {"b": [p, 1.0]}, "followed"),
            "bounds": (lambda p: {"bounds": (0.0, [p / 2, 9.0])}, "followed"),
            "lsmr_tol": (lambda p: {"lsmr_tol": 1e-10 * p}, "zero"),
        },
    ),
    "nnls": (
        nnls,
        {
            "A": (lambda p: {"A": [[p, 0.0], [0.0, 1.0]]}, "followed"),
            "b": (lambda p: {"b": np.stack([p, 1.0])}, "followed"),
        },
    ),
    "linprog": (
        linprog,
        {
            "c": (lambda p: {"c": [-1.0, -p]}, "followed"),
            "A_ub": (lambda p: {"A_ub": [[2.0, p], [1.0, 3.0]]}, "followed"),
            "b_ub": (lambda p: {"b_ub": [p, 3.0]}, "followed"),
            "A_eq": (lambda p: {"A_eq": [[p, 5.0]], "b_eq": [2.0]}, "followed"),
            "b_eq": (lambda p: {"A_eq": [[1.0, 5.0]], "b_eq": [p]}, "followed"),
            "bounds": (lambda p: {"bounds": [(0.0, p / 4), (0.0, None)]}, "followed"),
            "callback": (lambda p: {"callback": callback(p), "method": "highs"}, "refused"),
            "options": (lambda p: {"options": {"primal_feasibility_tolerance": 1e-8 * p}}, "refused"),
            "x0": (lambda p: {"x0": [p, 0.0]}, "refused"),
            "integrality": (lambda p: {"integrality": [p, 0.0]}, "refused"),
        },
    ),
    "minimize_scalar": (
        minimize_scalar,
        {
            "fun": (lambda p: {"fun": lambda x: (x - p) ** 2}, "followed"),
            "args": (lambda p: {"args": (p,)}, "followed"),
            "bounds": (lambda p: {"bounds": (0.0, p)}, "followed"),
            "bracket": (lambda p: {"bracket": (0.0, p)}, "zero"),
            "options": (lambda p: {"options": {"xtol": 1e-8 * p}}, "zero"),
        },
    ),
}
CASES |= {
    "curve_fit": (
        curve_fit,
        {
            "f": (lambda p: {"f": lambda t, a, b: decay(t, p * a, b)}, "followed"),
            "xdata": (lambda p: {"xdata": p * T}, "followed"),
            "ydata": (lambda p: {"ydata": Y + 0.1 * p * T}, "followed"),
            "p0": (lambda p: {"p0": [p, 1.0]}, "zero"),
            "sigma": (lambda p: {"sigma": 1.0 + p * T}, "followed"),
            "bounds": (lambda p: {"bounds": (0.0, [p, 5.0]), "gtol": 1e-14}, "followed"),
            "jac": (
                lambda p: {"jac": lambda t, a, b: np.stack([decay(t, 1, b), -t * decay(t, a, b)], 1) * (p / p)},
                "zero",
            ),
            "kwargs": (lambda p: {"gtol": 1e-12 * p}, "zero"),
        },
    ),
    "leastsq": (
        leastsq,
        {
            "func": (lambda p: {"func": lambda x: decay(T, *x) - p * Y}, "followed"),
            "args": (lambda p: {"func": lambda x, q: decay(T, *x) - q * Y, "args": p}, "followed"),
            "x0": (lambda p: {"x0": [p, 1.0]}, "zero"),
            "Dfun": (
                lambda p: {"Dfun": lambda x: np.stack([decay(T, 1, x[1]), -T * decay(T, *x)], 1) * (p / p)},
                "zero",
            ),
            "epsfcn": (lambda p: {"epsfcn": 1e-12 * p}, "zero"),
            "factor": (lambda p: {"factor": 10 * p}, "zero"),
            "diag": (lambda p: {"diag": (p, 1.0)}, "zero"),
        },
    ),
    "milp": (
        milp,
        {
            "c": (lambda p: {"c": [-1.0, -p]}, "followed"),
            "constraints": (
                lambda p: {"constraints": optimize.LinearConstraint([[2.0, p], [1.0, 3.0]], -np.inf, [2.0, 3.0])},
                "followed",
            ),
            "bounds": (lambda p: {"bounds": optimize.Bounds(0.0, [p / 4, np.inf])}, "followed"),
            "integrality": (lambda p: {"integrality": [p, 0.0]}, "refused"),
            "options": (lambda p: {"options": {"mip_rel_gap": 1e-3 * p}}, "refused"),
        },
    ),
    "quadratic_assignment": (
        quadratic_assignment,
        {
            "A": (lambda p: {"A": p * FLOWS}, "followed"),
            "B": (lambda p: {"B": FLOWS.T + p}, "followed"),
            "options": (lambda p: {"options": {"tol": 0.01 * p}}, "zero"),
        },
    ),
    "isotonic_regression": (
        isotonic_regression,
        {
            "y": (lambda p: {"y": [1.0, 2.0 * p, 2.0]}, "followed"),
            "weights": (lambda p: {"weights": np.stack([1.0, p, 1.0])}, "followed"),
        },
    ),
    "linear_sum_assignment": (
        linear_sum_assignment,
        {"cost_matrix": (lambda p: {"cost_matrix": (1 + FLOWS) * p**2}, "followed")},
    ),
    "differential_evolution": (
        search("differential_evolution", rng=1) if IS_RNG else search("differential_evolution", seed=1),
        {
            "bounds": (lambda p: {"bounds": [(p, 4.0)]}, "followed"),
            "constraints": (
                lambda p: {"constraints": optimize.LinearConstraint(np.eye(1), p, np.inf), "tol": 0.0, "atol": 1e-12},
                "followed",
            ),
            "mutation": (lambda p: {"mutation": (0.5, 0.7 * p)}, "zero"),
            "recombination": (lambda p: {"recombination": 0.5 * p}, "zero"),
            "init": (lambda p: {"init": p * np.linspace(-2.0, 2.0, 9)[:, None]}, "zero"),
            "atol": (lambda p: {"atol": 1e-9 * p}, "zero"),
            "x0": (lambda p: {"x0": [p]}, "zero"),
            "callback": (lambda p: {"callback": callback(p)}, "zero"),
        },
    ),
    "dual_annealing": (
        search("dual_annealing", maxiter=20, **({"rng": 1} if IS_RNG else {"seed": 1})),
        {
            "bounds": (lambda p: {"bounds": [(p, 4.0)]}, "followed"),
            "minimizer_kwargs": (lambda p: {"minimizer_kwargs": {"options": {"gtol": 1e-10 * p}}}, "zero"),
            "initial_temp": (lambda p: {"initial_temp": 4000 * p}, "zero"),
            "restart_temp_ratio": (lambda p: {"restart_temp_ratio": 1e-5 * p}, "zero"),
            "visit": (lambda p: {"visit": 2.0 * p}, "zero"),
            "accept": (lambda p: {"accept": -4.0 * p}, "zero"),
            "x0": (lambda p: {"x0": [p]}, "zero"),
            "callback": (lambda p: {"callback": callback(p)}, "zero"),
        },
    ),
    "shgo": (
        search("shgo"),
        {
            "bounds": (lambda p: {"bounds": [(p, 4.0)]}, "followed"),
            "constraints": (lambda p: {"constraints": {"type": "ineq", "fun": lambda x: x[0] - p}}, "followed"),
            "minimizer_kwargs": (lambda p: {"minimizer_kwargs": {"options": {"ftol": 1e-12 * p}}}, "zero"),
            "options": (lambda p: {"options": {"f_tol": 1e-5 * p}}, "zero"),
            "callback": (lambda p: {"callback": callback(p)}, "zero"),
        },
    ),
    "basinhopping": (
        search("basinhopping", niter=3, **({"rng": 1} if IS_RNG else {"seed": 1})),
        {
            "x0": (lambda p: {"x0": [p]}, "zero"),
            "T": (lambda p: {"T": p}, "zero"),
            "stepsize": (lambda p: {"stepsize": 0.5 * p}, "zero"),
            "minimizer_kwargs": (lambda p: {"minimizer_kwargs": {"args": (p,)}}, "followed"),
            "take_step": (lambda p: {"take_step": lambda x: x + 0.1 * (p / p)}, "zero"),
            "accept_test": (lambda p: {"accept_test": lambda **new: bool(p > 0)}, "zero"),
            "callback": (lambda p: {"callback": callback(p)}, "zero"),
            "target_accept_rate": (lambda p: {"target_accept_rate": 0.5 * p}, "zero"),
            "stepwise_factor": (lambda p: {"stepwise_factor": 0.7 * p}, "zero"),
        },
    ),
    "direct": (
        search("direct", len_tol=1e-4),
        {
            "eps": (lambda p: {"eps": 1e-4 * p}, "zero"),
            "f_min": (lambda p: {"f_min": -10.0 * p}, "zero"),
            "f_min_rtol": (lambda p: {"f_min_rtol": 1e-4 * p}, "zero"),
            "vol_tol": (lambda p: {"vol_tol": 1e-20 * p}, "zero"),
            "len_tol": (lambda p: {"len_tol": 1e-4 * p}, "zero"),
            "callback": (lambda p: {"callback": callback(p)}, "zero"),
        },
    ),
    "brute": (
        search("brute", full_output=True, finish=simplex),
        {
            "ranges": (lambda p: {"ranges": ((-3.0, 4.0 * p),)}, "zero"),
            "finish": (lambda p: {"finish": lambda f, x, args, full_output: simplex(f, x * (p / p), args)}, "zero"),
        },
    ),
}
for name in ("differential_evolution", "dual_annealing", "shgo", "basinhopping", "direct", "brute"):
    CASES[name][1]["func"] = (lambda p: {"func": lambda x: parabola(x, p)}, "followed")
    if name != "basinhopping":
        CASES[name][1]["args"] = (lambda p: {"args": (p,)}, "followed")
CASES["direct"][1]["bounds"] = (lambda p: {"bounds": [(-3.0, 4.0 * p)]}, "zero")
for name in ("bisect", "brenth", "brentq", "ridder", "toms748"):
    CASES[name] = (
        bracketing(name),
        {
            "f": (lambda p: {"f": lambda x: x * x - p}, "followed"),
            "args": (lambda p: {"args": (p,)}, "followed"),
            "a": (lambda p: {"a": 0.5 * p}, "zero"),
            "b": (lambda p: {"b": 3.0 * p}, "zero"),
        },
    )
if "atol" in inspect.signature(scipy.optimize.nnls).parameters:  # before SciPy 1.18
    CASES["nnls"][1]["atol"] = (lambda p: {"atol": p}, "refused")


def parameters_of(name):
    """Return the names of a solver's parameters; SciPy's function in C has no signature before 1.18."""
    if name == "linear_sum_assignment":
        return {"cost_matrix", "maximize"}
    return {*inspect.signature(getattr(scipy.optimize, name)).parameters}


for name in CASES:
    for tolerance in sorted({*TOLERANCES} & parameters_of(name)):
        CASES[name][1][tolerance] = (lambda p, tolerance=tolerance: {tolerance: 1e-12 * p}, "zero")

ROWS = [(name, argument) for name in CASES for argument in CASES[name][1]]
MODES = {
    "forward": lambda f: wg.jvp(f, P, 1.0)[1],
    "reverse": lambda f: wg.grad(f, P),
    "compiled": lambda f: wg.grad(wg.compile(f))(P),
}


def slope(f, step=1e-3):
    """Return the difference quotient of fourth order, with steps well above the accuracy of solvers."""
    near, far = ((f(P + k * step) - f(P - k * step)) / (2 * k * step) for k in (1, 2))
    return (4 * near - far) / 3


def check(f, expected, mode, accuracy=1e-6):
    try:
        found = MODES[mode](f)
    except REFUSED:
        assert expected == "refused" or mode == "compiled"
        return
    assert expected != "refused"
    wanted = slope(f)
    assert found == pytest.approx(wanted, rel=10 * accuracy, abs=accuracy)
    assert (wanted == pytest.approx(0, abs=accuracy)) == (expected == "zero")


def test_every_argument_of_every_solver_has_a_row():
    for name in SOLVERS:
        parameters = parameters_of(name)
        assert parameters - WORDS <= {*CASES[name][1]}, name
    assert {*CASES} == {*SOLVERS}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "argument"), ROWS)
def test_traced_value_in_any_argument_is_differentiated_or_raises(name, argument, mode):
    solver, rows = CASES[name]
    given, expected = rows[argument]
    check(lambda p: solver(**given(p)), expected, mode, 1e-4 if name == "direct" else 1e-6)


class Line:
    """A constraint whose function is a method that reads an attribute."""

    def __init__(self, p):
        self.p = p

    def residual(self, x):
        return x[0] + x[1] - self.p


def of_global(x):
    return x[0] + x[1] - held.p


def through_global(p):
    held.p = p
    try:
        return slsqp({"type": "eq", "fun": of_global})
    finally:
        held.p = P


CONSTRAINTS = {
    "closure": lambda p: slsqp({"type": "eq", "fun": lambda x: x[0] + x[1] - p}),
    "list": lambda p: slsqp([{"type": "eq", "fun": lambda x: x[0] + x[1] - p}]),
    "args": lambda p: slsqp({"type": "eq", "fun": lambda x, q: x[0] + x[1] - q, "args": (p,)}),
    "default": lambda p: slsqp({"type": "eq", "fun": lambda x, q=p: x[0] + x[1] - q}),
    "method": lambda p: slsqp({"type": "eq", "fun": Line(p).residual}),
    "global": through_global,
    "linear": lambda p: slsqp(LinearConstraint(np.ones((1, 2)), p, p), method="trust-constr"),
    "linear matrix": lambda p: slsqp(LinearConstraint([[1.0, p]], 1.0, 1.0)),
    "linear of wengert": lambda p: slsqp(optimize.LinearConstraint(np.ones((1, 2)), p, p), method="trust-constr"),
    "linear matrix of wengert": lambda p: slsqp(optimize.LinearConstraint([[1.0, p]], 1.0, 1.0)),
    "nonlinear": lambda p: slsqp(NonlinearConstraint(lambda x: x[0] + x[1] - p, 0.0, 0.0)),
    "nonlinear bound": lambda p: slsqp(NonlinearConstraint(lambda x: x[0] + x[1], p, p)),
    "nonlinear jac": lambda p: slsqp(
        NonlinearConstraint(lambda x: x[0] + x[1] - p, 0.0, 0.0, jac=lambda x: np.ones((1, 2)))
    ),
    "cobyla": lambda p: slsqp({"type": "ineq", "fun": lambda x: x[0] - p}, method="COBYLA"),
    "bounds pairs": lambda p: minimize(bounds=[(0.0, p)]),
    "bounds object": lambda p: minimize(bounds=Bounds(0.0, p)),
    "bounds of wengert": lambda p: minimize(bounds=optimize.Bounds([0.0], [p])),
    "bounds array": lambda p: minimize(bounds=np.stack([np.zeros(1), p * np.ones(1)], axis=1)),
    "bounds nelder-mead": lambda p: minimize(bounds=[(0.0, p)], method="nelder-mead"),
    "bounds of least squares": lambda p: least_squares(bounds=Bounds(0.0, p)),
    "bounds of dogbox": lambda p: least_squares(bounds=(0.0, p), method="dogbox"),
    "custom method": lambda p: minimize(method=lambda fun, x0, **options: custom(fun, x0 * p)),
    "too few steps": lambda p: minimize(x0=[10 * p], options={"maxiter": 1}),
    "undetermined": lambda p: minimize(fun=lambda x: (x[0] + x[1]) ** 2, x0=[p, 0.0]),
}


#: rows that raise, since the problem does not determine the solution
REFUSED_ROWS = ("custom method", "too few steps", "undetermined")


@pytest.mark.filterwarnings("ignore:compile", "ignore:delta_grad:UserWarning")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_minimum_under_traced_constraints_is_differentiated_or_raises(name, mode):
    f = CONSTRAINTS[name]
    if name in REFUSED_ROWS:
        with pytest.raises(REFUSED):
            MODES[mode](f)
    else:
        assert MODES[mode](f) == pytest.approx(slope(f), rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_untraced_constraints_and_bounds_are_unchanged(mode):
    def f(p):
        fixed = optimize.minimize(lambda x: x @ x, [1.0, 2.0], constraints={"type": "eq", "fun": lambda x: sum(x) - 1})
        return p * fixed.x[0]

    with np.errstate(all="ignore"):
        assert MODES[mode](f) == pytest.approx(0.5)
    assert MODES[mode](lambda p: p * minimize(bounds=[(0.0, 1.5)])) == pytest.approx(1.5)


@pytest.mark.parametrize("mode", MODES)
def test_inactive_bounds_have_derivative_zero(mode):
    assert MODES[mode](lambda p: minimize(bounds=[(0.0, 3 * p)])) == 0
    assert MODES[mode](lambda p: least_squares(bounds=([0.0], [3 * p]))) == 0


ROOTS = {
    "f": (lambda p: wg.implicit.root(lambda x: x * x - p, 1.0), "followed"),
    "args": (lambda p: wg.implicit.root(square, 1.0, args=(p,)), "followed"),
    "x0": (lambda p: wg.implicit.root(square, p), "zero"),
    "solve": (lambda p: wg.implicit.root(square, 1.0, solve=lambda f, x0: 2.0**0.5 * (p / p)), "zero"),
    "jac": (lambda p: wg.implicit.root(square, 1.0, jac=lambda x: 2 * x * (p / p)), "zero"),
    "linsolve": (lambda p: wg.implicit.root(square, np.ones(2), linsolve=lambda A, b: b / 2.8 * (p / p))[0], "zero"),
    "fixed point": (lambda p: wg.implicit.fixed_point(lambda x: np.cos(p * x), 0.7), "followed"),
    "fixed point x0": (lambda p: wg.implicit.fixed_point(np.cos, 0.5 * p), "zero"),
    "undetermined": (lambda p: wg.implicit.root(lambda x: 0 * x + x[0] - x[1], np.stack([p, 0.0]))[0], "refused"),
}


@pytest.mark.filterwarnings("ignore:compile")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ROOTS)
def test_traced_value_in_any_argument_of_root_is_differentiated_or_raises(name, mode):
    check(*ROOTS[name], mode)
