"""Calls of each rule of the registry, with operands in their domain.

Elementwise rules come from the registry with their declared domains; calls that depend on shapes come from
`primitive_cases`, and those of ``scipy.special`` from `special_cases`, so every rule with a case is drawn here too.
Each step takes a `Builder` and emits statements.
"""

from __future__ import annotations

import numpy as np

import wengert.rules  # noqa: F401
from helpers import rows_of_numpy
from primitive_cases import CALLS, COMPOSED, MOVES, SYMMETRIC, Operand, cubed, cumulated, doubled_sum
from special_cases import CASES as SPECIAL
from special_cases import WAVES
from wengert import registry
from wengert.errors import UnsupportedFunctionError

from . import complexes
from .forms import CALLED, FORMS, axis_of, filled
from .programs import MOST, Rejected, array_text

registry.declare_loaded()

#: rules that are not drawn, and why
NOT_DRAWN = {
    "numpy.place": "as a form of a write",
    "numpy.put": "as a form of a write",
    "numpy.putmask": "as a form of a write",
    "numpy.put_along_axis": "as a form of a write",
    "numpy.copyto": "as a form of a write",
    "numpy.fill_diagonal": "as a form of a write",
    "numpy.linalg.eigh": "the signs of its vectors are LAPACK's: through eigvalsh",
    "numpy.histogram": "its edges are plain: a traced value stored into them is refused",
    "numpy.histogram2d": "as histogram",
    "numpy.histogramdd": "as histogram",
    "numpy.sort_complex": "its results are complex",
    "numpy.unique": "the number of its results jumps",
    "numpy.union1d": "the number of its results jumps",
    "numpy.lib.stride_tricks.sliding_window_view": "a view with overlaps",
}

#: functions of ``scipy.special`` that are not drawn: complex-valued, on lists, or in no case table
NOT_DRAWN.update(dict.fromkeys((f"scipy.special.{name}" for name in """
lambertw wofz hankel1 hankel2 hankel1e hankel2e sph_harm_y kelvin modfresnelp modfresnelm
logsumexp softmax log_softmax pbvv pbwa it2struve0 wright_bessel log_wright_bessel
_ufuncs._smirnovp _ufuncs._riemann_zeta
""".split()), "has tests of its own"))
NOT_DRAWN.update({f"scipy.special.{name}": "SciPy may not come back from it" for name, *_ in WAVES})
NOT_DRAWN.update(dict.fromkeys((f"scipy.special.{name}" for name in """
itairy it2j0y0 it2i0k0 iti0k0 itj0y0 itstruve0 itmodstruve0 besselpoly
""".split()), "SciPy gives few of its digits"))

#: results that are not drawn, because rounding decides their length
PARTS = {"numpy.polydiv": 1}

# ---------------------------------------------------------------------------- elementwise functions

OPERATORS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "power": "**", "remainder": "%"}


def elementwise_rows():
    """Return the elementwise rules that declare domains."""
    for row in list(rows_of_numpy().values()):
        if row.kind == "elementwise" and row.domain and row.name.startswith(("numpy", "scipy")):
            yield row


def is_plain(row, i):
    """Return whether an operand has no derivative, as a bit count or the order of a Bessel function."""
    if row.domain[i] is None or row.partials[i] is None:
        return True
    if not callable(row.partials[i]):
        return False
    operands = [1 if bounds is None else np.float64(sum(bounds) / 2) for bounds in row.domain]
    try:
        with np.errstate(all="ignore"):
            row.partials[i](row.fun(*operands), *operands)
    except UnsupportedFunctionError:
        return True
    return False


def called(row):
    return row.name.replace("numpy.", "np.").replace("scipy.special.", "special.")


def elementwise(row):
    arity = len(row.domain)
    plain_operands = [is_plain(row, i) for i in range(arity)]

    def step(g):
        several = plain_operands.count(False) > 1
        plain = g.random.randrange(arity) if several and g.random.random() < 0.2 else None
        names, shape = [], None
        for i, bounds in enumerate(row.domain):
            if plain_operands[i]:
                low, high = bounds or (-3, 3)
                names.append(str(g.random.randint(int(np.ceil(low)), int(high))))
            elif i == plain:
                names.append(str(g.number(*bounds)))
            else:
                name = g.pick() if shape is None else g.broadcasting(shape)
                names.append(g.inside(name, *bounds))
                shape = g.shape(names[-1])
        short = row.name.rpartition(".")[2]
        text = f"{called(row)}({', '.join(names)})"
        if short in OPERATORS and g.random.random() < 0.5:
            sign = OPERATORS[short]
            g.new(f"{names[0]} {sign} {names[1]}", text)
        else:
            g.new(text)
        g.hit(row.name)

    return step


# ---------------------------------------------------------------------------- scipy.special, from its case table

#: magnitudes at which differences are accurate
NEITHER_SMALL_NOR_LARGE = (0.05, 30.0)


def special_step(name, operands, part):
    """Add a call near one of the points of a case, on a scalar or an array."""
    moving = [np.atleast_1d(np.asarray(x, dtype=float)) for x in operands if isinstance(x, list)]
    low, high = NEITHER_SMALL_NOR_LARGE
    points = [
        at
        for at in zip(*np.broadcast_arrays(*moving) if len({m.size for m in moving}) == 1 else moving, strict=False)
        if all(low <= abs(x) <= high for x in at)
    ]

    def step(g):
        shape = g.random.choice([(), (), (2,)])
        at = iter(g.random.choice(points))
        texts = [
            g.new(f"{float(next(at))} + 0.002 * np.sin({g.fitted(shape)})") if isinstance(x, list) else repr(x)
            for x in operands
        ]
        g.new(f"special.{name}({', '.join(texts)}){'' if part is None else f'[{part}]'}")
        g.hit(f"scipy.special.{name}")

    return step if points else None


def special_steps():
    found = {}
    calls = [(case.name, case.operands, case.part) for case in SPECIAL]
    for name, operands, part in [*calls, ("eval_hermite", (2, [0.3, 1.2]), None)]:
        step = special_step(name, operands, part)
        if step and f"scipy.special.{name}" not in NOT_DRAWN:
            found.setdefault(f"scipy.special.{name}", []).append(step)
    return found


# ---------------------------------------------------------------------------- calls that depend on shapes

FUNCTIONS = {
    doubled_sum: "lambda x: np.sum(x * x)",
    cumulated: "lambda x: np.cumsum(x * x)",
    cubed: "lambda x: x**3",
    np.sum: "np.sum",
}


def written(g, argument, symmetric=False):
    """Return an argument of a case as text, with drawn operands."""
    if isinstance(argument, Operand):
        if argument.values is not None:
            near = g.near(argument.values)
            return g.new(f"({near} + np.swapaxes({near}, -1, -2)) / 2") if symmetric else near
        if np.prod(argument.shape) > MOST:
            raise Rejected
        return g.drawn(argument.shape, argument.low, argument.high)
    if isinstance(argument, (list, tuple)):
        inner = ", ".join(written(g, a) for a in argument)
        return f"[{inner}]" if isinstance(argument, list) else f"({inner},)" if argument else "()"
    if isinstance(argument, np.ndarray):
        return array_text(argument)
    if callable(argument) and argument in FUNCTIONS:
        return FUNCTIONS[argument]
    if argument is Ellipsis:
        return "..."
    if isinstance(argument, type) and issubclass(argument, np.generic):
        return f"np.{argument.__name__}"
    if isinstance(argument, (float, np.floating)):
        return {"inf": "np.inf", "-inf": "-np.inf", "nan": "np.nan"}.get(repr(float(argument)), repr(float(argument)))
    if argument is np._NoValue:
        return "np._NoValue"
    return repr(argument)


def public_name(case):
    row = registry.lookup(case.fun)
    name = row.name if row else registry.dotted_name(case.fun)
    return name if name.startswith("numpy") else None


def case_step(name, case):
    def step(g):
        args = [written(g, a, case in SYMMETRIC) for a in case.args]
        args += [f"{key}={written(g, value)}" for key, value in case.kwargs.items()]
        text = f"{name.replace('numpy.', 'np.')}({', '.join(args)})"
        whole = f"w{g.count}"
        length = len(g.statements)
        g.emit(f"{whole} = {text}")
        y = g.value(whole)
        if isinstance(y, (list, tuple)):
            for i, part in enumerate(y[: PARTS.get(name)]):
                if np.asarray(part).dtype.kind == "f":
                    g.new(f"{whole}[{i}]")
        else:
            del g.statements[length:]
            g.new(text)
        g.hit(name)

    return step


def cases_by_row():
    found = {}
    for case in [*CALLS, *MOVES, *COMPOSED, *SYMMETRIC]:
        name = public_name(case)
        if name is None or name in NOT_DRAWN:
            continue
        operands = [a for a in case.args if isinstance(a, Operand)]
        if any(np.size(a.values if a.values is not None else np.empty(a.shape)) > MOST for a in operands):
            continue
        found.setdefault(name, []).append(case_step(name, case))
    return found


def one_of(steps):
    return lambda g: g.random.choice(steps)(g)


# ---------------------------------------------------------------------------- calls of any shape


def reduction(fun, method=False):
    def step(g):
        name = g.operand(accept=lambda v: np.size(v) > 0)
        nd = np.ndim(g.value(name))
        options = []
        if nd and g.random.random() < 0.6:
            options.append(f"axis={axis_of(g, name)}")
        if g.random.random() < 0.2:
            options.append("keepdims=True")
        options = ", ".join(options)
        if method:
            g.new(f"{name}.{fun}({options})", f"np.{fun}({name}{', ' * bool(options)}{options})")
        else:
            g.new(f"np.{fun}({name}{', ' * bool(options)}{options})")
        g.hit(f"numpy.{fun}")

    return step


def cumulation(fun):
    def step(g):
        name = g.operand(-1.5, 1.5, lambda v: np.ndim(v) > 0)
        g.new(f"np.{fun}({name}, axis={axis_of(g, name)})")
        g.hit(f"numpy.{fun}")

    return step


def products(g):
    a = g.inside(g.pick(lambda v: np.ndim(v) in (1, 2) and np.size(v)), -2, 2)
    last = g.shape(a)[-1]
    b = g.inside(g.pick(lambda v: np.ndim(v) in (1, 2) and np.shape(v)[max(np.ndim(v) - 2, 0)] == last), -2, 2)
    form = g.random.choice(["{} @ {}", "np.matmul({}, {})", "np.dot({}, {})", "{}.dot({})"])
    g.new(form.format(a, b))
    g.hit("numpy.dot" if "dot" in form else "numpy.matmul")


def views(g):
    name = g.pick()
    nd = np.ndim(g.value(name))
    forms = ["np.ravel({})", "{}.reshape(-1)", "np.transpose({})", "{}.copy()", "np.expand_dims({}, 0)", "{}[...]"]
    if nd:
        forms += ["{}[::-1]", "{}[::2]", "{}[1:]", "{}[:-1]", "np.flip({})", "{}[..., None]", "np.roll({}, 1)"]
        forms += ["np.repeat({}, 2)", "np.stack([{0}, {0} * 2.0])", "np.sort({}, axis=0)"]
    if nd >= 2:
        forms += ["{}.T", "np.swapaxes({}, 0, 1)", "{}[:, ::-1]", "{}[:, 0]", "{}.T.reshape(-1)", "{}.ravel(order='F')"]
        forms += ["np.asfortranarray({})", "{}.T.ravel(order='K')", "{}.flatten('F')", "{}[0]"]
    if 0 < nd and np.size(g.value(name)):
        forms += [f"{{}}.ravel()[{g.random.randrange(np.size(g.value(name)))}]"]
        forms += ["np.broadcast_to({0}, (2, *{0}.shape))"]
        forms += [f"{{}}[{[g.random.randrange(g.shape(name)[0]) for _ in range(3)]}]"]
    g.new(g.random.choice(forms).format(name))


def where(g):
    a = g.pick()
    b = g.broadcasting(g.shape(a))
    condition = g.random.choice([f"{a} > {g.number()}", f"{a} < {b}", f"np.sin({b}) > 0.1"])
    g.new(f"np.where({condition}, {a}, {b})", f"np.where({condition.replace('sin', 'sin')}, {a}, {b})")
    g.hit("numpy.where")


def branch(g):
    a, b = g.pick(lambda v: np.ndim(v) == 0), g.pick()
    g.new(f"{b} * 0.5 if {a} > {g.number()} else {b} + {a}")


def loop(g):
    a = g.operand(-1.5, 1.5, lambda v: np.ndim(v) == 1 and 0 < np.size(v) <= 6)
    made, n = f"v{g.count}", g.shape(a)[0]
    g.emit(f"{made} = np.zeros({n}{', dtype=np.float32' if g.single else ''})", touches=(made,))
    g.count += 1
    g.emit(f"for i in range({n}):\n    {made}[i] = {a}[i] * {a}[i - 1] + 0.5 * {made}[i - 1]", touches=(made,))
    g.names.append(made)


def trimmed(g):
    a = g.fitted((3,))
    g.new(f"np.trim_zeros(np.concatenate([np.zeros(2), {a}, np.zeros(1)]))")
    g.hit("numpy.trim_zeros")


def matrix_functions(g):
    n = g.random.choice([2, 3])
    a = g.inside(g.fitted((n, n)), -1, 1)
    which = g.random.choice(["solve", "inv", "det", "cholesky", "slogdet", "eigvalsh"])
    if which in ("cholesky", "eigvalsh"):
        spread = array_text(np.diag(1.5 * np.arange(1, n + 1)), g.single)
        g.new(f"np.linalg.{which}({a} @ {a}.T * 0.3 + {spread})")
    elif which == "solve":
        g.new(f"np.linalg.solve({a} + {n} * np.eye({n}), {g.fitted((n, 2))})")
    elif which == "slogdet":
        g.new(f"np.linalg.slogdet({a} + {n} * np.eye({n}))[1]")
    else:
        g.new(f"np.linalg.{which}({a} + {n} * np.eye({n}))")
    g.hit(f"numpy.linalg.{which}")


# ---------------------------------------------------------------------------- all steps

#: calls of functions whose cases have too large or several results
TEMPLATES = {
    "numpy.frexp": "np.frexp({x})[0]",
    "numpy.tile": "np.tile({x}, 2)",
    "numpy.nancumprod": "np.nancumprod({x}, axis={axis})",
}


def by_template(name, template):
    def step(g):
        x = g.operand(-2, 2, lambda v: np.ndim(v) >= 1 and np.size(v) >= 1)
        g.new(*filled(g, x, [template]))
        g.hit(name)

    return step


SCIMATH = {"sqrt": 1, "log": 1, "log2": 1, "log10": 1, "arcsin": 0, "arccos": 0, "arctanh": 0, "logn": 2, "power": 2}


def scimath(name, kind):
    """Return a function of ``numpy.emath`` where its values are real."""

    def step(g):
        a = g.operand(*((-0.9, 0.9) if kind == 0 else (0.1, 4.0)))
        g.new(f"np.lib.scimath.{name}({', '.join([a, '1.7'][:: -1 if name == 'logn' else 1][: max(kind, 1)])})")
        g.hit(f"numpy.lib.scimath.{name}")

    return step


ROWS = {row.name: elementwise(row) for row in elementwise_rows()}
ROWS.update({"numpy.where": where, "numpy.trim_zeros": trimmed})
ROWS.update({f"numpy.lib.scimath.{name}": scimath(name, kind) for name, kind in SCIMATH.items()})
ROWS.update({name: by_template(name, template) for name, template in TEMPLATES.items()})
ROWS.update(complexes.ROWS)
for _found in (cases_by_row(), special_steps()):
    ROWS.update({name: one_of(steps) for name, steps in _found.items() if name not in ROWS})
#: rules that other steps also call
ROWS.update({"numpy.angle": complexes.through, "numpy.imag": complexes.through})

ANY_SHAPE = [
    *map(reduction, ("sum", "mean", "max", "min", "var", "prod", "std", "ptp", "median")),
    *(reduction(fun, method=True) for fun in ("sum", "mean", "max", "min", "prod", "var")),
    *map(cumulation, ("cumsum", "cumprod", "diff")),
    products, products, views, views, views, branch, loop, matrix_functions, matrix_functions,
]  # fmt: skip

#: frequencies of the kinds of steps
SHARES = [
    (ROWS.values(), 0.4),
    (ANY_SHAPE, 0.15),
    (CALLED.values(), 0.06),
    (FORMS.values(), 0.35),
    ([complexes.through], 0.04),
]
STEPS = [step for steps, _ in SHARES for step in steps]
WEIGHTS = [share / len(steps) for steps, share in SHARES for _ in steps]


def rows_to_draw():
    """Return the names of the rules that have a derivative."""
    kinds = {"elementwise", "linear", "structural", "view", "rearrangement", "composed"}
    return {
        row.name
        for row in rows_of_numpy().values()
        if row.kind in kinds and row.name.startswith(("numpy", "scipy")) and row.name not in NOT_DRAWN
    }
