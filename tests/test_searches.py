"""Loops that find a root or a minimum and lose its derivative warn; all other loops with comparisons do not.

Warnings are errors, so each function of the second table also shows that it does not warn.
"""

import bisect
import itertools
import math
import warnings

import numpy as np
import pytest

import wengert as wg

GOLDEN = (5**0.5 - 1) / 2
TABLE = np.linspace(0, 3, 2**14) ** 2
SAMPLES = np.sin(TABLE)
NOISE = 0.1 * np.random.default_rng(1).normal(size=200)


def bisected(f, low, high, n=60):
    for _ in range(n):
        x = (low + high) / 2
        if f(x) > 0:
            high = x
        else:
            low = x
    return (low + high) / 2


# ---- loops that lose the derivative, with the solution that they find


def by_count(t):
    return bisected(lambda x: x**3 - t, 0.0, 3.0)


def by_width(t):
    low, high = 0.0, 3.0
    while high - low > 1e-6:
        x = (low + high) / 2
        if x**3 - t > 0:
            high = x
        else:
            low = x
    return low


def by_residual(t):
    low, high, x = 0.0, 3.0, 1.0
    while abs(residual := x**3 - t) > 1e-9:
        if residual < 0:
            low = x
        else:
            high = x
        x = (low + high) / 2
    return x


def with_parameter_as_end(t):
    return bisected(lambda x: x**3 - t, 0.0, 3 * t)


def by_product(t):
    def f(x):
        return x**3 - t

    low, high = 0.0, 2.0
    while high - low > 1e-10:
        x = (low + high) / 2
        if f(low) * f(x) < 0:
            high = x
        else:
            low = x
    return low


def by_sign(t, width=1e-10):
    def f(x):
        return x**3 - t

    low, high = 0.0, 2.0
    while high - low > width:
        x = (low + high) / 2
        if np.sign(f(low)) == np.sign(f(x)):
            low = x
        else:
            high = x
    return low


def inverse(t):
    low, high = 0.0, 3.0
    for _ in range(50):
        x = (low + high) / 2
        low, high = (x, high) if x**3 < t else (low, x)
    return low


def of_floats(t):
    return by_width(float(t)) + 0.0 * math.sin(t)


class Solver:
    def __init__(self, t):
        self.t, self.low, self.high = t, 0.0, 3.0

    def residual(self, x):
        return x**3 - self.t

    def step(self):
        x = 0.5 * (self.low + self.high)
        if self.residual(x) > 0:
            self.high = x
        else:
            self.low = x

    def solve(self):
        while self.high - self.low > 1e-12:
            self.step()
        return self.low


def in_methods(t):
    return Solver(t).solve()


def by_recursion(t, low=0.0, high=3.0, n=40):
    x = (low + high) / 2
    if n == 0:
        return x
    return by_recursion(t, low, x, n - 1) if x**3 > t else by_recursion(t, x, high, n - 1)


def in_sequence(t):
    return sum(bisected(lambda x, k=k: x**3 - t * k, 0.0, 3.0) for k in (1.0, 1.0, 1.0)) / 3


def of_components(t, n=50):
    low, high = np.zeros(5), np.full(5, 4.0)
    for _ in range(n):
        x = (low + high) / 2
        is_above = x**3 - t * np.ones(5) > 0
        low, high = np.where(is_above, low, x), np.where(is_above, x, high)
    return np.mean(low)


def of_components_in_place(t, n=50):
    low, high = np.zeros(5), np.full(5, 4.0)
    for _ in range(n):
        x = (low + high) / 2
        is_above = np.greater(x**3, t * np.ones(5))
        high[is_above] = x[is_above]
        low[~is_above] = x[~is_above]
    return np.mean(low)


def by_golden_section(t, width=1e-7):
    def f(x):
        return x**4 / 4 - t * x

    a, b = -2.0, 3.0
    c, d = b - GOLDEN * (b - a), a + GOLDEN * (b - a)
    while b - a > width:
        if f(c) < f(d):
            b = d
        else:
            a = c
        c, d = b - GOLDEN * (b - a), a + GOLDEN * (b - a)
    return (a + b) / 2


def by_ternary_search(t, n=100):
    def f(x):
        return x**4 / 4 - t * x

    low, high = -2.0, 3.0
    for _ in range(n):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        if f(a) < f(b):
            high = b
        else:
            low = a
    return low


def by_copied_sign(t):
    x, step = 1.5, 0.75
    for _ in range(50):
        x += math.copysign(step, t - x**3)
        step /= 2
    return x


def by_copied_sign_of_numpy(t):
    x, step = 1.5, 0.75
    for _ in range(50):
        x += step * np.copysign(1.0, t - x**3)
        step /= 2
    return x


LOSING = [
    by_copied_sign,
    by_copied_sign_of_numpy,
    by_count,
    by_width,
    by_residual,
    with_parameter_as_end,
    by_product,
    by_sign,
    inverse,
    of_floats,
    in_methods,
    by_recursion,
    in_sequence,
    of_components,
    of_components_in_place,
    by_golden_section,
    by_ternary_search,
]


# ---- searches of few steps


def until_close(t):
    low, high = 0.0, 3.0
    for _ in range(12):
        x = (low + high) / 2
        residual = x**3 - t
        if abs(residual) < 1e-2:
            return x
        low, high = (low, x) if residual > 0 else (x, high)
    return x


def by_two_products(t):
    def f(x):
        return x**3 - t

    low, high = 0.0, 2.0
    while abs(high - low) > 0.002:
        x = (low + high) / 2
        if f(low) * f(x) < 0:
            high = x
        elif f(high) * f(x) < 0:
            low = x
        else:
            return -999.0
    return x


def from_a_guess(t):
    low, high, x = -1, 3, 0
    while high - low > 0.02:
        low, high = (low, x) if (low**3 - t) * (x**3 - t) < 0 else (x, high)
        x = (low + high) / 2
    return x


def by_halved_steps(t):
    x, step = 1.5, 0.75
    for _ in range(10):
        x += step if x**3 < t else -step
        step /= 2
    return x


def in_few_methods(t):
    solver = Solver(t)
    for _ in range(10):
        solver.step()
    return solver.low


def with_ends_in_a_list(t):
    ends = [0.0, 3.0]
    for _ in range(10):
        x = sum(ends) / 2
        ends[int(x**3 > t)] = x
    return x


def inside_a_loop(t):
    total = 0.0
    for k in range(1, 6):
        total += bisected(lambda x, k=k: x**3 - t * k, 0.0, 3.0, 10) / k ** (1 / 3)
    return total / 5


def after_other_comparisons(t):
    total = sum(t * k for k in range(500) if t * np.sin(k) > 0.1)
    return bisected(lambda x: x**3 - t, 0.0, 3.0, 10) + 0.0 * total


SHORT = {
    "ten steps": lambda t: bisected(lambda x: x**3 - t, 0.0, 3.0, 10),
    "six steps": lambda t: bisected(lambda x: x**3 - t, 0.0, 3.0, 6),
    "parameter as end": lambda t: bisected(lambda x: x**3 - t, 0.0, 3 * t, 9),
    "until close": until_close,
    "by two products": by_two_products,
    "by sign": lambda t: by_sign(t, 0.002),
    "from a guess": from_a_guess,
    "by halved steps": by_halved_steps,
    "of components": lambda t: of_components(t, 10),
    "of components in place": lambda t: of_components_in_place(t, 10),
    "in methods": in_few_methods,
    "by recursion": lambda t: by_recursion(t, n=9),
    "ends in a list": with_ends_in_a_list,
    "inside a loop": inside_a_loop,
    "after other comparisons": after_other_comparisons,
    "golden section": lambda t: by_golden_section(t, 0.02),
    "thirds": lambda t: by_ternary_search(t, 14),
}


# ---- loops that keep it, with their derivative at 0.7 where it has a closed form


def newton(t):
    x = 2.0
    while abs(x**3 - t) > 1e-12:
        x = x - (x**3 - t) / (3 * x * x)
    return x


def newton_from_afar(t):
    x = 1e6
    for _ in range(60):
        if abs(x * x * x - t) < 1e-12:
            break
        x = x - (x * x * x - t) / (3 * x * x)
    return x


def newton_for_kepler(t):
    E = t
    for _ in range(50):
        step = (E - 0.7 * np.sin(E) - t) / (1 - 0.7 * np.cos(E))
        if abs(step) < 1e-14:
            break
        E = E - step
    return E


def newton_in_brackets(t):
    low, high, x = 0.0, 3.0, 1.5
    for _ in range(60):
        f = x**3 - t
        low, high = (low, x) if f > 0 else (x, high)
        y = x - f / (3 * x * x)
        if not low < y < high:
            y = (low + high) / 2
        if abs(y - x) < 1e-13:
            break
        x = y
    return y


def bisection_and_newton(t):
    with wg.passive():
        x = by_width(t)
    for _ in range(2):
        x = x - (x**3 - t) / (3 * x * x)
    return x


def inverse_and_newton(t):
    with wg.passive():
        x = inverse(t)
    return x - (x**3 - t) / (3 * x * x)


def secant(t):
    a, b = 0.5, 3.0
    while abs(b**3 - t) > 1e-13:
        a, b = b, b - (b**3 - t) * (b - a) / (b**3 - a**3)
    return b


def illinois(t, factor=0.5):
    a, b = 0.0, 1.5
    fa, fb = a**3 - t, b**3 - t
    side = 0
    for _ in range(300):
        c = (a * fb - b * fa) / (fb - fa)
        fc = c**3 - t
        if abs(fc) < 1e-13:
            break
        if fc * fb > 0:
            b, fb = c, fc
            fa = fa * factor if side == -1 else fa
            side = -1
        else:
            a, fa = c, fc
            fb = fb * factor if side == 1 else fb
            side = 1
    return c


def false_position(t):
    return illinois(t, 1.0)


def slow_fixed_point(t):
    x, change = 0.5, 1.0
    while change > 1e-13:
        y = x - 0.1 * (x**3 - t)
        x, change = y, abs(y - x)
    return x


def fixed_point_of_components(t):
    x = np.ones(4)
    while True:
        y = x - 0.3 * (x**3 - t)
        if np.all(np.abs(y - x) < 1e-13):
            return np.mean(y)
        x = y


def heavy_ball(t):
    x, v = 1.0, 0.0
    for _ in range(400):
        g = x**3 - t
        if abs(g) + abs(v) < 1e-13:
            break
        v = 0.5 * v - 0.2 * g
        x = x + v
    return x


def line_search(t):
    def f(x):
        return x**4 / 4 - t * x

    x = 3.0
    for _ in range(300):
        g, step = x**3 - t, 1.0
        while f(x - step * g) > f(x) - 0.5 * step * g * g and step > 1e-10:
            step /= 2
        x = x - step * g
        if abs(g) < 1e-6:
            break
    return x


def table_search(t):
    low, high = 0, len(TABLE) - 1
    while high - low > 1:
        i = (low + high) // 2
        if TABLE[i] > t:
            high = i
        else:
            low = i
    w = (t - TABLE[low]) / (TABLE[high] - TABLE[low])
    return (1 - w) * SAMPLES[low] + w * SAMPLES[high]


def bisect_module(t):
    return t * TABLE[bisect.bisect(TABLE.tolist(), t)]


def adaptive_steps(t):
    x, h, y = 0.0, 0.1, 1.0
    while x < 1.0:
        h = min(h, 1.0 - x)
        k = -t * y
        other = -t * (y + h * k)
        if abs(h * (other - k) / 2) < 1e-7:
            x += h
            y = y + h * (k + other) / 2
            h *= 1.2
        else:
            h *= 0.5
    return y


def adaptive_simpson(t):
    def f(x):
        return np.exp(-t * x * x)

    def integral(a, b, fa, fm, fb, tolerance):
        m = (a + b) / 2
        left, right = f((a + m) / 2), f((m + b) / 2)
        coarse = (b - a) / 6 * (fa + 4 * fm + fb)
        fine = (b - a) / 12 * (fa + 4 * left + 2 * fm + 4 * right + fb)
        if abs(fine - coarse) < tolerance:
            return fine
        return integral(a, m, fa, left, fm, tolerance / 2) + integral(m, b, fm, right, fb, tolerance / 2)

    return integral(0.0, 3.0, f(0.0), f(1.5), f(3.0), 1e-10)


def bouncing_ball(t):
    y, v = 1.0, 0.0
    for _ in range(400):
        v -= 9.8e-2
        y += v * 1e-2
        if y < 0:
            y, v = -y, -t * v
    return y


def relaxation(t):
    x = 0.0
    while x < t * (1 - 1e-9):
        x += 0.3 * (t - x)
    return x


def time_steps(t):
    x = 0.0
    while x < 3.0:
        x += 0.01 * t
    return x


def arithmetic_geometric_mean(t):
    a, b = 1.0, t
    while abs(a - b) > 1e-14:
        a, b = (a + b) / 2, np.sqrt(a * b)
    return a


def power_series(t):
    total, term, n = 0.0, 1.0, 0
    while abs(term) > 1e-16:
        total += term
        n += 1
        term = term * t / n
    return total


def geometric_series(t):
    total, term = 0.0, 1.0
    while term > 1e-14:
        total += term
        term = term * t
    return total


def random_walk(t):
    x = t
    for step in NOISE:
        x = x + step * t
        if x > 0:
            x = x * 0.99
    return x


def clipped_and_sorted(t):
    values = sorted(t * np.sin(k) for k in range(200))
    return sum(v if v > 0.1 else 0.1 for v in values) + max(values)


def power_method(t):
    matrix = np.array([[2.0, t], [t, 1.0]])
    v, size = np.array([1.0, 0.3]), 0.0
    while True:
        w = matrix @ v
        norm = np.sqrt(w @ w)
        if abs(norm - size) < 1e-13:
            return norm
        v, size = w / norm, norm


def brent(t):
    def f(x):
        return x**3 - t

    a, b = -4.0, 4 / 3
    fa, fb = f(a), f(b)
    if abs(fa) < abs(fb):
        a, b, fa, fb = b, a, fb, fa
    c, fc, d, was_bisected = a, fa, a, True
    while abs(fb) > 1e-14:
        if fa != fc and fb != fc:
            s = a * fb * fc / ((fa - fb) * (fa - fc)) + b * fa * fc / ((fb - fa) * (fb - fc))
            s += c * fa * fb / ((fc - fa) * (fc - fb))
        else:
            s = b - fb * (b - a) / (fb - fa)
        low, high = sorted(((3 * a + b) / 4, b))
        was_bisected = not low < s < high or abs(s - b) >= abs(b - c if was_bisected else c - d) / 2
        s = (a + b) / 2 if was_bisected else s
        fs = f(s)
        d, c, fc = c, b, fb
        if fa * fs < 0:
            b, fb = s, fs
        else:
            a, fa = s, fs
        if abs(fa) < abs(fb):
            a, b, fa, fb = b, a, fb, fa
    return b


def bisection_then_newton(t):
    low, high, x = 0.0, 3.0, 1.5
    for k in range(40):
        residual = x**3 - t
        if abs(residual) < 1e-15:
            break
        low, high = (low, x) if residual > 0 else (x, high)
        x = (low + high) / 2 if k < 6 else x - residual / (3 * x * x)
    return x


def sorted_by_exchanges(t):
    values = [t * math.sin(3.0 * k) for k in range(12)]
    for i in range(12):
        for j in range(11 - i):
            if values[j] > values[j + 1]:
                values[j], values[j + 1] = values[j + 1], values[j]
    return values[0] + 2 * values[5]


def selected_by_partition(t):
    values = [t * math.cos(3.0 * k) for k in range(16)]
    low, high = 0, 15
    while low < high:
        pivot, i = values[high], low
        for j in range(low, high):
            if values[j] < pivot:
                values[i], values[j] = values[j], values[i]
                i += 1
        values[i], values[high] = values[high], values[i]
        if i == 7:
            break
        low, high = (i + 1, high) if i < 7 else (low, i - 1)
    return values[7]


def sum_above_threshold(t):
    total = 0.0
    for k in range(30):
        x = t * np.cos(k)
        if x > 0.2:
            total += x
    return total


def table_search_with_floats(t):
    table = np.linspace(0.0, 1.0, 65)
    low, high, a, b = 0, 64, 0.0, 1.0
    while high - low > 1:
        i = (low + high) // 2
        x = table[i]
        if x > t:
            high, b = i, x
        else:
            low, a = i, x
    w = (t - a) / (b - a)
    return (1 - w) * math.sin(a) + w * math.sin(b)


def table_search_in_slices(t):
    knots = (np.linspace(0.0, 1.0, 65) ** 1.2).tolist()
    while len(knots) > 2:
        middle = len(knots) // 2
        knots = knots[: middle + 1] if knots[middle] > t else knots[middle:]
        a, b = knots[0], knots[-1]
    w = (t - a) / (b - a)
    return (1 - w) * a**2 + w * b**2


def alternating_sums(t):
    partial, total = 0.0, 0.0
    for k in range(12):
        partial += (-0.5) ** k
        if t * math.cos(k) > 0.1:
            total += t * partial
    return total


def backtracking(t):
    x, step = 5 * t, 1.0
    while (x - 4 * step * x**3) ** 4 > x**4 - 1e-4 * step * 16 * x**6:
        step /= 2
    return x - step * 4 * x**3


def weak_wolfe_steps(t):
    def f(x):
        return (x - t) ** 2 * (1 + x * x)

    def slope(x):
        return 2 * (x - t) * (1 + x * x) + 2 * x * (x - t) ** 2

    x = 3.0
    for _ in range(25):
        p = -slope(x)
        if abs(p) < 1e-10:
            break
        low, high, a = 0.0, None, 1.0
        for _ in range(30):
            if f(x + a * p) > f(x) - 1e-4 * a * p * p:
                high = a
            elif slope(x + a * p) * p < -0.9 * p * p:
                low = a
            else:
                break
            a = 2 * a if high is None else (low + high) / 2
        x = x + a * p
    return x * x


def step_size_control(t):
    y, s, h = 1.0, 0.0, 0.5
    while s < 2.0:
        h = min(h, 2.0 - s)
        k = -t * y
        other = -t * (y + h * k)
        if abs(other - k) * h / 2 > 1e-5:
            h = h / 2
            continue
        y, s, h = y + h * (k + other) / 2, s + h, 2 * h
    return y


def running_maximum(t):
    largest = -1e9
    for k in range(20):
        value = t * math.sin(k)
        if value > largest:
            largest = value
    return largest


def counted_growth(t):
    x, n = t, 0
    while x < 10.0:
        x, n = x * 1.5, n + 1
    return x * n


def tent_map(t):
    x = t
    for _ in range(12):
        x = 2 * x if x < 0.5 else 2 - 2 * x
    return x


def halved_damping(t):
    x, damping = 2.0, 1.0
    for _ in range(60):
        residual, slope = x**3 - t, 3 * x * x
        y = x - slope * residual / (slope * slope + damping)
        if (y**3 - t) ** 2 < residual**2:
            x, damping = y, damping / 2
        else:
            damping *= 2
        if abs(residual) < 1e-13:
            break
    return x


def intervals_of_knots(t):
    knots = [0.0, 0.25, 0.5, 0.75, 1.0]
    for a, b in itertools.pairwise(knots):
        if t < b:
            return (t - a) * math.exp(a)
    return t


def constant_root(t):
    low, high, total = 0.0, 1.0, 0.0
    for _ in range(8):
        x = (low + high) / 2
        low, high = (low, x) if x * t > 0.3 * t else (x, high)
        total += t * x
    return total


def controlled(t):
    x, integral = 0.0, 0.0
    for _ in range(60):
        error = t - x
        integral += 0.1 * error
        u = 2 * error + integral
        u = 1.0 if u > 1 else -1.0 if u < -1 else u
        x += 0.1 * u
    return x


ROOT = 0.7 ** (-2 / 3) / 3  # derivative of the cube root
KEEPING = {
    newton: ROOT,
    newton_from_afar: ROOT,
    newton_for_kepler: None,
    newton_in_brackets: ROOT,
    bisection_and_newton: ROOT,
    inverse_and_newton: ROOT,
    secant: ROOT,
    illinois: ROOT,
    false_position: ROOT,
    slow_fixed_point: ROOT,
    fixed_point_of_components: ROOT,
    heavy_ball: ROOT,
    line_search: ROOT,
    table_search: math.cos(0.7),
    bisect_module: None,
    adaptive_steps: -math.exp(-0.7),
    adaptive_simpson: None,
    bouncing_ball: None,
    relaxation: 1.0,
    time_steps: None,
    arithmetic_geometric_mean: None,
    power_series: math.exp(0.7),
    geometric_series: 1 / 0.3**2,
    random_walk: None,
    clipped_and_sorted: None,
    power_method: None,
    brent: ROOT,
    bisection_then_newton: ROOT,
    sorted_by_exchanges: None,
    selected_by_partition: None,
    sum_above_threshold: sum(c for c in np.cos(np.arange(30)) if 0.7 * c > 0.2),
    table_search_with_floats: (math.sin(45 / 64) - math.sin(44 / 64)) * 64,
    table_search_in_slices: None,
    alternating_sums: None,
    backtracking: None,
    weak_wolfe_steps: 1.4,
    step_size_control: None,
    running_maximum: math.sin(14),
    counted_growth: None,
    tent_map: None,
    halved_damping: ROOT,
    intervals_of_knots: math.exp(0.5),
    constant_root: None,
    controlled: None,
}

DERIVATIVES = {
    "grad": wg.grad,
    "gradient in an array": lambda f, t: wg.grad(lambda x: f(x[0]), np.array([t, 1.0]))[0],
    "jvp": lambda f, t: wg.jvp(f, t, 1.0)[1],
    "vjp": lambda f, t: wg.vjp(f, t)[1](1.0),
    "forward Jacobian": lambda f, t: wg.jacfwd(lambda x: np.stack([f(x[0]), x[1]]), np.array([t, 1.0]))[0, 0],
    "reverse Jacobian": lambda f, t: wg.jacrev(lambda x: np.stack([f(x[0]), x[1]]), np.array([t, 1.0]))[0, 0],
    "sparse Jacobian": lambda f, t: wg.jacobian(lambda x: np.stack([f(x[0]), x[1]]), np.array([t, 1.0]), sparse=True)[
        0, 0
    ],
    "compiled": lambda f, t: wg.grad(wg.compile(f))(t),
    "compiled derivative": lambda f, t: wg.compile(wg.grad(f))(t),
    "program": lambda f, t: wg.record(f, t).grad()(t),
    "program of a Jacobian": lambda f, t: wg.record(f, t).jacobian()(t),
    "batch": lambda f, t: wg.vmap(wg.grad(f))(np.array([t, t]))[0],
}
SECOND = {
    "hessian": wg.hessian,
    "hvp": lambda f, t: wg.hvp(f, t, 1.0),
    "nested": lambda f, t: wg.grad(wg.grad(f))(t),
    "nested forward": lambda f, t: wg.jvp(lambda s: wg.jvp(f, s, 1.0)[1], t, 1.0)[1],
    "compiled hessian": lambda f, t: wg.hessian(wg.compile(f))(t),
}


def name_of(f):
    return getattr(f, "__name__", f)


@pytest.mark.parametrize("f", LOSING, ids=name_of)
@pytest.mark.parametrize("derivative", DERIVATIVES | SECOND)
def test_search_that_loses_the_derivative_warns(derivative, f):
    assert f(0.7) == pytest.approx(0.7 ** (1 / 3), abs=2e-6)
    with pytest.warns(wg.RootFindingWarning, match=r"test_searches.py:\d+.*wengert\.implicit\.root.*defines_root"):
        (DERIVATIVES | SECOND)[derivative](f, 0.7)


@pytest.mark.parametrize("name", SHORT)
@pytest.mark.parametrize("derivative", DERIVATIVES | SECOND)
def test_search_of_few_steps_warns(derivative, name):
    f = SHORT[name]
    assert f(0.7) == pytest.approx(0.7 ** (1 / 3), abs=3e-2)
    with pytest.warns(wg.RootFindingWarning, match=r"test_searches.py:\d+.*wengert\.implicit\.root.*defines_root"):
        (DERIVATIVES | SECOND)[derivative](f, 0.7)


@pytest.mark.parametrize("f", KEEPING, ids=name_of)
@pytest.mark.parametrize("derivative", DERIVATIVES)
def test_loop_that_keeps_the_derivative_does_not_warn(derivative, f):
    found = DERIVATIVES[derivative](f, 0.7)
    if KEEPING[f] is not None:
        assert found == pytest.approx(KEEPING[f], rel=2e-4)


@pytest.mark.parametrize("f", KEEPING, ids=name_of)
@pytest.mark.parametrize("derivative", SECOND)
def test_second_derivative_of_such_a_loop_does_not_warn(derivative, f):
    SECOND[derivative](f, 0.7)


@pytest.mark.parametrize("f", LOSING, ids=name_of)
def test_advised_decorator_gives_the_derivative(f):
    solve = wg.implicit.defines_root(lambda x, t: x**3 - t)(f)
    assert wg.grad(solve, 0.7) == pytest.approx(ROOT, rel=1e-5)


def test_value_of_a_compiled_search_does_not_warn():
    f = wg.compile(by_count)
    for t in (0.7, 0.7, 0.8):
        assert f(t) == by_count(t)


def test_each_recording_of_a_compiled_search_warns():
    gradient = wg.grad(wg.compile(by_count))
    for t in (0.7, 0.8):
        with pytest.warns(wg.RootFindingWarning):
            gradient(t)
    assert gradient(0.8) == 0.0


def test_saved_program_warns(tmp_path):
    wg.record(by_count, 0.7).save(tmp_path / "program")
    program = wg.Program.load(tmp_path / "program")
    with pytest.warns(wg.RootFindingWarning):
        program.grad()


def test_parameter_that_the_search_does_not_read():
    assert wg.grad(lambda t: t * by_count(0.5), 0.7) == by_count(0.5)


def test_error_of_the_warning_ends_the_derivative():
    with warnings.catch_warnings(action="error"):
        with pytest.raises(wg.RootFindingWarning):
            wg.grad(by_count, 0.7)
    assert wg.grad(newton, 0.7) == pytest.approx(ROOT)


def test_search_that_harmed_nothing_before_is_examined_again():
    def scaled(t, s):
        return bisected(lambda x: x**3 - 0.5 - s * (t - 0.7), 0.0, 3.0)

    for _ in range(8):
        wg.grad(scaled, 0.7, args=(0.0,))
    with pytest.warns(wg.RootFindingWarning):
        wg.grad(scaled, 0.7, args=(1.0,))
