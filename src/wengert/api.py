"""The public drivers: ``op(f)`` returns a callable, ``op(f, x)`` evaluates.

Arguments are settled here; the work is done in `transforms/`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Never

from wengert.containers import stopped
from wengert.core.tape import tape
from wengert.errors import Refusal
from wengert.transforms import custom
from wengert.transforms.dense import JVP, VJP, Elementwise, Gradient, Jacobian
from wengert.transforms.second import HVP, Hessian, Linearize

if TYPE_CHECKING:
    from wengert.program.program import Program


class _NotGiven:
    """Default of `x`: None is a value that a function may be called with."""

    def __repr__(self):
        return "not given"


_NOT_GIVEN: Any = _NotGiven()


def _check_no_further(others, written):
    """Say what to write where arguments of the function follow by position, as JAX takes them."""
    if others:
        raise TypeError(
            f"{written}) was given {written.count(',') + 1 + len(others)} arguments by position: further arguments of "
            f"the function stand in args, write {written}, args=(y,)) for {written}, y)"
        )


def _apply(derivative, x, args, kwargs):
    """The callable itself, or its value at a point."""
    if x is _NOT_GIVEN:
        if args or kwargs:
            raise TypeError(f"{derivative!r}: args and kwargs go with a point x; the callable takes them when called")
        return derivative
    return derivative(x, *args, **(kwargs or {}))


def _along(derivative, x, v, args, kwargs):
    """A product at a point; where `f` fails at tuples, they may be all its arguments, as JAX takes them."""
    try:
        return derivative(x, v, *args, **(kwargs or {}))
    except TypeError as error:
        if type(x) is not tuple or type(v) is not tuple or args or isinstance(error, Refusal):
            raise
        word = derivative.word
        raise TypeError(
            f"{derivative!r}: the function failed on the tuple that was given as its one argument: {error}. Arguments "
            f"stand in no tuple here: write {word}(f, x, v) for {word}(f, (x,), (v,)), and {word}(f, x, (v, w), "
            f"args=(y,), argnums=(0, 1)) for {word}(f, (x, y), (v, w))"
        ) from error


def _operator(cls, f, *options):
    """The operator on `f`; a compiled `f` gives a compiled one."""
    return f.__wengert__(cls, options) if hasattr(type(f), "__wengert__") else cls(f, *options)


def _sparse(word, order, f, argnums, value, has_aux, chunk, mode, holomorphic, sparse, format):
    """A sparse derivative as a callable."""
    for name, given in (("has_aux", has_aux), ("chunk", chunk is not None), ("holomorphic", holomorphic)):
        if given:
            raise ValueError(f"{word}: {name}= is not for sparse derivatives")
    from wengert.sparse import drivers  # only here, so that dense derivatives load no programs

    return drivers.SparseDerivative(f, argnums, value, sparse, format, mode, order)


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
    """Gradient of a function that returns one number.

    Reverse mode: one run of `f`, one sweep, whatever the number of variables.

    Parameters
    ----------
    f : callable
        Maps an array of shape S (and further arguments) to one number, in NumPy code.
    x : array_like or container, shape S, optional
        Point at which to evaluate; never changed.
        Lists of numbers are arrays; dicts, dataclasses and lists of arrays are containers.
        Without it a callable with the signature of `f` is returned.
    args, kwargs : tuple, dict
        Further arguments: ``grad(f, x, args=(a, b))`` calls ``f(x, a, b)``.
    argnums : int, tuple of int, or slice
        Positions of the differentiated arguments. A tuple gives a tuple of gradients, a slice over scalar
        arguments one array with a trailing axis.
    value : bool
        Return ``(y, gradient)``.
    has_aux : bool
        `f` returns ``(y, aux)``; `aux` is returned last, as plain values.
    holomorphic : bool
        `f` is an analytic function of complex `x` and returns a complex number: return its derivative, see Notes.

    Returns
    -------
    ndarray of shape S, number, or container like `x`
        The gradient; with `value` or `has_aux` a tuple. Without `x`: the callable, which takes ``out=``.

    Raises
    ------
    TypeError
        If `f` does not return a single number, or `x` cannot be differentiated.
    ValueError
        With `holomorphic`, if `f` is not so at `x`.
    UnsupportedFunctionError
        If `f` calls a function that has no rule.
    TracedValueError
        If a traced value reaches code that cannot carry it.

    Notes
    -----
    Of complex `x` and real `f` the gradient g is the one with ``df = Re(sum(conj(g) * dx))``: it points uphill, and is
    the conjugate of what Autograd and JAX return.

    References
    ----------
    Griewank and Walther (2008), Evaluating Derivatives, section 3.2. doi:10.1137/1.9780898717761

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> wg.grad(lambda x: np.sum(x**2), [1.0, 2.0])
    array([2., 4.])
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
    """Value and gradient of a function that returns one number: `grad` with ``value=True``.

    As ``jac=True`` of ``scipy.optimize.minimize`` wants them.

    Parameters
    ----------
    f, x, args, kwargs, argnums, has_aux
        As for `grad`.

    Returns
    -------
    tuple
        ``(y, gradient)``, with `has_aux` ``(y, gradient, aux)``; without `x` the callable.

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> wg.value_and_grad(lambda x: np.sum(x**2), [1.0, 2.0])
    (np.float64(5.0), array([2., 4.]))
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
) -> Any:
    """Jacobian of a function, of shape ``y.shape + x.shape``.

    In reverse mode `f` is run once, and sweeps over its list carry many rows at once;
    in forward mode `f` is run with many tangents at once, and nothing is recorded.

    Parameters
    ----------
    f : callable
        Maps an array of shape S (and further arguments) to an array of shape T, or to a list of numbers.
    x : array_like or container, shape S, optional
        Point at which to evaluate; never changed. Without it a callable with the signature of `f` is returned,
        ready for ``jac=`` of SciPy's solvers.
    args, kwargs, argnums, value, has_aux
        As for `grad`.
    mode : {"auto", "forward", "reverse", "mixed"}
        Columns by tangents, or rows by sweeps. By default what costs less for the shape; the callable's ``plan``
        says what was chosen. "mixed", some columns and some rows, is for sparse Jacobians.
    chunk : int, optional
        Directions carried at once; memory grows with it. Chosen from the length of the list by default.
    holomorphic : bool
        Needed for complex `x`: `f` is analytic, which is checked by a second tangent for each element.
        Complex results of real `x` need no flag.
    sparse : bool, "auto" or pattern
        True: a sparse array, whose pattern is found from `f`; a sparse or boolean array of shape ``(y.size, x.size)``
        gives it. "auto": an ndarray where `x` has few elements or the Jacobian few zeros.
        `f` is recorded and replayed, as by `compile`.
        The entries of a pattern in COO format say the order of ``.values``, so none may occur twice.
        What `colouring` returns is a pattern, and has the nonzeros computed from products with its seeds.
    format : {"csr", "csc", "coo"}
        Of the sparse array. Zeros of the pattern are kept, and results share their arrays of indices, which are
        read-only.

    Returns
    -------
    ndarray of shape ``(*T, *S)``
        The Jacobian; for containers nested blocks, output outside, input inside.
        Without `x`: the callable, with ``.fun`` (see Notes) and ``out=``.
    sparse array of shape ``(y.size, x.size)``
        With `sparse`. The callable has ``.pattern``, ``.colours``, ``.mode`` and ``.plan`` of its last call, and
        ``.values(x, *args, out=)``, the nonzeros alone.

    Raises
    ------
    TypeError
        If `x` or what `f` returns cannot be differentiated.
    ValueError
        With `holomorphic`, if `f` is not so at `x`.
    UnsupportedFunctionError
        If `f` calls a function that has no rule.
    TracedValueError
        If a traced value reaches code that cannot carry it.
    PatternError
        If `f` has a derivative outside of the pattern that was given, or that has another shape or an entry twice.

    Notes
    -----
    ``J.fun`` is `f` through a one-entry cache, sharing its evaluation with the next call of ``J`` at the same
    point: ``root(J.fun, x0, jac=J)`` runs `f` once a point.

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
    >>> J = wg.jacobian(lambda x: x[1:] * x[:-1], sparse=True)
    >>> print(J(np.array([1.0, 2.0, 3.0])).toarray())
    [[2. 1. 0.]
     [0. 3. 2.]]
    """
    _check_no_further(others, "jacobian(f, x")
    if sparse is not False:
        derivative = _sparse("jacobian", 1, f, argnums, value, has_aux, chunk, mode, holomorphic, sparse, format)
        return _apply(derivative, x, args, kwargs)
    return _apply(_operator(Jacobian, f, argnums, value, has_aux, chunk, mode, holomorphic), x, args, kwargs)


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
    """Derivative of a function of one number, or of one that acts element by element.

    Forward mode: one run of `f` with tangents; each further order runs it inside another.

    Parameters
    ----------
    f : callable
        Maps a number to a number or an array, or an array of shape S to one of the same shape, element by element.
    x : array_like, shape S, optional
        Point at which to evaluate; never changed. Without it a callable with the signature of `f` is returned.
    order : int
        Which derivative: 1 is the first.
    args, kwargs, value, has_aux
        As for `grad`.
    argnums : int
        Position of the differentiated argument.
    holomorphic : bool
        As for `jacobian`; of the first order only.

    Returns
    -------
    number or ndarray, shape of ``f(x)``
        The derivative at each element.

    Raises
    ------
    ValueError
        If `f` mixes the elements of an array: then it has a `jacobian`.
        With `holomorphic`, if `f` is not so at `x`.

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
    """Value of `f` at `x` and its derivative in the direction `v`.

    Forward mode: one run of `f` with tangents, in constant memory however long it is.

    Parameters
    ----------
    f : callable
        Maps an array of shape S to an array of shape T, using NumPy functions.
    x : array_like or container, shape S, optional
        Point; never changed. Without it a callable ``(x, v, *args)`` is returned.
    v : array_like or container like `x`, shape S or (k, *S)
        Direction, or k of them stacked. With a tuple `argnums` a tuple, one an argument.
        Of complex `x` it may be complex: the derivative is then linear over the real numbers.
    args, kwargs, argnums, has_aux
        As for `grad`.

    Returns
    -------
    y : ndarray, shape T
    dy : ndarray, shape T or (k, *T)
        The Jacobian times `v`.
    aux
        With `has_aux` only.

    Raises
    ------
    UnsupportedFunctionError
        If `f` calls a function that has no rule.
    ValueError
        If the direction has another shape than `x`.

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
        raise TypeError(f"{derivative!r}: give the direction too: jvp(f, x, v)")
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
    """Value of `f` at `x` and its pullback.

    Parameters
    ----------
    f : callable
        Maps an array of shape S to an array of shape T, using NumPy functions.
    x : array_like or container, shape S, optional
        Point of linearisation; never changed. Without it a callable with the signature of `f` is returned.
    args, kwargs, argnums, has_aux
        As for `grad`.

    Returns
    -------
    y : ndarray, shape T
    pullback : callable
        Maps a cotangent of shape T to J^T times it, of shape S; callable any number of times, from any thread.
        Stacked cotangents of shape ``(k, *T)`` give ``(k, *S)``. Of complex values it is the adjoint of the derivative
        in the pairing ``Re(sum(conj(a) * b))``: J^H times the cotangent where `f` is analytic.
    aux
        With `has_aux` only.

    Raises
    ------
    UnsupportedFunctionError
        If `f` calls a function that has no rule.
    ValueError
        By the pullback, if the cotangent has another shape than `y`.

    References
    ----------
    Griewank and Walther (2008), Evaluating Derivatives, section 3.2. doi:10.1137/1.9780898717761

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> y, pullback = wg.vjp(lambda x: x**2, [1.0, 2.0, 3.0])
    >>> pullback(np.array([1.0, 0.0, 1.0]))
    array([2., 0., 6.])
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
) -> Any:
    """Hessian of a function that returns one number, exactly symmetric.

    Forward over reverse: one run of `f`, then sweeps over its list, forward and back, that carry many columns at once.

    Parameters
    ----------
    f : callable
        Maps an array of shape S (and further arguments) to one number, in NumPy code.
    x : array_like or container, shape S, optional
        Point at which to evaluate; never changed. Without it a callable with the signature of `f` is returned.
    args, kwargs, value, has_aux
        As for `grad`.
    argnums : int, tuple of int, or slice
        Positions of the differentiated arguments. A tuple gives a tuple of rows of blocks, a slice over numbers
        one square array.
    mode : {"auto", "mixed", "forward", "reverse"}
        "mixed", the default outside of other derivatives, sweeps one recording forwards and back;
        "forward" and "reverse" take the derivative of a derivative in that mode.
    chunk : int, optional
        Columns swept at once; memory grows with it. Chosen from the length of the list by default.
    sparse, format
        As for `jacobian`; the sparse array is exactly symmetric. A pattern with nothing above the diagonal, or nothing
        below it, as by ``scipy.sparse.tril``, asks for that triangle alone. Colourings are of the kinds "star" and
        "acyclic", by which nonzeros are found by substitution, from fewer products.

    Returns
    -------
    ndarray of shape ``(*S, *S)``
        The Hessian; for containers nested blocks. Without `x`: the callable, with ``.fun`` (see `jacobian`) and
        ``out=``.

    Raises
    ------
    TypeError
        If `f` does not return a single number, or `x` cannot be differentiated.
    UnsupportedFunctionError
        If `f` calls a function that has no rule.
    TracedValueError
        If a traced value reaches code that cannot carry it.
    PatternError
        As for `jacobian`, or if the pattern that was given is neither symmetric nor a triangle, or a colouring of
        another kind.

    Notes
    -----
    At kinks it is the derivative of the gradient as stated there: 0 for ``abs``, for example.

    References
    ----------
    Griewank and Walther (2008), Evaluating Derivatives, section 5.5. doi:10.1137/1.9780898717761

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> wg.hessian(lambda x: x[0] ** 2 * x[1], [1.0, 2.0])
    array([[4., 2.],
           [2., 0.]])
    """
    _check_no_further(others, "hessian(f, x")
    if sparse is not False:
        derivative = _sparse("hessian", 2, f, argnums, value, has_aux, chunk, mode, False, sparse, format)
        return _apply(derivative, x, args, kwargs)
    return _apply(_operator(Hessian, f, argnums, value, has_aux, chunk, mode), x, args, kwargs)


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
    """Product of the Hessian of `f` with a vector, without the Hessian.

    ``hvp(f)`` is a callable of the point, the vector and further arguments: ``hessp=`` of
    ``scipy.optimize.minimize``.

    Parameters
    ----------
    f : callable
        Maps an array of shape S (and further arguments) to one number, in NumPy code.
    x : array_like or container, shape S, optional
        Point at which to evaluate; never changed.
    v : array_like or container, shape S or (k, *S), optional
        Vector, or k of them stacked, in the form of the differentiated arguments; given together with `x`.
    args, kwargs
        As for `grad`.
    argnums : int or tuple of int
        Positions of the differentiated arguments, counted without `v`.

    Returns
    -------
    ndarray of the shape of `v`, or container
        The product; without `x` and `v` the callable.

    Raises
    ------
    TypeError
        If `f` does not return a single number, or `x` cannot be differentiated.
    ValueError
        If `v` has another shape than `x`.
    UnsupportedFunctionError
        If `f` calls a function that has no rule.

    References
    ----------
    Pearlmutter (1994), Fast exact multiplication by the Hessian. doi:10.1162/neco.1994.6.1.147

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> wg.hvp(lambda x: np.sum(x**3), [1.0, 2.0], [1.0, 1.0])
    array([ 6., 12.])
    """
    _check_no_further(others, "hvp(f, x, v")
    product = _operator(HVP, f, argnums)
    if x is _NOT_GIVEN or v is _NOT_GIVEN:
        if x is not _NOT_GIVEN:
            raise TypeError(f"{product!r}: a point x goes with a vector v; hvp(f) takes both when called")
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
    """Value of `f` at `x` and its Jacobian there as a linear operator, without the Jacobian.

    One run of `f`; each product is one sweep over its list, forward with the Jacobian, back with its transpose.

    Parameters
    ----------
    f : callable
        Maps an array of shape S (and further arguments) to an array of shape T, in NumPy code.
    x : array_like or container, shape S, optional
        Point of linearisation; never changed. Without it a callable with the signature of `f` is returned.
    args, kwargs
        As for `grad`.
    argnums : int or tuple of int
        Positions of the differentiated arguments.

    Returns
    -------
    y : ndarray, shape T
    J : scipy.sparse.linalg.LinearOperator, shape (y.size, x.size)
        Acts on flat vectors, and on matrices column by column; arrays of containers lie one after the other.
        May be used any number of times, from any thread.

    Raises
    ------
    UnsupportedFunctionError
        If `f` calls a function that has no rule.

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> y, J = wg.linearize(lambda x: x**2, [1.0, 2.0, 3.0])
    >>> J @ np.array([1.0, 0.0, 1.0])
    array([2., 0., 6.])
    """
    _check_no_further(others, "linearize(f, x")
    return _apply(_operator(Linearize, f, argnums), x, args, kwargs)


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
    """Taylor coefficients of `f` along a line: ``f(x + t v) = c[0] + c[1] t + ... + c[order] t^order + ...``.

    One run of `f` on truncated power series; the work grows with the square of the order.

    Parameters
    ----------
    f : callable
        Maps an array of shape S to an array of shape T, in NumPy code: elementwise functions, arithmetic, products,
        reductions, indexing and assignment, ``numpy.linalg.solve``, `inv`, `det`, `cholesky`.
    x : array_like or container, shape S, optional
        Point; never changed. Without it a callable ``(x, v, order, *args)`` is returned.
    v : array_like or container like `x`, shape S
        Direction. With a tuple `argnums` a tuple, one an argument.
    order : int
        Of the last coefficient.
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
        If a series reaches code that cannot carry it.
    ValueError
        If the direction has another shape than `x`, or the order is negative.

    Notes
    -----
    At kinks the conventions for first derivatives hold for every coefficient; branches are those taken at `x`.

    References
    ----------
    Griewank and Walther (2008), Evaluating Derivatives, section 13.2. doi:10.1137/1.9780898717761

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> wg.taylor(lambda x: np.exp(x), 0.0, 1.0, 3)
    array([1.        , 1.        , 0.5       , 0.16666667])
    >>> wg.taylor(lambda x: x[0] * x[1], [1.0, 2.0], [1.0, 1.0], 2)
    array([2., 3., 1.])
    """
    _check_no_further(others, "taylor(f, x, v, order")
    from wengert.transforms.taylor import Taylor  # only here, as below

    expansion = Taylor(f, argnums)
    if x is _NOT_GIVEN:
        return _apply(expansion, x, args, kwargs)
    if v is _NOT_GIVEN or order is _NOT_GIVEN:
        raise TypeError(f"{expansion!r}: give the direction and the order too: taylor(f, x, v, order)")
    return expansion(x, v, order, *args, **(kwargs or {}))


def vmap(f: Callable, in_axes: Any = 0, out_axes: Any = 0) -> Callable:
    """A function of one thing as a function of many, stacked along an axis.

    Inside and outside of derivatives: ``vmap(grad(f))`` are the gradients at many points, ``jacobian(vmap(f))`` is
    the Jacobian of all results.

    Parameters
    ----------
    f : callable
        Maps numbers, arrays and containers to such, in NumPy code.
    in_axes : int, None, or list, tuple or dict of them
        Which axis of each positional argument is that of the batch; None: the argument is the same for all elements.
        One number holds for all arguments, a list has one entry for each; an entry for a container may be a container
        of the same form. Keyword arguments are the same for all elements.
    out_axes : int, or list, tuple or dict of them
        Where the axis of the batch stands in the result, or in each part of a container.

    Returns
    -------
    callable
        With the arguments of `f`; results have one axis more. A tuple gives a tuple, a list of numbers an array.

    Raises
    ------
    ValueError
        If the lengths of the batch differ, an axis does not exist, or results differ in shape or form.

    Notes
    -----
    The function is called once, on all elements, where NumPy computes them together. Where it cannot, as with a
    branch on a value, it is called for each element, with arguments in memory of their own: the results are those of
    a loop, up to rounding, if the function neither leaves anything behind nor draws random numbers. Both is seen
    from the first call. On a GPU use `wengert.cuda.vmap`.

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
    from wengert.transforms.batch import Mapped  # only here, so that derivatives load no table of recurrences

    return Mapped(f, in_axes, out_axes)


def stop_gradient(x: Any) -> Any:
    """Plain copy of a traced value: a constant of the derivative.

    Parameters
    ----------
    x : number, array or container
        Traced or not.

    Returns
    -------
    number, ndarray or container
        The same values, plain.

    Examples
    --------
    >>> import wengert as wg
    >>> wg.grad(lambda x: x * wg.stop_gradient(x), 3.0)
    np.float64(3.0)
    """
    return stopped(x)


def primitive(
    f: Callable | None = None,
    *,
    jvp: Callable | str | None = None,
    vjp: Callable | None = None,
    sparsity: Any = None,
) -> Callable:
    """A function with a rule of its own, opaque to the derivative.

    `f` is called on plain arrays, so it may call anything: compiled code, a table, a solver.

    Parameters
    ----------
    f : callable
        Maps numbers and arrays to one number or array of floats. Left out, a decorator is returned.
    jvp : callable or "fd"
        ``jvp(t, y, *args, **kwargs)`` returns the tangent of the result, of its shape; `t` is a tuple of tangents,
        one a positional argument, of its shape, and 0 for a constant. For a single argument `t` is its tangent.
        ``"fd"``: by differences, extrapolated to a step of 0; some 30 calls of `f` for each direction, good to about
        ten digits, first derivatives only.
    vjp : callable
        ``vjp(ybar, y, *args, **kwargs)`` returns the cotangent of each positional argument, of the shape of that
        argument; None for an argument without derivative. For a single argument it may be returned alone.
        One of the two rules is enough for both modes: each is the other's transpose.
        Written in NumPy functions, a rule is differentiated again for second derivatives.
    sparsity : "elementwise", array_like, sparse array, or tuple of these, one an argument
        Which elements of the result depend on which of the argument: each on its own alone, or a pattern of shape
        ``(y.size, x.size)``. Saves directions where the pullback is made of a `jvp` that cannot be traced.

    Returns
    -------
    callable
        `f` with its rule; on plain arguments it is just `f`.

    Raises
    ------
    TypeError
        If no rule is given, or when traced values arrive as keywords.
    ValueError
        If what a rule returns has another shape, or `sparsity` leaves out what `jvp` gives.
    UnsupportedFunctionError
        By a second derivative of a function with ``jvp="fd"``.

    Warns
    -----
    FiniteDifferenceWarning
        With ``jvp="fd"``, at the first derivative: the estimated error.

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
    """A function that is recorded when first called, and replayed without Python afterwards.

    Derivatives of a compiled function are compiled: ``grad(compile(f))`` and ``compile(grad(f))`` are the same.

    Parameters
    ----------
    f : callable
        A function in NumPy code, a method, a callable object, or what ``grad(f)`` and the like return.
        Left out, a decorator is returned.
    exact : bool
        Give the same bits as `f` itself. By default elementwise functions may differ by 4 units in the last place,
        a sum of n terms by ``2 n eps`` times the sum of their magnitudes.
    recheck : "auto", int or None
        Run `f` itself too, and compare, at the 4th, 8th, 16th, ... call of each recording, at every `recheck`-th call,
        or never. Each recording is compared with `f` when it is made, whatever is asked for here.
    tier : {"auto", "vm", "llvm"}
        What runs the recordings: the machine that is always there, or code that LLVM makes of it, which
        ``pip install wengert[jit]`` brings. By default that is made once it pays, after as many replays as cost as much
        time as it takes to make; "llvm" makes it at once.
    constant : str, object, or a tuple of these
        What does not change between calls, and is not looked at: names of globals, variables, attributes and
        parameters, or objects themselves. A change of it goes unnoticed until `recheck` finds it.
    disable : str or collection of str
        Passes of the compiler that are switched off, beside those that the environment variable ``WENGERT_DISABLE``
        names, separated by commas. `wengert.testing.bisect_passes` finds a pass that breaks a function.

    Returns
    -------
    callable
        With the signature of `f`. Its ``paths`` is the number of recordings kept.

    Raises
    ------
    StaleProgramError
        By a call at which `f` itself gave another value: something has changed that was declared constant. The next
        call is right.
    ReplayMismatchError
        If `f` gives another value than its recording though nothing has changed. The next call is right.
    ImportError
        For ``tier="llvm"`` without llvmlite.
    ValueError
        If `disable` names no pass; the message lists them.

    Warns
    -----
    CompileWarning
        Once, when calls run `f` itself: it reads what cannot be watched, does what a replay would leave out, cannot be
        recorded, or nearly each call takes a recording of its own. The message names the line.

    Notes
    -----
    Floats, complex numbers and arrays of them, among the arguments and in what `f` reads, are inputs of the recording:
    globals, variables of enclosing functions, defaults, attributes of the user's objects, modules of the user's, arrays
    by reference, items of small lists and dicts. Integers, strings, flags, None and shapes are part of the key:
    each combination is recorded once. A branch that depends on an input is guarded; each way taken is recorded once.

    What cannot be watched is not compiled. All else that `f` reads is compared at each call: functions, classes,
    modules and objects by identity, whatever their code reads in turn, items of containers, arrays of other types by
    their bytes. The first call of each recording runs `f` itself as well, observed: if code runs that is not looked at,
    such as a draw of random numbers, a clock, a file, ``globals()``, an iterator, an environment variable, the calls
    run as they are.

    A function that assigns globals or attributes, or appends to lists of others, runs as it is, since a replay would
    not do so; a cache that it fills once does no harm.
    Arguments that code in C takes as they are, as in ``scipy.linalg.expm(K)``, are part of the key, compared by their
    contents; a derivative with respect to one raises, as without `compile`.
    Inside of a first derivative a call is one entry, whose value and derivative are programs; so a step of
    `wengert.loop` may be compiled. In other derivatives, and for arguments of other kinds, such as masked arrays, `f`
    runs as it is.

    Objects among the arguments are kept alive, up to 64 of them, until `clear_caches` is called.

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
    from wengert.program.specialise.compiled import Compiled  # only here, so that derivatives load no programs

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
    """The program of a function: what it did at a point, as a list that is run without Python and differentiated.

    `compile` records by itself whatever a call needs; a program is for looking at, keeping, and sending elsewhere.

    Parameters
    ----------
    f : callable
        A function in NumPy code, or what ``grad(f)`` and the like return.
    x : array_like or container
        Example of the first argument: a list of numbers is an array, an integer a float, as for `jacobian`.
    args, kwargs : tuple, dict
        Further arguments. Floats, complex numbers and arrays of them are inputs too; all else is constant.
    exact : bool
        Give the same bits as `f` itself, see `compile`.
    disable : str or collection of str
        Passes that are switched off, for the program and its derivatives, see `compile`.

    Returns
    -------
    Program
        Called as `f` is, with arguments of the same shapes. What `f` reads from outside has the values of now.
        Arguments are taken in C order, wherever `f` looks at the order of memory (``order="K"`` or ``"A"``).

    Raises
    ------
    TracedValueError
        If `f` writes what outlives the call, or its values reach code that needs plain numbers.
    UnsupportedFunctionError
        If `f` calls a function that has no rule.

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
    """Where the Jacobian or the Hessian of a function may be other than zero.

    `f` is recorded, and what each of its values depends on is followed from instruction to instruction.

    Parameters
    ----------
    f : callable
        Maps an array of shape S (and further arguments) to an array of shape T, or to a list of numbers.
        A function, a compiled one, or a `Program`.
    x : array_like, shape S
        Example of the argument: its shape matters, and the branches that `f` takes there.
    order : {1, 2}
        1: the pattern of the Jacobian. 2: that of the Hessian; where `f` returns an array, of all its elements, as the
        Hessian of a Lagrangian has it.
    kind : {"global", "local"}
        "global": for all arguments for which `f` takes the branches (``if``) that it takes at `x`; of ``np.where``,
        ``np.maximum`` and the like both sides. "local": at `x`, with the sides that are taken there.
    args, kwargs : tuple, dict
        Further arguments: ``f(x, *args, **kwargs)``.
    argnums : int
        Position of the argument that is differentiated.

    Returns
    -------
    scipy.sparse.csr_array of bool
        Shape ``(y.size, x.size)``; for order 2 ``(x.size, x.size)`` and symmetric.
        It may have too many entries, never too few: see Notes.

    Raises
    ------
    TypeError
        If `f` returns a container of arrays, or the argument is one.
    TracedValueError
        If `f` cannot be recorded.
    UnsupportedFunctionError
        If `f` calls a function that has no rule.

    Notes
    -----
    Zeros of constant matrices and masks are heeded. Zeros of other arguments are not, unless `kind` is "local", nor
    those of arrays that a compiled function reads from outside: they may change.
    Functions whose structure is not known, such as most of linear algebra, and indices that depend on `x`, such as
    those of a sort, make each element of a result depend on all elements of the operand.

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
    from wengert.sparse import pattern  # only here, so that dense derivatives load no programs

    return pattern.sparsity(f, x, order, kind, args, kwargs, argnums)


def clear_caches() -> None:
    """Give the memory that wengert keeps for its next derivatives back to the system.

    Compiled functions forget their recordings, and rules are traced anew for the next ones.
    """
    tape.clear_caches()
    programs = sys.modules.get("wengert.program.specialise.compiled")
    for compiled in [*programs.alive] if programs else ():
        compiled.clear()
    derive = sys.modules.get("wengert.program.derive.source_transform")
    if derive:
        derive.forget_rules()
