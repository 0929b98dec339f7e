"""Types of the callables that wengert returns, for annotations.

They are protocols: ``P`` stands for the parameters of the differentiated function, ``R`` for the type of the result.

Examples
--------
>>> import numpy as np, wengert as wg
>>> from wengert.typing import Derivative
>>> def newton_step(slope: Derivative[[float], float], x: float) -> float:
...     return x - slope.fun(x) / slope(x)
>>> newton_step(wg.derivative(lambda x: x**2 - 2.0), 1.0)
np.float64(1.5)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, overload

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wengert.sparse.colours import Colouring
    from wengert.sparse.plan import Plan as SparsePlan
    from wengert.transforms.costs import Plan

__all__ = ["Compiled", "CompiledDerivative", "Derivative", "Jacobian", "Pullback", "SparseDerivative"]


def __dir__():
    return sorted(__all__)

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class Derivative(Protocol[P, R_co]):
    """Derivative of a function: takes its arguments, and ``out=``, an array for the result.

    `grad`, `jacobian`, `hessian` and `derivative` return it.
    """

    @property
    def fun(self) -> Callable[P, Any]:
        """The function, which shares its evaluation with the derivative at the same point."""

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    @overload
    def __call__(self, *args: Any, out: NDArray[Any], **kwargs: Any) -> R_co: ...


class Jacobian(Derivative[P, R_co], Protocol[P, R_co]):
    """Dense Jacobian of a function."""

    @property
    def plan(self) -> Plan | None:
        """Mode and number of sweeps of the last call."""


class SparseDerivative(Derivative[P, R_co], Protocol[P, R_co]):
    """Sparse Jacobian or Hessian of a function."""

    @property
    def plan(self) -> SparsePlan | None:
        """How the nonzeros were computed in the last call."""

    @property
    def pattern(self) -> Any:
        """Pattern of the last call, a ``scipy.sparse.csr_array`` of bool; None before it."""

    @property
    def colours(self) -> Colouring | None:
        """Colouring of the last call; None if there was none."""

    @property
    def mode(self) -> str:
        """Mode of the last call; before it, the requested one."""

    def values(self, *args: Any, out: NDArray[Any] | None = None, **kwargs: Any) -> NDArray[Any]:
        """Return only the nonzeros."""


class Compiled(Protocol[P, R_co]):
    """Compiled function, as `compile` returns it."""

    @property
    def paths(self) -> int:
        """Number of cached recordings."""

    def clear(self) -> None:
        """Drop all recordings."""

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    @overload
    def __call__(self, *args: Any, out: NDArray[Any], **kwargs: Any) -> R_co: ...

    @overload
    def __get__(self, owner: None, cls: type) -> Compiled[P, R_co]: ...
    @overload
    def __get__(self, owner: object, cls: type | None = None) -> Callable[..., R_co]: ...


class CompiledDerivative(Compiled[P, R_co], Derivative[P, R_co], Protocol[P, R_co]):
    """Compiled derivative: ``compile(grad(f))`` or ``grad(compile(f))``."""


class Pullback(Protocol):
    """Multiplies a cotangent by a transposed Jacobian, as `vjp` returns it."""

    def __call__(self, ybar: Any, /) -> Any:
        """Return the cotangent of the differentiated arguments."""
