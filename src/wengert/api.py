"""Public transformations: ``op(f)`` returns a callable, ``op(f, x)`` evaluates it at a point.

This module validates arguments and dispatches; `wengert.transforms` implements the transformations.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Never

from wengert.containers import stopped
from wengert.core.dispatch import direct, repeated
from wengert.core.levels import note_stop
from wengert.core.tape import tape
from wengert.deferred import deferred, load
from wengert.errors import Refusal
from wengert.transforms.dense import JVP, VJP, Elementwise, Gradient, Jacobian

if TYPE_CHECKING:
    from wengert.program.program import Program

custom = deferred("wengert.transforms.custom")
formulas = deferred("wengert.program.specialise.formulas")
second = deferred("wengert.transforms.second")

repeated.new_replay = lambda *call: formulas.new_replay(*call)
repeated.new_pullback = lambda *call: formulas.new_pullback(*call)


class _NotGiven:
    """Sentinel default of `x`; None is a valid argument of a function."""

    def __repr__(self):
        return "not given"


_NOT_GIVEN: Any = _NotGiven()


def _check_no_further(others, written):
    """Raise if further arguments of the function are passed by position, as JAX passes them."""
    if others:
        raise TypeError(
            f"{written}) was given {written.count(',') + 1 + len(others)} positional arguments; pass further arguments "
            f"of the function as args: write {written}, args=(y,)) for {written}, y)"
        )


def _apply(derivative, x, args, kwargs):
    """Return the derivative as a callable, or its value at `x` if `x` is given."""
    if x is _NOT_GIVEN:
        if args or kwargs:
            raise TypeError(
                f"{derivative!r}: args and kwargs require a point x; pass them to the returned callable instead"
            )
        return derivative
    return derivative(x, *args, **(kwargs or {}))


def _along(derivative, x, v, args, kwargs):
    """Evaluate a product at a point; if `f` fails on tuples, suggest that they hold all its arguments, as in JAX."""
    try:
        return derivative(x, v, *args, **(kwargs or {}))
    except TypeError as error:
        if type(x) is not tuple or type(v) is not tuple or args or isinstance(error, Refusal):
            raise
        word = derivative.word
        raise TypeError(
            f"{derivative!r}: the function failed on a tuple passed as its single argument: {error}. Arguments are not "
            f"wrapped in a tuple here: write {word}(f, x, v) for {word}(f, (x,), (v,)), and {word}(f, x, (v, w), "
            f"args=(y,), argnums=(0, 1)) for {word}(f, (x, y), (v, w))"
        ) from error


def _operator(cls, f, *options):
    """Apply the operator `cls` to `f`; the operator on a compiled `f` is compiled too."""
    return f.__wengert__(cls, options) if hasattr(type(f), "__wengert__") else cls(f, *options)


def _sparse(word, order, f, argnums, value, has_aux, chunk, mode, holomorphic, sparse, format, workers):
    """Return the sparse derivative of `f` as a callable."""
    for name, given in (("has_aux", has_aux), ("chunk", chunk is not None), ("holomorphic", holomorphic)):
        if given:
            raise ValueError(f"{word}: {name}= is not available for sparse derivatives")
    from wengert.sparse import drivers  # imported here: dense derivatives do not need `wengert.program`

    options = f, argnums, value, sparse, format, mode, order
    if workers is None:
        return drivers.SparseDerivative(*options)
    from wengert.distributed import operators, seeds  # imported here, as in `vmap`

    return seeds.SparseOnWorkers(*options, engine=operators.engine_for(f, workers, word, runs_programs=True))


def _on_workers(word, f, options, workers):
    """Return the dense derivative of `f` that is computed by workers, as a callable."""
    from wengert.distributed import operators  # imported here, as in `vmap`

    cls = operators.JacobianOnWorkers if word == "jacobian" else operators.HessianOnWorkers
    return cls(f, *options, operators.engine_for(f, workers, word))


def grad(
    f: Callable,
    x: Any = _NOT_GIVEN,
    /,
    *others: Never,
    args: tuple = (),
    kwargs: dict | None = None,
    argnums: int | tuple | slice = 0,
    value: bool = False,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Any:
    """Compute the gradient of a scalar-valued function.

    Reverse mode: one evaluation of `f` and one reverse sweep, whatever the number of variables.

    Parameters
    ----------
    f : callable
        Maps an array of shape S (and further arguments) to a scalar, using NumPy functions.
    x : array_like or container, shape S, optional
        Point of evaluation; never changed.
        A list of scalars is an array; dicts, dataclasses and lists of arrays are containers.
        If omitted, a callable with the signature of `f` is returned.
    args, kwargs : tuple, dict
        Further arguments of `f`: ``grad(f, x, args=(a, b))`` calls ``f(x, a, b)``.
    argnums : int, tuple of int, or slice
        Positions of the differentiated arguments. A tuple gives a tuple of gradients; a slice over scalar
        arguments gives one array with a trailing axis.
    value : bool
        Return ``(y, gradient)``.
    has_aux : bool
        `f` returns ``(y, aux)``; `aux` is returned last, without derivatives.
    holomorphic : bool
        `f` is an analytic function of complex `x` and returns a complex scalar: return its derivative, see Notes.

    Returns
    -------
    ndarray of shape S, scalar, or container like `x`
        The gradient; a tuple with `value` or `has_aux`. If `x` is omitted, a callable that accepts ``out=``.

    Raises
    ------
    TypeError
        If `f` does not return a scalar, or `x` cannot be differentiated.
    ValueError
        With `holomorphic`, if `f` is not holomorphic at `x`.
    UnsupportedFunctionError
        If `f` calls a function that has no rule.
    TracedValueError
        If a traced value reaches code that cannot propagate it.

    See Also
    --------
    value_and_grad : Value and gradient from one evaluation.
    jacobian : Derivative of an array-valued function.
    hessian : Second derivatives.

    Notes
    -----
    For complex `x` and real `f`, the gradient g satisfies ``df = Re(sum(conj(g) * dx))``: it points in the direction of
    steepest ascent, and is the conjugate of the gradient that Autograd and JAX return.

    References
    ----------
    Griewank and Walther (2008), Evaluating Derivatives, section 3.2. doi:10.1137/1.9780898717761

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> wg.grad(lambda x: np.sum(x**2), [1.0, 2.0])
    array([2., 4.])

    Parameters may be held in a container, and data passed as further arguments:

    >>> def loss(params, x, y):
    ...     return np.mean((params["slope"] * x + params["offset"] - y) ** 2)
    >>> x, y = np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, 5.0])
    >>> wg.grad(loss, {"slope": 0.0, "offset": 0.0}, args=(x, y))
    {'slope': np.float64(-8.666666666666666), 'offset': np.float64(-6.0)}
    """
    _check_no_further(others, "grad(f, x")
    return _apply(_operator(Gradient, f, argnums, value, has_aux, holomorphic), x, args, kwargs)


gradient = grad


def value_and_grad(
    f: Callable,
    x: Any = _NOT_GIVEN,
    /,
    *others: Never,
    args: tuple = (),
    kwargs: dict | None = None,
    argnums: int | tuple | slice = 0,
    has_aux: bool = False,
) -> Any:
    """Compute the value and the gradient of a scalar-valued function: `grad` with ``value=True``.

    The callable suits ``scipy.optimize.minimize(..., jac=True)``.

    Parameters
    ----------
    f, x, args, kwargs, argnums, has_aux
        As for `grad`.

    Returns
    -------
    tuple
        ``(y, gradient)``, or ``(y, gradient, aux)`` with `has_aux`. If `x` is omitted, a callable.

    See Also
    --------
    grad : The gradient alone.

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> wg.value_and_grad(lambda x: np.sum(x**2), [1.0, 2.0])
    (np.float64(5.0), array([2., 4.]))
    >>> from scipy.optimize import minimize
    >>> f = wg.value_and_grad(lambda x: np.sum((x - 3.0) ** 2))
    >>> minimize(f, np.zeros(2), jac=True).x.round(6)
    array([3., 3.])
    """
    _check_no_further(others, "value_and_grad(f, x")
    return _apply(_operator(Gradient, f, argnums, True, has_aux), x, args, kwargs)


def jacobian(
    f: Callable,
    x: Any = _NOT_GIVEN,
    /,
    *others: Never,
    args: tuple = (),
    kwargs: dict | None = None,
    argnums: int | tuple | slice = 0,
    value: bool = False,
    has_aux: bool = False,
    mode: str = "auto",
    chunk: int | None = None,
    holomorphic: bool = False,
    sparse: Any = False,
    format: str = "csr",
    workers: Any = None,
) -> Any:
    """Compute the Jacobian of a function, of shape ``y.shape + x.shape``.

    Reverse mode evaluates `f` once and sweeps its tape for a block of rows at a time.
    Forward mode evaluates `f` with a block of tangents at a time and records no tape.

    Parameters
    ----------
    f : callable
        Maps an array of shape S (and further arguments) to an array of shape T, or to a list of scalars.
    x : array_like or container, shape S, optional
        Point of evaluation; never changed. If omitted, a callable with the signature of `f` is returned, ready for
        ``jac=`` of SciPy's solvers.
    args, kwargs, argnums, value, has_aux
        As for `grad`.
    mode : {"auto", "forward", "reverse", "mixed"}
        Forward mode computes columns, reverse mode rows. "auto" selects the cheaper one for the shapes; the ``plan``
        of the callable says which. "mixed" computes some columns and some rows, for sparse Jacobians only.
    chunk : int, optional
        Number of directions per sweep; memory grows with it. By default it depends on the length of the tape.
    holomorphic : bool
        Required for complex `x`: `f` is holomorphic. This is checked with a second tangent for each element.
        Complex results of real `x` do not need it.
    sparse : bool, "auto" or pattern
        True: return a sparse array whose pattern is detected from `f`. "auto": return an ndarray if `x` is small or the
        Jacobian is nearly dense. A sparse or boolean array of shape ``(y.size, x.size)`` is the pattern itself; in COO
        format its entries give the order of ``.values`` and must be unique. A colouring as returned by `colouring` is a
        pattern too, and the nonzeros are recovered from products with its seed vectors.
        `f` is recorded and replayed, as by `compile`.
    format : {"csr", "csc", "coo"}
        Format of the sparse array. Structural zeros are kept. Results share their index arrays, which are read-only.
    workers : int, executor or map-like callable, optional
        Divides blocks of columns or rows among workers, as for `wengert.distributed.sum_over`; a number stands for
        threads if `f` is compiled or the derivative sparse, else for processes. `x` and the result must be arrays.
        `explain` and ``.plan``, or ``.divisions`` if it is sparse, tell whether workers were estimated to be faster.

    Returns
    -------
    ndarray of shape ``(*T, *S)``
        The Jacobian; for containers, nested blocks with the structure of the output outside that of the input.
        If `x` is omitted, a callable with ``.fun`` (see Notes) that accepts ``out=``.
    sparse array of shape ``(y.size, x.size)``
        With `sparse`. The callable has ``.pattern``, ``.colours``, ``.mode`` and ``.plan`` of its last call, and
        ``.values(x, *args, out=)``, which returns only the nonzeros.

    Raises
    ------
    TypeError
        If `x` or the result of `f` cannot be differentiated.
    ValueError
        With `holomorphic`, if `f` is not holomorphic at `x`.
    UnsupportedFunctionError
        If `f` calls a function that has no rule.
    TracedValueError
        If a traced value reaches code that cannot propagate it.
    PatternError
        If the given pattern has the wrong shape or a duplicate entry, or if `f` has a nonzero derivative outside it.

    See Also
    --------
    sparsity : The sparsity pattern alone.
    colouring : Colouring of a pattern.
    jvp, vjp : Products with the Jacobian or its transpose.
    linearize : The Jacobian as a linear operator.

    Notes
    -----
    ``J.fun`` evaluates `f` through a one-entry cache that the next call of ``J`` at the same point reuses, so
    ``root(J.fun, x0, jac=J)`` evaluates `f` once per point.

    References
    ----------
    Griewank and Walther (2008), Evaluating Derivatives, section 3.2. doi:10.1137/1.9780898717761

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> def residual(u):
    ...     F = np.zeros(2)
    ...     F[0] = u[0] * u[1]
    ...     F[1] = np.sin(u[0])
    ...     return F
    >>> wg.jacobian(residual, [0.0, 2.0])
    array([[2., 0.],
           [1., 0.]])

    As ``jac=`` of a solver:

    >>> from scipy.optimize import root
    >>> J = wg.jacobian(residual)
    >>> root(J.fun, [0.5, 2.0], jac=J).success
    True

    Sparse:

    >>> J = wg.jacobian(lambda x: x[1:] * x[:-1], sparse=True)
    >>> print(J(np.array([1.0, 2.0, 3.0])).toarray())
    [[2. 1. 0.]
     [0. 3. 2.]]
    """
    _check_no_further(others, "jacobian(f, x")
    options = argnums, value, has_aux, chunk, mode, holomorphic
    if sparse is not False:
        derivative = _sparse("jacobian", 1, f, *options, sparse, format, workers)
    elif workers is not None:
        derivative = _on_workers("jacobian", f, options, workers)
    else:
        derivative = _operator(Jacobian, f, *options)
    return _apply(derivative, x, args, kwargs)


jacfwd = functools.partial(jacobian, mode="forward")
jacrev = functools.partial(jacobian, mode="reverse")


def derivative(
    f: Callable,
    x: Any = _NOT_GIVEN,
    /,
    *others: Never,
    order: int = 1,
    args: tuple = (),
    kwargs: dict | None = None,
    argnums: int = 0,
    value: bool = False,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Any:
    """Compute the derivative of a function of one scalar, or of an elementwise function.

    Forward mode: one evaluation of `f` with tangents; each higher order nests another one.

    Parameters
    ----------
    f : callable
        Maps a scalar to a scalar or an array, or an array of shape S elementwise to an array of the same shape.
    x : array_like, shape S, optional
        Point of evaluation; never changed. If omitted, a callable with the signature of `f` is returned.
    order : int
        Order of the derivative.
    args, kwargs, value, has_aux
        As for `grad`.
    argnums : int
        Position of the differentiated argument.
    holomorphic : bool
        As for `jacobian`; only with ``order=1``.

    Returns
    -------
    scalar or ndarray, shape of ``f(x)``
        The derivative at each element.

    Raises
    ------
    ValueError
        If an element of the result depends on several elements of `x`; use `jacobian` then.
        With `holomorphic`, if `f` is not holomorphic at `x`.

    See Also
    --------
    taylor : All derivatives along a line, up to an order.
    jacobian : Derivative of a function that is not elementwise.

    References
    ----------
    Griewank and Walther (2008), Evaluating Derivatives, section 3.1. doi:10.1137/1.9780898717761

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> wg.derivative(np.sin, 0.0)
    np.float64(1.0)
    >>> wg.derivative(lambda x: x**3, [1.0, 2.0], order=2)
    array([ 6., 12.])
    """
    _check_no_further(others, "derivative(f, x")
    return _apply(_operator(Elementwise, f, argnums, value, has_aux, order, holomorphic), x, args, kwargs)


def jvp(
    f: Callable,
    x: Any = _NOT_GIVEN,
    v: Any = _NOT_GIVEN,
    /,
    *others: Never,
    args: tuple = (),
    kwargs: dict | None = None,
    argnums: int | tuple = 0,
    has_aux: bool = False,
) -> Any:
    """Compute the value of `f` at `x` and its directional derivative along `v`.

    Forward mode: one evaluation of `f` with tangents. It records no tape, so memory does not grow with the run time.

    Parameters
    ----------
    f : callable
        Maps an array of shape S to an array of shape T, using NumPy functions.
    x : array_like or container, shape S, optional
        Point of evaluation; never changed. If omitted, a callable ``(x, v, *args)`` is returned.
    v : array_like or container like `x`, shape S or (k, *S)
        Direction, or k stacked directions. If `argnums` is a tuple, a tuple with one direction per argument.
        For complex `x` the direction may be complex; the derivative is then linear over the reals.
    args, kwargs, argnums, has_aux
        As for `grad`.

    Returns
    -------
    y : ndarray, shape T
    dy : ndarray, shape T or (k, *T)
        The Jacobian times `v`.
    aux
        Only with `has_aux`.

    Raises
    ------
    UnsupportedFunctionError
        If `f` calls a function that has no rule.
    ValueError
        If the shape of the direction differs from that of `x`.

    See Also
    --------
    vjp : Products with the transposed Jacobian.
    linearize : Both products at one point, without evaluating `f` again.

    References
    ----------
    Griewank and Walther (2008), Evaluating Derivatives, section 3.1. doi:10.1137/1.9780898717761

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> wg.jvp(lambda x: x**2, [1.0, 2.0, 3.0], [1.0, 0.0, 1.0])
    (array([1., 4., 9.]), array([2., 0., 6.]))
    """
    _check_no_further(others, "jvp(f, x, v")
    derivative = _operator(JVP, f, argnums, has_aux)
    if x is _NOT_GIVEN:
        return _apply(derivative, x, args, kwargs)
    if v is _NOT_GIVEN:
        raise TypeError(f"{derivative!r}: missing the direction: jvp(f, x, v)")
    return _along(derivative, x, v, args, kwargs)


def vjp(
    f: Callable,
    x: Any = _NOT_GIVEN,
    /,
    *others: Never,
    args: tuple = (),
    kwargs: dict | None = None,
    argnums: int | tuple = 0,
    has_aux: bool = False,
) -> Any:
    """Compute the value of `f` at `x` and its pullback, which multiplies by the transposed Jacobian.

    Parameters
    ----------
    f : callable
        Maps an array of shape S to an array of shape T, using NumPy functions.
    x : array_like or container, shape S, optional
        Point of linearisation; never changed. If omitted, a callable with the signature of `f` is returned.
    args, kwargs, argnums, has_aux
        As for `grad`.

    Returns
    -------
    y : ndarray, shape T
    pullback : callable
        Multiplies a cotangent of shape T by the transposed Jacobian and returns an array of shape S. It may be called
        any number of times, from any thread. Stacked cotangents of shape ``(k, *T)`` give ``(k, *S)``. For complex
        values it is the adjoint with respect to the pairing ``Re(sum(conj(a) * b))``: the conjugate transpose of the
        Jacobian if `f` is holomorphic.
    aux
        Only with `has_aux`.

    Raises
    ------
    UnsupportedFunctionError
        If `f` calls a function that has no rule.
    ValueError
        By the pullback, if the shape of the cotangent differs from that of `y`.

    See Also
    --------
    jvp : Products with the Jacobian.
    grad : Gradient of a scalar-valued function.

    References
    ----------
    Griewank and Walther (2008), Evaluating Derivatives, section 3.2. doi:10.1137/1.9780898717761

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> y, pullback = wg.vjp(lambda x: x**2, [1.0, 2.0, 3.0])
    >>> pullback(np.array([1.0, 0.0, 1.0]))
    array([2., 0., 6.])
    >>> pullback(np.eye(3))             # three cotangents at once: the rows of the Jacobian
    array([[2., 0., 0.],
           [0., 4., 0.],
           [0., 0., 6.]])
    """
    _check_no_further(others, "vjp(f, x")
    return _apply(_operator(VJP, f, argnums, has_aux), x, args, kwargs)


def hessian(
    f: Callable,
    x: Any = _NOT_GIVEN,
    /,
    *others: Never,
    args: tuple = (),
    kwargs: dict | None = None,
    argnums: int | tuple | slice = 0,
    value: bool = False,
    has_aux: bool = False,
    mode: str = "auto",
    chunk: int | None = None,
    sparse: Any = False,
    format: str = "csr",
    workers: Any = None,
) -> Any:
    """Compute the Hessian of a scalar-valued function, exactly symmetric.

    Forward over reverse: one evaluation of `f`, then forward and reverse sweeps over its tape for a block of columns
    at a time.

    Parameters
    ----------
    f : callable
        Maps an array of shape S (and further arguments) to a scalar, using NumPy functions.
    x : array_like or container, shape S, optional
        Point of evaluation; never changed. If omitted, a callable with the signature of `f` is returned.
    args, kwargs, value, has_aux
        As for `grad`.
    argnums : int, tuple of int, or slice
        Positions of the differentiated arguments. A tuple gives a tuple of rows of blocks; a slice over scalar
        arguments gives one square array.
    mode : {"auto", "mixed", "forward", "reverse"}
        "mixed" sweeps one tape forward and in reverse; it is the default outside other derivatives.
        "forward" and "reverse" apply that mode to a gradient.
    chunk : int, optional
        Number of columns per sweep; memory grows with it. By default it depends on the length of the tape.
    sparse, format
        As for `jacobian`; the sparse array is exactly symmetric. A pattern with entries on one side of the diagonal
        only, as from ``scipy.sparse.tril``, selects that triangle. Colourings of kind "star" and "acyclic" need fewer
        products; "acyclic" recovers the nonzeros by substitution.
    workers
        As for `jacobian`: divides the columns among workers, or the products of a sparse Hessian.

    Returns
    -------
    ndarray of shape ``(*S, *S)``
        The Hessian; for containers, nested blocks. If `x` is omitted, a callable with ``.fun`` (see `jacobian`) that
        accepts ``out=``.

    Raises
    ------
    TypeError
        If `f` does not return a scalar, or `x` cannot be differentiated.
    UnsupportedFunctionError
        If `f` calls a function that has no rule.
    TracedValueError
        If a traced value reaches code that cannot propagate it.
    PatternError
        As for `jacobian`; also if the given pattern is neither symmetric nor triangular, or the colouring is of another
        kind.

    See Also
    --------
    hvp : Products with the Hessian, without forming it.
    grad : First derivatives.
    sparsity : The sparsity pattern, with ``order=2``.

    Notes
    -----
    At kinks it is the derivative of the gradient by the conventions for first derivatives: 0 for ``abs``, for example.

    References
    ----------
    Griewank and Walther (2008), Evaluating Derivatives, section 5.5. doi:10.1137/1.9780898717761

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> wg.hessian(lambda x: x[0] ** 2 * x[1], [1.0, 2.0])
    array([[4., 2.],
           [2., 0.]])
    >>> H = wg.hessian(lambda x: np.sum((x[1:] - x[:-1] ** 2) ** 2), sparse=True)
    >>> print(H(np.ones(3)).toarray())
    [[ 8. -4.  0.]
     [-4. 10. -4.]
     [ 0. -4.  2.]]
    """
    _check_no_further(others, "hessian(f, x")
    options = argnums, value, has_aux, chunk, mode
    if sparse is not False:
        derivative = _sparse("hessian", 2, f, *options, False, sparse, format, workers)
    elif workers is not None:
        derivative = _on_workers("hessian", f, options, workers)
    else:
        derivative = _operator(second.Hessian, f, *options)
    return _apply(derivative, x, args, kwargs)


def hvp(
    f: Callable,
    x: Any = _NOT_GIVEN,
    v: Any = _NOT_GIVEN,
    /,
    *others: Never,
    args: tuple = (),
    kwargs: dict | None = None,
    argnums: int | tuple = 0,
) -> Any:
    """Multiply the Hessian of `f` by a vector, without forming the Hessian.

    ``hvp(f)`` is a callable of the point, the vector and further arguments, as ``scipy.optimize.minimize(hessp=)``
    expects.

    Parameters
    ----------
    f : callable
        Maps an array of shape S (and further arguments) to a scalar, using NumPy functions.
    x : array_like or container, shape S, optional
        Point of evaluation; never changed.
    v : array_like or container, shape S or (k, *S), optional
        Vector, or k stacked vectors, with the structure of the differentiated arguments. Required if `x` is given.
    args, kwargs
        As for `grad`.
    argnums : int or tuple of int
        Positions of the differentiated arguments, not counting `v`.

    Returns
    -------
    ndarray of the shape of `v`, or container
        The product. If `x` and `v` are omitted, a callable.

    Raises
    ------
    TypeError
        If `f` does not return a scalar, or `x` cannot be differentiated.
    ValueError
        If the shape of `v` differs from that of `x`.
    UnsupportedFunctionError
        If `f` calls a function that has no rule.

    See Also
    --------
    hessian : The whole matrix.
    linearize : Products with a Jacobian.

    References
    ----------
    Pearlmutter (1994), Fast exact multiplication by the Hessian. doi:10.1162/neco.1994.6.1.147

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> wg.hvp(lambda x: np.sum(x**3), [1.0, 2.0], [1.0, 1.0])
    array([ 6., 12.])
    >>> from scipy.optimize import minimize
    >>> def f(x):
    ...     return np.sum((x - 3.0) ** 4)
    >>> minimize(f, np.zeros(3), jac=wg.grad(f), hessp=wg.hvp(f), method="trust-ncg").success
    True
    """
    _check_no_further(others, "hvp(f, x, v")
    product = _operator(second.HVP, f, argnums)
    if x is _NOT_GIVEN or v is _NOT_GIVEN:
        if x is not _NOT_GIVEN:
            raise TypeError(f"{product!r}: a point x requires a vector v: hvp(f, x, v), or hvp(f)(x, v)")
        return _apply(product, x, args, kwargs)
    return _along(product, x, v, args, kwargs)


def linearize(
    f: Callable,
    x: Any = _NOT_GIVEN,
    /,
    *others: Never,
    args: tuple = (),
    kwargs: dict | None = None,
    argnums: int | tuple = 0,
) -> Any:
    """Compute the value of `f` at `x`, and its Jacobian there as a linear operator, without forming the matrix.

    `f` is evaluated once. A product with the Jacobian is one forward sweep over the tape, a product with its transpose
    one reverse sweep.

    Parameters
    ----------
    f : callable
        Maps an array of shape S (and further arguments) to an array of shape T, using NumPy functions.
    x : array_like or container, shape S, optional
        Point of linearisation; never changed. If omitted, a callable with the signature of `f` is returned.
    args, kwargs
        As for `grad`.
    argnums : int or tuple of int
        Positions of the differentiated arguments.

    Returns
    -------
    y : ndarray, shape T
    J : scipy.sparse.linalg.LinearOperator, shape (y.size, x.size)
        Acts on flat vectors, and on matrices column by column. The arrays of a container are concatenated.
        It may be used any number of times, from any thread.

    Raises
    ------
    UnsupportedFunctionError
        If `f` calls a function that has no rule.

    See Also
    --------
    jvp, vjp : One product, with the value.
    jacobian : The whole matrix.

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> y, J = wg.linearize(lambda x: x**2, [1.0, 2.0, 3.0])
    >>> J @ np.array([1.0, 0.0, 1.0])
    array([2., 0., 6.])

    A Newton step without forming the Jacobian:

    >>> from scipy.sparse.linalg import gmres
    >>> u = np.array([1.0, 2.0, 3.0])
    >>> residual, J = wg.linearize(lambda u: u**2 - [1.0, 1.0, 4.0], u)
    >>> step, info = gmres(J, -residual)
    >>> step.round(6)
    array([ 0.      , -0.75    , -0.833333])
    """
    _check_no_further(others, "linearize(f, x")
    return _apply(_operator(second.Linearize, f, argnums), x, args, kwargs)


def taylor(
    f: Callable,
    x: Any = _NOT_GIVEN,
    v: Any = _NOT_GIVEN,
    order: Any = _NOT_GIVEN,
    /,
    *others: Never,
    args: tuple = (),
    kwargs: dict | None = None,
    argnums: int | tuple = 0,
) -> Any:
    """Compute Taylor coefficients of `f` along a line: ``f(x + t v) = c[0] + c[1] t + ... + c[order] t^order + ...``.

    Evaluates `f` once in truncated power series arithmetic; the work grows with the square of the order.

    Parameters
    ----------
    f : callable
        Maps an array of shape S to an array of shape T, using NumPy functions: elementwise functions, arithmetic,
        products, reductions, indexing and assignment, linear systems, inverses, determinants and Cholesky factors.
    x : array_like or container, shape S, optional
        Point of expansion; never changed. If omitted, a callable ``(x, v, order, *args)`` is returned.
    v : array_like or container like `x`, shape S
        Direction. If `argnums` is a tuple, a tuple with one direction per argument.
    order : int
        Order of the last coefficient.
    args, kwargs, argnums
        As for `grad`.

    Returns
    -------
    ndarray, shape (order + 1, *T), or container of them
        The coefficients; ``c[k]`` times ``k!`` is the k-th derivative along `v`.

    Raises
    ------
    UnsupportedFunctionError
        If `f` calls a function that has no Taylor rule.
    TracedValueError
        If a series reaches code that cannot propagate it.
    ValueError
        If the shape of the direction differs from that of `x`, or the order is negative.

    See Also
    --------
    derivative : One derivative of a function of a scalar.
    jvp : The first derivative along a direction.

    Notes
    -----
    At kinks the conventions for first derivatives hold for every coefficient; branches are taken as at `x`.

    References
    ----------
    Griewank and Walther (2008), Evaluating Derivatives, section 13.2. doi:10.1137/1.9780898717761
    Griewank, Utke and Walther (2000), Evaluating higher derivative tensors by forward propagation of univariate
    Taylor series. doi:10.1090/S0025-5718-00-01120-0

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> wg.taylor(lambda x: np.exp(x), 0.0, 1.0, 3)
    array([1.        , 1.        , 0.5       , 0.16666667])
    >>> wg.taylor(lambda x: x[0] * x[1], [1.0, 2.0], [1.0, 1.0], 2)
    array([2., 3., 1.])
    """
    _check_no_further(others, "taylor(f, x, v, order")
    from wengert.transforms.taylor import Taylor  # imported here, like `Mapped` in `vmap`

    expansion = Taylor(f, argnums)
    if x is _NOT_GIVEN:
        return _apply(expansion, x, args, kwargs)
    if v is _NOT_GIVEN or order is _NOT_GIVEN:
        raise TypeError(f"{expansion!r}: missing the direction or the order: taylor(f, x, v, order)")
    return expansion(x, v, order, *args, **(kwargs or {}))


def vmap(f: Callable, in_axes: Any = 0, out_axes: Any = 0, *, workers: Any = None) -> Callable:
    """Vectorise a function over a batch axis.

    It composes with derivatives: ``vmap(grad(f))`` returns the gradients at many points, ``jacobian(vmap(f))`` the
    Jacobian of all results.

    Parameters
    ----------
    f : callable
        A function of scalars, arrays and containers that returns one of these, using NumPy functions.
    in_axes : int, None, or list, tuple or dict of them
        Batch axis of each positional argument; None if the argument is the same for all batch elements.
        An int applies to all arguments; a list or tuple has one item per argument, and the item for a container may be
        a container of the same structure. Keyword arguments are the same for all batch elements.
    out_axes : int, or list, tuple or dict of them
        Position of the batch axis in the result, or in each leaf of a container.
    workers : int, executor or map-like callable, optional
        Divides the batch among workers, as for `jacobian`. The first part is computed in the calling thread and timed;
        workers compute the others if they are estimated to be faster.

    Returns
    -------
    callable
        Takes the arguments of `f`; results have one more axis. A tuple gives a tuple, a list of scalars an array.

    Raises
    ------
    ValueError
        If batch sizes differ, an axis does not exist, or results differ in shape or structure.

    See Also
    --------
    wengert.cuda.vmap : The same on a GPU.
    jacobian : Derivative of all results with respect to all arguments.

    Notes
    -----
    `f` is called once on the whole batch if NumPy can compute it that way. Otherwise, as with a branch on a value, `f`
    is called for each element, with copies of the arguments. Results equal those of a loop up to rounding, provided
    that `f` has no side effects and draws no random numbers; the first call checks both.

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> points = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> wg.vmap(wg.grad(lambda x: np.sum(x**2)))(points)
    array([[2., 4.],
           [6., 8.]])
    >>> wg.vmap(np.dot, in_axes=(0, None))(points, [1.0, 1.0])
    array([3., 7.])
    """
    from wengert.transforms.batch import Mapped  # imported here: derivatives do not need batching

    if workers is not None:
        from wengert.distributed import operators  # imported here: it imports `threading`, which is slow

        return operators.MappedOnWorkers(f, in_axes, out_axes, operators.engine_for(f, workers, "vmap"))
    return Mapped(f, in_axes, out_axes)


def stop_gradient(x: Any) -> Any:
    """Return `x` without derivatives: a constant for differentiation.

    Parameters
    ----------
    x : scalar, array or container
        Traced or not.

    Returns
    -------
    scalar, ndarray or container
        The same values, untraced.

    See Also
    --------
    primitive : Attach a derivative rule to a function.

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> wg.grad(lambda x: x * wg.stop_gradient(x), 3.0)
    np.float64(3.0)
    >>> def weighted(x):
    ...     r = x - 1.0
    ...     w = wg.stop_gradient(1 / np.abs(r))     # weights of iteratively reweighted least squares
    ...     return np.sum(w * r**2)
    >>> wg.grad(weighted, [3.0, 0.0])
    array([ 2., -2.])
    """
    note_stop()
    return stopped(x)


def primitive(
    f: Callable | None = None,
    *,
    jvp: Callable | str | None = None,
    vjp: Callable | None = None,
    sparsity: Any = None,
) -> Callable:
    """Attach a derivative rule to a function, which is then opaque to differentiation.

    `f` is called on plain arrays, so it may call anything: compiled code, a table, a solver.

    Parameters
    ----------
    f : callable
        Maps scalars and arrays to one floating-point scalar or array. If omitted, a decorator is returned.
    jvp : callable or "fd"
        ``jvp(t, y, *args, **kwargs)`` returns the tangent of the result, of its shape; `t` is a tuple with one tangent
        per positional argument, of its shape, or 0 for a constant. For a single argument `t` is its tangent.
        ``"fd"``: finite differences, extrapolated to step 0. They take about 30 calls of `f` per direction, are
        accurate to about ten digits, and give first derivatives only.
    vjp : callable
        ``vjp(ybar, y, *args, **kwargs)`` returns the cotangent of each positional argument, of the shape of that
        argument, or None for an argument without derivative. For a single argument it may return the cotangent alone.
        One of the two rules is enough for both modes: each is the transpose of the other.
        A rule that uses NumPy functions is itself differentiable, which gives second derivatives.
    sparsity : "elementwise", array_like, sparse array, or tuple of these, one per argument
        Dependence of the result on the argument: elementwise, or a pattern of shape ``(y.size, x.size)``.
        It saves directions if the pullback is built from a `jvp` that cannot be traced.

    Returns
    -------
    callable
        `f` with its rule; on untraced arguments it simply calls `f`.

    Raises
    ------
    TypeError
        If no rule is given, or if traced values are passed by keyword.
    ValueError
        If a rule returns an array of another shape, or if `jvp` gives a nonzero that `sparsity` excludes.
    UnsupportedFunctionError
        By a second derivative of a function with ``jvp="fd"``.

    Warns
    -----
    FiniteDifferenceWarning
        With ``jvp="fd"``, at the first derivative; the message estimates the error.

    See Also
    --------
    stop_gradient : Treat a value as a constant.
    wengert.testing.check_derivatives : Check a rule numerically.

    References
    ----------
    Ridders (1982), Accurate computation of F'(x). doi:10.1016/S0141-1195(82)80057-0 (for ``"fd"``)

    Examples
    --------
    >>> import math
    >>> import wengert as wg
    >>> @wg.primitive(vjp=lambda ybar, y, x: ybar * math.exp(x))
    ... def exp(x):
    ...     return math.exp(x)
    >>> wg.grad(lambda x: exp(x) ** 2, 0.0)
    np.float64(2.0)
    """
    if f is None:
        return functools.partial(primitive, jvp=jvp, vjp=vjp, sparsity=sparsity)
    return custom.primitive(f, jvp, vjp, sparsity)


def compile(
    f: Callable | None = None,
    *,
    exact: bool = False,
    recheck: str | int | None = "auto",
    tier: str = "auto",
    constant: Any = (),
    disable: str | Collection[str] = (),
) -> Callable:
    """Record a function when it is first called, and replay the recording without Python afterwards.

    Derivatives of a compiled function are compiled: ``grad(compile(f))`` and ``compile(grad(f))`` are equivalent.

    Parameters
    ----------
    f : callable
        A function that uses NumPy functions, a method, a callable object, or a transformed function such as
        ``grad(f)``. If omitted, a decorator is returned.
    exact : bool
        Return the same bits as `f` itself. By default elementwise functions may differ by 4 units in the last place,
        a sum of n terms by ``2 n eps`` times the sum of their magnitudes.
    recheck : "auto", int or None
        When to evaluate `f` as well and compare: "auto" at the 4th, 8th, 16th, ... call of each recording, an int at
        every `recheck`-th call, None never. Each recording is also compared with `f` when it is made.
    tier : {"auto", "vm", "llvm"}
        How recordings are executed: "vm" by the built-in virtual machine, "llvm" by machine code from LLVM, which
        requires ``pip install wengert[jit]``. "auto" generates machine code once the time spent in replays exceeds the
        estimated time of code generation; "llvm" generates it at once.
    constant : str, object, or a tuple of these
        Names of globals, variables, attributes and parameters, or objects themselves, that do not change between calls
        and are not checked. A change goes unnoticed until `recheck` finds it.
    disable : str or collection of str
        Compiler passes to disable, in addition to those named in the environment variable ``WENGERT_DISABLE``,
        separated by commas. `wengert.testing.bisect_passes` finds a pass that breaks a function.

    Returns
    -------
    callable
        With the signature of `f`. Its ``paths`` is the number of cached recordings.

    Raises
    ------
    StaleProgramError
        By a call in which `f` itself returned another value, because something that was declared constant has changed.
        The next call is right.
    ReplayMismatchError
        If `f` returns another value than its recording although nothing has changed. The next call is right.
    ImportError
        For ``tier="llvm"`` without llvmlite.
    ValueError
        If `disable` names no pass; the message lists them.

    Warns
    -----
    CompileWarning
        Once, if calls run `f` eagerly: it reads something that cannot be checked, has side effects that a replay would
        omit, cannot be recorded, or needs a new recording at nearly every call. The message names the line.

    See Also
    --------
    record : One recording, for inspection and storage.
    clear_caches : Drop all recordings.

    Notes
    -----
    Floats, complex scalars and arrays of them are inputs of the recording, both as arguments and where `f` reads them
    from outside: globals, variables of enclosing functions, defaults, attributes of user-defined objects, the user's
    modules, arrays by reference, items of small lists and dicts. Integers, strings, flags, None and shapes are part of
    the cache key: each combination is recorded once. A branch that depends on an input is guarded; each outcome is
    recorded once.

    Everything else that `f` reads is compared at each call: functions, classes, modules and objects by identity,
    together with all that their code reads, items of containers, and arrays of other types by their bytes. The first
    call of each recording also runs `f` itself under observation. If it runs code that cannot be checked, such as a
    draw of random numbers, a clock, a file, ``globals()``, an iterator or an environment variable, calls run eagerly.

    A function that assigns globals or attributes, or appends to lists from outside, runs eagerly, since a replay would
    omit these effects; a cache that it fills once does no harm.
    Arguments that C code reads directly, as in ``scipy.linalg.expm(K)``, are part of the cache key, compared by their
    contents; a derivative with respect to one raises, as without `compile`.
    Within a first derivative a call is one tape entry whose value and derivative are programs, so a step of
    `wengert.loop` may be compiled. In other derivatives, and for arguments of other types such as masked arrays, `f`
    runs eagerly.

    Up to 64 objects among the arguments are kept alive until `clear_caches` is called.

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> rate = 2.0
    >>> @wg.compile
    ... def f(x):
    ...     return np.sum(x**2) * rate
    >>> f(np.array([1.0, 2.0]))
    np.float64(10.0)
    >>> rate = 3.0
    >>> wg.grad(f)(np.array([1.0, 2.0]))
    array([ 6., 12.])
    """
    if f is None:
        return functools.partial(compile, exact=exact, recheck=recheck, tier=tier, constant=constant, disable=disable)
    Compiled = load("wengert.program.specialise.compiled").Compiled  # derivatives do not need programs
    if hasattr(type(f), "compiled"):  # a sparse derivative runs a program anyway
        return f.compiled(Compiled(f.f, exact, recheck, tier, constant, disable))
    return Compiled(f, exact, recheck, tier, constant, disable)


def record(
    f: Callable,
    x: Any,
    /,
    *others: Never,
    args: tuple = (),
    kwargs: dict | None = None,
    exact: bool = False,
    disable: str | Collection[str] = (),
) -> Program:
    """Record a function at a point as a program, which runs without Python and can be differentiated.

    `compile` records automatically what its calls need; `record` returns a program to inspect, store or send elsewhere.

    Parameters
    ----------
    f : callable
        A function that uses NumPy functions, or a transformed function such as ``grad(f)``.
    x : array_like or container
        Example of the first argument: a list of scalars is an array, an integer a float, as for `jacobian`.
    args, kwargs : tuple, dict
        Further arguments. Floats, complex scalars and arrays of them are inputs too; everything else is constant.
    exact : bool
        Return the same bits as `f` itself, see `compile`.
    disable : str or collection of str
        Compiler passes to disable for the program and its derivatives, see `compile`.

    Returns
    -------
    Program
        Takes the arguments of `f`, with the same shapes. Values that `f` reads from outside are frozen.
        Where `f` depends on memory order (``order="K"`` or ``"A"``), arguments are taken in C order.

    Raises
    ------
    TracedValueError
        If `f` writes something that outlives the call, or its values reach code that needs plain numbers.
    UnsupportedFunctionError
        If `f` calls a function that has no rule.

    See Also
    --------
    compile : Record and cache programs automatically.

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> program = wg.record(lambda x, k: k * x[0] if x[0] > 0 else x[1], [1.0, 2.0], args=(3.0,))
    >>> program([2.0, 0.0], 5.0)
    np.float64(10.0)
    >>> try:
    ...     program([-2.0, 0.0], 5.0)
    ... except wg.GuardError:
    ...     print("the other branch is another program")
    the other branch is another program
    """
    _check_no_further(others, "record(f, x")
    from wengert.program import record

    f = f.f if hasattr(type(f), "__wengert__") else f
    return record.record(f, (x, *args), kwargs or {}, exact, disable=disable)


def sparsity(
    f: Callable,
    x: Any,
    /,
    *others: Never,
    order: int = 1,
    kind: str = "global",
    args: tuple = (),
    kwargs: dict | None = None,
    argnums: int = 0,
) -> Any:
    """Detect the sparsity pattern of the Jacobian or the Hessian of a function.

    Records `f` and propagates index sets through its program.

    Parameters
    ----------
    f : callable
        Maps an array of shape S (and further arguments) to an array of shape T, or to a list of scalars.
        A function, a compiled one, or a `Program`.
    x : array_like, shape S
        Example of the argument: its shape matters, and the branches that `f` takes there.
    order : {1, 2}
        1: pattern of the Jacobian. 2: pattern of the Hessian. If `f` returns an array, the union of the Hessians of its
        elements, as for a Lagrangian.
    kind : {"global", "local"}
        "global": valid for all arguments at which `f` takes the same branches (``if``) as at `x`; both operands of
        ``np.where``, ``np.maximum`` and the like count. "local": valid at `x` only; the selected operand counts.
    args, kwargs : tuple, dict
        Further arguments: ``f(x, *args, **kwargs)``.
    argnums : int
        Position of the differentiated argument.

    Returns
    -------
    scipy.sparse.csr_array of bool
        Shape ``(y.size, x.size)``; for order 2 ``(x.size, x.size)`` and symmetric.
        It may have too many entries, never too few; see Notes.

    Raises
    ------
    TypeError
        If `f` returns a container, or if the argument is one.
    TracedValueError
        If `f` cannot be recorded.
    UnsupportedFunctionError
        If `f` calls a function that has no rule.

    See Also
    --------
    jacobian, hessian : Sparse derivatives, with ``sparse=True``.
    colouring : Colouring of a pattern.

    Notes
    -----
    Zeros of constant matrices and masks reduce the pattern. Zeros of other arguments do so only if `kind` is "local";
    arrays that a compiled function reads from outside never do, since they may change.
    A function of unknown structure, such as most of linear algebra, and an index that depends on `x`, such as that of a
    sort, make each element of the result depend on all elements of the operand.

    References
    ----------
    Griewank and Walther (2008), Evaluating Derivatives, section 7.1. doi:10.1137/1.9780898717761
    Walther (2008), Computing sparse Hessians with automatic differentiation. doi:10.1145/1322436.1322439

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> wg.sparsity(lambda x: x[1:] * x[:-1], np.ones(4)).astype(int).toarray()
    array([[1, 1, 0, 0],
           [0, 1, 1, 0],
           [0, 0, 1, 1]])
    >>> wg.sparsity(lambda x: np.sum(x[1:] * x[:-1]), np.ones(4), order=2).astype(int).toarray()
    array([[0, 1, 0, 0],
           [1, 0, 1, 0],
           [0, 1, 0, 1],
           [0, 0, 1, 0]])
    """
    _check_no_further(others, "sparsity(f, x")
    from wengert.sparse import pattern  # imported here: dense derivatives do not need programs

    return pattern.sparsity(f, x, order, kind, args, kwargs, argnums)


def clear_caches() -> None:
    """Release the memory that wengert keeps for future derivatives.

    Compiled functions drop their recordings, and derivative rules are traced again when needed.

    See Also
    --------
    compile : Keeps recordings.

    Examples
    --------
    >>> import wengert as wg
    >>> f = wg.compile(lambda x: x * x)
    >>> f(3.0), f.paths
    (9.0, 1)
    >>> wg.clear_caches()
    >>> f.paths
    0
    """
    tape.clear_caches()
    direct.clear_caches()
    repeated.clear_caches()
    programs = sys.modules.get("wengert.program.specialise.compiled")
    for compiled in [*programs.alive] if programs else ():
        compiled.clear()
    derive = sys.modules.get("wengert.program.derive.source_transform")
    if derive:
        derive.forget_rules()
    integrations = sys.modules.get("wengert.program.integration.shared")
    if integrations:
        integrations.forget()
