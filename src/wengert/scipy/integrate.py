"""``scipy.integrate`` with functions that accept traced values.

The fixed rules are SciPy's own code, run on traced values.  Adaptive quadrature is differentiated by Leibniz's rule
(`wengert.scipy.quadrature`), initial value problems along the accepted steps (`wengert.scipy.initial_value`), and
boundary value problems through the collocation equations (`wengert.scipy.boundary_value`).  Other solvers of
differential equations refuse traced values.
"""

import scipy.integrate as _plain

from wengert.core.operands.var import holds_traced as _holds_traced
from wengert.errors import TracedValueError as _TracedValueError
from wengert.implicit.stripped import Abstracted as _Abstracted
from wengert.implicit.theorem import in_derivative as _in_derivative
from wengert.registry import composed as _composed
from wengert.rules.scipy.functions import Functions as _Functions
from wengert.scipy import copies as _copies
from wengert.scipy import namespace as _namespace
from wengert.scipy.cubature import cubature  # noqa: F401  (public names, likewise below)
from wengert.scipy.quadrature import dblquad, nquad, quad, quad_vec, tplquad  # noqa: F401
from wengert.scipy.tanhsinh import tanhsinh  # noqa: F401


class _Refusing:
    """Refuses traced values before they reach compiled code, which would ignore errors raised in callbacks."""

    def set_initial_value(self, y, t=0.0):
        self._refuse((y, t))
        return super().set_initial_value(y, t)

    def integrate(self, t, step=False, relax=False):
        self._refuse((t, self.f_params, self.jac_params))
        if _in_derivative() and _Abstracted(getattr(self, "cf", self.f), ()).take():
            self._refuse(None)
        return super().integrate(t, step, relax)

    def _refuse(self, x):
        if x is None or _holds_traced(x):
            raise _TracedValueError(
                f"scipy.integrate.{type(self).__name__}: its solution has no derivative: use solve_ivp, or pass plain "
                "values by wengert.stop_gradient(x) where constants are meant"
            )


class ode(_Refusing, _plain.ode):
    __doc__ = _plain.ode.__doc__


class complex_ode(_Refusing, _plain.complex_ode):
    __doc__ = _plain.complex_ode.__doc__


_rules = _copies.second_copy("scipy.integrate._quadrature")
_integrate = _Functions("scipy.integrate")
for _name in "cumulative_simpson cumulative_trapezoid fixed_quad newton_cotes qmc_quad romb simpson trapezoid".split():
    _composed(getattr(_integrate, _name), getattr(_rules, _name))

#: solvers and warnings; solvers refuse traced values themselves
_PLAIN = frozenset(
    "AccuracyWarning BDF DOP853 DenseOutput IntegrationWarning LSODA ODEintWarning OdeSolution OdeSolver RK23 RK45 "
    "Radau lebedev_rule".split()
)

# Differential equations need the code that compiles programs, which takes long to load.
_namespace.replace_later("integrate", "wengert.scipy.initial_value", "_ivp.ivp _odepack_py")
_namespace.replace_later("integrate", "wengert.scipy.boundary_value", "_bvp")
_namespace.install("integrate")
