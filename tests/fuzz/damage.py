"""``python -m tests.fuzz.damage --tries N --seed S``: load damaged pickles and files of programs in subprocesses.

Each try damages a saved program, loads it, and runs the result with its derivatives, tiers and plots.  It must end
with an error or with values; a process that crashes or hangs is a failure, and so is a SystemError.
Damage is applied to bits and bytes of a pickle or a file, with the old or a new checksum, and to fields of the state,
which unpickle with a valid checksum, so that only the verifier can reject them.
"""

from __future__ import annotations

import argparse
import collections
import copy
import faulthandler
import functools
import importlib.util
import os
import pickle
import random
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path
from unittest import mock

import numpy as np
import scipy.sparse as sp
from scipy import special

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from wengert.program.ir.ir import Listing
from wengert.program.ir.opcodes import Op

import wengert as wg
import wengert.scipy.optimize
import wengert.viz
from helpers import loops_of
from wengert.program.ir import verify
from wengert.program.ir.call import Call, Operand
from wengert.program.passes import loop_recovery
from wengert.program.program import Program, pickled
from wengert.program.signature import Slot
from wengert.sparse import drivers

#: tries per process, and the time limit of a try in seconds
BATCH, PATIENCE = 100, 60
#: memory limit of a process in bytes
MEMORY = 6 << 30
#: one try in this many compiles native code
COMPILED = 4

X = np.linspace(0.2, 1.7, 12)
BIG = np.linspace(0.1, 1.0, 3000)
A = np.linspace(0.1, 1, 144).reshape(12, 12)
SPARSE = sp.csr_array(sp.random(12, 12, 0.3, random_state=0, format="csr"))


def elementwise(x):
    return np.sum(np.exp(x[1:] * x[:-1]) / (1 + x[0] ** 2))


def numbers(a, b):
    s = a
    for k in range(5):
        s = np.sin(s * b) + a**2.5 / (1 + k) if s < 10 else np.sqrt(s) * b
    return s * np.hypot(a, b)


def guarded(x):
    y = np.zeros(x.size)
    for i in range(x.size):
        y[i] = x[i] ** 3 if x[i] > 0.5 else np.sin(x[i])
    return y


def gathered(x):
    return np.sum(np.sort(x)[::2] * x[x > 0.7][:6]) + np.cumsum(x)[3]


def moved(x):
    y = np.zeros(x.size)
    y[np.arange(x.size)[::-1]] = x * x
    return np.sum(y[np.argsort(x)] * np.arange(1.0, x.size + 1)) + np.sum(x.reshape(2, -1)[:, ::2])


def chosen(x):
    return np.where(x > 0.5, np.sqrt(x), x**3) + np.max(x) + np.maximum(x, x[::-1])


def products(x):
    return A @ x + np.linalg.solve(A + 4 * np.eye(12), x) + np.add.reduce(np.outer(x, x), axis=0)


def small_products(x):
    return {"a": SPARSE @ x, "b": [x @ x.reshape(12, 1), (x.reshape(3, 4) @ x.reshape(4, 3)).sum(axis=0)]}


def of_sparse(x):
    return sp.coo_array(SPARSE) @ x + sp.dia_array((x[:3].size * np.ones((1, 12)), [1]), (12, 12)) @ x


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


def steps(x):
    u = x
    for _ in range(40):
        u = u + 0.01 * (np.roll(u, 1) - 2.0 * u + np.roll(u, -1))
        u = u * (1.0 + 1e-3 * np.sin(u))
    return np.sum(u * u)


def counted(x):
    return np.bincount([0, 1, 1, 2] * 3, x) * np.sum(x)


def solved(x):
    return wengert.scipy.optimize.root(lambda u, p: u**3 + u - p, np.ones(3), args=(x[:3],)).x * x[3]


def called(x):
    y = np.partition(x, 3)[:4] * np.median(x) + np.einsum("i,ij->j", x, A)[4:8]
    return special.jv(1.0, y) + np.interp(0.7, X, x) * np.convolve(x, x[:4])[2:6] + np.linalg.norm(x)


def tridiagonal(x):
    return x[1:-1] ** 2 * x[:-2] - np.exp(x[2:])


def programs():
    """Return programs and their arguments."""
    fs = (elementwise, guarded, gathered, products, stored, of_complex, counted, moved, chosen, small_products)
    of = {f: wg.record(f, X) for f in (*fs, of_sparse, called, solved)}
    made = [(program, (X,)) for program in of.values()]
    made += [(of[f].grad(), (X,)) for f in (elementwise, gathered, moved)]
    made += [(of[f].jacobian(), (X,)) for f in (guarded, products, of_complex, solved, chosen, called)]
    made += [(of[elementwise].hessian(), (X,)), (of[elementwise].hvp(), (X, X)), (of[products].vjp(), (X, X))]
    made += [(of[guarded].jvp(), (X, X)), (wg.record(elementwise, X, exact=True), (X,))]
    made += [(wg.record(guarded, X, exact=True).jacobian(), (X,))]
    made.append((wg.record(elementwise, X.astype(np.float32)), (X.astype(np.float32),)))
    two = wg.record(numbers, 0.7, args=(1.2,))
    made += [(two, (0.7, 1.2)), (two.grad(1), (0.7, 1.2)), (two.hessian(), (0.7, 1.2))]
    large = wg.record(in_time, BIG)
    made += [(large, (BIG,)), (large.vjp(), (BIG, BIG))]
    limits = dict.fromkeys(("_MIN_BYTES", "_MIN_BYTES_PER_STEP", "_MAX_FUSED_INSTRUCTIONS"), 0)
    with mock.patch.multiple(loop_recovery, **limits):  # recover loops of small arrays as well
        short = wg.record(steps, X)
        for program in (short, short.grad()):
            code = program._vectorised_ir()
            assert loops_of(code)
            made.append((program._like(program._name, code, program._result), (X,)))
    of_tridiagonal = wg.record(tridiagonal, X)
    for mode in ("auto", "forward"):
        sparse = drivers.SparseOperator(tridiagonal, 0, False, True, "csc", mode, 1)
        made.append((sparse.of_program(of_tridiagonal), (X,)))
    return made


# ---------------------------------------------------------------------------- damage


def bits(content, r):
    """Flip a few bits."""
    content = bytearray(content)
    for _ in range(r.choice((1, 1, 1, 2, 8, 64))):
        content[r.randrange(len(content))] ^= 1 << r.randrange(8)
    return bytes(content)


def octets(content, r):
    """Truncate, drop, repeat, replace or swap bytes."""
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
    """Return a replacement of a value: close to it, or entirely different."""
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
    if type(x) is Listing:
        return other_list(x, r)
    if isinstance(x, (Call, Operand, Slot)):
        y = copy.copy(x)
        word = r.choice(type(x).__slots__)
        setattr(y, word, other(getattr(x, word), r, depth + 1))
        return y
    if isinstance(x, Program) and r.random() < 0.9:
        return of_state(x, r)
    if type(x).__module__.startswith(OWN) and getattr(x, "__dict__", None) and depth < 6:
        y = x.__class__.__new__(x.__class__)
        state = {name: value for name, value in vars(x).items() if name != "_machine"}
        y.__dict__.update(vars(x))
        y.__dict__.update(other(state, r, depth + 1))
        return y
    return r.choice(OTHERS)


#: modules whose objects have damaged attributes
OWN = ("wengert.program.", "wengert.implicit.", "wengert.sparse.", "scipy.sparse.")
COLUMNS = 5


def other_list(code, r):
    """Return the code with damage in one of its columns or tables."""
    restore, parts = code.__reduce__()
    parts = list(parts)
    for _ in range(r.choice((1, 1, 2, 4))):
        if code.calls and r.random() < 0.3:
            k = r.randrange(len(code.calls))
            parts[8] = [*code.calls[:k], other(code.calls[k], r), *code.calls[k + 1 :]]
        elif len(code) and r.random() < 0.7:
            k = r.randrange(COLUMNS)
            parts[k] = other_column(parts[k], r, k == 0)
        else:
            k = r.randrange(COLUMNS, len(parts))
            parts[k] = other(parts[k], r)
    return restore(*parts)


def other_column(column, r, is_of_opcodes):
    """Return a column with one changed value, or with two rows exchanged."""
    column, info = column.copy(), np.iinfo(column.dtype)
    i, j = r.randrange(len(column)), r.randrange(len(column))
    if r.random() < 0.2:
        column[[i, j]] = column[[j, i]]
        return column
    near = [int(column[i]) + 1, int(column[i]) - 1, int(column[i]) ^ 1 << r.randrange(12), r.randrange(-2, len(column))]
    if is_of_opcodes:
        near += [int(r.choice(list(Op))), r.randrange(72), int(Op.PARTIAL) + r.randrange(144)] * 3
    column[i] = min(max(r.choice((*near, r.choice(NUMBERS))), info.min), info.max)
    return column


def of_state(program, r):
    """Return a program with damage in a field of its state."""
    state = program.__getstate__()
    lists = [name for name, value in state.items() if type(value) is Listing]
    if lists and r.random() < 0.8:
        name = r.choice(lists)
        state[name] = other_list(state[name], r)
    else:
        name = r.choice(list(state))
        state[name] = other(state[name], r)
    made = type(program).__new__(type(program))  # the object has not been verified
    made.__dict__.update(state)
    made._reset()
    return made


def from_state(content, r, program):
    made = of_state(program, r)
    verify.check(made)
    return made


def from_a_file(program, damage):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "f.program"
        program.save(path)
        path.write_bytes(damage(path.read_bytes()))
        return Program.load(path)


def under_a_new_checksum(damage, content, r, program):
    inner = damage(pickled(program), r)
    state = (verify.form(), zlib.crc32(inner), inner)
    return program.__reduce__()[0](*state)


WAYS = {
    "bits of a pickle": lambda content, r, program: pickle.loads(bits(content, r)),
    "bytes of a pickle": lambda content, r, program: pickle.loads(octets(content, r)),
    "bits of a file": lambda content, r, program: from_a_file(program, lambda content: bits(content, r)),
    "bytes of a file": lambda content, r, program: from_a_file(program, lambda content: octets(content, r)),
    "bits, new checksum": functools.partial(under_a_new_checksum, bits),
    "bytes, new checksum": functools.partial(under_a_new_checksum, octets),
    "fields": from_state,
    "fields, pickled": lambda content, r, program: pickle.loads(pickle.dumps(of_state(program, r))),
    "fields, in a file": lambda content, r, program: from_a_file(of_state(program, r), bytes),
}
#: fields that only the verifier checks
SHARES = (1, 1, 1, 1, 2, 2, 4, 2, 1)


DERIVATIVES = ("grad", "jvp", "vjp", "hvp", "jacobian", "hessian")
PICTURES = (str, repr, lambda program: str(program.explain()), Program.to_dot, wengert.viz.passes)


def tried(do, *args):
    """Return the result of a call, or None if it raises."""
    try:
        return do(*args)
    except SystemError:
        raise
    except Exception:
        return None


def used(found, args, r):
    """Call a program, its derivatives and tiers, and draw its plots; exceptions are allowed."""
    words = DERIVATIVES[:-2] if args[0] is BIG else DERIVATIVES
    made = [found, *[tried(lambda word=word: getattr(found, word)()) for word in words]]
    if r.randrange(COMPILED) == 0 and importlib.util.find_spec("llvmlite"):
        made += [tried(program.tiered, "llvm") for program in (found, made[1]) if program is not None]
    for program in made:
        if program is not None:
            tried(lambda program=program: program._execute(program._example))
            tried(program, *args)
            tried(program, *args)  # arguments like the previous ones
    for picture in PICTURES:
        tried(picture, found)


def attempt(made, seed, number):
    """Run one try and return its outcome."""
    r = random.Random(f"{seed} {number}")
    program, args = made[r.randrange(len(made))]
    (way,) = r.choices(list(WAYS), SHARES)
    with np.errstate(all="ignore"):
        try:
            found = WAYS[way](pickle.dumps(program), r, program)
        except SystemError:
            raise
        except Exception as error:
            return way, f"refused: {type(error).__name__}", str(error)
        if not isinstance(found, Program):
            return way, "no program", ""
        verify.check(found)
        what, why = "runs", ""
        try:
            found(*args)
        except SystemError:
            raise
        except Exception as error:
            what, why = f"loads, then {type(error).__name__}", str(error)
        used(found, args, r)
    return way, what, why


# ---------------------------------------------------------------------------- batches


def worker(options):
    """Run tries in this process, and announce each before it begins."""
    try:
        import resource

        if "libasan" not in os.environ.get("LD_PRELOAD", ""):  # AddressSanitizer reserves terabytes
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    except (ImportError, ValueError):
        pass
    made = programs()
    for program, args in made:  # undamaged programs must work
        pickle.loads(pickle.dumps(program))(*args)
    for number in range(options.first, options.first + options.tries):
        print(f"try {number}", flush=True)
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        way, what, why = attempt(made, options.seed, number)
        faulthandler.cancel_dump_traceback_later()
        print(f"done\t{way}\t{what}\t{why[:200]!r}", flush=True)


def batch(seed, first, count):
    """Return the results of a process, and the number of the try at which it ended early."""
    command = [sys.executable, "-W", "ignore", "-X", "faulthandler", __file__, "--worker"]
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    command += ["--seed", str(seed), "--first", str(first), "--tries", str(count)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60 + PATIENCE * count, env=env)
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
