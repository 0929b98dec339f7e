"""Complex operands of ``scipy.special``: which rules for real operands hold, and separate rules where they do not.

Functions scaled by the exponential of a real or imaginary part, such as ``jve``, are not analytic and have no rule.
"""

from __future__ import annotations

from math import pi, sqrt

import numpy as np

from wengert.errors import UnsupportedFunctionError
from wengert.registry import analytic, declared, on_complex, strong
from wengert.rules import hypergeometric, orders, transcendental  # noqa: F401  (declares rows that are used here)
from wengert.rules.broadcasting import aligned
from wengert.rules.integrals import faddeeva
from wengert.rules.special import sp


def declare_complex_operand(fun, position, partial=None):
    """Declare the complex partial in one operand, by default its real partial; the other operands must be real."""
    row = declared(fun)
    partial = partial or row.partials[position]

    def slope(y, *operands):
        return partial(y, *[x if i == position else np.real(x) for i, x in enumerate(operands)])

    def refused(*_, **__):
        raise UnsupportedFunctionError(
            f"{row.name} with a complex argument has no derivative in its other operands: pass them as constants"
        )

    count = len(row.partials)
    pushes, pulls = [refused] * count, [refused] * count
    pushes[position] = lambda t, y, *operands: strong(aligned(t, operands[position], np.ndim(y)), slope(y, *operands))
    pulls[position] = lambda ybar, y, *operands: strong(ybar, np.conj(slope(y, *operands)))
    on_complex(fun, *pushes, vjp=tuple(pulls))


def special_names(*names):
    return [f"scipy.special.{name}" for name in names]


# ---- rules that hold unchanged

for fun in special_names("expm1", "log1p", "exp1", "expi", "gamma", "loggamma", "spence", "wrightomega"):
    declare_complex_operand(fun, 0)
for fun in special_names("jv", "yv", "iv", "kv", "kve", "hyp0f1"):
    declare_complex_operand(fun, 1)
declare_complex_operand("scipy.special.hyp1f1", 2)
declare_complex_operand("scipy.special.hyp2f1", 3)
for name in ("legendre", "chebyt", "chebyu", "chebyc", "chebys", "sh_legendre", "sh_chebyt", "sh_chebyu", "laguerre"):
    declare_complex_operand(f"scipy.special.eval_{name}", 1)
for name, position in {"genlaguerre": 2, "gegenbauer": 2, "jacobi": 3, "sh_jacobi": 3}.items():
    declare_complex_operand(f"scipy.special.eval_{name}", position)
analytic(*special_names("xlogy", "xlog1py", "airy", "sici", "shichi", "fresnel"))
analytic(*(getattr(transcendental, name) for name in ("airy_0", "airy_1", "airy_2", "airy_3", "sici_0", "sici_1")))
analytic(transcendental.shichi_1)

# ---- rules whose real form compares values or compensates the rounding of a square


def gauss(factor, rate):
    return lambda y, z: factor * np.exp(-rate * z * z)


def dawsn_partial(y, z):
    """Derivative of Dawson's integral by w' in the upper half plane, where w is bounded; the derivative is even."""
    z = np.where(np.imag(z) < 0, -1.0, 1.0) * z
    return -1j * sqrt(pi) / 2 * (2 * z * np.exp(-z * z) + faddeeva(1, z))


declare_complex_operand("scipy.special.erf", 0, gauss(2 / sqrt(pi), 1.0))
declare_complex_operand("scipy.special.erfc", 0, gauss(-2 / sqrt(pi), 1.0))
declare_complex_operand("scipy.special.erfi", 0, gauss(2 / sqrt(pi), -1.0))
declare_complex_operand("scipy.special.ndtr", 0, gauss(1 / sqrt(2 * pi), 0.5))
declare_complex_operand("scipy.special.erfcx", 0, lambda y, z: 1j * faddeeva(1, 1j * z))
declare_complex_operand("scipy.special.dawsn", 0, dawsn_partial)
declare_complex_operand("scipy.special.rgamma", 0, lambda y, z: -y * sp.digamma(z))
declare_complex_operand(transcendental.shichi_0, 0, lambda y, z: np.sinc(1j * z / pi))
declare_complex_operand(transcendental.fresnel_0, 0, lambda y, z: np.sin(pi / 2 * z * z))
declare_complex_operand(transcendental.fresnel_1, 0, lambda y, z: np.cos(pi / 2 * z * z))
