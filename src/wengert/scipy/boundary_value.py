"""`scipy.integrate.solve_bvp` with derivatives of the solution.

SciPy finds the mesh and the solution on plain values.  On that mesh the solution satisfies the collocation equations,
which define it as a function of traced values (`wengert.implicit.theorem`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.integrate

import wengert.numpy as wnp
from wengert.containers import plain_copy
from wengert.core.dispatch.dispatch import from_list
from wengert.core.operands.var import holds_traced, is_traced
from wengert.core.rebind.rebind import rebound
from wengert.errors import ConvergenceError
from wengert.implicit.stripped import stripped
from wengert.implicit.theorem import check_replayable, implicit, in_derivative, plain_function, with_bits
from wengert.scipy.initial_value import run_plain, vector
from wengert.scipy.mirror import check_plain

#: number of unknowns above which the Jacobian of the collocation equations is sparse
MAX_DENSE = 400

_SIGNATURE = inspect.signature(scipy.integrate.solve_bvp)


def solve_bvp(fun: Callable, bc: Callable, x: Any, y: Any, p: Any = None, *others: Any, **options: Any) -> Any:
    """`scipy.integrate.solve_bvp` with derivatives of the solution.

    Parameters
    ----------
    fun, bc, x, y, p, *others, **options
        As for `scipy.integrate.solve_bvp`.

    Returns
    -------
    Bunch
        SciPy's result. In a derivative ``y``, ``yp``, ``p``, ``sol`` and, if an end of the interval is traced, ``x``
        are functions of the ends of `x` and of all traced values that `fun` and `bc` read, with bit-identical values.
        The initial guesses have no influence.

    Raises
    ------
    ConvergenceError
        Within a derivative, if no solution is found.
    SingularJacobianError
        Within a derivative, if the equations do not determine the solution.
    TracedValueError
        If a tolerance, the singular term `S` or another option is a traced value.

    See Also
    --------
    solve_ivp : Initial value problems.

    Notes
    -----
    The mesh is held fixed relative to the interval. The derivative is exact for the collocation equations on this mesh,
    and its error is of the order of `tol`, like that of the solution.

    References
    ----------
    Ascher, Mattheij and Russell (1995), Numerical Solution of Boundary Value Problems for Ordinary Differential
    Equations, section 5.4. doi:10.1137/1.9781611971231

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> from scipy.integrate import solve_bvp
    >>> def middle(w):                                   # y'' = -w^2 y, y(0) = 0, y(1) = 1
    ...     found = solve_bvp(
    ...         lambda x, y: np.stack([y[1], -w**2 * y[0]]), lambda a, b: np.stack([a[0], b[0] - 1.0]),
    ...         np.linspace(0, 1, 11), np.zeros((2, 11)), tol=1e-8,
    ...     )
    ...     return found.sol(0.5)[0]
    >>> exact = np.sin(0.5) / (4 * np.cos(0.5) ** 2)     # of sin(w / 2) / sin(w) at w = 1
    >>> np.isclose(wg.grad(middle, 1.0), exact, rtol=1e-6)
    np.True_
    """
    if not in_derivative():
        return scipy.integrate.solve_bvp(fun, bc, x, y, p, *others, **options)
    name = "scipy.integrate.solve_bvp"
    check_replayable(name, "chooses its mesh by values, so that a program cannot hold its equations (compile the rest)")
    given = _SIGNATURE.bind(fun, bc, x, y, p, *others, **options).arguments
    options = {key: value for key, value in given.items() if key not in ("fun", "bc", "x", "y", "p")}
    check_plain(name, "solution", options, "fun_jac", "bc_jac")
    mesh = vector(x)
    found = _run(name, fun, bc, mesh, stripped(y), stripped(p), options)
    equations = _Collocation(fun, bc, mesh, found, options.get("S"))
    z = np.concatenate([np.ravel(found.y), found.p if equations.has_parameters else []])
    jac: Any = "auto"
    if z.size > MAX_DENSE:
        from wengert.sparse.drivers import SparseDerivative  # imported here: few problems are large

        jac = SparseDerivative(equations.residual)
    solution, _ = implicit(equations.residual, z, name=name, jac=jac)
    if not (holds_traced(solution) or holds_traced(equations.mesh)):
        return found
    return equations.result(solution, found)


def _run(name, fun, bc, mesh, y, p, options):
    x = np.asarray(plain_copy(mesh))
    options = {key: plain_function(value) if callable(value) else value for key, value in options.items()}

    def solved(fun, bc):
        return scipy.integrate.solve_bvp(fun, bc, x, y, p, **options)

    found = run_plain(solved, fun, bc)
    if not found.success:
        raise ConvergenceError(
            f"{name}: no solution was found: {found.message} Improve the initial guess, or increase max_nodes or tol"
        )
    return found


class _Collocation:
    """Collocation equations for cubic polynomials, at the midpoint of each interval of a mesh.

    With a singular term the slopes are ``f(x, y) + S y / (x - a)``, and their limit at the start a is
    ``pinv(I - S) f(a, y)``, since S y vanishes there.
    """

    def __init__(self, fun, bc, mesh, found, S):
        self.fun, self.bc, self.shape = fun, bc, found.y.shape
        self.S = None if S is None else np.asarray(S, dtype=float)
        self.limit = None if S is None else np.linalg.pinv(np.eye(len(self.S)) - self.S)
        self.has_parameters = found.p is not None
        start, end = found.x[0], found.x[-1]
        self.mesh = found.x
        if any(map(is_traced, (mesh[0], mesh[-1]))):
            self.mesh = mesh[0] + (found.x - start) / (end - start) * (mesh[-1] - mesh[0])

    def parts(self, z):
        n = self.shape[0] * self.shape[1]
        return wnp.reshape(z[:n], self.shape), (z[n:],) if self.has_parameters else ()

    def slopes(self, x, y, p):
        """Return the slopes at points between mesh points."""
        found = from_list(rebound(self.fun)(x, y, *p))
        return found if self.S is None else found + self.S @ y / (x - self.mesh[0])

    def slopes_at_mesh(self, y, p):
        if self.S is None:
            return self.slopes(self.mesh, y, p)
        found = from_list(rebound(self.fun)(self.mesh, y, *p))
        later = found[:, 1:] + self.S @ y[:, 1:] / (self.mesh[1:] - self.mesh[0])
        return wnp.concatenate([self.limit @ found[:, :1], later], axis=1)

    def residual(self, z):
        y, p = self.parts(z)
        h = self.mesh[1:] - self.mesh[:-1]
        slopes = self.slopes_at_mesh(y, p)
        middle = 0.5 * (y[:, 1:] + y[:, :-1]) - 0.125 * h * (slopes[:, 1:] - slopes[:, :-1])
        centre = self.slopes(self.mesh[:-1] + 0.5 * h, middle, p)
        change = y[:, 1:] - y[:, :-1] - h / 6 * (slopes[:, :-1] + slopes[:, 1:] + 4 * centre)
        ends = from_list(rebound(self.bc)(y[:, 0], y[:, -1], *p))
        return wnp.concatenate([wnp.ravel(change), wnp.ravel(ends)])

    def result(self, z, found):
        """Return SciPy's result with the traced solution."""
        from wengert.scipy.interpolate import CubicHermiteSpline  # imported here: few programs need splines

        y, p = self.parts(z)
        slopes = self.slopes_at_mesh(y, p)
        spline = CubicHermiteSpline(self.mesh, y, slopes, axis=1)

        def sol(t):
            return with_bits(found.sol(np.asarray(plain_copy(t))), spline(t))

        fields = {"y": with_bits(found.y, y), "yp": with_bits(found.yp, slopes), "sol": sol}
        fields |= {"p": with_bits(found.p, p[0])} if p else {}
        fields |= {"x": with_bits(found.x, self.mesh)} if holds_traced(self.mesh) else {}
        return type(found)(found | fields)


#: public names
REPLACED = {"solve_bvp": solve_bvp}
