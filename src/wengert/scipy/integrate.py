"""``scipy.integrate`` with functions that accept traced values.

The fixed rules are SciPy's own code, run on traced values.  Adaptive quadrature has the derivatives of the integral
(`wengert.scipy.quadrature`), solutions of initial value problems those of the accepted steps
(`wengert.scipy.initial_value`), and those of boundary value problems follow from the equations of collocation
(`wengert.scipy.boundary_value`).  Other solvers of differential equations refuse traced values.
"""

from wengert.registry import composed as _composed
from wengert.rules.scipy.functions import Functions as _Functions
from wengert.scipy import namespace as _namespace
from wengert.scipy.boundary_value import solve_bvp  # noqa: F401  (public names, likewise below)
from wengert.scipy.cubature import cubature  # noqa: F401
from wengert.scipy.initial_value import odeint, solve_ivp  # noqa: F401
from wengert.scipy.quadrature import dblquad, nquad, quad, quad_vec, tplquad  # noqa: F401
from wengert.scipy.tanhsinh import tanhsinh  # noqa: F401

_rules = _namespace.second_copy("scipy.integrate._quadrature")
_integrate = _Functions("scipy.integrate")
for _name in (
    "cumulative_simpson cumulative_trapezoid fixed_quad newton_cotes qmc_quad romb simpson trapezoid"
).split():
    _composed(getattr(_integrate, _name), getattr(_rules, _name))

#: solvers and warnings; solvers refuse traced values themselves
_PLAIN = frozenset(
    "AccuracyWarning BDF DOP853 DenseOutput IntegrationWarning LSODA ODEintWarning OdeSolution OdeSolver RK23 RK45 "
    "Radau complex_ode ode lebedev_rule".split()
)

_namespace.install("integrate")
