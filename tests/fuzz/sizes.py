"""``python -m tests.fuzz.sizes --programs N --seed S``: programs with data-dependent sizes, up to a million elements.

Masks, compressions, gathers and scatters at computed indices, sorts, searches, cumulative operations and loops over
them. Each program is compiled by both tiers. Values and gradients are compared with plain and eager mode at three
points, whose masks select different numbers of elements, recorded at each and replayed at the others. Some programs
also compare Hessian-vector products, Jacobians and products with them if the size of the result depends on data,
results in an array of the caller, and calls from several threads. Eager derivatives are compared with
differences wherever two step sizes agree. An exception must be the one that plain NumPy raises.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import linecache
import random
import sys
import textwrap
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import wengert as wg
from helpers import at_the_end_of_memory

SIZES = (1, 2, 3, 7, 8, 9, 63, 64, 65, 200, 511, 512, 513, 1000, 4097, 10_000, 40_000, 70_001, 300_000)
#: limit of elements times statements of a program, which bounds its time
WORK = 4_000_000
TIERS = ("vm", "llvm")
#: one program in this many has about a million elements
LARGE = 50
#: maximum sizes for comparing a whole Jacobian or Hessian
WHOLE = 70
#: orders in which a compiled function is called at the three points, for small and for large programs
ORDER, SHORT = (0, 0, 1, 2, 1, 0, 2), (0, 1, 2, 0, 1)

#: masks for a vector v
MASKS = (
    "{v} > {c}", "({v} > {c}) & ({w} < {d})", "np.abs({v}) < {d}", "~({v} < {c})", "({v} > {c}) | ({w} > {d})",
    "r > {q}", "(r >= {q}) & (r < {q} + {h})", "np.arange({v}.size) % {k} == 0", "np.isfinite({v}) & (r < {q})",
    "np.zeros({v}.size, dtype=bool)", "{v} == {v}",
)  # fmt: skip
#: indices into a vector v, any number of them
PLACES = (
    "np.argsort({v})", "np.argsort({w})[::-{k}]", "np.nonzero({m})[0]", "np.where({m})[0]",
    "np.flatnonzero({m}) - {v}.size",
    "np.argpartition({v}, {v}.size // 2)[:{v}.size // 2]", "(r * {v}.size).astype(int)", "-1 - np.flatnonzero({m})",
    "np.searchsorted(np.sort({w}), {v}) % {v}.size", "np.unique(np.floor(3 * np.tanh({w})).astype(int)) % {v}.size",
    "np.unravel_index(np.argmax({v}), {v}.shape)[0]", "np.repeat(np.arange({v}.size), {m})", "[0, -1, {v}.size // 2]",
    "np.unique(np.round({w}, 1), return_index=True)[1]", "np.cumsum({m}) - 1", "np.digitize(r, [0.2, 0.5]) % {v}.size",
)  # fmt: skip
#: vectors as long as v
SAME = (
    "np.sort({v})", "np.cumsum({v}) / {v}.size", "np.where({m}, {v}, {w})", "np.maximum.accumulate({v})",
    "{v}[::-1] * {c}",
    "np.sin({v}) * {w}", "{v} - np.mean({w})", "np.roll({v}, {k})", "np.clip({v}, {c}, {d})", "{v} * (r > {q})",
    "np.take({v}, np.argsort({w}))", "np.partition({v}, {v}.size // 2)",
    "np.cumprod(1 + 0.1 * np.tanh({v}) / {v}.size)",
    "np.add.accumulate({v})[::-1] / {v}.size", "np.exp(-{v} * {v})", "{v} * r", "{v}[np.argsort(r)]",
    "np.interp({v}, [-1.0, 0.0, 1.0], [0.0, 2.0, 1.0])", "np.diff({v}, prepend={v}[0])",
    "np.take_along_axis({v}, np.argsort({w}), 0)", "np.take({v}, (3 * {w} * {v}.size).astype(int), mode='wrap')",
    "np.take({v}, (3 * {w} * {v}.size).astype(int), mode='clip')", "np.choose({m}, [{v}, {w}])",
    "np.select([{m}, {m}], [{v}, {c}], {w})", "np.sort(np.stack([{v}, {w}]), axis=0)[0]",
    "np.stack([{v}, {w}])[({m}).astype(int), np.arange({v}.size)]",
    "np.stack([{v}, {w}], axis=1)[np.argsort({v})].sum(axis=1)",
    "np.partition(np.stack([{v}, {w}, {v} * {w}]), 1, axis=0)[1]",
)  # fmt: skip
#: vectors of other lengths
OTHERS = (
    "{v}[{m}]", "np.compress({m}, {v})", "np.extract({m}, {v})", "{v}[{p}]", "np.take({v}, {p})", "{v}[{m}][::{k}]",
    "np.repeat({v}[:50], (5 * r[:50]).astype(int)[:{v}[:50].size])", "np.concatenate([{v}[{m}], {w}[:3]])",
    "np.delete({v}, np.flatnonzero({m})[:{k}])", "np.sort({v}[{m}])", "np.cumsum({v}[{m}])",
    "np.append({v}[{m}], {v}[0])",
    "np.diff(np.sort({v}))", "np.trim_zeros({v} * ({m}))", "{v}[np.nonzero({m})] * 2", "np.unique({v})[:5]",
    "np.bincount((3 * r).astype(int), {v}, 4)", "np.pad({v}[{m}], {k})", "np.tile({v}[:4], {k})",
    "np.outer({v}[:5], {w}[:7]).ravel()", "np.split({v}, [{v}.size // 3])[1]",
    "np.stack([{v}, {w}])[:, {m}].ravel()", "np.stack([{v}, {w}], axis=1)[{m}].max(axis=1)",
    "np.stack([{v}, {w}])[np.stack([{m}, {m}])]", "np.compress({m}, np.stack([{v}, {w}]), axis=1).T.ravel()",
    "np.repeat(np.stack([{v}, {w}]), ({m}).astype(int), axis=1)[0]", "np.array_split({v}, {k})[-1]",
    "np.insert({v}, np.flatnonzero({m})[:{k}], {c})", "np.concatenate([{v}[{m}], {v}[~({m})]])[::-1]",
    "np.add.reduceat({v}, np.flatnonzero({m})[:{k}])",
)  # fmt: skip
#: writes into y, a new vector as long as v
STORES = (
    "{y}[{m}] = {v}[{m}]", "{y}[{m}] = {c}", "{y}[{p}] = {c} * {v}[{p}]", "{y}[{m}] += {w}[{m}]",
    "np.add.at({y}, {p}, {v}[{p}])",
    "{y}[{p}] += {c}", "np.put({y}, {p}, {v}[{p}])", "np.putmask({y}, {m}, {v})", "{y}[::{k}] = {v}[::{k}]",
    "{y}[1:] -= {v}[:-1]",
    "np.copyto({y}, {v}, where={m})", "{y}[-{k}:] = {v}[0]", "np.place({y}, {m}, {v})",
    "{y}[{v}.size // 2] = np.sum({v}[{m}])",
    "np.multiply({v}, {w}, out={y})", "np.subtract.at({y}, {p}, {c})",
    "np.put_along_axis({y}, np.argsort({w}), {v}, 0)", "{y}.reshape(-1, 1)[{p}] = {c}", "{y}[{m}] *= {v}[{m}]",
    "np.put({y}, (3 * {w} * {v}.size).astype(int), {v}, mode='wrap')", "np.take({v}, np.argsort({w}), out={y})",
    "{y}[np.argsort({v})] = np.sort({w})", "np.sin({v}, out={y}, where={m})", "np.cumsum({v}, out={y})", "{y}.sort()",
    "np.maximum.at({y}, {p}, {v}[{p}])",
)  # fmt: skip
#: scalars
ENDS = (
    "np.sum({v}[{m}])", "np.sum({v} * {w}) / {v}.size", "np.max({v})", "{v}[np.argmin({w})]", "np.median({v})",
    "np.sum(np.sort({v})[-{k}:])", "np.mean({v})", "{v}[{m}].sum() * {c}", "np.dot({v}, {w}) / {v}.size",
    "np.sum({v}[np.argsort({w})[:{k}]])", "np.linalg.norm({v})", "np.ptp({v})", "np.quantile({v}, 0.3)",
)  # fmt: skip
#: bodies of loops over i with n iterations
STEPS = (
    "s = s + {v}[(i / n <= r) & (r < (i + 1) / n)].sum() * (i + 1.0)",
    "s = s + np.sum({v}[r > i / n]) / (i + 1.0)",
    "s = s + {v}[i % {v}.size] * {w}[-1 - i % {v}.size]",
    "s = s + np.sum({v}[i % {v}.size::n]) * i",
    "s = s + np.max({v}[(r * n).astype(int) == i], initial=0.0)",
    "s = s + np.sum({v}[np.flatnonzero((r * n).astype(int) == i)] ** 2)",
    "k = int(i * {v}.size / n)\n    s = s + {v}[k] * np.sum({w}[k:k + 100])",
)


class Drawn:
    """A program: its source, the size of its input, and what is compared besides values and gradients."""

    def __init__(self, seed, index):
        r = self.random = random.Random(f"{seed} {index}")
        self.n = r.choice(SIZES) if r.random() < 0.9 else r.randint(1, 5000)
        if index % LARGE == LARGE - 1:
            self.n = r.randint(900_000, 1_100_000)
        self.vectors, self.others, self.lines, self.numbers = ["x"], [], [], []
        count = max(1, min(r.randint(1, 7), WORK // self.n))
        for k in range(count):
            self.statement(k)
        if r.random() < 0.35:
            self.loop()
        self.array = r.choice(self.others or self.vectors)
        self.lines += [f"z{k} = {self.words(r.choice(ENDS))}" for k in range(r.randint(1, 2))]
        self.numbers += [line.split()[0] for line in self.lines if line.startswith("z")]
        ways = [way for way, share in SHARES.items() if r.random() < share]
        self.ways = ["value", "gradient", *(ways if self.n < 100_000 else ways[:1])]

    def statement(self, k):
        name, how = f"v{k}", self.random.random()
        if how < 0.35:
            self.lines.append(f"{name} = {self.words(self.random.choice(SAME))}")
            self.vectors.append(name)
        elif how < 0.65:
            self.lines.append(f"{name} = {self.words(self.random.choice(OTHERS))}")
            self.others.append(name)
            self.numbers.append(f"np.sum({name} * np.cos(np.arange({name}.size)))")
        else:
            target = self.random.choice(("np.zeros(x.size)", "x.copy()", "np.ones(x.size)"))
            self.lines.append(f"{name} = {target}")
            for _ in range(self.random.randint(1, 3)):
                self.lines.append(self.words(self.random.choice(STORES), y=name))
            self.vectors.append(name)

    def loop(self):
        steps = max(1, min(self.random.choice((3, 20, 100, 300, 600)), WORK // self.n))
        body = self.words(self.random.choice(STEPS))
        self.lines += ["s = 0.0", f"n = {steps}", "for i in range(n):", f"    {body}"]
        self.numbers.append("s")

    def words(self, text, **names):
        r = self.random
        for _ in range(3):  # masks use vectors and scalars, indices use masks
            for word, options in (("{p}", PLACES), ("{m}", MASKS)):
                if word in text:
                    text = text.replace(word, r.choice(options))
        return text.format(
            v=r.choice(self.vectors), w=r.choice(self.vectors), k=r.randint(1, 4), c=round(r.uniform(-1, 0.3), 2),
            d=round(r.uniform(0.3, 1.5), 2), q=round(r.uniform(0, 0.9), 2), h=round(r.uniform(0.001, 0.4), 3),
            **names,
        )  # fmt: skip

    def source(self, result=None):
        body = "\n".join([*self.lines, f"return {result or ' + '.join(self.numbers)}"])
        return "def f(x, r):\n" + textwrap.indent(body, "    ")

    def made(self, result=None):
        file, source = f"<sizes: {result or 'number'}>", self.source(result)
        linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
        space = {"np": np, "__name__": "fuzzed"}
        exec(compile(source, file, "exec"), space)
        return space["f"]

    def points(self):
        """Return three points; masks that depend on values select another number of elements at each."""
        rng = np.random.default_rng(self.n)
        return [
            (rng.uniform(low, high, self.n), rng.random(self.n) ** power)
            for low, high, power in ((-1.0, 1.0, 1.0), (-0.4, 1.2, 2.0), (-1.3, 0.5, 0.5))
        ]


# ---- comparisons: a function of (x, r) becomes a function of (x, r) that returns an array or a scalar


def direction(x):
    """Return a fixed direction."""
    return np.cos(7.0 * np.arange(x.size)) + 0.1


def hessian_product(f):
    product = wg.hvp(f)
    return lambda x, r: product(x, direction(x), r)


def tangent(f):
    push = wg.jvp(f)
    return lambda x, r: np.concatenate([np.ravel(part) for part in push(x, direction(x), r)])


def cotangent(f):
    pull = wg.vjp(f)

    def pulled(x, r):
        y, pullback = pull(x, r)
        return pullback(np.sin(1.0 + np.arange(np.size(y))).reshape(np.shape(y)))

    return pulled


def of_both(f):
    """Return the gradient in r as well, on which masks and indices depend."""
    gradient = wg.grad(f, argnums=(0, 1))
    return lambda x, r: np.concatenate(gradient(x, r))


def into_given(f):
    """Return the gradient written into every second element of an array whose other elements must not change."""
    gradient = wg.grad(f)

    def written(x, r):
        room = np.full(2 * x.size, -7.5)
        found = gradient(x, r, out=room[::2])
        assert found.base is room and np.all(room[1::2] == -7.5)
        return room[::2].copy()

    return written


#: share of programs by comparison; "threads" is combined with others
SHARES = {
    "hessian_product": 0.3, "tangent": 0.3, "cotangent": 0.3, "of_both": 0.3, "into_given": 0.3, "threads": 0.25,
    "whole": 0.7,
}  # fmt: skip
NUMBERS = {
    "value": lambda f: f, "gradient": wg.grad, "hessian_product": hessian_product, "of_both": of_both,
    "into_given": into_given, "hessian": wg.hessian,
}  # fmt: skip
ARRAYS = {"tangent": tangent, "cotangent": cotangent, "jacobian": wg.jacobian}


def ways_of(program):
    """Return the names of the derivatives to compare for a program."""
    ways = [*program.ways]
    if "whole" in ways and program.n <= WHOLE:
        ways += ["hessian", "jacobian"]
    return [way for way in ways if way in NUMBERS or way in ARRAYS]


def outcome(f, *args):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return f(*args)
        except Exception as error:
            return type(error)


def is_close(a, b):
    if isinstance(a, type) or isinstance(b, type):
        return a is b
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        return False
    size = np.max(np.abs(b[np.isfinite(b)]), initial=0.0) if b.ndim else abs(b)
    return bool(np.allclose(a, b, rtol=1e-9, atol=1e-9 * (size if np.isfinite(size) else 1.0) + 1e-12, equal_nan=True))


def is_slope(found, f, x, r):
    """Return whether `found` is the directional derivative of f, or None if differences of several steps disagree."""
    v = 1e-6 * direction(x)
    values = [outcome(f, x + k * v, r) for k in (-2, -1, 0, 1, 2)]
    if any(isinstance(y, type) or np.shape(y) != np.shape(values[0]) for y in values):
        return None
    before, left, y, right, after = (np.asarray(y) for y in values)
    near = (right - left) / 2e-6
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.maximum(1.0, np.maximum(np.max(np.abs(found), initial=0.0), np.abs(y)))
        known = np.abs(near - (after - before) / 4e-6) <= 1e-6 * size
        known &= np.abs(near - (right - y) / 1e-6) <= 1e-4 * size  # the point itself is not a jump
        known &= np.isfinite(near) & np.isfinite(found)
        return bool(np.all((np.abs(found - near) <= 2e-4 * size) | ~known)) if np.any(known) else None


def check(program, tiers=TIERS, compared=None):
    """Return what is wrong with a program, or ""; None if plain NumPy raises."""
    compared = collections.Counter() if compared is None else compared
    points, number = program.points(), program.made()
    plain = [outcome(number, x.copy(), r) for x, r in points]
    if any(isinstance(y, type) for y in plain):
        return None
    functions = {"number": number, "array": program.made(f"1.0 * {program.array}")}
    expected = {"value": plain}
    for way in ways_of(program):
        f = functions["array" if way in ARRAYS else "number"]
        eager = (ARRAYS.get(way) or NUMBERS[way])(f)
        expected[way] = expected.get(way) or [outcome(eager, x.copy(), r) for x, r in points]
    for found in (against_differences(number, points, expected), *(
        replayed(program, functions, points, expected, tier, compared) for tier in tiers
    )):  # fmt: skip
        if found:
            return found
    return ""


def against_differences(f, points, expected):
    """Compare eager gradients and Hessian-vector products with differences; return a description of any mismatch."""
    for (x, r), slope in zip(points, expected["gradient"], strict=True):
        if not isinstance(slope, type) and is_slope(np.dot(slope, direction(x)), f, x, r) is False:
            return "the gradient of eager mode is not that of differences"
    for (x, r), slope in zip(points, expected.get("of_both", ()), strict=False):
        if not isinstance(slope, type):
            along = np.dot(slope, np.tile(direction(x), 2))
            if is_slope(along, lambda y, r, x=x: f(y, r + (y - x)), x, r) is False:
                return "the gradient in both arguments of eager mode is not that of differences"
    for (x, r), slope in zip(points, expected.get("hessian_product", ()), strict=False):
        if not isinstance(slope, type) and is_slope(slope, wg.grad(f), x, r) is False:
            return "the product with the Hessian of eager mode is not that of differences"
    return ""


def replayed(program, functions, points, expected, tier, compared):
    """Compare a compiled function with `expected` at each point; inputs end at inaccessible memory."""
    made = {name: wg.compile(f, tier=tier) for name, f in functions.items()}
    for way in ways_of(program):
        run = (ARRAYS.get(way) or NUMBERS[way])(made["array" if way in ARRAYS else "number"])
        for k in ORDER if program.n < 100_000 else SHORT:
            found = outcome(run, at_the_end_of_memory(points[k][0]), points[k][1])
            if not is_close(found, expected[way][k]):
                return differing(f"{tier}, {way} at point {k}", found, expected[way][k])
        if "threads" in program.ways:
            calls = [0, 1, 2, 0, 2, 1, 0, 0]
            with ThreadPoolExecutor(4) as pool:
                results = pool.map(lambda k, run=run: outcome(run, points[k][0].copy(), points[k][1]), calls)
            for k, found in zip(calls, results, strict=True):
                if not is_close(found, expected[way][k]):
                    return differing(f"{tier}, {way} at point {k} in a thread", found, expected[way][k])
            compared[f"{way} in threads"] += 1
        compared[way] += 1
    return ""


def differing(what, found, expected):
    if isinstance(found, type) or isinstance(expected, type) or np.shape(found) != np.shape(expected):
        return f"{what}: {found!r}, not {expected!r}"
    at = np.flatnonzero(np.ravel(found) != np.ravel(expected))[:5]
    return f"{what} differs at {at}: {np.ravel(found)[at]}, not {np.ravel(expected)[at]}"


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.sizes", description=__doc__)
    parser.add_argument("--programs", type=int, default=200, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--first", type=int, default=0, metavar="I")
    parser.add_argument("--most", type=int, default=10**6, metavar="N", help="draw no larger size")
    parser.add_argument("--tier", choices=TIERS, action="append", help="both if none is named")
    options = parser.parse_args()
    faulthandler.enable()
    failures, results, compared = [], collections.Counter(), 0
    for index in range(options.first, options.first + options.programs):
        program = Drawn(options.seed, index)
        if program.n > options.most:
            continue
        print(f"# {index}", file=sys.stderr, flush=True)
        found = check(program, options.tier or TIERS, results)
        compared += found is not None
        if found:
            failures.append(index)
            print(f"---- seed {options.seed}, program {index}, size {program.n}: {found}", flush=True)
            print(f"{program.source()}\n# array: {program.array}", flush=True)
    print(f"{compared} programs compared, {len(failures)} failures: {failures}")
    for way, count in sorted(results.items()):
        print(f"  {count:7} {way}")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
