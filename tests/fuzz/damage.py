"""``python -m tests.fuzz.damage --tries N --seed S``: damaged pickles and files of programs, in processes of their own.

Each try damages a saved program, loads it, and runs what loads with its derivative.  It ends with an error or with
numbers; a process that dies, or does not come back, is a failure, and so is an error in the machine's own bounds.
Kinds of damage: bits and bytes of a pickle or a file, as they are and under a new checksum, lengths, and the fields
of the state themselves, which unpickle well.
"""

from __future__ import annotations

import argparse
import collections
import functools
import os
import pickle
import random
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from wengert.program.listing import Listing

import wengert as wg
from wengert.program import spec
from wengert.program.loops import Loop
from wengert.program.program import Program, pickled

#: tries of one process, which is waited for so many seconds a try
BATCH, PATIENCE = 100, 20
#: bytes that a process may take
MEMORY = 6 << 30

X = np.linspace(0.2, 1.7, 12)
BIG = np.linspace(0.1, 1.0, 3000)
A = np.linspace(0.1, 1, 144).reshape(12, 12)


def elementwise(x):
    return np.sum(np.exp(x[1:] * x[:-1]) / (1 + x[0] ** 2))


def guarded(x):
    y = np.zeros(x.size)
    for i in range(x.size):
        y[i] = x[i] ** 3 if x[i] > 0.5 else np.sin(x[i])
    return y


def gathered(x):
    return np.sum(np.sort(x)[::2] * x[x > 0.7][:6]) + np.cumsum(x)[3]


def products(x):
    return A @ x + np.linalg.solve(A + 4 * np.eye(12), x) + np.add.reduce(np.outer(x, x), axis=0)


def stored(x):
    y = np.zeros((3, 4))
    y[1:, ::2] = x[:4].reshape(2, 2)
    y.T[2] += x[3]
    np.add.at(y, [0, 0, 2], x[:4])
    return y


def of_complex(x):
    z = np.exp(1j * x)
    return (z * z.conj()).real + np.fft.fft(z).imag


def in_time(x):
    u = x.copy()
    for _ in range(300):
        u = u + 0.01 * (np.roll(u, 1) - u) * u
    return u


def counted(x):
    return np.bincount([0, 1, 1, 2] * 3, x) * np.sum(x)


def programs():
    """Programs and the arguments that they take."""
    fs = (elementwise, guarded, gathered, products, stored, of_complex, counted)
    made = [(wg.record(f, X), (X,)) for f in fs]
    made.append((wg.record(in_time, BIG), (BIG,)))
    made.append((wg.record(elementwise, X, exact=True), (X,)))
    made += [(made[k][0].grad(), (X,)) for k in (0, 2)]
    made += [(made[k][0].jacobian(), (X,)) for k in (1, 3, 5)]
    made += [(made[0][0].hessian(), (X,)), (made[3][0].vjp(), (X, X)), (made[7][0].vjp(), (BIG, BIG))]
    return made


# ---------------------------------------------------------------------------- damage


def bits(content, r):
    """A few bits flipped."""
    content = bytearray(content)
    for _ in range(r.choice((1, 1, 1, 2, 8, 64))):
        content[r.randrange(len(content))] ^= 1 << r.randrange(8)
    return bytes(content)


def octets(content, r):
    """Bytes cut off, left out, repeated, replaced, or exchanged."""
    i, j = sorted(r.randrange(len(content)) for _ in range(2))
    k = min(j, i + r.choice((1, 2, 4, 8, 100)))
    return r.choice((
        content[:i],
        content[i:],
        content[:i] + content[k:],
        content[:i] + 2 * content[i:k] + content[k:],
        content[:i] + r.randbytes(k - i) + content[k:],
        content[:i] + bytes(k - i) + content[k:],
        content[:i] + content[j : j + 1] + content[i + 1 : j] + content[i : i + 1] + content[j + 1 :],
    ))  # fmt: skip


NUMBERS = (-1, -2, 0, 1, 2, 3, 7, 8, 100, 1000, 10**6, 2**31 - 1, -(2**31), 2**31, 2**40, 2**62, 2**63, -(2**63))
OTHERS = (None, "x", 1.5, (), (1,), [], {}, b"", np.zeros(3), object, print, float("nan"), True)


def other(x, r, depth=0):
    """A value in the place of another: near it, or quite different."""
    if type(x) in (int, np.int64) and r.random() < 0.9:
        return r.choice((x + 1, x - 1, -x, 2 * x, 8 * x, x ^ 1 << r.randrange(20), r.choice(NUMBERS)))
    if type(x) is np.ndarray and x.size and x.dtype.kind in "iufb" and r.random() < 0.9:
        y = x.copy()
        where = tuple(r.randrange(n) for n in y.shape)
        if y.dtype.kind == "i":
            info = np.iinfo(y.dtype)
            y[where] = min(max(int(other(int(y[where]), r) or 0), info.min), info.max)
        elif r.random() < 0.5:
            y[where] = r.choice((0, 1, np.nan, 1e300))
        else:
            y = r.choice((y[:-1], y[::-1], y.T, y.astype(np.float32), y.astype(int), y.ravel(), np.stack([y, y])))
        return y
    if type(x) in (tuple, list) and x and r.random() < 0.9:
        items = list(x)
        k = r.randrange(len(items))
        how = r.random()
        if how < 0.7 and depth < 6:
            items[k] = other(items[k], r, depth + 1)
        elif how < 0.8:
            del items[k]
        elif how < 0.9:
            items.insert(k, items[r.randrange(len(items))])
        else:
            j = r.randrange(len(items))
            items[k], items[j] = items[j], items[k]
        return type(x)(items) if type(x) in (tuple, list) else x
    if isinstance(x, np.dtype) and r.random() < 0.9:
        return np.dtype(r.choice("f8 f4 ? i4 i8 c16 c8 O S3 >f8 V16".split()))
    if type(x) is bool:
        return not x
    if type(x) is dict and x and r.random() < 0.9:
        key = r.choice(list(x))
        return {**x, key: other(x[key], r, depth + 1)}
    if hasattr(x, "__dict__") and not callable(x) and vars(x) and depth < 6:
        y = x.__class__.__new__(x.__class__)
        y.__dict__.update(other(dict(vars(x)), r, depth + 1))
        return y
    return r.choice(OTHERS)


COLUMNS = 5


def other_list(code, r):
    """A list with damage in one of its columns or tables."""
    restore, parts = code.__reduce__()
    parts = list(parts)
    for _ in range(r.choice((1, 1, 2, 4))):
        calls = [k for k, call in enumerate(code.calls) if type(call.compute) is Loop]
        if calls and r.random() < 0.3:
            k = r.choice(calls)
            call = code.calls[k]
            loop = Loop.__new__(Loop)
            vars(loop).update(vars(call.compute))
            if r.random() < 0.5:
                loop.body = other_list(loop.body, r)
            else:
                word = r.choice(("steps", "carried", "kept", "results", "backward"))
                setattr(loop, word, other(getattr(loop, word), r))
            call = type(call)(loop, call.args, call.kwargs, call.operands, call.row)
            parts[8] = [*parts[8][:k], call, *parts[8][k + 1 :]]
        elif code.calls and r.random() < 0.2:
            k = r.randrange(len(code.calls))
            call = code.calls[k].on(list(code.calls[k].operands))
            word = r.choice(("args", "kwargs", "operands", "row", "compute"))
            setattr(call, word, other(getattr(call, word), r))
            parts[8] = [*parts[8][:k], call, *parts[8][k + 1 :]]
        else:
            k = r.choice((*range(COLUMNS), *range(COLUMNS), *range(COLUMNS, len(parts))))
            parts[k] = other(parts[k], r)
    return restore(*parts)


def of_state(program, r):
    """A program with damage in a field of its state."""
    state = program.__getstate__()
    lists = [name for name, value in state.items() if type(value) is Listing]
    if lists and r.random() < 0.8:
        name = r.choice(lists)
        state[name] = other_list(state[name], r)
    else:
        name = r.choice(list(state))
        state[name] = other(state[name], r)
    made = type(program).__new__(type(program))
    made.__setstate__(state)
    return made


def through_a_file(damage, content, r, program):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "f.program"
        program.save(path)
        path.write_bytes(damage(path.read_bytes(), r))
        return Program.load(path)


def under_a_new_checksum(damage, content, r, program):
    inner = damage(pickled(program), r)
    state = (spec.form(), zlib.crc32(inner), inner)
    return program.__reduce__()[0](*state)


WAYS = {
    "bits of a pickle": lambda content, r, program: pickle.loads(bits(content, r)),
    "bytes of a pickle": lambda content, r, program: pickle.loads(octets(content, r)),
    "bits of a file": functools.partial(through_a_file, bits),
    "bytes of a file": functools.partial(through_a_file, octets),
    "bits, new checksum": functools.partial(under_a_new_checksum, bits),
    "bytes, new checksum": functools.partial(under_a_new_checksum, octets),
    "fields": lambda content, r, program: of_state(program, r),
    "fields, pickled": lambda content, r, program: pickle.loads(pickle.dumps(of_state(program, r))),
}
#: fields are what only the verifier sees
SHARES = (1, 1, 1, 1, 2, 2, 6, 1)


def attempt(made, seed, number):
    """One try: what became of it."""
    r = random.Random(f"{seed} {number}")
    program, args = made[r.randrange(len(made))]
    (way,) = r.choices(list(WAYS), SHARES)
    with np.errstate(all="ignore"):
        try:
            found = WAYS[way](pickle.dumps(program), r, program)
        except Exception as error:
            return way, f"refused: {type(error).__name__}", str(error)
        try:
            found(*args)
            for word in ("grad", "jacobian") if args[0] is X else ():
                try:
                    getattr(found, word)()(*args[:1])
                except (TypeError, ValueError):
                    pass
        except SystemError:
            raise
        except Exception as error:
            return way, f"loads, then {type(error).__name__}", str(error)
    return way, "runs", ""


# ---------------------------------------------------------------------------- batches


def worker(options):
    """Tries in this process, each told before it begins."""
    try:
        import resource

        if "libasan" not in os.environ.get("LD_PRELOAD", ""):  # AddressSanitizer maps terabytes, and uses few of them
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    except (ImportError, ValueError):
        pass
    made = programs()
    for number in range(options.first, options.first + options.tries):
        print(f"try {number}", flush=True)
        way, what, why = attempt(made, options.seed, number)
        print(f"done\t{way}\t{what}\t{why[:200]!r}", flush=True)


def batch(seed, first, count):
    """Results of a process, and the number of the try at which it ended early."""
    command = [sys.executable, "-W", "ignore", "-X", "faulthandler", __file__, "--worker"]
    command += ["--seed", str(seed), "--first", str(first), "--tries", str(count)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60 + PATIENCE * count)
        lines, error = done.stdout.splitlines(), done.stderr if done.returncode else ""
    except subprocess.TimeoutExpired as late:
        lines, error = (late.stdout or b"").decode().splitlines(), "it does not come back"
    last = next((int(line.split()[1]) for line in reversed(lines) if line.startswith("try")), first)
    return [line.split("\t")[1:] for line in lines if line.startswith("done")], error, last


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.damage", description=__doc__)
    parser.add_argument("--tries", type=int, default=1000, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--first", type=int, default=0, metavar="I", help="number of the first, to repeat a failure")
    parser.add_argument("--worker", action="store_true", help="try in this process")
    options = parser.parse_args()
    if options.worker:
        return worker(options)
    results, failures, number = collections.Counter(), [], options.first
    while number < options.first + options.tries:
        count = min(BATCH, options.first + options.tries - number)
        found, error, last = batch(options.seed, number, count)
        results.update((way, what) for way, what, _ in found)
        if error:
            failures.append(last)
            print(f"---- seed {options.seed}, try {last}:\n{error[-3000:]}", flush=True)
        number = last + 1 if error else number + count
    for (way, what), times in sorted(results.items()):
        print(f"{times:7} {way}: {what}")
    print(f"{sum(results.values())} tries of seed {options.seed}, {len(failures)} failures: {failures}")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
