"""What a primitive is: one record, one registry, and the words that declare a rule.

A rule is mathematics, written once in NumPy.
`rules/` declares the rows, `core/` reads them; they meet here and nowhere else.

The words, from the shortest to the most general:

=================  ==========================================================================================
``elementwise``    one partial per operand, each a function of ``(y, *operands)``, or a number where it is constant
``linear``         linear in its first argument: the transpose, a function of ``(ybar, *args, **kwargs)``
``structural``     the pullback of each differentiable argument, a function of ``(ybar, y, *args, **kwargs)``
``view``           returns a view of its first argument where NumPy does, else a rearrangement
``rearrangement``  moves, repeats or drops elements; computes none
``composed``       written in terms of other functions, and called with the traced values themselves
``constant``       locally constant: its derivative is zero, its result plain
``refuse``         has no derivative; the reason is the error's text
=================  ==========================================================================================

What holds for complex operands is declared beside the row: ``analytic`` says that its rule is right for them as it is,
``conjugated`` that it is written with conjugates, ``on_complex`` gives rules of their own. Without they are refused.

In a pullback ``ybar`` is the cotangent of the result and the arguments are those of the call, as plain arrays.
A pullback may return anything that broadcasts to the shape of its operand.
A row marked ``stacked`` takes cotangents with leading axes, so that k directions are pulled back at once.

Rules are recordable: written in NumPy functions that have rows themselves, so that a derivative of the derivative
comes from the same row; they branch on shapes and options, and on values only to choose between equal formulas.
Tangents follow from the same row: of an elementwise one from its partials, of a linear one by the function itself,
of one with ``curvature="cross"`` (linear in each operand alone) by the function of the tangent and the others,
of any other by transposing its pullback, or faster by its ``jvp``.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from wengert.dependence import Elementwise, Moved

#: rows by the function object they speak of; ufuncs and functions alike
rows: dict[Any, Primitive] = {}

#: positions of operands that a function takes as keywords only: ``positions[numpy.clip] = {"min": 1, "max": 2}``
positions: dict[Any, dict[str, int]] = {}

#: rows of modules that are not imported yet, by dotted name
_dotted: dict[str, Primitive] = {}

#: modules of ours that declare the rows of a module, to be imported when that has been
_chapters: dict[str, tuple[str, ...]] = {}

#: functions that do what a method of a ufunc does: ``(np.add, "reduce")`` is ``np.sum``
ufunc_methods: dict[tuple[Any, str], Any] = {}


#: columns that state further facts of a function: keywords of the words that declare rows, and of `facts`
FACTS = ("batching", "dependence", "expansion", "scalars", "selects", "slope", "taylor")

#: dependence patterns of whole kinds of rows
_DEPENDENCE = {"elementwise": Elementwise(), "view": Moved(), "rearrangement": Moved()}


class Primitive:
    """One row: a function, the mathematics of its derivative, and whatever else is known of it.

    Everything that any part of the package knows of a function stands here.

    Attributes
    ----------
    fun : callable or None
        The function; None until a dotted name is resolved.
    name : str
        Dotted name, as messages and the coverage table print it.
    kind : str
        The word that declared the row.
    partials : tuple
        ``elementwise`` only: dy/d(operand i), a callable of ``(y, *operands)``, a number, or None for an
        argument that has no derivative.
    vjps : dict
        Pullbacks by position in the call: ``vjps[i](ybar, y, *args, **kwargs)``.
    jvps : dict
        Tangents of the result by position in the call: ``jvps[i](t, y, *args, **kwargs)``, where `t` is the tangent
        of that argument, with leading axes (the directions). Without one the tangent follows from the pullback.
        A variadic row has a single one, under None.
    variadic : callable or None
        ``variadic(i, ybar, y, *args, **kwargs)``, for functions with any number of operands.
    sequence : bool
        The first argument is a sequence of operands, and its pullback returns one cotangent for each.
    keywords : frozenset or None
        Keywords the rule understands; any other in a traced call is an error.
    most : int or None
        The most positional arguments that the rule understands.
    stacked : bool
        The pullbacks take a cotangent with leading axes.
    undefined : str
        Why tangents of the result may be NaN, though those of the operands are none: the text of the error that is
        raised if such a NaN reaches the derivative. Empty: NaN is a number like any other.
    curvature : str
        Which second derivatives may be nonzero: ``"none"`` (linear), ``"cross"`` (linear in each operand alone, so
        only mixed ones), ``"second"`` (linear in the first of two operands) or ``"full"``, the safe default.
    dependence : a word of `wengert.dependence`, callable or None
        Which elements of the result depend on which of each argument; None: on all of all arguments.
    domain : tuple
        One ``(low, high)`` per operand, from which tests draw.
    on_complex : dict or bool or callable or None
        Complex operands: True if the rules for real ones are right for them too, because they are analytic in each
        operand; functions by position, as in `jvps`, where they are not; None if they are refused.
        ``constant`` only: the function that is called in place of it.
    adjoints : dict
        Pullbacks that go with the functions of `on_complex`, by position and with leading axes: adjoint in the pairing
        Re(sum(conj(a) b)). One that is missing follows from the tangents, by a sweep over them.
    reason : str
        ``refuse`` only: why there is no derivative and what to write instead.
    static : bool
        ``constant`` only: the result depends on shapes and dtypes alone.
    batching : True, callable or None
        How one call serves a whole batch, whose axis comes first.  True: by the axes that `dependence` names.
        ``batching(*args, **kwargs)``: of arrays with the axis of the batch, which has length 1 where an operand is
        the same for all; it returns the batch of results, or None of arguments that it does not know.  None: there is
        one call for each element, but ufuncs need no statement.
    expansion : callable or None
        Gives the function in arithmetic, slices and products, from which partials are accumulated: see
        `wengert.rules.expansions`.
    scalars : str or None
        How the function of a few elements is expanded into scalar instructions: a word that `passes.scalarise`, the
        GPU back end and passes that look for sums and products know.
    slope : str or None
        The partial of element (i, j) of a result y in element (k, l) of a matrix, as a product of elements of y:
        ``"-ik,lj"`` is -y[i, k] y[l, j].
    selects : callable or None
        ``elementwise`` only, of a choice between the last two operands: masks of where each of them is taken, by the
        values of the operands that decide; both in a tie.  A row decides by the operand that has no partial, if the
        first has none, else by those it chooses from.
    taylor : callable, word of `wengert.rules.taylor` or None
        How the function acts on truncated power series, ``taylor(series, order, *args, **kwargs)``.  None: by its
        partials, or coefficient by coefficient where it is linear.
    choices : frozenset
        Positions of integers and masks that choose among values, and never change the shape of the result:
        in a recording they may be computed from the inputs.
    fits : callable or None
        Whether that is so for these ``(*args, **kwargs)``.
    condition : int or None
        Position of the argument that is asked only which of its elements are other than 0.
    simpler : callable or None
        Gives the same as the function for less, or None where it does not.
    sparsity : "elementwise", array_like, sparse array, tuple of these, or None
        ``custom`` only: which elements of the result depend on which of each argument; None: all.
    unheeded : frozenset
        Keywords that allow what is never done, such as writing into an operand.
    home : str
        Dotted name of the row itself, if it is not in the registry.
    """

    __slots__ = (
        "adjoints",
        "batching",
        "choices",
        "condition",
        "curvature",
        "dependence",
        "domain",
        "expansion",
        "fits",
        "fun",
        "home",
        "jvps",
        "keywords",
        "kind",
        "most",
        "name",
        "on_complex",
        "opcode",
        "partials",
        "reason",
        "scalars",
        "selects",
        "sequence",
        "simpler",
        "slope",
        "sparsity",
        "stacked",
        "static",
        "taylor",
        "undefined",
        "unheeded",
        "variadic",
        "vjps",
    )

    def __init__(self, fun, kind, **columns):
        unknown = columns.keys() - {*self.__slots__, "signature"}
        if unknown:
            raise TypeError(f"a row has no column {', '.join(sorted(unknown))}")
        self.fun = None if isinstance(fun, str) else fun
        self.name = fun if isinstance(fun, str) else dotted_name(fun)
        self.kind = kind
        self.partials = columns.get("partials", ())
        self.vjps = columns.get("vjps", {})
        self.jvps = columns.get("jvps", {})
        self.variadic = columns.get("variadic")
        self.sequence = columns.get("sequence", False)
        self.stacked = columns.get("stacked", False)
        self.undefined = columns.get("undefined", "")
        self.curvature = columns.get("curvature", "full")
        self.batching = columns.get("batching")
        self.dependence = columns.get("dependence", _DEPENDENCE.get(kind))
        self.domain = columns.get("domain", ())
        self.on_complex = columns.get("on_complex")
        self.adjoints = {}
        self.reason = columns.get("reason", "")
        self.keywords, self.most = columns.get("signature", (None, None))
        self.expansion = columns.get("expansion")
        self.scalars = columns.get("scalars")
        self.slope = columns.get("slope")
        self.taylor = columns.get("taylor")
        self.static = columns.get("static", False)
        self.selects = columns.get("selects")
        self.choices = frozenset()
        self.fits = None
        self.condition = None
        self.simpler = None
        self.sparsity: Any = None
        self.unheeded = frozenset()
        self.home = columns.get("home", "")
        self.opcode = 0

    def __repr__(self):
        return f"<{self.kind} {self.name}>"

    def __reduce__(self):
        if self.home:
            return _at_home, (self.home,)
        if lookup(self.fun) is not self:
            raise TypeError(f"{self.name}: its rule cannot be pickled, as no module holds it")
        return lookup, (self.fun,)


def _at_home(home: str) -> Primitive:
    """The row of a dotted name."""
    module, _, name = home.rpartition(".")
    return getattr(importlib.import_module(module), name)


def dotted_name(fun: Any) -> str:
    """Name under which users know a function: ``numpy.linalg.solve``, ``scipy.special.erf``."""
    name = getattr(fun, "__name__", None) or repr(fun)
    module = getattr(fun, "__module__", None)
    if not module and type(fun).__name__ == "ufunc":
        special = sys.modules.get("scipy.special")
        module = "scipy.special" if getattr(special, name, None) is fun else "numpy"
    return f"{module}.{name}" if module else name


def _signature(*pullbacks: Callable, skip: int) -> tuple[frozenset | None, int | None]:
    """Keywords and number of positional arguments that every one of the pullbacks takes."""
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


def elementwise(fun, *partials, curvature: str = "full", domain: tuple = (), **facts) -> Primitive:
    """Declare a function that acts element by element, by its partial in each operand."""
    return _add(fun, Primitive(fun, "elementwise", partials=partials, curvature=curvature, domain=domain, **facts))


def linear(
    fun, transpose: Callable, *, jvp: Callable | None = None, stacked: bool = False, domain: tuple = (), **facts
) -> Primitive:
    """Declare a function that is linear in its first argument, by its transpose ``(ybar, *args, **kwargs)``.

    `jvp`, of ``(t, y, *args, **kwargs)``, applies the function to all directions of the tangent at once.
    """

    def vjp(ybar, y, *args, **kwargs):
        return transpose(ybar, *args, **kwargs)

    signature = _signature(transpose, skip=1)
    return _add(
        fun,
        Primitive(
            fun,
            "linear",
            vjps={0: vjp},
            jvps={} if jvp is None else {0: jvp},
            stacked=stacked,
            curvature="none",
            domain=domain,
            signature=signature,
            **facts,
        ),
    )


def structural(
    fun,
    *vjp: Callable | None,
    jvp: tuple = (),
    variadic: Callable | None = None,
    sequence: bool = False,
    stacked: bool = False,
    curvature: str = "full",
    domain: tuple = (),
    undefined: str = "",
    **facts,
) -> Primitive:
    """Declare a function by the pullback of each positional argument; None where one has no derivative.

    `jvp` holds, by position too, functions of ``(t, y, *args, **kwargs)``: they make forward mode faster and are
    never needed for it to be right. Of a `variadic` row it is one function of ``(i, t, y, *args, **kwargs)``;
    of a `sequence` row the first takes a list of tangents, one an item.
    """
    vjps = {i: pullback for i, pullback in enumerate(vjp) if pullback is not None}
    jvps = {None: jvp} if callable(jvp) else {i: push for i, push in enumerate(jvp) if push is not None}
    signature = _signature(variadic, skip=3) if variadic else _signature(*vjps.values(), skip=2)
    return _add(
        fun,
        Primitive(
            fun,
            "structural",
            vjps=vjps,
            jvps=jvps,
            variadic=variadic,
            sequence=sequence,
            stacked=stacked,
            curvature=curvature,
            domain=domain,
            undefined=undefined,
            signature=signature,
            **facts,
        ),
    )


def view(*funs) -> None:
    """Declare functions that return views of their first argument where they can, else a rearranged copy."""
    for fun in funs:
        _add(fun, Primitive(fun, "view", curvature="none"))


def rearrangement(*funs, sequence: bool = False) -> None:
    """Declare functions whose result holds elements of the first argument (or of the sequence), moved or repeated."""
    for fun in funs:
        _add(fun, Primitive(fun, "rearrangement", sequence=sequence, curvature="none"))


def facts(*funs, **columns) -> None:
    """Add facts of functions to their rows: the columns named in `FACTS`."""
    for name in columns:
        if name not in FACTS:
            raise TypeError(f"a row has no column {name!r}; facts are {', '.join(FACTS)}")
    for fun in funs:
        for name, fact in columns.items():
            setattr(declared(fun), name, fact)


def composed(fun, body: Callable, **facts) -> Primitive:
    """Declare a function by a body in other functions, which gives the same values bit for bit."""
    return _add(fun, Primitive(fun, "composed", variadic=body, signature=_signature(body, skip=0), **facts))


def constant(*funs, static: bool = False) -> None:
    """Declare functions that are locally constant: results are plain, derivatives zero.

    `static`: they ask for shapes and dtypes alone.
    """
    for fun in funs:
        _add(fun, Primitive(fun, "constant", curvature="none", static=static))


def choosing(fun, *positions: int, fits: Callable | None = None) -> None:
    """Declare which arguments choose among values without changing the shape of the result (where `fits` says so)."""
    rows[fun].choices = frozenset(positions)
    rows[fun].fits = fits


def conditional(fun, position: int) -> None:
    """Declare that the argument at this position is only asked which elements are other than 0: numbers will do."""
    rows[fun].condition = position


def simpler(fun, body: Callable) -> None:
    """Declare what gives the same for less, or None: asked before the function is recorded."""
    rows[fun].simpler = body


def leave_unheeded(fun, *keywords: str) -> None:
    """Declare keywords that a call of traced values goes without, as they allow only what is never done."""
    rows[fun].unheeded = frozenset(keywords)


def refuse(fun, reason: str) -> None:
    """Declare that a function has no derivative; `reason` says why and what to write instead."""
    _add(fun, Primitive(fun, "refuse", reason=reason))


def strong(cotangent, partial):
    """Product in which a factor that is exactly 0 gives 0, whatever the other is.

    Infinite and NaN partials propagate otherwise.
    So a branch that ``np.where`` did not take contributes nothing, even where its partial is infinite.
    All other elements stay the product, whose derivatives are not zero where a factor is.
    """
    product = strong_product(cotangent, partial)
    if product is None:
        product = record_strong(cotangent, partial)
    if product is not None:
        return product
    with np.errstate(invalid="ignore", over="ignore"):
        product = np.multiply(cotangent, partial)
        spoiled = np.isnan(product)
        if spoiled.any():  # only those are replaced: a product that is 0 may have a derivative that is not
            product = np.where(spoiled & (np.equal(cotangent, 0) | np.equal(partial, 0)), 0, product)[()]
    return product


def strong_product(cotangent, partial):
    """The product of vectors or numbers in one loop; None of other operands (set by the core)."""
    return None


def record_strong(cotangent, partial):
    """The product as one entry of its own, where it is recorded to be replayed; None elsewhere (set by the core)."""
    return None


def sums_by_place(places, z, n):
    """Sum of the numbers that belong to each of n places: ``bincount``, of complex numbers too."""
    if z.dtype.kind == "c":
        return np.bincount(places, z.real, n) + 1j * np.bincount(places, z.imag, n)
    return np.bincount(places, z, n)  # by position: NumPy 2.0 does not tell the names of its parameters


def strong_matmul(a, b):
    """a @ b for matrices, or a vector `b`, in which 0 times inf or NaN is 0.

    Redone term by term only where a NaN came out of an operand that is not finite: rare, so it may be slow.
    """
    if np.shape(a)[-1] == 1:  # columns times rows: slow in a library for products
        return strong(a, b)
    y = np.matmul(a, b)
    # a sum of squares is NaN if an element is, and no array of bools is made
    if not np.isnan(np.vdot(y, y)) or (np.isfinite(a).all() and np.isfinite(b).all()):
        return y
    if np.ndim(b) == 1:
        return strong_matmul(a, b[:, None])[..., 0]
    terms = (strong(a[..., :, k : k + 1], b[..., k : k + 1, :]) for k in range(np.shape(a)[-1]))
    return reduce(np.add, terms)


def declared(fun) -> Primitive:
    """Row of a function, or of a dotted name that is not bound yet."""
    return _dotted[fun] if isinstance(fun, str) else rows[fun]


def analytic(*funs) -> None:
    """Declare that the rules of these functions are right for complex operands too."""
    for fun in funs:
        declared(fun).on_complex = True


def on_complex(fun, *jvp: Callable, vjp: tuple = ()) -> None:
    """Declare the tangents of a function of complex operands, by position: ``(t, y, *args, **kwargs)``.

    They are linear in `t` over the real numbers.
    `vjp` holds their adjoints in the pairing Re(sum(conj(a) b)), ``(ybar, y, *args, **kwargs)``: they make reverse mode
    faster and are never needed for it to be right, unless `jvp` calls the function itself: then the transpose of a
    `linear` row serves, if there is no other.
    """
    row = declared(fun)
    row.on_complex = dict(enumerate(jvp))
    row.adjoints = dict(enumerate(vjp)) if vjp or row.kind != "linear" else row.vjps


def conjugated(*funs) -> None:
    """Declare that the rules of these functions are written with the conjugates that complex operands need.

    Tangents are linear over the real numbers, and pullbacks their adjoints in the pairing Re(sum(conj(a) b)).
    """
    for fun in funs:
        rows[fun].on_complex, rows[fun].adjoints = rows[fun].jvps, rows[fun].vjps


def varies_on_complex(fun, body: Callable) -> None:
    """Declare what is called in place of a function that is constant in real arguments, and not so in complex ones."""
    rows[fun].on_complex = body


def lookup(fun) -> Primitive | None:
    """Row of a function, or None. Dotted names are resolved when their function first comes by."""
    row = rows.get(fun)
    if row is None and (_dotted or _chapters):
        _resolve_dotted()
        row = rows.get(fun)
    return row


def declare_later(module: str, *chapters: str) -> None:
    """Import these modules of ours, which declare rows, when a function is looked up and `module` has been imported."""
    _chapters[module] = chapters


def _resolve_dotted() -> None:
    """Bind the rows of every module that has been imported meanwhile; never import one of others."""
    for module in [module for module in _chapters if module in sys.modules]:
        for chapter in _chapters.get(module, ()):  # another thread that comes by waits for the import
            importlib.import_module(chapter)
        _chapters.pop(module, None)
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
    """Name of the supported function that is spelt most like `fun`, for messages."""
    import difflib

    names = {row.name.rpartition(".")[2]: row.name for row in rows.values() if row.kind != "refuse"}
    found = difflib.get_close_matches(dotted_name(fun).rpartition(".")[2], names, n=1, cutoff=0.75)
    return names[found[0]] if found else None
