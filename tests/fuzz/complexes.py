"""Steps through complex values: created from real ones, computed with, written into, and reduced to real ones."""

from __future__ import annotations

import numpy as np

from .forms import form, part, slice_text
from .programs import MOST, Rejected

#: transforms, by operand type and by the keyword of their axes
ALONG_ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
ALONG_SOME = ("fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2")
OF_REAL = ("rfft", "ihfft", "rfftn", "rfft2")


def emitted(g, text, twin=None):
    """Return the name of a new real or complex variable; in the twin `1j` is the unit of pairs."""
    if not g.may_be_complex:
        raise Rejected
    twin = (twin or text).replace("1j", "I")
    name = f"v{g.count}"
    g.count += 1
    g.emit(f"{name} = {text}", f"{name} = {twin}", (name,))
    value = g.value(name)
    if not isinstance(value, (np.ndarray, np.inexact)) or value.dtype.kind not in "fc":
        raise Rejected
    (g.complexes if value.dtype.kind == "c" else g.names).append(name)
    return name


def is_complex(g, name):
    return np.iscomplexobj(g.value(name))


def made(g):
    """Create a complex variable from real ones."""
    a = g.operand(-2, 2, lambda v: not (g.is_mixed() and isinstance(v, np.float64)))  # it would be a Python float
    b = g.inside(g.fitted(g.shape(a)), -2, 2)
    unit = f"({g.number()} + {g.number()} * 1j)"
    return emitted(g, *g.random.choice([
        (f"{a} + 1j * {b}",),
        (f"np.exp(1j * {a})",),
        (f"{a} * {unit}",),
        (f"{unit} / ({a} - 2.5 * 1j)",),
        (f"{b} - {unit} ** 2 * {a}",),
        (f"{a}.astype(complex)", f"{a} + 0.0 * 1j"),
        (f"np.multiply({a}, 1j) + {b} * {unit}",),
    ]))  # fmt: skip


def complex_one(g, accept=lambda value: True):
    fitting = [name for name in g.complexes if accept(g.value(name))]
    if fitting and g.random.random() < 0.5:
        return g.random.choice(fitting)
    name = made(g)
    if not accept(g.value(name)):
        raise Rejected
    return name


def small(g, name):
    """Return the variable, scaled down if it is large."""
    size = np.max(np.abs(g.value(name)), initial=0.0)
    return name if size < 2 else emitted(g, f"{name} * {round(1 / float(size), 3)}")


def away(g, name):
    """Return the variable, moved to the right half-plane, away from 0 and from every cut."""
    lowest = np.min(np.real(g.value(name)), initial=1.0)
    return name if lowest > 0.2 else emitted(g, f"{name} + {round(0.5 - float(lowest), 3)}")


def like(g, name):
    """Return a complex or real operand of the same shape."""
    shape = g.shape(name)
    same = [n for n in g.complexes if g.shape(n) == shape]
    if same and g.random.random() < 0.5:
        return g.random.choice(same)
    return g.inside(g.fitted(shape), -2, 2)


UNARY = ("exp", "sin", "cos", "sinh", "cosh", "square", "negative", "conj", "conjugate", "tanh")
FROM_THE_RIGHT = ("log", "sqrt", "reciprocal", "tan")

MOVED = [
    "{0}[::-1]", "{0}.reshape(-1)", "{0}[1:]", "{0}.copy()", "{0}.T", "{0}[0]", "{0}.conj()", "{0}[[0, -1, 0]]",
    "np.sum({0}, axis=0)", "np.mean({0}, axis=-1)", "np.cumsum({0}, axis=0)", "np.concatenate([{0}, {0} * 1j])",
    "np.where(np.real({0}) > 0.1, {0}, 0.5)", "np.stack([{0}, np.conj({0})])", "np.roll({0}, 1)",
]  # fmt: skip
PRODUCTS = {
    1: ["np.vdot({0}, {1})", "{0} @ {1}", "np.outer({0}, {1})", "np.einsum('i,i->', {0}, {1})",
        "np.convolve({0}, {1})"],
    2: ["{0} @ {1}.T", "np.matmul({0}.T, {1})", "np.einsum('ij,ij->i', {0}, {1})", "np.vdot({1}, {0})"],
}  # fmt: skip


def computed(g, c):
    """Compute a complex variable from a complex one."""
    way = g.random.randrange(6)
    if way == 0:
        return emitted(g, f"np.{g.random.choice(UNARY)}({small(g, c)})")
    if way == 1:
        return emitted(g, f"np.{g.random.choice(FROM_THE_RIGHT)}({away(g, small(g, c))})")
    if way == 2:
        a, b = small(g, c), like(g, c)
        return emitted(g, g.random.choice([f"{a} {sign} {b}" for sign in "+-*"] + [f"{b} / {away(g, a)}"]))
    if way == 3:
        return emitted(g, g.random.choice([f"{small(g, c)} ** {n}" for n in (2, 3)] + [f"{away(g, c)} ** 0.7"]))
    nd = np.ndim(g.value(c))
    if not nd:
        raise Rejected
    if way == 4:
        return emitted(g, g.random.choice(MOVED).format(c))
    a, b = small(g, c), like(g, c)
    forms = [*PRODUCTS.get(nd, ["{0} * {1}"])]
    n = g.shape(c)[0]
    if nd == 2 and g.shape(c) == (n, n):
        forms += [f"np.linalg.solve({{0}} + {3 * n} * np.eye({n}), {{1}})"] * 2
    return emitted(g, g.random.choice(forms).format(a, b))


def closed(g, c):
    """Convert a complex variable to real ones."""
    if not is_complex(g, c):
        return
    way, row = g.random.choice([
        ("{0}.real", None), ("{0}.imag", None), ("np.real({0})", "numpy.real"), ("np.imag({0})", "numpy.imag"),
        ("({0} * np.conj({0})).real", "numpy.conjugate"), ("({0} * (0.3 - 0.8 * 1j)).real", None),
        ("abs({0}) ** 2", None), ("np.abs({1})", "numpy.absolute"), ("np.angle({1})", "numpy.angle"),
        ("np.linalg.norm({1})", "numpy.linalg.norm"), ("np.vdot({0}, {0}).real", "numpy.vdot"),
    ])  # fmt: skip
    c = c if "{1}" not in way else away(g, c)
    emitted(g, way.format(c, c))
    if row:
        g.hit(row)


def through(g):
    """Go from real to complex to real values in several steps."""
    c = complex_one(g)
    for _ in range(g.random.randint(0, 3)):
        c = computed(g, c)
        if not is_complex(g, c):
            break
    closed(g, c)


# ---------------------------------------------------------------------------- transforms


def transform(short):
    def step(g):
        least = 2 if short.endswith("2") else 1

        def fits(value):
            return np.ndim(value) >= least and 0 < np.size(value) <= MOST // 2

        wants_real = short in OF_REAL or g.random.random() < 0.4
        name = g.operand(-2, 2, fits) if wants_real else complex_one(g, fits)
        shape = g.shape(name)
        options = []
        if short in ALONG_ONE:
            axis = g.random.randrange(-len(shape), len(shape))
            options += [f"axis={axis}"] * (g.random.random() < 0.7)
            n = g.random.randint(2, 6)
            options += [f"n={n}"] * (g.random.random() < 0.4 or (short in ("irfft", "hfft") and shape[axis] == 1))
        elif g.random.random() < 0.5:
            count = 2 if least == 2 else g.random.randint(1, len(shape))
            axes = tuple(g.random.sample(range(len(shape)), count))
            options.append(f"axes={axes}")
            options += [f"s={tuple(g.random.randint(2, 4) for _ in axes)}"] * (g.random.random() < 0.5)
        if g.random.random() < 0.4:
            options.append(f"norm={g.random.choice(['ortho', 'forward', 'backward'])!r}")
        made = emitted(g, f"np.fft.{short}({', '.join([name, *options])})")
        g.hit(f"numpy.fft.{short}")
        closed(g, made)

    return step


ROWS = {f"numpy.fft.{short}": transform(short) for short in (*ALONG_ONE, *ALONG_SOME)}

# ---------------------------------------------------------------------------- writes


def complex_target(g):
    return complex_one(g, lambda v: isinstance(v, np.ndarray) and v.ndim >= 1 and v.size >= 1 and v.flags.writeable)


def written(g, name, text):
    g.write(name, text, text.replace("1j", "I"))
    closed(g, name)


def source(g, shape):
    """Return a complex or real value to be stored."""
    value = g.into(shape)
    return g.random.choice([value, f"{value} * 1j", f"({value} - {g.number()} * 1j)"])


@form("complex: slice stored")
def _(g):
    name = complex_target(g)
    index = slice_text(g, g.shape(name))
    written(g, name, f"{name}[{index}] = {source(g, part(g, name, index))}")


@form("complex: augmented")
def _(g):
    name = complex_target(g)
    index = g.random.choice(["...", slice_text(g, g.shape(name))])
    written(g, name, f"{name}[{index}] {g.random.choice('+-*')}= {source(g, part(g, name, index))}")


@form("complex: indices stored")
def _(g):
    name = complex_target(g)
    rows = str([g.random.randrange(g.shape(name)[0]) for _ in range(2)])
    written(g, name, f"{name}[{rows}] = {source(g, part(g, name, rows))}")


@form("complex: mask stored")
def _(g):
    name = complex_target(g)
    written(g, name, f"{name}[np.real({name}) > {g.number(-1, 1)}] = {source(g, ())}")


@form("complex: part written")
def _(g):
    name = complex_target(g)
    half = f"{name}.{g.random.choice(['real', 'imag'])}"
    index = slice_text(g, g.shape(name))
    written(g, name, f"{half}[{index}] {g.random.choice(['', '+', '*'])}= {g.into(part(g, name, index))}")


@form("complex: ufunc(out=)")
def _(g):
    name = complex_target(g)
    other = like(g, name)
    text = g.random.choice(["np.multiply({0}, {1}, out={0})", "np.add({1}, 0.5 * 1j, out={0})", "np.conj({0}, out={0})",
                            "np.subtract({0}[::-1], {1}, out={0})"])  # fmt: skip
    written(g, name, text.format(name, other))


@form("complex: stored in zeros")
def _(g):
    a = g.operand(-2, 2, lambda v: np.ndim(v) == 1 and 0 < np.size(v) <= 6)
    n = g.shape(a)[0]
    name = emitted(g, f"np.zeros({n}, dtype=complex)", f"zeros({n})")
    unit = f"({g.number()} + {g.number()} * 1j)"
    text = f"for i in range({n}):\n    {name}[i] = {a}[i] * {unit} + {name}[i - 1] * (0.3 - 0.4 * 1j)"
    written(g, name, g.random.choice([text, f"{name}[:] = {a} * {unit}", f"{name}.imag[...] = {a}"]))
