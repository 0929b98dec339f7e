"""How each row of the registry is called, and each form of a write, with operands in their domain.

Elementwise rows come from the registry itself, with the domains that it declares; calls with shapes from the tables of
`primitive_cases`, so that a row with a case there is drawn here too. The forms of writes stand below.
Each step takes a `Builder` and emits statements.
"""

from __future__ import annotations

import numpy as np
import scipy.special  # noqa: F401

import wengert.rules  # noqa: F401
from primitive_cases import CALLS, COMPOSED, MOVES, SYMMETRIC, Operand, cubed, cumulated, doubled_sum
from wengert import registry
from wengert.errors import UnsupportedFunctionError

from .programs import MOST, Rejected, array_text
from .twins import is_writeable

registry._resolve_dotted()

#: rows that are not drawn, and why
NOT_DRAWN = {
    "numpy.angle": "constant of real numbers",
    "numpy.imag": "zero of real numbers",
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

#: beginnings of names whose rows have tests of their own
NOT_DRAWN_HERE = ("numpy.fft.", "numpy.lib.scimath.")

# ---------------------------------------------------------------------------- element by element

OPERATORS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "power": "**", "remainder": "%"}


def elementwise_rows():
    for row in list(registry.rows.values()):
        if row.kind == "elementwise" and row.name not in ("numpy.where",) and row.name.startswith(("numpy", "scipy")):
            yield row


def is_plain(row, i):
    """Has the operand no derivative: a number of bits, the order of a Bessel function?"""
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


# ---------------------------------------------------------------------------- calls with shapes

FUNCTIONS = {
    doubled_sum: "lambda x: np.sum(x * x)",
    cumulated: "lambda x: np.cumsum(x * x)",
    cubed: "lambda x: x**3",
    np.sum: "np.sum",
}


def written(g, argument, symmetric=False):
    """An argument of a case as text; operands are drawn."""
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
            for i, part in enumerate(y):
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


def axis_of(g, name):
    return g.random.randrange(-np.ndim(g.value(name)), np.ndim(g.value(name)))


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


# ---------------------------------------------------------------------------- writes


def is_array(v):
    """May it be written into, without a warning of NumPy's?"""
    return isinstance(v, np.ndarray) and v.ndim >= 1 and v.size >= 1 and is_writeable(v)


def target(g, least=1, most=9, size=1):
    return g.pick(lambda v: is_array(v) and least <= v.ndim <= most and v.shape[0] >= size)


FORMS = {}


def form(name):
    def enter(step):
        def counted(g):
            step(g)
            g.hit(f"form: {name}")

        FORMS[name] = counted
        return step

    return enter


AUGMENTED = ("+", "-", "*", "/", "**", "%", "//")


def augmented(g, name, place, shape, sign=None):
    """An augmented assignment to a place, with its twin."""
    sign = sign or g.random.choice("+-*/")
    value = g.into(shape)
    if sign in ("/", "%", "//"):
        value = g.new(f"1.5 + 0.5 * np.sin({value})") if value[0] == "v" else str(abs(g.number()) + 0.7)
    if sign == "**":
        text = f"{place} **= {g.random.choice(['2', '3', '1'])}"
    else:
        text = f"{place} {sign}= {value}"
    twin = {"%": f"{place} = np.remainder({place}, {value})", "//": f"{place} = np.floor_divide({place}, {value})"}
    whole = place if "[" in place else f"{place}[...]"
    g.write(name, text, twin[sign].replace(f"{place} =", f"{whole} =") if sign in twin else None)


def slice_text(g, shape):
    """A basic index."""
    parts = []
    for n in shape[: g.random.randint(1, len(shape))]:
        number = g.random.randrange(-n, n)
        parts.append(g.random.choice([":", "1:", ":-1", "::-1", "::2", "-2:", str(number), str(number)]))
    if g.random.random() < 0.15:
        parts.insert(0, "...") if len(parts) == len(shape) else parts.append("...")
    if g.random.random() < 0.1:
        parts.append("None")
    return ", ".join(parts)


def indices(g, shape):
    """An advanced index, repeated elements included."""
    n = shape[0]
    rows = [g.random.randrange(-n, n) for _ in range(g.random.randint(1, 4))]
    if len(shape) >= 2 and g.random.random() < 0.4:
        m = shape[1]
        columns = [g.random.randrange(-m, m) for _ in rows]
        return g.random.choice([f"{rows}, {columns}", f":, {columns}", f"{rows}, 1:"])
    return str(rows)


def mask(g, name):
    if g.random.random() < 0.5:
        return f"{name} > {g.number(-1, 1)}"
    values = np.array([g.random.random() < 0.5 for _ in range(int(np.prod(g.shape(name))))]).reshape(g.shape(name))
    return array_text(values)


def part(g, name, index):
    return np.shape(eval(f"{name}[{index}]", g.env))


def stored(index_of):
    def step(g):
        name = target(g)
        index = index_of(g, name)
        g.write(name, f"{name}[{index}] = {g.into(part(g, name, index))}")

    return step


def added(index_of):
    def step(g):
        name = target(g)
        index = index_of(g, name)
        augmented(g, name, f"{name}[{index}]", part(g, name, index))

    return step


def by_slices(g, name):
    return slice_text(g, g.shape(name))


def by_indices(g, name):
    return indices(g, g.shape(name))


def by_mask(g, name):
    return mask(g, name)


def by_element(g, name):
    return ", ".join(str(g.random.randrange(-n, n)) for n in g.shape(name))


form("slice stored")(stored(by_slices))
form("slice augmented")(added(by_slices))
form("indices stored")(stored(by_indices))
form("indices augmented")(added(by_indices))
form("element stored")(stored(by_element))
form("element augmented")(added(by_element))


@form("mask stored")
def _(g):
    name = target(g)
    g.write(name, f"{name}[{mask(g, name)}] = {g.into(())}")


@form("mask augmented")
def _(g):
    name = target(g)
    index = mask(g, name)
    augmented(g, name, f"{name}[{index}]", part(g, name, index))


def whole(sign):
    def step(g):
        name = target(g)
        augmented(g, name, name, g.shape(name), sign)

    return step


for _sign in AUGMENTED:
    form(f"{_sign}=")(whole(_sign))


@form("@=")
def _(g):
    n = g.random.choice([2, 3])
    name = g.pick(lambda v: is_array(v) and np.shape(v) == (n, n))
    other = g.inside(g.fitted((n, n)), -1, 1)
    g.write(name, f"{name} @= {other}", f"{name}[...] = {name} @ {other}")


@form("np.copyto")
def _(g):
    name = target(g)
    g.write(name, f"np.copyto({name}, {g.into(g.shape(name))})")


@form("np.copyto(where=)")
def _(g):
    name = target(g)
    g.write(name, f"np.copyto({name}, {g.into(g.shape(name))}, where={mask(g, name)})")


@form("ufunc(out=)")
def _(g):
    name = target(g)
    source = g.inside(g.fitted(g.shape(name)), -2, 2)
    text = g.random.choice(
        [f"np.sin({source}, out={name})", f"np.multiply({source}, {g.into(g.shape(name))}, out={name})",
         f"np.exp({source}, {name})", f"np.add({source}, {name}, out=({name},))", f"np.square({source}, out={name})"]
    )
    g.write(name, text)


@form("ufunc(out=) of itself")
def _(g):
    name = target(g)
    back = f"{name}[{', '.join(['::-1'] * np.ndim(g.value(name)))}]"
    text = g.random.choice(
        [f"np.sin({name}, out={name})", f"np.multiply({name}, {back}, out={name})", f"np.negative({back}, out={name})",
         f"np.add({name}, {name}, out={back})", f"np.subtract({name}, 0.5, {name})"]
    )
    g.write(name, text)


@form("function(out=)")
def _(g):
    name = target(g)
    shape = g.shape(name)
    source = g.inside(g.fitted((2, *shape)), -1, 1)
    fun = g.random.choice(["sum", "mean", "prod", "max", "min"])
    g.hit(f"numpy.{fun}")
    g.write(name, f"np.{fun}({source}, axis=0, out={name})")


@form("cumsum(out=)")
def _(g):
    name = target(g)
    source = g.inside(g.fitted(g.shape(name)), -1, 1)
    g.write(name, f"np.cumsum({source}, axis=0, out={name})")


@form("np.clip(out=)")
def _(g):
    name = target(g)
    g.write(name, f"np.clip({name}, {g.number(-2, -0.3)}, {g.number(0.3, 2)}, out={name})")


@form(".sort()")
def _(g):
    name = target(g)
    axis = axis_of(g, name)
    g.write(name, g.random.choice([f"{name}.sort()", f"{name}.sort(axis={axis})", f"{name}[::-1].sort()"]))


@form(".fill()")
def _(g):
    name = target(g)
    value = g.random.choice([str(g.number()), g.inside(g.fitted(()), -4, 4)])
    g.write(name, f"{name}.fill({value})")


@form("np.put")
def _(g):
    name = target(g)
    n = np.size(g.value(name))
    where = [g.random.randrange(n) for _ in range(g.random.randint(1, 3))]
    text = g.random.choice(["np.put({0}, {1}, {2})", "{0}.put({1}, {2})"])
    g.write(name, text.format(name, where, g.into((len(where),))))


@form("np.place")
def _(g):
    name = target(g)
    g.write(name, f"np.place({name}, {mask(g, name)}, {g.inside(g.fitted((2,)), -4, 4)})")


@form("np.putmask")
def _(g):
    name = target(g)
    g.write(name, f"np.putmask({name}, {mask(g, name)}, {g.inside(g.fitted(g.shape(name)), -4, 4)})")


@form("np.put_along_axis")
def _(g):
    name = target(g)
    shape = g.shape(name)
    chosen = np.array([g.random.randrange(shape[0]) for _ in range(int(np.prod(shape[1:])))], dtype=int)
    chosen = array_text(chosen.reshape(1, *shape[1:]))
    g.write(name, f"np.put_along_axis({name}, {chosen}, {g.into((1, *shape[1:]))}, 0)")


@form("np.fill_diagonal")
def _(g):
    name = target(g, 2, 2)
    g.write(name, f"np.fill_diagonal({name}, {g.inside(g.fitted(g.random.choice([(), (2,)])), -4, 4)})")


@form("np.add.at")
def _(g):
    name = target(g)
    index = str([g.random.randrange(g.shape(name)[0]) for _ in range(3)])
    g.write(name, f"np.add.at({name}, {index}, {g.into(part(g, name, index))})")


def two_rows(g, name):
    return [g.random.randrange(g.shape(name)[0]) for _ in range(2)]


@form("rows swapped by an index")
def _(g):
    name = target(g, size=2)
    i, j = two_rows(g, name)
    g.write(name, f"{name}[[{i}, {j}]] = {name}[[{j}, {i}]]")


@form("rows swapped by unpacking")
def _(g):
    name = target(g, size=2)
    i, j = two_rows(g, name)
    g.write(name, f"{name}[{i}], {name}[{j}] = {name}[{j}], {name}[{i}]")


@form("rows swapped by a copy")
def _(g):
    name = target(g, 2, size=2)
    i, j = two_rows(g, name)
    g.write(name, f"row = {name}[{i}].copy(); {name}[{i}] = {name}[{j}]; {name}[{j}] = row")


@form("overlapping slices")
def _(g):
    name = target(g, size=2)
    n = g.shape(name)[0]
    k = g.random.randint(1, max(n - 1, 1))
    sign = g.random.choice(["", "", "+", "-", "*"])
    ahead, behind = f"{name}[{k}:]", f"{name}[:{n - k}]"
    if g.random.random() < 0.5:
        ahead, behind = behind, ahead
    g.write(name, f"{ahead} {sign}= {behind}{g.random.choice(['', '', '[::-1]', ' * 0.5'])}")


@form("reversed onto itself")
def _(g):
    name = target(g)
    sign = g.random.choice(["", "+", "*", "-"])
    g.write(name, f"{name}[...] {sign}= {name}[{', '.join(['::-1'] * np.ndim(g.value(name)))}]")


@form("transposed onto itself")
def _(g):
    name = g.pick(lambda v: is_array(v) and v.ndim == 2 and v.shape[0] == v.shape[1])
    g.write(name, f"{name}{g.random.choice(['[:] =', ' +=', ' *='])} {name}.T")


@form("broadcast into")
def _(g):
    name = target(g, 2)
    shape = g.shape(name)
    value = g.inside(g.fitted(g.random.choice([shape[-1:], (*shape[:-1], 1), (1,), ()])), -4, 4)
    g.write(name, f"{name}[...] = {value}")


@form("view of a view")
def _(g):
    name = target(g, size=2)
    view = f"{name}[{g.random.choice(['1:', '::-1', ':-1'])}][{g.random.choice(['::2', '::-1', ':1', '...'])}]"
    made = g.new(view)
    augmented(g, made, made, g.shape(made))


@form("transposed view")
def _(g):
    made = g.new(f"{target(g, 2)}.T")
    index = slice_text(g, g.shape(made))
    augmented(g, made, f"{made}[{index}]", part(g, made, index))


@form("negative strides")
def _(g):
    name = target(g)
    made = g.new(f"{name}[{', '.join(['::-1'] * np.ndim(g.value(name)))}]")
    augmented(g, made, made, g.shape(made))


@form("zero strides read")
def _(g):
    name = target(g)
    shape = g.shape(name)
    made = g.new(f"np.broadcast_to({g.inside(g.fitted(g.random.choice([shape[-1:], ()])), -4, 4)}, {shape})")
    g.write(name, f"{name} {g.random.choice('+-*')}= {made}")


@form("Fortran order")
def _(g):
    made = g.new(g.random.choice(["np.asfortranarray({})", "np.array({}, order='F')"]).format(target(g, 2)))
    index = slice_text(g, g.shape(made))
    augmented(g, made, f"{made}[{index}]", part(g, made, index))


@form("reshaped view")
def _(g):
    name = target(g)
    made = g.new(g.random.choice(["{}.reshape(-1)", "{}.ravel()", "{}.reshape(1, -1)", "np.ravel({})"]).format(name))
    augmented(g, made, made, g.shape(made))


@form("reshaped copy or view")
def _(g):
    name = target(g, 2)
    forms = ["{}.T.reshape(-1)", "{}.ravel(order='F')", "{}[:, ::-1].reshape(-1)", "{}.T.ravel(order='K')"]
    made = g.new(g.random.choice(forms).format(name))
    augmented(g, made, made, g.shape(made))


@form("rows of an iteration")
def _(g):
    name = target(g, 2)
    g.write(name, f"for row in {name}:\n    row {g.random.choice('+*')}= {g.into(g.shape(name)[1:])}")


@form("elements in a loop")
def _(g):
    name = target(g, 1, 1, 2)
    n = g.shape(name)[0]
    k = g.inside(g.fitted(()), -1, 1)
    g.write(name, f"for i in range(1, {n}):\n    {name}[i] = {name}[i] * 0.5 + {name}[i - 1] * {k}")


@form(".flat")
def _(g):
    name = target(g)
    n = np.size(g.value(name))
    if g.random.random() < 0.5:
        g.write(name, f"{name}.flat[{g.random.randrange(n)}] = {g.into(())}")
    else:
        g.write(name, f"{name}.flat = {g.inside(g.fitted((n,)), -4, 4)}")


@form("ufunc(where=, out=)")
def _(g):
    name = target(g)
    source = g.inside(g.fitted(g.shape(name)), -2, 2)
    g.write(name, f"np.{g.random.choice(['sin', 'exp', 'square'])}({source}, out={name}, where={mask(g, name)})")


@form("two names")
def _(g):
    name = target(g)
    other = f"v{g.count}"
    g.count += 1
    g.emit(f"{other} = {name}", touches=(other,))
    g.names.append(other)
    augmented(g, other, other, g.shape(other))


@form("value kept before the write")
def _(g):
    name = target(g)
    g.new(f"{g.inside(name, -2, 2)} ** 2")
    augmented(g, name, f"{name}[0]", g.shape(name)[1:])
    g.new(f"np.sin({name})")


# ---------------------------------------------------------------------------- all steps

ROWS = {row.name: elementwise(row) for row in elementwise_rows()}
ROWS.update({"numpy.where": where, "numpy.trim_zeros": trimmed})
ROWS.update({name: one_of(steps) for name, steps in cases_by_row().items() if name not in ROWS})

ANY_SHAPE = [
    *map(reduction, ("sum", "mean", "max", "min", "var", "prod", "std", "ptp", "median")),
    *(reduction(fun, method=True) for fun in ("sum", "mean", "max", "min", "prod", "var")),
    *map(cumulation, ("cumsum", "cumprod", "diff")),
    products, products, views, views, views, branch, loop, matrix_functions, matrix_functions,
]

STEPS = [*ROWS.values(), *ANY_SHAPE, *FORMS.values()]
WEIGHTS = [
    *[0.45 / len(ROWS)] * len(ROWS),
    *[0.2 / len(ANY_SHAPE)] * len(ANY_SHAPE),
    *[0.35 / len(FORMS)] * len(FORMS),
]


def rows_to_draw():
    """Names of the rows that have a derivative."""
    kinds = {"elementwise", "linear", "structural", "view", "rearrangement", "composed"}
    return {
        row.name
        for row in registry.rows.values()
        if row.kind in kinds
        and row.name.startswith("numpy" if row.kind != "elementwise" else ("numpy", "scipy"))
        and row.name not in NOT_DRAWN
        and not row.name.startswith(NOT_DRAWN_HERE)
    }
