"""`curve_fit` and `leastsq`: fits of parameters, with derivatives of the parameters and of their covariance.

The parameters minimise the sum of squares, see `wengert.scipy.minima`.  The covariance is the inverse of
``J.T @ J`` with the exact Jacobian of the residuals at the minimum; its numbers are SciPy's.
"""

import numpy as np
import scipy.optimize
from scipy.optimize import OptimizeResult

from wengert import api
from wengert.containers import plain_copy
from wengert.core.dispatch.dispatch import from_list
from wengert.core.operands.var import holds_traced
from wengert.core.rebind.rebind import rebound
from wengert.implicit.theorem import with_bits
from wengert.scipy.constraints import as_bounds
from wengert.scipy.minima import Minimum, loss_function
from wengert.scipy.mirror import mirrors
from wengert.scipy.results import traced_result

#: SciPy's lower limit of the weights that a loss function gives to residuals
EPS = np.finfo(float).eps


@mirrors(scipy.optimize.curve_fit)
def curve_fit(call):
    """Uses the exact Jacobian. Model, data, `sigma` and bounds may be traced, and both results have derivatives."""

    def supply(arguments):
        has_scale = arguments.get("sigma") is not None and np.size(arguments["sigma"]) == 1
        if arguments.get("jac") is None and not has_scale:  # SciPy 1.18 does not scale a callable Jacobian
            J = api.jacobian(arguments["f"], argnums=slice(1, None))
            arguments["jac"] = lambda x, *p: np.reshape(J(x, *p), (-1, len(p)))

    if not call.traced:
        return call.run(supply)
    try:
        popt, pcov, info, message, status = call.run(supply, full_output=True)
    except RuntimeError as error:
        if not str(error).startswith("Optimal parameters not found"):
            raise
        call.fail(str(error), error)
    residuals = _residuals(call, popt)
    loss, scale = call.arguments.get("loss", "linear"), call.arguments.get("f_scale", 1.0)
    found = OptimizeResult(x=popt, success=True, message=message)
    x = Minimum(call, found, lambda p: _cost(residuals(p), loss, scale), as_bounds(call["bounds"]), ()).x
    if not holds_traced((x, residuals(x))):
        return (popt, pcov, info, message, status) if call["full_output"] else (popt, pcov)
    if np.isfinite(pcov).all():
        pcov = with_bits(pcov, _covariance(residuals, x, not call["absolute_sigma"], loss, scale))
    if not call["full_output"]:
        return x, pcov
    fvec = with_bits(info["fvec"], residuals(x))
    return x, pcov, traced_result(info, fvec=fvec, info=call.info), message, status


def _residuals(call, popt):
    """Return the weighted residuals of a fit as a function of the parameters, as SciPy defines them."""
    f, xdata, ydata, sigma = rebound(call["f"]), call["xdata"], from_list(call["ydata"]), call["sigma"]
    xdata = from_list(xdata) if isinstance(xdata, (list, tuple)) else xdata
    sigma = None if sigma is None else from_list(sigma)
    if call["nan_policy"] == "omit" and not call["check_finite"]:
        missing = np.isnan(plain_copy(xdata))
        kept = ~(missing.any(axis=tuple(range(missing.ndim - 1))) | np.isnan(plain_copy(ydata)))
        xdata, ydata = xdata[..., kept], ydata[kept]
        if sigma is not None and np.ndim(sigma):
            sigma = sigma[kept] if np.ndim(sigma) == 1 else sigma[kept][:, kept]
    is_matrix = sigma is not None and np.ndim(sigma) == 2 and np.size(sigma) > 1
    factor = np.linalg.cholesky(sigma) if is_matrix else None

    def residuals(p):
        r = np.reshape(f(xdata, *(p[i] for i in range(popt.size))) - ydata, (-1,))
        if is_matrix:
            return np.linalg.solve(factor, r)
        return r if sigma is None else r / sigma

    return residuals


def _cost(r, loss, scale):
    """Return half the sum of the losses of residuals, as SciPy defines it."""
    return 0.5 * np.sum(r**2) if loss == "linear" else 0.5 * scale**2 * np.sum(loss_function(loss)((r / scale) ** 2))


#: first and second derivatives of the losses of `wengert.scipy.minima.loss_function`
_SLOPES = {
    "soft_l1": lambda z: ((1 + z) ** -0.5, -0.5 * (1 + z) ** -1.5),
    "huber": lambda z: _huber_slopes(np.where(z <= 1, 1.0, z)),
    "cauchy": lambda z: (1 / (1 + z), -1 / (1 + z) ** 2),
    "arctan": lambda z: (1 / (1 + z**2), -2 * z / (1 + z**2) ** 2),
}


def _huber_slopes(z):
    return z**-0.5, np.where(z == 1, 0.0, -0.5 * z**-1.5)


def _covariance(residuals, x, is_scaled, loss="linear", scale=1.0):
    """Return the covariance of least-squares parameters; if `is_scaled`, times the variance of the residuals.

    With a loss, SciPy scales the rows of the Jacobian so that J^T J is the Gauss-Newton Hessian.
    """
    J, r = api.jacobian(residuals)(x), residuals(x)
    if loss != "linear":
        slopes = _SLOPES[loss] if isinstance(loss, str) else lambda z: rebound(loss)(z)[1:]
        first, second = slopes((r / scale) ** 2)
        weight = first + 2 * second * (r / scale) ** 2
        J = J * np.sqrt(np.where(weight < EPS, EPS, weight))[:, None]
    covariance = np.linalg.inv(J.T @ J)
    if not is_scaled:
        return covariance
    return covariance * (2 * _cost(r, loss, scale) / (r.size - np.size(x)))


@mirrors(scipy.optimize.leastsq)
def leastsq(call):
    """Uses the exact Jacobian. The derivative is that of the full equations, as for `least_squares`."""

    def supply(arguments):
        if arguments.get("Dfun") is None:
            J = api.jacobian(arguments["func"])
            by_columns = arguments.get("col_deriv")
            arguments["Dfun"] = lambda x, *args: J(x, *args).T if by_columns else J(x, *args)

    if not call.traced:
        return call.run(supply)
    x, cov, info, message, status = call.run(supply, full_output=True)
    found = OptimizeResult(x=x, success=status in (1, 2, 3, 4), message=message)

    def residuals(x):
        return np.atleast_1d(call.value(x))

    traced = Minimum(call, found, lambda x: 0.5 * np.sum(residuals(x) ** 2), None, ()).x
    if not holds_traced((traced, residuals(traced))):
        return (x, cov, info, message, status) if call["full_output"] else (x, status)
    if not call["full_output"]:
        return traced, status
    cov = cov if cov is None else with_bits(cov, _covariance(residuals, traced, False))
    fvec = with_bits(info["fvec"], residuals(traced))
    return traced, cov, traced_result(info, fvec=fvec, info=call.info), message, status
