"""Programs that type checkers accept, with the types that they infer; never run."""

from collections.abc import Callable
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, root

import wengert as wg
from wengert.scipy import optimize
from wengert.typing import Compiled, CompiledDerivative, Derivative, Jacobian, Pullback, SparseDerivative

Array = NDArray[np.float64]

x = np.ones(3)


def loss(x: Array, scale: float = 1.0) -> float:
    return float(scale * np.sum(x**2))


def residual(u: Array) -> Array:
    return u**2 - 1.0


def cube(x: float) -> float:
    return x**3


def with_aux(x: Array) -> tuple[float, str]:
    return float(np.sum(x)), "aux"


def gradients() -> None:
    g: Derivative[[Array], Any] = wg.grad(loss)
    g(x)
    wg.grad(loss)(x, 2.0)
    wg.grad(loss)(x, scale=2.0)
    wg.grad(loss)(x, out=np.empty(3))
    assert_type(wg.grad(loss).fun(x, 2.0), Any)
    assert_type(wg.grad(loss, x), NDArray[Any])
    assert_type(wg.grad(loss, x, args=(2.0,)), NDArray[Any])
    assert_type(wg.grad(cube, 2.0), np.float64)
    assert_type(wg.grad(cube, 2), np.float64)
    assert_type(wg.grad(loss, x, value=True), tuple[Any, Any])
    assert_type(wg.grad(with_aux, x, has_aux=True), Any)
    assert_type(wg.grad(lambda p: p["a"] ** 2, {"a": 1.0}), Any)
    assert_type(wg.value_and_grad(loss)(x), tuple[Any, Any])
    assert_type(wg.value_and_grad(loss, x), tuple[Any, Any])
    wg.grad(loss, x, argnums=(0, 1))
    wg.grad(np.sum, x)
    wg.grad(lambda x: np.sum(x**2))([1.0, 2.0])


def jacobians(wide: bool) -> None:
    J = wg.jacobian(residual)
    as_jacobian: Jacobian[[Array], Any] = J
    as_derivative: Derivative[[Array], Any] = as_jacobian
    as_derivative(x)
    root(J.fun, x, jac=J)
    if J.plan is not None:
        assert_type(J.plan.mode, str)
    assert_type(wg.jacobian(residual, x), NDArray[Any])
    wg.jacobian(lambda u: [u[0], u[1]], x)
    wg.jacobian(residual, mode="reverse" if wide else "forward")(x)
    wg.jacobian(residual, sparse=wide)(x)
    wg.jacfwd(residual)(x)
    wg.jacrev(residual, x)
    wg.hessian(loss)(x, 2.0)
    assert_type(wg.hessian(loss, x), NDArray[Any])
    minimize(loss, x, jac=wg.grad(loss), hess=wg.hessian(loss))


def sparse() -> None:
    S = wg.jacobian(residual, sparse=True, format="csc")
    as_sparse: SparseDerivative[[Array], Any] = S
    assert_type(as_sparse.values(x), NDArray[Any])
    assert_type(S.mode, str)
    if S.colours is not None:
        assert_type(S.colours.count, int)
    pattern = wg.sparsity(residual, x, order=1, kind="local")
    colours = wg.colouring(pattern, kind="star", method="dsatur")
    wg.hessian(loss, sparse=colours)(x, 2.0)
    wg.jacobian(residual, sparse=pattern)(x)
    wg.jacobian(residual, sparse=np.eye(3, dtype=bool))(x)
    wg.jacobian(residual, x, sparse="auto")


def products() -> None:
    assert_type(wg.jvp(residual)(x, x), tuple[Array, Any])
    assert_type(wg.jvp(residual, x, x), tuple[Any, Any])
    assert_type(wg.vjp(residual, x), tuple[Array, Pullback])
    assert_type(wg.vjp(residual)(x), tuple[Array, Pullback])
    wg.hvp(loss)(x, x, 2.0)
    wg.hvp(loss, x, x)
    y, J = wg.linearize(residual, x)
    print(J @ y)
    wg.taylor(residual, x, x, 3)
    wg.taylor(residual)(x, x, 3)
    wg.derivative(np.sin)(0.3)
    wg.derivative(np.sin, x)
    wg.derivative(cube, order=2)(1.0)
    wg.vmap(wg.grad(loss), workers=2)(np.ones((5, 3)))
    wg.jacobian(residual, workers=-1)(x)
    with wg.distributed.sum_over(lambda t, c: float(t @ c), wg.distributed.split_rows(x, rows=2), workers=2) as total:
        wg.hessian(total)(x)


@wg.compile
def fast(x: Array, k: int = 2) -> Array:
    return x**k


@wg.compile(tier="llvm", recheck=10)
def faster(x: Array) -> Array:
    return x + x


@wg.primitive(jvp="fd")
def table(x: float) -> float:
    return x


@wg.checkpoint
def layer(u: Array, w: Array) -> Array:
    return w @ u


@wg.implicit.defines_root(lambda x, a: x**3 - a)
def cube_root(a: float) -> float:
    return float(np.cbrt(a))


class Model:
    @wg.compile
    def run(self, x: Array) -> Array:
        return x


def decorated() -> None:
    assert_type(fast(x, k=3), Array)
    assert_type(faster(x), Array)
    assert_type(fast.paths, int)
    assert_type(Model().run(x), Array)
    assert_type(table(1.0), float)
    assert_type(layer(x, np.eye(3)), Array)
    assert_type(cube_root(8.0), float)
    compiled: Compiled[[Array], Any] = wg.compile(residual)
    derivative: CompiledDerivative[[Array], Any] = wg.grad(wg.compile(loss))
    also: CompiledDerivative[[Array], Any] = wg.compile(wg.grad(loss))
    compiled(x)
    derivative(x)
    also.fun(x)
    of_compiled: SparseDerivative[[Array], Any] = wg.hessian(wg.compile(loss), sparse=True)
    assert_type(of_compiled.values(x), NDArray[Any])
    wg.jacobian(fast, sparse=True).values(x)
    wg.compile(wg.jacobian(residual, sparse=True)).values(x)


def other() -> None:
    assert_type(wg.stop_gradient(1.0), float)
    parameters: dict[str, Array] = {"a": x}
    vector, restore = wg.ravel(parameters)
    assert_type(restore(vector), dict[str, Array])
    program = wg.record(residual, x)
    program.grad().save("program")
    assert_type(len(program), int)
    assert_type(wg.implicit.root(residual, x, on_failure="warn"), Any)
    optimize.root(residual, x)
    wg.scipy.optimize.minimize(loss, x)
    wg.numpy.linalg.solve(np.eye(3), x)
    wg.testing.check_derivatives(residual, x, modes=("forward", "reverse"))
    wg.viz.pattern(wg.colouring(np.eye(3, dtype=bool)))
    step: Callable[[Array], Array] = residual
    wg.loop(step, x, 10)
    with wg.passive(), wg.detect_nan(), wg.follow("package", False):
        wg.grad(loss, x)
    try:
        program(x)
    except wg.GuardError as error:
        print(error)
