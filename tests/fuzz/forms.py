"""Forms of writes and of ufunc calls: templates with placeholders that a `Builder` fills in, and special cases."""

from __future__ import annotations

import re

import numpy as np

from .programs import Rejected, array_text
from .twins import is_writeable


def is_array(v):
    """Return whether it can be written into without a NumPy warning."""
    return isinstance(v, np.ndarray) and v.ndim >= 1 and v.size >= 1 and is_writeable(v)


def target(g, least=1, most=9, size=1):
    return g.pick(lambda v: is_array(v) and least <= v.ndim <= most and v.shape[0] >= size)


def axis_of(g, name):
    return g.random.randrange(-np.ndim(g.value(name)), np.ndim(g.value(name)))


def part(g, name, index):
    return np.shape(eval(f"{name}[{index}]", g.env))


def mask(g, name):
    if g.random.random() < 0.5:
        return f"{name} > {g.number(-1, 1)}"
    values = np.array([g.random.random() < 0.5 for _ in range(int(np.prod(g.shape(name))))]).reshape(g.shape(name))
    return array_text(values)


def slice_text(g, shape):
    """Return a basic index."""
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
    """Return an advanced index, which may repeat elements."""
    n = shape[0]
    rows = [g.random.randrange(-n, n) for _ in range(g.random.randint(1, 4))]
    if len(shape) >= 2 and g.random.random() < 0.4:
        m = shape[1]
        columns = [g.random.randrange(-m, m) for _ in rows]
        return g.random.choice([f"{rows}, {columns}", f":, {columns}", f"{rows}, 1:"])
    return str(rows)


# ---------------------------------------------------------------------------- templates


class Words(dict):
    """Values of the placeholders in a template about a variable `x`, each created at first use."""

    def __init__(self, g, x):
        super().__init__(x=x)
        self.g = g
        self.shape = g.shape(x)

    def __missing__(self, word):
        self[word] = WORDS[word](self)
        return self[word]

    def variable(self, shape, bound=4):
        """Return a variable of this shape with values up to a bound."""
        return self.g.inside(self.g.fitted(shape), -bound, bound)

    def choice(self, *options):
        return self.g.random.choice(options)

    def row(self):
        return self.g.random.randrange(self.shape[0])

    def axes(self):
        """Return some axes in any order."""
        n = len(self.shape)
        chosen = self.g.random.sample(range(n), self.g.random.randint(1, n))
        return tuple(d - n if self.g.random.random() < 0.3 else d for d in chosen)

    def places_along(self):
        shape = (1, *self.shape[1:])
        return array_text(np.array([self.row() for _ in range(int(np.prod(shape)))], dtype=int).reshape(shape))


WORDS = {
    "shape": lambda w: w.shape,
    "number": lambda w: w.g.number(),
    "low": lambda w: w.g.number(-2, -0.3),
    "high": lambda w: w.g.number(0.3, 2),
    "value": lambda w: w.g.into(w.shape),
    "element": lambda w: w.g.into(()),
    "scalar": lambda w: w.variable(()),
    "like": lambda w: w.variable(w.shape, 2),
    "other": lambda w: w.variable(w.shape),
    "positive": lambda w: w.g.new(f"1.5 + 0.5 * np.sin({w.g.fitted(w.shape)})"),
    "stacked": lambda w: w.variable((2, *w.shape), 1),
    "lying": lambda w: w.variable((w.g.random.randint(1, 3),), 2),
    "two": lambda w: w.variable((2,)),
    "diagonal": lambda w: w.variable(w.choice((), (2,))),
    "row": lambda w: w.g.into(w.shape[1:]),
    "spread": lambda w: w.variable(w.choice(w.shape[-1:], (*w.shape[:-1], 1), (1,), ())),
    "line": lambda w: w.variable((int(np.prod(w.shape)),)),
    "rate": lambda w: w.variable((), 1),
    "mask": lambda w: mask(w.g, w["x"]),
    "axis": lambda w: w.g.random.randrange(-len(w.shape), len(w.shape)),
    "axes": lambda w: w.axes(),
    "back": lambda w: ", ".join(["::-1"] * len(w.shape)),
    "sign": lambda w: w.choice("+", "-", "*"),
    "sign_or_none": lambda w: w.choice("", "", "+", "-", "*"),
    "i": lambda w: w.row(),
    "j": lambda w: w.row(),
    "n": lambda w: w.shape[0],
    "k": lambda w: w.g.random.randint(1, max(w.shape[0] - 1, 1)),
    "rest": lambda w: w.shape[0] - w["k"],
    "place": lambda w: w.g.random.randrange(int(np.prod(w.shape))),
    "places": lambda w: [w.g.random.randrange(int(np.prod(w.shape))) for _ in range(w.g.random.randint(1, 3))],
    "for_places": lambda w: w.g.into((len(w["places"]),)),
    "rows": lambda w: [w.row() for _ in range(3)],
    "for_rows": lambda w: w.g.into((3, *w.shape[1:])),
    "places_along": lambda w: w.places_along(),
    "for_places_along": lambda w: w.g.into((1, *w.shape[1:])),
    "broadcast": lambda w: w.g.new(f"np.broadcast_to({w.variable(w.choice(w.shape[-1:], ()))}, {w.shape})"),
}


def in_the_twin(text):
    """Use the ufunc methods of NumPy, which accept complex operands."""
    return text.replace("np.maximum.", "ufuncs.maximum.").replace("np.minimum.", "ufuncs.minimum.")


def filled(g, x, templates):
    """Return a template filled for a variable, and that of the twin if the template has one."""
    words = Words(g, x)
    template = g.random.choice(templates)
    text, twin = template if isinstance(template, tuple) else (template, None)
    text = text.format_map(words)
    return text, in_the_twin(twin.format_map(words) if twin else text)


# ---------------------------------------------------------------------------- writes

#: one step per name, registered by `form`
FORMS = {}


def form(name):
    def enter(step):
        def counted(g):
            step(g)
            g.hit(f"form: {name}")

        FORMS[name] = counted
        return step

    return enter


#: writes into any array
INTO_ANY = {
    "np.copyto": ["np.copyto({x}, {value})"],
    "np.copyto(where=)": ["np.copyto({x}, {value}, where={mask})"],
    "ufunc(out=)": [
        "np.sin({like}, out={x})",
        "np.multiply({like}, {value}, out={x})",
        "np.exp({like}, {x})",
        "np.add({like}, {x}, out=({x},))",
        "np.square({like}, out={x}, casting='same_kind')",
    ],
    "ufunc(out=) of itself": [
        "np.sin({x}, out={x})",
        "np.multiply({x}, {x}[{back}], out={x})",
        "np.negative({x}[{back}], out={x})",
        "np.add({x}, {x}[{back}], out={x}[{back}])",
        "np.subtract({x}, 0.5, {x})",
    ],
    "ufunc(where=, out=)": [
        "np.sin({like}, out={x}, where={mask})",
        "np.exp({like}, out={x}, where={mask})",
        "np.square({like}, where={mask}, out=({x},))",
        "np.divide({like}, {positive}, out={x}, where={mask})",
    ],
    "ufunc of two results(out=)": [
        ("np.modf({like}, out=({x}, np.zeros({shape})))", "{x}[...] = np.modf({like})[0]"),
        ("np.divmod({like}, {positive}, out=(np.zeros({shape}), {x}))", "{x}[...] = np.divmod({like}, {positive})[1]"),
        ("np.modf({like}, {x})", "{x}[...] = np.modf({like})[0]"),
    ],
    "ufunc.reduce(out=)": [
        "np.add.reduce({stacked}, out={x})",
        "np.multiply.reduce({stacked}, axis=0, out={x}, initial={number})",
        "np.maximum.reduce({stacked}, 0, None, {x})",
        "np.subtract.reduce({stacked}, out=({x},))",
    ],
    "ufunc.accumulate(out=)": [
        "np.add.accumulate({like}, axis={axis}, out={x})",
        "np.multiply.accumulate({other} * 0.3, out={x})",
        "np.cumsum({like}, axis={axis}, out={x})",
    ],
    "np.clip(out=)": ["np.clip({x}, {low}, {high}, out={x})", "{x}.clip({low}, {high}, {x})"],
    ".sort()": ["{x}.sort()", "{x}.sort(axis={axis})", "{x}[::-1].sort()"],
    ".fill()": ["{x}.fill({number})", "{x}.fill({scalar})"],
    "np.put": ["np.put({x}, {places}, {for_places})", "{x}.put({places}, {for_places})"],
    "np.place": ["np.place({x}, {mask}, {two})"],
    "np.putmask": ["np.putmask({x}, {mask}, {other})"],
    "np.put_along_axis": ["np.put_along_axis({x}, {places_along}, {for_places_along}, 0)"],
    "ufunc.at": [
        "np.add.at({x}, {rows}, {for_rows})",
        "np.subtract.at({x}, {rows}, {element})",
        "np.multiply.at({x}, {rows}, {for_rows})",
        "np.divide.at({x}, {rows}, {number})",
        "np.maximum.at({x}, {rows}, {for_rows})",
        "np.negative.at({x}, {rows})",
        "np.sin.at({x}, {rows})",
    ],
    "mask stored": ["{x}[{mask}] = {element}"],
    "reversed onto itself": ["{x}[...] {sign_or_none}= {x}[{back}]"],
    "zero strides read": ["{x} {sign}= {broadcast}"],
    ".flat": ["{x}.flat[{place}] = {element}", "{x}.flat = {line}"],
}

#: writes into arrays with two or more rows
INTO_ROWS = {
    "rows swapped by an index": ["{x}[[{i}, {j}]] = {x}[[{j}, {i}]]"],
    "rows swapped by unpacking": ["{x}[{i}], {x}[{j}] = {x}[{j}], {x}[{i}]"],
    "overlapping slices": [
        "{x}[{k}:] {sign_or_none}= {x}[:{rest}]",
        "{x}[:{rest}] {sign_or_none}= {x}[{k}:]",
        "{x}[{k}:] {sign_or_none}= {x}[:{rest}][::-1]",
        "{x}[:{rest}] {sign_or_none}= {x}[{k}:] * 0.5",
    ],
}

#: writes into arrays with two or more axes
INTO_AXES = {
    "rows swapped by a copy": ["row = {x}[{i}].copy(); {x}[{i}] = {x}[{j}]; {x}[{j}] = row"],
    "broadcast into": ["{x}[...] = {spread}"],
    "rows of an iteration": ["for row in {x}:\n    row {sign}= {row}"],
}

#: writes into arrays with at least one axis and two elements, and into matrices
INTO_LINES = {
    "elements in a loop": ["for i in range(1, {n}):\n    {x}[i] = {x}[i] * 0.5 + {x}[i - 1] * {rate}"],
}
INTO_MATRICES = {
    "np.fill_diagonal": ["np.fill_diagonal({x}, {diagonal})"],
}


def check_precision(g, name, text):
    """Sums into an array of lower precision are rounded at intervals given by the length of NumPy's buffers."""
    size = g.value(name).dtype.itemsize
    if any(g.value(v).dtype.itemsize > size for v in re.findall(r"\bv\d+\b", text)):
        raise Rejected


def by_template(templates, *limits):
    def step(g):
        name = target(g, *limits)
        text, twin = filled(g, name, templates)
        if any(word in text for word in ("reduce(", "accumulate(", "cumsum(")):
            check_precision(g, name, text)
        g.write(name, text, twin)

    return step


for _table, _limits in (
    (INTO_ANY, ()),
    (INTO_ROWS, (1, 9, 2)),
    (INTO_AXES, (2,)),
    (INTO_LINES, (1, 1, 2)),
    (INTO_MATRICES, (2, 2)),
):
    for _name, _templates in _table.items():
        form(_name)(by_template(_templates, *_limits))

AUGMENTED = ("+", "-", "*", "/", "**", "%", "//")


def augmented(g, name, place, shape, sign=None):
    """Return an augmented assignment to a target, with its twin."""
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


#: indices by name
INDEX = {
    "slice": lambda g, name: slice_text(g, g.shape(name)),
    "indices": lambda g, name: indices(g, g.shape(name)),
    "element": lambda g, name: ", ".join(str(g.random.randrange(-n, n)) for n in g.shape(name)),
}


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


for _name, _index_of in INDEX.items():
    form(f"{_name} stored")(stored(_index_of))
    form(f"{_name} augmented")(added(_index_of))
form("mask augmented")(added(mask))


def whole(sign):
    def step(g):
        name = target(g)
        augmented(g, name, name, g.shape(name), sign)

    return step


for _sign in AUGMENTED:
    form(f"{_sign}=")(whole(_sign))


def square(g, shapes=((2, 2), (3, 3))):
    """Return a square matrix to be written into; create it if there is none."""
    if g.random.random() < 0.5 or not any(is_array(g.value(n)) and g.shape(n) in shapes for n in g.names):
        return g.drawn(g.random.choice(shapes), -2, 2)
    return g.pick(lambda v: is_array(v) and v.shape in shapes)


@form("@=")
def _(g):
    name = square(g)
    other = g.inside(g.fitted(g.shape(name)), -1, 1)
    g.write(name, f"{name} @= {other}", f"{name}[...] = {name} @ {other}")


@form("transposed onto itself")
def _(g):
    name = square(g)
    g.write(name, f"{name}{g.random.choice(['[:] =', ' +=', ' *='])} {name}.T")


@form("function(out=)")
def _(g):
    name = target(g)
    source = g.inside(g.fitted((2, *g.shape(name))), -1, 1)
    fun = g.random.choice(["sum", "mean", "prod", "max", "min"])
    text = f"np.{fun}({source}, axis=0, out={name})"
    check_precision(g, name, text)
    g.hit(f"numpy.{fun}")
    g.write(name, text)


# ---- through views

#: views of arrays, with the minimum number of axes, that are written into directly
VIEWS = {
    "view of a view": (1, [f"{{}}[{a}][{b}]" for a in ("1:", "::-1", ":-1") for b in ("::2", "::-1", ":1", "...")]),
    "negative strides": (1, ["{}[::-1]", "{}[..., ::-1]"]),
    "reshaped view": (1, ["{}.reshape(-1)", "{}.ravel()", "{}.reshape(1, -1)", "np.ravel({})"]),
    "reshaped copy or view": (
        2,
        ["{}.T.reshape(-1)", "{}.ravel(order='F')", "{}[:, ::-1].reshape(-1)", "{}.T.ravel(order='K')"],
    ),
}

#: views that are written into at an index
PLACES_IN_VIEWS = {
    "transposed view": ["{}.T", "np.swapaxes({}, 0, -1)"],
    "Fortran order": ["np.asfortranarray({})", "np.array({}, order='F')"],
}


def through(least, views):
    def step(g):
        made = g.new(g.random.choice(views).format(target(g, least)))
        augmented(g, made, made, g.shape(made))

    return step


def at_a_place_of(views):
    def step(g):
        made = g.new(g.random.choice(views).format(target(g, 2)))
        index = slice_text(g, g.shape(made))
        augmented(g, made, f"{made}[{index}]", part(g, made, index))

    return step


for _name, (_least, _views) in VIEWS.items():
    form(_name)(through(_least, _views))
for _name, _views in PLACES_IN_VIEWS.items():
    form(_name)(at_a_place_of(_views))


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


# ---------------------------------------------------------------------------- calls of ufuncs, and their options

#: calls on a nonempty array `x`, by callee; `like` gives the values
CALLS = {
    "reduce": [
        "np.add.reduce({x}, axis={axes})",
        "np.add.reduce({x}, axis={axis}, keepdims=True, initial={number})",
        "np.add.reduce({x}, None, where={mask})",
        "np.multiply.reduce({x}, axis={axes}, where={mask})",
        "np.multiply.reduce({x}, {axis}, initial={number}, keepdims=True)",
        "np.maximum.reduce({x}, axis={axes}, initial={number}, where={mask})",
        "np.minimum.reduce({x}, axis={axes})",
        "np.subtract.reduce({x}, {axis})",
        "np.divide.reduce({positive}, {axis})",
        ("np.hypot.reduce({positive}, axis={axes})", "np.sqrt(np.sum({positive} ** 2, axis={axes}))"),
        ("np.logaddexp.reduce({x}, axis={axis})", "np.log(np.sum(np.exp({x}), axis={axis}))"),
    ],
    "accumulate": [
        "np.add.accumulate({x}, axis={axis})",
        "np.multiply.accumulate({x}, {axis})",
        "np.subtract.accumulate({x})",
        "np.maximum.accumulate({x}, axis={axis})",
        "np.divide.accumulate({positive}, axis={axis})",
        ("np.logaddexp.accumulate({x})", "np.log(np.add.accumulate(np.exp({x})))"),
    ],
    "reduceat": [
        "np.add.reduceat({x}, {rows})",
        "np.multiply.reduceat({x}, {rows}, axis=0)",
        "np.maximum.reduceat({x}, {rows})",
        "np.subtract.reduceat({x}, {rows}, axis=-{ndim})",
    ],
    "outer": [
        "np.add.outer({x}, {lying})",
        "np.multiply.outer({lying}, {x})",
        "np.subtract.outer({x}, {lying})",
        "np.power.outer({positive}, {lying})",
        "np.maximum.outer({x}, {lying})",
    ],
    "ufunc with options": [
        "np.sin({x}, where={mask}, out=np.zeros({shape}))",
        "np.divide({x}, {positive}, out=np.ones({shape}), where={mask})",
        ("np.exp({x}, dtype=np.float64)", "np.exp({x})"),
        ("np.add({x}, {number}, dtype=float, casting='same_kind')", "np.add({x}, {number})"),
        "np.multiply({x}, {number}, subok=False, order='F')",
        ("np.divmod({x}, {positive}, out=(None, np.zeros({shape})))[1]", "np.divmod({x}, {positive})[1]"),
    ],
    "reduction with options": [
        "np.sum({x}, axis={axes}, where={mask}, initial={number})",
        "{x}.sum(axis={axes}, keepdims=True)",
        ("np.sum({x}, axis={axis}, dtype=np.float64)", "np.sum({x}, axis={axis})"),
        "np.mean({x}, where={mask})",
        "np.max({x}, axis={axes}, initial={number}, where={mask})",
        "np.min({x}, axis={axis}, initial={number})",
        "np.prod({x}, axis={axes}, where={mask}, initial={number})",
        "np.var({x}, axis={axis}, where={mask}, ddof=0.5)",
        "np.amax({x}, axis={axes}, keepdims=True)",
    ],
}
WORDS["ndim"] = lambda w: len(w.shape)


def called(name, templates):
    def step(g):
        x = g.operand(-1.5, 1.5, lambda v: np.ndim(v) >= 1 and np.size(v) >= 1)
        g.new(*filled(g, x, templates))
        g.hit(f"form: {name}")

    return step


CALLED = {name: called(name, templates) for name, templates in CALLS.items()}
