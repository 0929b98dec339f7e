"""Registry of primitives: one row per function, with its derivative rule and other facts about it.

A rule is a formula, written once in NumPy. `rules/` declares the rows and `core/` reads them; they share only the
registry.

These functions declare a row, from the simplest form of rule to the most general:

=================  ==========================================================================================
``elementwise``    one partial per operand: a function of ``(y, *operands)``, or a number if it is constant
``linear``         linear in its first argument: the transpose, a function of ``(ybar, *args, **kwargs)``
``structural``     the pullback of each differentiable argument, a function of ``(ybar, y, *args, **kwargs)``
``view``           returns a view of its first argument if NumPy does, else a rearrangement
``rearrangement``  moves, repeats or drops elements; computes none
``composed``       defined by other functions, and called with the traced values themselves
``by_formula``     the same, if the formula equals the function only up to rounding
``constant``       locally constant: zero derivative, plain result
``refuse``         has no derivative; the reason becomes the error message
=================  ==========================================================================================

Without a body, ``composed`` and ``by_formula`` are decorators.

Complex operands raise unless the row declares support for them: ``analytic`` if the rule is valid for them as it is,
``conjugated`` if it is written with conjugates, ``on_complex`` with separate rules.

In a pullback ``ybar`` is the cotangent of the result; the other arguments are those of the call, as plain arrays.
A pullback may return anything that broadcasts to the shape of its operand.
If a row is ``stacked``, as most are, its pullbacks accept cotangents with leading axes, so that one call pulls back k
directions.

Rules use NumPy functions that have rows themselves, so they can be recorded, and second derivatives come from the same
row. Rules branch on shapes and options, and on values only to choose between equivalent formulas.
Tangents come from the same row: for ``elementwise`` from the partials, for ``linear`` by applying the function to the
tangent, for ``curvature="cross"`` (linear in each operand) by applying it to the tangent and the other operands,
otherwise by transposing the pullback, or faster by a ``jvp``.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import reduce, wraps
from typing import Any

import numpy as np

from wengert.dependence import Elementwise, Moved

#: rows by function object
rows: dict[Any, Primitive] = {}

#: positions of operands that a function accepts only by keyword: ``positions[numpy.clip] = {"min": 1, "max": 2}``
positions: dict[Any, dict[str, int]] = {}

#: rows of functions in modules that are not imported yet, by dotted name
_dotted: dict[str, Primitive] = {}

#: modules of this package that declare rows for another module, imported once that one has been
_rule_modules: dict[str, tuple[str, ...]] = {}

#: function equivalent to a ufunc method: ``(np.add, "reduce")`` is ``np.sum``
ufunc_methods: dict[tuple[Any, str], Any] = {}


#: columns with facts other than the rule: keywords of the declaring functions and of `facts`
FACTS = (
    "batching", "body", "choices", "complex_parts", "condition", "continuous", "dependence", "expansion",
    "fills_zeros", "fits", "lowering", "native", "options", "rank_one", "replayed", "scalars", "selects", "simpler",
    "slope", "taylor", "unheeded", "watch", "work",
)  # fmt: skip

#: default dependence pattern by kind of row
_DEPENDENCE = {"elementwise": Elementwise(), "view": Moved(), "rearrangement": Moved()}


#: columns that, if not given, are set when first read, since their defaults are computed or mutable
_FILLED = {"adjoints", "dependence", "jvps", "keywords", "most", "vjps"}

#: columns of a row, with their default values; see also `_FILLED`
_DEFAULTS = {
    **dict.fromkeys("batching body complex_parts condition expansion fits lowering native options".split()),
    **dict.fromkeys("on_complex rank_one route scalars selects simpler slope sparsity taylor variadic".split()),
    **dict.fromkeys("watch work".split()),
    **dict.fromkeys("continuous fills_zeros is_formula replayed sequence stacked static".split(), False),
    **dict.fromkeys("home reason undefined".split(), ""),
    **dict.fromkeys("domain partials".split(), ()),
    **dict.fromkeys("choices unheeded".split(), frozenset()),
    **dict.fromkeys(_FILLED),
    "curvature": "full",
    "signature": (0,),
}

#: kinds of rows that are continuous if they are linear in each operand
_MOVES_OR_SUMS = ("view", "rearrangement", "linear", "structural")


class Primitive:
    """A row of the registry: a function, its derivative rule, and all other facts that the package knows about it.

    Attributes
    ----------
    fun : callable or None
        The function; None until a dotted name is resolved.
    name : str
        Dotted name, as messages and the coverage table print it.
    kind : str
        The function that declared the row.
    partials : tuple
        ``elementwise`` only: dy/d(operand i), a callable of ``(y, *operands)``, a number, or None for an
        argument without derivative.
    vjps : dict
        Pullbacks by position in the call: ``vjps[i](ybar, y, *args, **kwargs)``.
    jvps : dict
        Tangents of the result by position in the call: ``jvps[i](t, y, *args, **kwargs)``, where `t` is the tangent
        of that argument, with a leading axis of directions. Without one, the tangent is derived from the pullback.
        A variadic row has a single one, with key None.
    variadic : callable or None
        ``variadic(i, ybar, y, *args, **kwargs)``, for functions with any number of operands.
    sequence : bool
        The first argument is a sequence of operands, and its pullback returns one cotangent for each.
    keywords : frozenset or None
        Keywords that the rule supports; any other in a traced call is an error.
    most : int or None
        Maximum number of positional arguments that the rule supports.
    stacked : bool
        The pullbacks accept a cotangent with leading axes.
    undefined : str
        Why tangents of the result may be NaN although those of the operands are not: the text of the error that is
        raised if such a NaN reaches the derivative. If empty, NaN is treated as any other value.
    curvature : str
        Which second derivatives may be nonzero: ``"none"`` (linear), ``"cross"`` (linear in each operand, so only mixed
        ones), ``"second"`` (linear in the first of two operands) or ``"full"``, the safe default.
    continuous : bool or callable
        Whether the result is continuous in all operands where it is defined; a callable decides it for one call, as
        ``continuous(*args, **kwargs)``. Products and linear functions that are not elementwise need no entry.
    dependence : a word of `wengert.dependence`, callable or None
        Which elements of the result depend on which elements of each argument; None: each on all.
    domain : tuple
        One interval ``(low, high)`` per operand, from which tests draw.
    on_complex : dict or bool or callable or None
        Complex operands: True if the real rules hold for them too, because they are analytic in each operand; otherwise
        tangents by position, as in `jvps`; None if complex operands raise.
        ``constant`` only: the function that is called instead for complex operands.
    adjoints : dict
        Pullbacks that match the tangents in `on_complex`, by position and with leading axes: their adjoints in the
        pairing Re(sum(conj(a) b)). A missing one is computed from the tangents.
    rank_one : callable or None
        ``rank_one(i, ybar, *args)`` returns vectors u and v if the pullback of a matrix is u v^T, else None.
    reason : str
        ``refuse``, or ``constant`` with a derivative that is refused: why, and what to write instead.
    static : bool
        ``constant`` only: the result depends on shapes and dtypes alone.
    batching : True, callable or None
        How one call computes a whole batch, with the batch axis first. True: by the axes that `dependence` names.
        ``batching(*args, **kwargs)`` takes arrays with a batch axis, of length 1 for an operand without batch; it
        returns the batch of results, or None for unsupported arguments. None: one call per element; ufuncs need no
        entry.
    body : callable or None
        Computes the function by array code without branches on values, with the same bits. Programs inline it when no
        further derivative is taken, because calls of it take long.
    expansion : callable or None
        Expresses the function in arithmetic, slices and products, over which partials are accumulated: see
        `wengert.rules.expansions`.
    scalars : str or None
        How a call on a few elements is expanded into scalar instructions: a key understood by `passes.scalarise`, the
        GPU back end, and passes that look for sums and products.
    native : str or None
        The rule by which the VM computes a call on small arrays in C, without Python: a key of
        `wengert.program.ir.native_calls.RULES`. None: the rule of the column `scalars`, if it has one. Ufuncs,
        contractions and rearrangements need no entry.
    lowering : str or None
        How a recorded call becomes instructions of a program: a key of the rules in `wengert.program.tracing`. None: an
        opaque call. Ufuncs with an opcode and rearrangements need no entry.
    complex_parts : str or None
        How the real and imaginary part of a complex scalar are computed in a program: a key of the rules in
        `wengert.program.tracing`. None: by a call of the function.
    watch : str or None
        How dispatch reacts to a call besides recording it: ``"sign"`` (of the argument or of the difference of two),
        ``"second sign"``, ``"equality"``, ``"membership"``, ``"rounding"``, ``"shape"`` (the shape of the result
        depends on values), ``"text"``, ``"memory"`` (the result depends on the memory of an array), or ``"store"``
        (into the first argument).
    work : str or None
        Arithmetic that the cost model counts in a call: ``"contraction"`` (sums of products of the operands) or
        ``"factorisation"`` (of each matrix in the first operand). None: only the elements read and written.
    fills_zeros : bool
        Elements of the result that come from no operand are 0.
    slope : str or None
        The partial of result element (i, j) with respect to matrix element (k, l), as a product of elements of the
        result y: ``"-ik,lj"`` is -y[i, k] y[l, j].
    selects : callable or None
        ``elementwise`` only, for a choice between the last two operands: returns masks of where each of them is taken;
        both hold in a tie. The arguments are the values that decide: those of the first operand if it has no partial,
        else those of the two candidates.
    taylor : callable, word of `wengert.rules.taylor` or None
        Action on truncated power series, ``taylor(series, order, *args, **kwargs)``. None: by the partials, or
        coefficient by coefficient for a linear function.
    choices : frozenset
        Positions of integer or mask arguments that select among values and never change the shape of the result:
        in a recording they may depend on the inputs.
    fits : callable or None
        Returns whether `choices` applies to a call with ``(*args, **kwargs)``.
    condition : int or None
        Position of an argument whose elements matter only by their truth values, so that it may hold floats.
    is_formula : bool
        ``composed`` only: the body agrees with the function within rounding only, so the value is the function's own.
    replayed : bool
        The body of a composed function, or the pullback of another one, makes so many calls that gradients compute
        repeated calls by a program; see `wengert.core.dispatch.repeated`.
    simpler : callable or None
        Computes the same result by other functions; returns None if it does not apply.
    options : dict or None
        By name of a keyword: computes a call by other functions, given the keyword's value and the other arguments. It
        applies where the value is traced, which NumPy does not dispatch on, or the rule does not accept the keyword.
    sparsity : "elementwise", array_like, sparse array, tuple of these, or None
        ``custom`` only: which elements of the result depend on which elements of each argument; None: each on all.
    unheeded : frozenset
        Keywords that can be ignored, since they only permit what traced calls never do, such as overwriting an operand.
    route : object or None
        Facts that `wengert.core.dispatch.direct`, the fast path of calls, has derived from this row.
    signature : tuple
        ``(skip, *functions)``: the parameters of these functions, without the first `skip`, are the arguments that the
        derivative accepts.
    home : str
        Dotted name under which the row object itself is found, if it is not in the registry.
    """

    def __init__(self, fun, kind, **columns):
        self.fun = None if isinstance(fun, str) else fun
        self.name = fun if isinstance(fun, str) else dotted_name(fun)
        self.kind = kind
        for name in columns.keys() - _DEFAULTS.keys():
            raise TypeError(f"a row has no column {name}")
        self.__dict__.update(columns)

    def __getattr__(self, name):
        """Set a column in `_FILLED` when it is first read, since creating rows takes much of the first import."""
        if name not in _FILLED:
            raise AttributeError(f"a row has no column {name}")
        if name in ("keywords", "most"):
            self.keywords, self.most = _accepted(*self.signature)
        else:
            setattr(self, name, _DEPENDENCE.get(self.kind) if name == "dependence" else {})
        return object.__getattribute__(self, name)

    def __repr__(self):
        return f"<{self.kind} {self.name}>"

    def is_continuous(self, args: tuple, kwargs: dict) -> bool:
        """Return whether the result of this call is known to be continuous in all operands."""
        if self.selects is not None or self.choices:
            return False
        if self.continuous:
            return not callable(self.continuous) or self.continuous(*args, **kwargs)
        return self.kind in _MOVES_OR_SUMS and self.curvature in ("none", "cross")

    def __reduce__(self):
        if self.home:
            return _at_home, (self.home,)
        if lookup(self.fun) is not self:
            raise TypeError(f"{self.name}: its rule cannot be pickled, as no module holds it")
        return lookup, (self.fun,)


for _name, _value in _DEFAULTS.items():
    if _name not in _FILLED:
        setattr(Primitive, _name, _value)


def _at_home(home: str) -> Primitive:
    """Return the row object stored under a dotted name."""
    module, _, name = home.rpartition(".")
    return getattr(importlib.import_module(module), name)


def dotted_name(fun: Any) -> str:
    """Return the name by which users know a function: ``numpy.linalg.inv``, ``scipy.special.erf``."""
    name = getattr(fun, "__name__", None) or repr(fun)
    module = getattr(fun, "__module__", None)
    if not module and type(fun).__name__ == "ufunc":
        special = sys.modules.get("scipy.special")
        private = "scipy.special._ufuncs" if name.startswith("_") else "numpy"
        module = "scipy.special" if getattr(special, name, None) is fun else private
    return f"{module}.{name}".removeprefix("wengert.") if is_mirror(module) else f"{module}.{name}" if module else name


def is_mirror(module: str | None) -> bool:
    """Return whether a module mirrors one of SciPy; users know its functions by SciPy's names."""
    return isinstance(module, str) and module.startswith("wengert.scipy.")


def _accepted(skip: int, *pullbacks: Callable) -> tuple[frozenset | None, int | None]:
    """Return the keywords and the number of positional arguments that all of the pullbacks accept."""
    keywords: set | None = None
    most: int | None = None
    for pullback in pullbacks:
        code = getattr(pullback, "__code__", None)
        if code is None:
            continue
        names = code.co_varnames[skip : code.co_argcount + code.co_kwonlyargcount]
        keywords = set(names) if keywords is None else keywords & set(names)
        if not code.co_flags & 0x04:  # no *args
            count = code.co_argcount - skip
            most = count if most is None else min(most, count)
        if code.co_flags & 0x08:  # **kwargs: any keyword
            keywords |= {"*"}
    if keywords is None or "*" in keywords:
        return None, most
    return frozenset(keywords), most


def _add(fun: Any, row: Primitive) -> Primitive:
    table: dict = _dotted if isinstance(fun, str) else rows
    if fun in table:
        raise ValueError(f"{row.name} is declared twice: as {table[fun]!r} and as {row!r}")
    table[fun] = row
    return row


def elementwise(fun, *partials, **columns) -> Primitive:
    """Declare a function that acts elementwise, by its partial with respect to each operand."""
    return _add(fun, Primitive(fun, "elementwise", partials=partials, **columns))


def linear(fun, transpose: Callable, *, jvp: Callable | None = None, stacked: bool = True, **columns) -> Primitive:
    """Declare a function that is linear in its first argument, by its transpose ``(ybar, *args, **kwargs)``.

    `jvp`, a function of ``(t, y, *args, **kwargs)``, applies the function to all directions of the tangent at once.
    """

    def vjp(ybar, y, *args, **kwargs):
        return transpose(ybar, *args, **kwargs)

    columns |= {"vjps": {0: vjp}, "jvps": {} if jvp is None else {0: jvp}, "signature": (1, transpose)}
    return _add(fun, Primitive(fun, "linear", curvature="none", stacked=stacked, **columns))


def structural(
    fun, *vjp: Callable | None, jvp: Any = (), variadic: Callable | None = None, stacked: bool = True, **columns
) -> Primitive:
    """Declare a function by the pullback of each positional argument; None for one without derivative.

    `jvp` holds functions of ``(t, y, *args, **kwargs)``, also by position. They make forward mode faster but are not
    required. For a `variadic` row `jvp` is one function of ``(i, t, y, *args, **kwargs)``; for a `sequence` row its
    first function takes a list with one tangent per item.
    """
    vjps = {i: pullback for i, pullback in enumerate(vjp) if pullback is not None}
    jvps = {None: jvp} if callable(jvp) else {i: push for i, push in enumerate(jvp) if push is not None}
    signature = (3, variadic) if variadic else (2, *vjps.values())
    columns |= {"vjps": vjps, "jvps": jvps, "variadic": variadic, "signature": signature}
    return _add(fun, Primitive(fun, "structural", stacked=stacked, **columns))


def view(*funs) -> None:
    """Declare functions that return a view of their first argument if possible, else a rearranged copy."""
    for fun in funs:
        _add(fun, Primitive(fun, "view", curvature="none"))


def rearrangement(*funs, sequence: bool = False) -> None:
    """Declare functions whose result holds elements of the first argument (or of the sequence), moved or repeated."""
    for fun in funs:
        _add(fun, Primitive(fun, "rearrangement", sequence=sequence, curvature="none"))


def facts(*funs, **columns) -> None:
    """Add facts to the rows of functions: the columns named in `FACTS`."""
    for name in columns:
        if name not in FACTS:
            raise TypeError(f"a row has no column {name!r}; facts are {', '.join(FACTS)}")
    for fun in funs:
        for name, fact in columns.items():
            setattr(declared(fun), name, fact)


def or_decorator(declare: Callable) -> Callable:
    """Let a declaring function that takes a body be called without one: it then returns a decorator of the body."""

    @wraps(declare)
    def declaring(fun, body=None, **facts):
        if body is not None:
            return declare(fun, body, **facts)

        def decorate(body):
            declare(fun, body, **facts)
            return body

        return decorate

    return declaring


@or_decorator
def composed(fun, body: Callable, **facts) -> Primitive:
    """Declare a function by an equivalent body of other functions, which computes the same bits."""
    row = Primitive(fun, "composed", variadic=body, signature=(0, body), **facts)
    row.replayed = facts.get("replayed", row.name.startswith("scipy."))
    return _add(fun, row)


@or_decorator
def by_formula(fun, body: Callable, **facts) -> Primitive:
    """Declare a function by a formula of other functions, which computes the same value within rounding.

    Derivatives are those of the formula; the value is that of the function itself, except in a recorded program.
    """
    row = composed(fun, body, **facts)
    row.is_formula = row.replayed = True
    return row


def constant(*funs, **columns) -> None:
    """Declare functions that are locally constant: plain results, zero derivatives; with a `reason`, it is refused."""
    for fun in funs:
        _add(fun, Primitive(fun, "constant", curvature="none", **columns))


def refuse(fun, reason: str) -> None:
    """Declare that a function has no derivative; `reason` says why and what to write instead."""
    _add(fun, Primitive(fun, "refuse", reason=reason))


def strong(cotangent, partial):
    """Multiply with strong zero: a factor that is exactly 0 gives 0, even if the other is infinite or NaN.

    A branch that ``np.where`` did not select then contributes nothing, even if its partial is infinite.
    All other elements keep the plain product, since its derivative need not be zero where a factor is.
    """
    product = strong_product(cotangent, partial)
    if product is None:
        product = record_strong(cotangent, partial)
    if product is not None:
        return product
    with np.errstate(invalid="ignore", over="ignore"):
        product = np.multiply(cotangent, partial)
        spoiled = np.isnan(product)
        if spoiled.any():  # replace only NaN: a product that is 0 may have a nonzero derivative
            product = np.where(spoiled & (np.equal(cotangent, 0) | np.equal(partial, 0)), 0, product)[()]
    return product


def _absent(*args):
    """Stand in for a function that the core defines when it is imported."""


#: ``strong_product(cotangent, partial)`` of plain arrays or scalars in one loop; None for others
strong_product = _absent
#: ``strong_matmul_product(a, b)`` of plain matrices or vectors; None for others
strong_matmul_product = _absent
#: ``note_windows(x, places, windows)`` lets `windows`, copies of elements at `places` of `x`, follow stores into `x`
note_windows = _absent
#: ``is_passive(x)`` returns whether `x` is a value of a program being recorded that carries no derivative
is_passive = _absent
#: ``record_strong(cotangent, partial)`` records the strong product as one tape entry; None if nothing records
record_strong = _absent


def inverse_permutation(places, n):
    """Return the inverse, from 0, of a permutation of 1, ..., n; None if `places` is none."""
    if type(places) is not np.ndarray or places.size != n:
        return None
    inverse = np.full(n + 1, -1)
    inverse[places] = np.arange(n)
    return inverse[1:] if inverse[0] < 0 <= inverse[1:].min(initial=0) else None


def sums_by_place(places, z, n):
    """Sum the elements of `z` with equal index in `places` into `n` bins: ``bincount``, for complex `z` too."""
    if z.dtype.kind == "c":
        return np.bincount(places, z.real, n) + 1j * np.bincount(places, z.imag, n)
    return np.bincount(places, z, n)  # positional: NumPy 2.0 exposes no parameter names


def strong_matmul(a, b):
    """Return ``a @ b`` for matrices, or a vector `b`, with strong zero: 0 times inf or NaN is 0.

    The slow term-by-term sum runs only if the product is NaN and an operand is not finite, which is rare.
    """
    y = strong_matmul_product(a, b)
    if y is not None:
        return y
    if np.shape(a)[-1] == 1:  # an outer product, which BLAS computes slowly
        return strong(a[..., 0], b) if np.ndim(b) == 1 else strong(a, b)
    y = np.matmul(a, b)
    # the sum of squares is NaN if any element is, and needs no array of booleans
    if not np.isnan(np.vdot(y, y)) or (np.isfinite(a).all() and np.isfinite(b).all()):
        return y
    if np.ndim(b) == 1:
        return strong_matmul(a, b[:, None])[..., 0]
    terms = (strong(a[..., :, k : k + 1], b[..., k : k + 1, :]) for k in range(np.shape(a)[-1]))
    return reduce(np.add, terms)


def declared(fun) -> Primitive:
    """Return the row of a function, or of a dotted name that is not resolved yet."""
    return _dotted[fun] if isinstance(fun, str) else rows[fun]


def analytic(*funs) -> None:
    """Declare that the rules of these functions hold for complex operands too."""
    for fun in funs:
        declared(fun).on_complex = True


def on_complex(fun, *jvp: Callable, vjp: tuple = ()) -> None:
    """Declare the tangents of a function for complex operands, by position: ``(t, y, *args, **kwargs)``.

    They are linear in `t` over the reals.
    `vjp` holds their adjoints in the pairing Re(sum(conj(a) b)), functions of ``(ybar, y, *args, **kwargs)``. They make
    reverse mode faster but are not required, unless `jvp` calls the function itself; then the transpose of a `linear`
    row is used by default.
    """
    row = declared(fun)
    row.on_complex = dict(enumerate(jvp))
    row.adjoints = dict(enumerate(vjp)) if vjp or row.kind != "linear" else row.vjps


def conjugated(*funs) -> None:
    """Declare that the rules of these functions contain the conjugates that complex operands need.

    Tangents are then linear over the reals, and pullbacks their adjoints in the pairing Re(sum(conj(a) b)).
    """
    for fun in funs:
        rows[fun].on_complex, rows[fun].adjoints = rows[fun].jvps, rows[fun].vjps


def lookup(fun) -> Primitive | None:
    """Return the row of a function, or None. Dotted names are resolved once their module has been imported."""
    row = rows.get(fun)
    if row is None and (_dotted or _rule_modules):
        declare_loaded()
        row = rows.get(fun)
    return row


def declare_later(module: str, *rule_modules: str) -> None:
    """Import `rule_modules`, modules that declare rows, at the first lookup after `module` has been imported."""
    _rule_modules[module] = rule_modules


def declare_loaded() -> None:
    """Declare the rows of modules that have been imported since the last call; never import a third-party module."""
    for module in [module for module in _rule_modules if module in sys.modules]:
        for rule_module in _rule_modules.get(module, ()):  # a second thread waits here on the import lock
            importlib.import_module(rule_module)
        _rule_modules.pop(module, None)
    for name in list(_dotted):
        module, _, attribute = name.rpartition(".")
        if module in sys.modules:
            row = _dotted.get(name)
            fun = getattr(sys.modules[module], attribute, None)
            if row is not None and fun is not None:
                row.fun = fun
                rows[fun] = row
            _dotted.pop(name, None)


def nearest(fun) -> str | None:
    """Return the name of the supported function whose name is most similar to that of `fun`, for error messages."""
    import difflib

    names = {row.name.rpartition(".")[2]: row.name for row in rows.values() if row.kind != "refuse"}
    found = difflib.get_close_matches(dotted_name(fun).rpartition(".")[2], names, n=1, cutoff=0.75)
    return names[found[0]] if found else None
