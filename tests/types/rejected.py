"""Programs that type checkers reject; a `type: ignore` on a line that they accept is an error.  Never run."""

from typing import assert_type

import numpy as np
from numpy.typing import NDArray

import wengert as wg

Array = NDArray[np.float64]

x = np.ones(3)


def loss(x: Array, scale: float = 1.0) -> float:
    return float(scale * np.sum(x**2))


@wg.compile
def fast(x: Array, k: int = 2) -> Array:
    return x**k


wg.nonexistent  # type: ignore[attr-defined]
wg.implicit.nonexistent  # type: ignore[attr-defined]
wg.numpy.nonexistent  # type: ignore[attr-defined]
wg.cuda.nonexistent  # type: ignore[attr-defined]
wg.Program.nonexistent  # type: ignore[attr-defined]
wg.jacobian(loss, mode="sideways")  # type: ignore[call-overload]
wg.jacobian(loss, sparse=True, format="dense")  # type: ignore[call-overload]
wg.jacobian(loss, sparse="yes")  # type: ignore[call-overload]
wg.hessian(loss, x, sparse=3.0)  # type: ignore[call-overload]
wg.jacfwd(loss, mode="reverse")  # type: ignore[call-overload]
wg.hessian(loss, holomorphic=True)  # type: ignore[call-overload]
wg.grad(3)  # type: ignore[call-overload]
wg.grad(loss, x, x)  # type: ignore[call-overload]
wg.grad(loss, x, argnum=1)  # type: ignore[call-overload]
wg.grad(loss)("text")  # type: ignore[call-overload]
wg.grad(loss)(x, scale="text")  # type: ignore[call-overload]
wg.grad(loss).paths  # type: ignore[attr-defined]
wg.grad(loss).values(x)  # type: ignore[attr-defined]
wg.jvp(loss)(x)  # type: ignore[call-arg]
wg.hvp(loss)(x, "text")  # type: ignore[arg-type]
wg.compile(loss, tier="gpu")  # type: ignore[call-overload]
wg.compile(loss)(x, wrong=1)  # type: ignore[call-overload]
wg.compile(wg.grad(loss))(x, wrong=1)  # type: ignore[call-overload]
wg.compile(wg.jacobian(loss)).nonexistent  # type: ignore[attr-defined]
wg.compile(wg.value_and_grad(loss))()  # type: ignore[call-overload]
fast(x, k="text")  # type: ignore[call-overload]
assert_type(fast(x), float)  # type: ignore[assert-type]
wg.sparsity(loss, x, order=3)  # type: ignore[arg-type]
wg.colouring(np.eye(3, dtype=bool), kind="rainbow")  # type: ignore[arg-type]
wg.implicit.root(loss, x, on_failure="ignore")  # type: ignore[arg-type]
wg.testing.check_derivatives(loss, x, modes=("sideways",))  # type: ignore[arg-type]
wg.record(loss)  # type: ignore[call-arg]
