"""Types of `wengert.api`: operators keep the parameters of the function, and options are literals."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeAlias, TypedDict, TypeVar, Unpack, overload

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from wengert.program.program import Program
from wengert.sparse.colours import Colouring
from wengert.typing import Compiled, CompiledDerivative, Derivative, Jacobian, Pullback, SparseDerivative

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
X = TypeVar("X")

F: TypeAlias = Callable[..., Any]
Array: TypeAlias = NDArray[Any]
Numbers: TypeAlias = float | Sequence[float] | Array
Argnums: TypeAlias = int | Sequence[int] | slice

class SparseArray(Protocol):
    """A sparse array of SciPy."""

    def tocoo(self, copy: bool = ...) -> Any: ...

No: TypeAlias = Literal[False]
Yes: TypeAlias = Literal[True]
Pattern: TypeAlias = Literal[True, "auto"] | SparseArray | Array | Colouring
Sparse: TypeAlias = bool | Pattern

# ---- options; those that decide the type of the result are explicit parameters of the overloads

class _Call(TypedDict, total=False):
    args: tuple[Any, ...]
    kwargs: dict[str, Any] | None

class _Argnums(TypedDict, total=False):
    argnums: Argnums

class _Sweeps(TypedDict, total=False):
    chunk: int | None
    format: Literal["csr", "csc", "coo"]
    workers: Any

class _Mode(TypedDict, total=False):
    mode: Literal["auto", "forward", "reverse", "mixed"]

class _Holomorphic(_Call, total=False):
    holomorphic: bool

class _Derivative(_Holomorphic, total=False):
    order: int
    argnums: int

class _OneMode(_Holomorphic, _Sweeps): ...
class _AnyMode(_OneMode, _Mode): ...
class _Symmetric(_Call, _Sweeps, _Mode): ...
class _Arguments(_Call, _Argnums): ...
class _Gradient(_Holomorphic, _Argnums): ...
class _JacobianOneMode(_OneMode, _Argnums): ...
class _Jacobian(_AnyMode, _Argnums): ...
class _Hessian(_Symmetric, _Argnums): ...

class _Flags(TypedDict, total=False):
    value: bool
    has_aux: bool

class _AnyDerivative(_Derivative, _Flags): ...
class _AnyGradient(_Gradient, _Flags): ...
class _AnyJacobianOneMode(_JacobianOneMode, _Flags): ...
class _AnyJacobian(_Jacobian, _Flags): ...
class _AnyHessian(_Hessian, _Flags): ...

class _Compiler(TypedDict, total=False):
    exact: bool
    recheck: Literal["auto"] | int | None
    tier: Literal["auto", "vm", "llvm"]
    constant: Any
    disable: str | Collection[str]

class _Recorder(_Call, total=False):
    exact: bool
    disable: str | Collection[str]

class _Rules(TypedDict, total=False):
    jvp: Callable[..., Any] | Literal["fd"] | None
    vjp: Callable[..., Any] | None
    sparsity: Any

# ---- results; without Any among their arguments, which would keep mypy from choosing an overload of `compile`

class _DerivativeOf(Derivative[P, Any], Protocol[P]): ...
class _ValueAndDerivativeOf(Derivative[P, tuple[Any, Any]], Protocol[P]): ...
class _JacobianOf(Jacobian[P, Any], Protocol[P]): ...
class _SparseDerivativeOf(SparseDerivative[P, Any], Protocol[P]): ...

# ---- operators

@overload
def grad(f: Compiled[P, Any], /, **options: Unpack[_AnyGradient]) -> CompiledDerivative[P, Any]: ...
@overload
def grad(
    f: Callable[P, Any], /, *, value: Yes, has_aux: No = False, **options: Unpack[_Gradient]
) -> _ValueAndDerivativeOf[P]: ...
@overload
def grad(f: Callable[P, Any], /, **options: Unpack[_AnyGradient]) -> _DerivativeOf[P]: ...
@overload
def grad(
    f: F, x: Array, /, *, argnums: int = 0, value: No = False, has_aux: No = False, **options: Unpack[_Holomorphic]
) -> Array: ...
@overload
def grad(
    f: F, x: float, /, *, argnums: int = 0, value: No = False, has_aux: No = False, **options: Unpack[_Holomorphic]
) -> np.float64: ...
@overload
def grad(f: F, x: Any, /, *, value: Yes, has_aux: No = False, **options: Unpack[_Gradient]) -> tuple[Any, Any]: ...
@overload
def grad(f: F, x: Any, /, **options: Unpack[_AnyGradient]) -> Any: ...

gradient = grad

@overload
def value_and_grad(
    f: Compiled[P, Any], /, *, has_aux: bool = False, **options: Unpack[_Arguments]
) -> CompiledDerivative[P, tuple[Any, ...]]: ...
@overload
def value_and_grad(
    f: Callable[P, Any], /, *, has_aux: No = False, **options: Unpack[_Arguments]
) -> _ValueAndDerivativeOf[P]: ...
@overload
def value_and_grad(
    f: Callable[P, Any], /, *, has_aux: bool = False, **options: Unpack[_Arguments]
) -> Derivative[P, tuple[Any, ...]]: ...
@overload
def value_and_grad(f: F, x: Any, /, *, has_aux: No = False, **options: Unpack[_Arguments]) -> tuple[Any, Any]: ...
@overload
def value_and_grad(f: F, x: Any, /, *, has_aux: bool = False, **options: Unpack[_Arguments]) -> tuple[Any, ...]: ...

@overload
def jacobian(  # type: ignore[overload-overlap]
    f: Compiled[P, Any], /, *, sparse: No = False, **options: Unpack[_AnyJacobian]
) -> CompiledDerivative[P, Any]: ...
@overload
def jacobian(
    f: Callable[P, Any], /, *, value: Yes, has_aux: No = False, sparse: No = False, **options: Unpack[_Jacobian]
) -> Jacobian[P, tuple[Any, Any]]: ...
@overload
def jacobian(f: Callable[P, Any], /, *, sparse: No = False, **options: Unpack[_AnyJacobian]) -> _JacobianOf[P]: ...
@overload
def jacobian(
    f: Callable[P, Any], /, *, value: bool = False, sparse: Pattern, **options: Unpack[_Jacobian]
) -> _SparseDerivativeOf[P]: ...
@overload
def jacobian(
    f: Callable[P, Any], /, *, value: bool = False, sparse: Sparse, **options: Unpack[_Jacobian]
) -> _DerivativeOf[P]: ...
@overload
def jacobian(
    f: Callable[..., Numbers],
    x: Array,
    /,
    *,
    argnums: int = 0,
    value: No = False,
    has_aux: No = False,
    sparse: No = False,
    **options: Unpack[_AnyMode],
) -> Array: ...
@overload
def jacobian(
    f: F, x: Any, /, *, value: Yes, has_aux: No = False, sparse: No = False, **options: Unpack[_Jacobian]
) -> tuple[Any, Any]: ...
@overload
def jacobian(f: F, x: Any, /, *, sparse: Sparse = False, **options: Unpack[_AnyJacobian]) -> Any: ...

@overload
def jacfwd(  # type: ignore[overload-overlap]
    f: Compiled[P, Any], /, *, sparse: No = False, **options: Unpack[_AnyJacobianOneMode]
) -> CompiledDerivative[P, Any]: ...
@overload
def jacfwd(
    f: Callable[P, Any], /, *, value: Yes, has_aux: No = False, sparse: No = False, **options: Unpack[_JacobianOneMode]
) -> Jacobian[P, tuple[Any, Any]]: ...
@overload
def jacfwd(f: Callable[P, Any], /, *, sparse: No = False, **options: Unpack[_AnyJacobianOneMode]) -> _JacobianOf[P]: ...
@overload
def jacfwd(
    f: Callable[P, Any], /, *, value: bool = False, sparse: Pattern, **options: Unpack[_JacobianOneMode]
) -> _SparseDerivativeOf[P]: ...
@overload
def jacfwd(
    f: Callable[P, Any], /, *, value: bool = False, sparse: Sparse, **options: Unpack[_JacobianOneMode]
) -> _DerivativeOf[P]: ...
@overload
def jacfwd(
    f: Callable[..., Numbers],
    x: Array,
    /,
    *,
    argnums: int = 0,
    value: No = False,
    has_aux: No = False,
    sparse: No = False,
    **options: Unpack[_OneMode],
) -> Array: ...
@overload
def jacfwd(
    f: F, x: Any, /, *, value: Yes, has_aux: No = False, sparse: No = False, **options: Unpack[_JacobianOneMode]
) -> tuple[Any, Any]: ...
@overload
def jacfwd(f: F, x: Any, /, *, sparse: Sparse = False, **options: Unpack[_AnyJacobianOneMode]) -> Any: ...

jacrev = jacfwd

@overload
def derivative(f: Compiled[P, Any], /, **options: Unpack[_AnyDerivative]) -> CompiledDerivative[P, Any]: ...
@overload
def derivative(f: np.ufunc, /, **options: Unpack[_AnyDerivative]) -> Derivative[..., Any]: ...
@overload
def derivative(
    f: Callable[P, Any], /, *, value: Yes, has_aux: No = False, **options: Unpack[_Derivative]
) -> _ValueAndDerivativeOf[P]: ...
@overload
def derivative(f: Callable[P, Any], /, **options: Unpack[_AnyDerivative]) -> _DerivativeOf[P]: ...
@overload
def derivative(
    f: F, x: Array, /, *, value: No = False, has_aux: No = False, **options: Unpack[_Derivative]
) -> Array: ...
@overload
def derivative(
    f: F, x: Any, /, *, value: Yes, has_aux: No = False, **options: Unpack[_Derivative]
) -> tuple[Any, Any]: ...
@overload
def derivative(f: F, x: Any, /, **options: Unpack[_AnyDerivative]) -> Any: ...

@overload
def hessian(
    f: Compiled[P, Any], /, *, sparse: No = False, **options: Unpack[_AnyHessian]
) -> CompiledDerivative[P, Any]: ...
@overload
def hessian(
    f: Callable[P, Any], /, *, value: Yes, has_aux: No = False, sparse: No = False, **options: Unpack[_Hessian]
) -> _ValueAndDerivativeOf[P]: ...
@overload
def hessian(f: Callable[P, Any], /, *, sparse: No = False, **options: Unpack[_AnyHessian]) -> _DerivativeOf[P]: ...
@overload
def hessian(
    f: Callable[P, Any], /, *, value: bool = False, sparse: Pattern, **options: Unpack[_Hessian]
) -> _SparseDerivativeOf[P]: ...
@overload
def hessian(
    f: Callable[P, Any], /, *, value: bool = False, sparse: Sparse, **options: Unpack[_Hessian]
) -> _DerivativeOf[P]: ...
@overload
def hessian(
    f: F,
    x: Array,
    /,
    *,
    argnums: int = 0,
    value: No = False,
    has_aux: No = False,
    sparse: No = False,
    **options: Unpack[_Symmetric],
) -> Array: ...
@overload
def hessian(
    f: F, x: Any, /, *, value: Yes, has_aux: No = False, sparse: No = False, **options: Unpack[_Hessian]
) -> tuple[Any, Any]: ...
@overload
def hessian(f: F, x: Any, /, *, sparse: Sparse = False, **options: Unpack[_AnyHessian]) -> Any: ...

@overload
def jvp(
    f: Compiled[Concatenate[X, P], Any], /, *, has_aux: bool = False, **options: Unpack[_Arguments]
) -> Compiled[Concatenate[X, X, P], Any]: ...
@overload
def jvp(f: np.ufunc, /, *, has_aux: bool = False, **options: Unpack[_Arguments]) -> Callable[..., Any]: ...
@overload
def jvp(
    f: Callable[Concatenate[X, P], R], /, *, has_aux: No = False, **options: Unpack[_Arguments]
) -> Callable[Concatenate[X, X, P], tuple[R, Any]]: ...
@overload
def jvp(f: F, /, *, has_aux: bool = False, **options: Unpack[_Arguments]) -> Callable[..., tuple[Any, ...]]: ...
@overload
def jvp(f: F, x: Any, v: Any, /, *, has_aux: No = False, **options: Unpack[_Arguments]) -> tuple[Any, Any]: ...
@overload
def jvp(f: F, x: Any, v: Any, /, *, has_aux: bool = False, **options: Unpack[_Arguments]) -> tuple[Any, ...]: ...

@overload
def hvp(
    f: Compiled[Concatenate[X, P], Any], /, **options: Unpack[_Arguments]
) -> Compiled[Concatenate[X, X, P], Any]: ...
@overload
def hvp(f: Callable[Concatenate[X, P], R], /, **options: Unpack[_Arguments]) -> Callable[Concatenate[X, X, P], Any]: ...
@overload
def hvp(f: F, x: Any, v: Any, /, **options: Unpack[_Arguments]) -> Any: ...

@overload
def vjp(
    f: Callable[P, R], /, *, has_aux: No = False, **options: Unpack[_Arguments]
) -> Callable[P, tuple[R, Pullback]]: ...
@overload
def vjp(
    f: Callable[P, Any], /, *, has_aux: bool = False, **options: Unpack[_Arguments]
) -> Callable[P, tuple[Any, ...]]: ...
@overload
def vjp(
    f: Callable[..., R], x: Any, /, *, has_aux: No = False, **options: Unpack[_Arguments]
) -> tuple[R, Pullback]: ...
@overload
def vjp(f: F, x: Any, /, *, has_aux: bool = False, **options: Unpack[_Arguments]) -> tuple[Any, ...]: ...

@overload
def linearize(f: Callable[P, R], /, **options: Unpack[_Arguments]) -> Callable[P, tuple[R, LinearOperator]]: ...
@overload
def linearize(f: Callable[..., R], x: Any, /, **options: Unpack[_Arguments]) -> tuple[R, LinearOperator]: ...

@overload
def taylor(
    f: Callable[Concatenate[X, P], Any], /, **options: Unpack[_Arguments]
) -> Callable[Concatenate[X, X, int, P], Any]: ...
@overload
def taylor(f: F, x: Any, v: Any, order: int, /, **options: Unpack[_Arguments]) -> Any: ...

def vmap(f: F, in_axes: Any = 0, out_axes: Any = 0, *, workers: Any = None) -> Callable[..., Any]: ...
def stop_gradient(x: T) -> T: ...

# ---- decorators

class _Keeping(Protocol):
    def __call__(self, f: Callable[P, R], /) -> Callable[P, R]: ...

class _Compiling(Protocol):
    def __call__(self, f: Callable[P, R], /) -> Compiled[P, R]: ...

@overload
def primitive(f: Callable[P, R], **rules: Unpack[_Rules]) -> Callable[P, R]: ...
@overload
def primitive(f: None = None, **rules: Unpack[_Rules]) -> _Keeping: ...

@overload
def compile(f: None = None, **options: Unpack[_Compiler]) -> _Compiling: ...
@overload
def compile(  # type: ignore[overload-overlap]
    f: SparseDerivative[P, R], **options: Unpack[_Compiler]
) -> SparseDerivative[P, R]: ...
@overload
def compile(f: Derivative[P, R], **options: Unpack[_Compiler]) -> CompiledDerivative[P, R]: ...
@overload
def compile(f: Callable[P, R], **options: Unpack[_Compiler]) -> Compiled[P, R]: ...

# ---- programs and patterns

def record(f: F, x: Any, /, **options: Unpack[_Recorder]) -> Program: ...
def sparsity(
    f: F,
    x: Any,
    /,
    *,
    order: Literal[1, 2] = 1,
    kind: Literal["global", "local"] = "global",
    argnums: int = 0,
    **options: Unpack[_Call],
) -> Any: ...
def clear_caches() -> None: ...
