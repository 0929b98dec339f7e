"""``python -m tests.fuzz.sizes --programs N --seed S``: programs whose sizes depend on data, at sizes up to a million.

Masks, compressions, gathers and stores at computed places, sorts, searches, cumulative operations and loops over all of
these: each program is compiled by both tiers, and its values and gradients at three points, each replayed, are compared
with those of eager mode; an exception must be the one of plain NumPy.
"""

from __future__ import annotations

import argparse
import faulthandler
import linecache
import random
import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import wengert as wg

SIZES = (1, 2, 3, 7, 8, 9, 63, 64, 65, 200, 511, 512, 513, 1000, 4097, 10_000, 40_000, 70_001, 300_000, 1_000_000)
#: elements times statements of one program, so that none takes long
WORK = 4_000_000
TIERS = ("vm", "llvm")

#: masks of a vector v
MASKS = (
    "{v} > {c}", "({v} > {c}) & ({w} < {d})", "np.abs({v}) < {d}", "~({v} < {c})", "({v} > {c}) | ({w} > {d})",
    "r > {q}", "(r >= {q}) & (r < {q} + {h})", "np.arange({v}.size) % {k} == 0", "np.isfinite({v}) & (r < {q})",
    "np.zeros({v}.size, dtype=bool)", "{v} == {v}",
)  # fmt: skip
#: places in a vector v, of any number
PLACES = (
    "np.argsort({v})", "np.argsort({w})[::-{k}]", "np.nonzero({m})[0]", "np.where({m})[0]",
    "np.flatnonzero({m}) - {v}.size",
    "np.argpartition({v}, {v}.size // 2)[:{v}.size // 2]", "(r * {v}.size).astype(int)", "-1 - np.flatnonzero({m})",
    "np.searchsorted(np.sort({w}), {v}) % {v}.size", "np.unique(np.floor(3 * np.tanh({w})).astype(int)) % {v}.size",
    "np.unravel_index(np.argmax({v}), {v}.shape)[0]", "np.repeat(np.arange({v}.size), {m})", "[0, -1, {v}.size // 2]",
    "np.unique(np.round({w}, 1), return_index=True)[1]", "np.cumsum({m}) - 1", "np.digitize(r, [0.2, 0.5]) % {v}.size",
)  # fmt: skip
#: vectors of the size of v
SAME = (
    "np.sort({v})", "np.cumsum({v}) / {v}.size", "np.where({m}, {v}, {w})", "np.maximum.accumulate({v})",
    "{v}[::-1] * {c}",
    "np.sin({v}) * {w}", "{v} - np.mean({w})", "np.roll({v}, {k})", "np.clip({v}, {c}, {d})", "{v} * (r > {q})",
    "np.take({v}, np.argsort({w}))", "np.partition({v}, {v}.size // 2)",
    "np.cumprod(1 + 0.1 * np.tanh({v}) / {v}.size)",
    "np.add.accumulate({v})[::-1] / {v}.size", "np.exp(-{v} * {v})", "{v} * r", "{v}[np.argsort(r)]",
    "np.interp({v}, [-1.0, 0.0, 1.0], [0.0, 2.0, 1.0])", "np.diff({v}, prepend={v}[0])",
)  # fmt: skip
#: vectors of other sizes
OTHERS = (
    "{v}[{m}]", "np.compress({m}, {v})", "np.extract({m}, {v})", "{v}[{p}]", "np.take({v}, {p})", "{v}[{m}][::{k}]",
    "np.repeat({v}[:50], (5 * r[:50]).astype(int)[:{v}[:50].size])", "np.concatenate([{v}[{m}], {w}[:3]])",
    "np.delete({v}, np.flatnonzero({m})[:{k}])", "np.sort({v}[{m}])", "np.cumsum({v}[{m}])",
    "np.append({v}[{m}], {v}[0])",
    "np.diff(np.sort({v}))", "np.trim_zeros({v} * ({m}))", "{v}[np.nonzero({m})] * 2", "np.unique({v})[:5]",
    "np.bincount((3 * r).astype(int), {v}, 4)", "np.pad({v}[{m}], {k})", "np.tile({v}[:4], {k})",
    "np.outer({v}[:5], {w}[:7]).ravel()", "np.split({v}, [{v}.size // 3])[1]",
)  # fmt: skip
#: writes into y, a new vector of the size of v
STORES = (
    "y[{m}] = {v}[{m}]", "y[{m}] = {c}", "y[{p}] = {c} * {v}[{p}]", "y[{m}] += {w}[{m}]",
    "np.add.at(y, {p}, {v}[{p}])",
    "y[{p}] += {c}", "np.put(y, {p}, {v}[{p}])", "np.putmask(y, {m}, {v})", "y[::{k}] = {v}[::{k}]",
    "y[1:] -= {v}[:-1]",
    "np.copyto(y, {v}, where={m})", "y[-{k}:] = {v}[0]", "np.place(y, {m}, {v})", "y[{v}.size // 2] = np.sum({v}[{m}])",
    "np.multiply({v}, {w}, out=y)", "np.subtract.at(y, {p}, {c})",
)  # fmt: skip
#: numbers
ENDS = (
    "np.sum({v}[{m}])", "np.sum({v} * {w}) / {v}.size", "np.max({v})", "{v}[np.argmin({w})]", "np.median({v})",
    "np.sum(np.sort({v})[-{k}:])", "np.mean({v})", "{v}[{m}].sum() * {c}", "np.dot({v}, {w}) / {v}.size",
    "np.sum({v}[np.argsort({w})[:{k}]])", "np.linalg.norm({v})", "np.ptp({v})", "np.quantile({v}, 0.3)",
)  # fmt: skip
#: bodies of loops over i, of n steps
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
    """A program: its source, and the size of its input."""

    def __init__(self, seed, index):
        r = self.random = random.Random(f"{seed} {index}")
        self.n = r.choice(SIZES) if r.random() < 0.9 else r.randint(1, 5000)
        self.vectors, self.lines, self.numbers = ["x"], [], []
        count = max(1, min(r.randint(1, 7), WORK // self.n))
        for k in range(count):
            self.statement(k)
        if r.random() < 0.35:
            self.loop()
        self.lines += [f"z{k} = {self.words(r.choice(ENDS))}" for k in range(r.randint(1, 2))]
        self.numbers += [line.split()[0] for line in self.lines if line.startswith("z")]
        self.lines.append(f"return {' + '.join(self.numbers)}")

    def statement(self, k):
        name, how = f"v{k}", self.random.random()
        if how < 0.35:
            self.lines.append(f"{name} = {self.words(self.random.choice(SAME))}")
            self.vectors.append(name)
        elif how < 0.65:
            self.lines.append(f"{name} = {self.words(self.random.choice(OTHERS))}")
            self.numbers.append(f"np.sum({name} * np.cos(np.arange({name}.size)))")
        else:
            target = self.random.choice(("np.zeros(x.size)", "x.copy()", "np.ones(x.size)"))
            self.lines.append(f"{name} = {target}")
            for _ in range(self.random.randint(1, 3)):
                store = self.words(self.random.choice(STORES))
                self.lines.append(store.replace("y", name, 1) if store[0] == "y" else store.replace("y,", f"{name},", 1)
                                  .replace("out=y", f"out={name}"))  # fmt: skip
            self.vectors.append(name)

    def loop(self):
        steps = max(1, min(self.random.choice((3, 20, 100, 300)), WORK // self.n))
        body = self.words(self.random.choice(STEPS))
        self.lines += ["s = 0.0", f"n = {steps}", "for i in range(n):", f"    {body}"]
        self.numbers.append("s")

    def words(self, text):
        r = self.random
        for _ in range(3):  # masks hold vectors and numbers, places hold masks
            for word, options in (("{p}", PLACES), ("{m}", MASKS)):
                if word in text:
                    text = text.replace(word, r.choice(options))
        return text.format(
            v=r.choice(self.vectors), w=r.choice(self.vectors), k=r.randint(1, 4), c=round(r.uniform(-1, 0.3), 2),
            d=round(r.uniform(0.3, 1.5), 2), q=round(r.uniform(0, 0.9), 2), h=round(r.uniform(0.001, 0.4), 3),
        )  # fmt: skip

    def source(self):
        return "def f(x, r):\n" + textwrap.indent("\n".join(self.lines), "    ")

    def made(self):
        file, source = "<sizes>", self.source()
        linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
        space = {"np": np, "__name__": "fuzzed"}
        exec(compile(source, file, "exec"), space)
        return space["f"]


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
    return bool(np.allclose(a, b, rtol=1e-9, atol=1e-9 * (size if np.isfinite(size) else 1.0), equal_nan=True))


def check(program, tiers=TIERS):
    """What is wrong with a program, or ""; None where plain NumPy refuses it."""
    rng = np.random.default_rng(program.n)
    points = [(rng.uniform(-1, 1, program.n), rng.random(program.n)) for _ in range(2)]
    points.append((points[0][0] + 1e-9, points[0][1]))  # in most cases the same sizes
    f = program.made()
    plain = [outcome(f, x.copy(), r) for x, r in points]
    if any(isinstance(y, type) for y in plain):
        return None
    slopes = [outcome(wg.grad(f), x, r) for x, r in points]
    for tier in tiers:
        g = wg.compile(f, tier=tier)
        derivative = wg.grad(g)
        for k in (0, 2, 1, 0, 1):
            y, slope = outcome(g, *points[k]), outcome(derivative, *points[k])
            if not is_close(y, plain[k]):
                return f"{tier}, point {k}: value {y!r}, not {plain[k]!r}"
            if not is_close(slope, slopes[k]):
                where = None if isinstance(slope, type) else np.flatnonzero(slope != slopes[k])[:5]
                return f"{tier}, point {k}: gradient differs at {where}: {slope!r}, not {slopes[k]!r}"
    return ""


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.sizes", description=__doc__)
    parser.add_argument("--programs", type=int, default=200, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--first", type=int, default=0, metavar="I")
    parser.add_argument("--most", type=int, default=10**6, metavar="N", help="draw no larger size")
    parser.add_argument("--tier", choices=TIERS, action="append", help="both if none is named")
    options = parser.parse_args()
    faulthandler.enable()
    failures, compared = [], 0
    for index in range(options.first, options.first + options.programs):
        program = Drawn(options.seed, index)
        if program.n > options.most:
            continue
        print(f"# {index}", file=sys.stderr, flush=True)
        found = check(program, options.tier or TIERS)
        compared += found is not None
        if found:
            failures.append(index)
            print(f"---- seed {options.seed}, program {index}, size {program.n}: {found}\n{program.source()}")
    print(f"{compared} programs compared, {len(failures)} failures: {failures}")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
