"""Programs: Python statements, drawn with the current values, and shrunk if they fail.

A `Builder` runs every statement as it draws it, so that the next one can be placed within its domain; a step whose
values are nonfinite or large, or which NumPy rejects, is undone. The result is a `Program`: source text
for plain NumPy, and for its twin (`twins`) where that differs.
"""

from __future__ import annotations

import functools
import linecache
import random
import textwrap
import warnings
from dataclasses import dataclass, field

import numpy as np
import scipy.special

from . import pairs, twins

#: maximum magnitude of values, and maximum size of arrays
LARGEST, MOST = 20.0, 48

SHAPES = [(), (), (3,), (4,), (5,), (2, 3), (3, 2), (1, 3), (3, 1), (2, 2), (1,), (3, 3), (2, 3, 2), (0,), (2, 0)]


@dataclass(frozen=True)
class Statement:
    """Source text, its twin, the variables that it creates or writes, and the rules and forms that it calls."""

    text: str
    twin: str
    touches: tuple = ()
    hits: tuple = ()


@dataclass
class Program:
    """A function of one vector: inputs are slices of it, and the value concatenates all of `returned`."""

    x: np.ndarray
    statements: list
    returned: tuple
    hits: list = field(default_factory=list)

    def body(self, twin=False):
        for s in self.statements:
            yield s.twin if twin else s.text
            if twin:
                yield from (f"{name} = perturb({name})" for name in s.touches)
        yield f"return np.concatenate([{', '.join(f'np.ravel({name})' for name in self.returned)}])"

    @property
    def is_complex(self):
        """Return whether there are complex intermediates."""
        return any(word in s.text for s in self.statements for word in ("1j", "complex", "np.fft."))

    @property
    def multiplies_in_place(self):
        """Return whether complex values are multiplied in place, where NumPy's loop rounds 0-d elements differently."""
        return self.is_complex and any("*=" in s.text for s in self.statements)

    def source(self, twin=False):
        return "def f(x):\n" + textwrap.indent("\n".join(self.body(twin)), "    ")

    @functools.cached_property
    def f(self):
        return compiled(self.source(), np=np, special=scipy.special)

    @functools.cached_property
    def twin(self):
        names = {"np": twins.numpy, "special": twins.special, "perturb": twins.noise.perturb}
        return compiled(self.source(twin=True), file="<twin>", **names, ufuncs=np, I=pairs.I, zeros=pairs.zeros)

    def loss(self, weights):
        """Return the weighted sum of the results, in one module with f."""
        source = f"{self.source()}\n\ndef loss(x):\n    return np.sum(f(x) * weights)"
        return compiled(source, "loss", np=np, special=scipy.special, weights=weights)

    def text(self):
        """Return a script that reproduces the program."""
        return (
            "import numpy as np\nfrom scipy import special\nimport wengert as wg\n\n"
            f"x = np.array({self.x.tolist()}, dtype=np.{self.x.dtype})\n\n{self.source()}"
        )


def compiled(source, name="f", file="<program>", **names):
    names["__name__"] = "fuzzed"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file  # errors quote the line
    exec(compile(source, file, "exec"), names)
    return names[name]


class Rejected(Exception):
    """The step is undone."""


class Builder:
    """Draws a program step by step."""

    def __init__(self, seed, depth, single=False):
        self.random = random.Random(seed)
        self.single = single
        self.may_be_complex = self.random.random() < 0.45
        self.statements, self.names, self.complexes = [], [], []
        self.count = 0
        self.hits = []
        self.start()
        for _ in range(depth):
            self.step()

    # ---- the run so far

    def start(self):
        shapes = [self.random.choice(SHAPES) for _ in range(self.random.randint(1, 3))]
        sizes = [int(np.prod(shape)) for shape in shapes]
        if not sum(sizes):
            shapes.append((3,))
            sizes.append(3)
        self.x = np.array(self.random.sample(range(-1500, 1501), sum(sizes))) / 1000  # all values differ
        if self.single:
            self.x = self.x.astype(np.float32)
        self.rerun()
        self.emit("x = x * 1.0", touches=("x",))
        at = 0
        for shape, size in zip(shapes, sizes, strict=True):
            part = f"x[{at}:{at + size}].reshape({shape})" if shape or self.random.random() < 0.5 else f"x[{at}]"
            if not self.single and self.random.random() < 0.06:
                part += ".astype(np.float32)"
            self.new(part)
            at += size

    def rerun(self):
        self.env = {"np": np, "special": scipy.special, "x": self.x.copy(), "__name__": "fuzzed"}
        for s in self.statements:
            self.execute(s.text)

    def execute(self, text):
        with np.errstate(all="ignore"):
            exec(code_of(text), self.env)

    def step(self):
        """Add a call or a write, if a few tries find one."""
        from .table import STEPS, WEIGHTS

        for _ in range(8):
            made = (self.statements, self.names, self.complexes, self.hits)
            lengths, count = [len(entries) for entries in made], self.count
            try:
                self.random.choices(STEPS, WEIGHTS)[0](self)
                return
            except (Rejected, ValueError, TypeError, IndexError, ZeroDivisionError, DeprecationWarning, SystemError):
                for entries, length in zip(made, lengths, strict=True):
                    del entries[length:]
                self.count = count
                self.rerun()

    # ---- helpers for the table

    def emit(self, text, twin=None, touches=()):
        self.execute(text)
        self.statements.append(Statement(text, twin or text, touches))
        for name in touches:
            value = self.env[name]
            if np.size(value) > MOST or not np.all(np.abs(value) < LARGEST):
                raise Rejected

    def new(self, text, twin=None):
        """Return the name of a new variable."""
        return self.several(text, 1, twin)[0]

    def several(self, text, count, twin=None):
        """Return the names of new variables that unpack a result."""
        made = tuple(f"v{self.count + i}" for i in range(count))
        self.count += count
        self.emit(f"{', '.join(made)} = {text}", twin and f"{', '.join(made)} = {twin}", made)
        for name in made:
            value = self.env[name]
            if not isinstance(value, (np.ndarray, np.floating)) or value.dtype.kind != "f":
                raise Rejected
        self.names += made
        return made

    def write(self, target, text, twin=None):
        """Add a statement that writes into `target` and everything that shares its memory."""
        self.emit(text, twin, (target,))
        everything = [self.env[name] for name in (*self.names, *self.complexes)]
        if any(np.size(v) and not np.all(np.abs(v) < LARGEST) for v in everything):
            raise Rejected

    def hit(self, name):
        self.hits.append(name)

    def value(self, name):
        return self.env[name]

    def is_mixed(self):
        """Return whether there are single-precision values."""
        return self.single or any("float32" in s.text for s in self.statements)

    def shape(self, name):
        return np.shape(self.env[name])

    def number(self, low=-2.0, high=2.0):
        return round(self.random.uniform(low, high), 3)

    def literal(self, shape, low=-2.0, high=2.0, like=None):
        """Return a constant as text."""
        if shape == ():
            return str(self.number(low, high))
        values = np.array([self.number(low, high) for _ in range(int(np.prod(shape)))]).reshape(shape)
        return array_text(values, self.single)

    def pick(self, accept=lambda value: True):
        """Choose a variable, recent ones more often."""
        fitting = [name for name in self.names if accept(self.env[name])]
        if not fitting:
            raise Rejected
        return fitting[min(int(self.random.triangular(0, len(fitting), len(fitting))), len(fitting) - 1)]

    def fitted(self, shape):
        """Return a variable of this shape: an existing one, or one made from another."""
        if self.random.random() < 0.7:
            same = [name for name in self.names if self.shape(name) == shape]
            if same:
                return self.random.choice(same)
        if not np.prod(shape):
            return self.new(f"np.sum({self.pick()}) * np.ones({shape})")
        source = self.pick(lambda v: np.size(v) > 0)
        if shape == ():
            return self.new(f"{source}.ravel()[{self.random.randrange(np.size(self.value(source)))}]")
        return self.new(f"np.resize({source}, {shape})")

    def inside(self, name, low, high):
        """Return the variable if its values are in the domain, else its sine scaled to the bounds."""
        value = self.value(name)
        if np.all((value >= low) & (value <= high)):
            return name
        middle, half = round((low + high) / 2, 3), round(0.45 * (high - low), 3)
        return self.new(f"{middle} + {half} * np.sin({name})")

    def operand(self, low=-3.0, high=3.0, accept=lambda value: True):
        return self.inside(self.pick(accept), low, high)

    def broadcasting(self, shape):
        """Return a variable that broadcasts against the shape to few elements."""

        def accept(value):
            try:
                return np.prod(np.broadcast_shapes(shape, np.shape(value))) <= MOST
            except ValueError:
                return False

        return self.pick(accept)

    def drawn(self, shape, low, high):
        """Return a variable in general position: distinct elements, no singular matrix."""
        source = self.fitted(shape)
        middle = self.literal(shape, low + 0.3 * (high - low), high - 0.3 * (high - low))
        return self.new(f"{middle} + {round(0.25 * (high - low), 3)} * np.sin({source})")

    def near(self, values):
        """Return a variable close to the values of a case table."""
        values = np.asarray(values, dtype=float)
        if values.size > MOST:
            raise Rejected
        finite = np.isfinite(values)
        text = array_text(np.where(finite, values, 0.0), self.single) if values.ndim else repr(float(values))
        made = self.new(f"{text} + 0.02 * np.sin({self.fitted(values.shape)})")
        return made if finite.all() else f"np.where({array_text(finite)}, {made}, {array_text(values, self.single)})"

    def into(self, shape):
        """Return something to store into this shape: a scalar, a variable that broadcasts to it, or a constant."""
        way = self.random.random()
        if way < 0.15:
            return str(self.number())
        if way < 0.25:
            return self.literal(shape)

        def accept(value):
            try:
                return np.broadcast_shapes(np.shape(value), shape) == shape
            except ValueError:
                return False

        if way < 0.6:
            return self.inside(self.pick(accept), -4, 4)
        return self.inside(self.fitted(shape), -4, 4)

    def program(self):
        """Return the program; its value includes the latest results and everything that may have been written."""
        chosen = self.names[-4:]
        others = [name for name in self.names if name not in chosen]
        self.random.shuffle(others)
        returned = tuple(others[:3] + chosen)
        if not any(np.size(self.env[name]) for name in returned):
            returned += ("x",)
        return Program(self.x, list(self.statements), returned, self.hits)


@functools.lru_cache(maxsize=10_000)
def code_of(text):
    return compile(text, "<statement>", "exec")


def array_text(values, single=False):
    text = np.array2string(
        np.asarray(values), separator=", ", threshold=10_000, floatmode="unique", max_line_width=10_000
    ).replace("\n", "")
    text = text.replace("nan", "np.nan").replace("inf", "np.inf")
    dtype = values.dtype
    if dtype.kind == "f" and single:
        dtype = np.dtype(np.float32)
    suffix = f", dtype=np.{dtype}" if dtype not in (np.float64, np.bool) or not values.size else ""
    shaped = f".reshape({values.shape})" if not values.size else ""
    return f"np.array({text}{suffix}){shaped}"


def draw(seed, index):
    """Return the program of a seed and an index; some compute in single precision."""
    rng = random.Random(f"{seed}:{index}")
    depth = 1 + int(30 * rng.random() ** 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", DeprecationWarning)  # NumPy warns of a write that it will forbid
        return Builder(f"{seed}:{index}:program", depth, single=rng.random() < 0.15).program()


def shrunk(program, fails, tries=250):
    """Return the program with as few statements and results as still fail."""

    def attempt(statements, returned):
        nonlocal tries
        tries -= 1
        candidate = Program(program.x, statements, returned)
        try:
            with np.errstate(all="ignore"):
                candidate.f(program.x.copy())
            return candidate if tries > 0 and fails(candidate) else None
        except Exception:
            return None

    best, smaller = program, True
    while smaller and tries > 0:
        smaller = False
        for name in best.returned:
            found = len(best.returned) > 1 and attempt(
                best.statements, tuple(n for n in best.returned if n != name)
            )
            if found:
                best, smaller = found, True
        for statement in reversed(best.statements):
            left = [s for s in best.statements if s is not statement]
            found = attempt(left, best.returned)
            if found:
                best, smaller = found, True
    return best
