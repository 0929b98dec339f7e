"""Exact price and five greeks of a million options, from the formula of the price alone.

The Black-Scholes price is written in plain NumPy for arrays, and recorded once.  Its derivatives are programs:

- `vjp` with ones gives the price and its four first derivatives, delta, theta, rho and vega, in one replay;
- `grad` of the sum, and then `jvp` in the direction of the spot price, gives gamma, vanna and charm.

If there is a GPU, the same price, recorded for a single option, gives all of this there, with one thread per option.
The results are compared with closed forms, and with central differences of the price.

The exit status is 1 if a greek differs from its closed form by more than 1e-13 of its scale: the magnitude of the
terms of its closed form for the option.

    python tests/applications/black_scholes_greeks.py [--options N] [--figure FILE]

Reference: Black and Scholes (1973), The pricing of options and corporate liabilities. doi:10.1086/260062
"""

import argparse
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
from matplotlib.figure import Figure  # not pyplot: a separate Figure needs no display
from scipy.special import erfc, ndtr

import wengert as wg
import wengert.cuda

TOLERANCE = 1e-13

GREEKS = ["delta", "gamma", "theta", "rho", "vega"]

#: rows of x
SPOT, TIME, RATE, VOLATILITY = range(4)


# ---- the price -----------------------------------------------------------------------------------


def price(x, strike):
    """Return prices of European calls; `x` holds spot price, years to expiry, interest rate and volatility."""
    s, t, r, sigma = x
    spread = sigma * np.sqrt(t)
    d1 = (np.log(s / strike) + (r + sigma**2 / 2) * t) / spread
    d2 = d1 - spread
    return s * normal(d1) - strike * np.exp(-r * t) * normal(d2)


def normal(d):
    """Return the cumulative distribution function of the normal distribution."""
    return erfc(-d / np.sqrt(2)) / 2


def some_options(n):
    """Return spot price, time, rate and volatility as rows, and the strike."""
    rng = np.random.default_rng(1973)
    low, high = np.array([[60, 0.1, 0.0, 0.1], [140, 2.0, 0.05, 0.6]])
    return rng.uniform(low, high, (n, 4)).T.copy(), rng.uniform(80, 120, n)


# ---- the greeks, five ways -----------------------------------------------------------------------


def named(first, second):
    """Return the greeks from first derivatives and those of delta; theta is per year that passes."""
    return {
        "delta": first[SPOT],
        "gamma": second[SPOT],
        "theta": -first[TIME],
        "rho": first[RATE],
        "vega": first[VOLATILITY],
    }


class Replay:
    """Programs on whole arrays."""

    name = "programs on arrays"

    def __init__(self, x, strike):
        self.first = wg.record(price, x, args=(strike,)).vjp()
        self.second = wg.record(lambda x, strike: np.sum(price(x, strike)), x, args=(strike,)).hvp()
        self.ones = np.ones_like(strike)
        self.direction = np.zeros_like(x)
        self.direction[SPOT] = 1

    def __call__(self, x, strike):
        y, first = self.first(x, self.ones, strike)
        return y, named(first, self.second(x, self.direction, strike))


class Gpu:
    """The price of one option, compiled as a kernel."""

    name = "GPU"

    def __init__(self, x, strike):
        self.kernel = wg.record(price, x[:, 0], args=(strike[0],)).to_cuda()
        self.direction = np.array([1.0, 0.0, 0.0, 0.0])

    def __call__(self, x, strike):
        y, first = self.kernel.value_and_grad(x.T, strike)
        return y, named(first.T, self.kernel.hvp(x.T, self.direction, strike).T)


class ClosedForm:
    """The textbook formulas."""

    name = "closed form"

    def __init__(self, x, strike):
        pass

    def __call__(self, x, strike):
        greeks, _ = closed_form(x, strike)
        return price(x, strike), greeks


class Differences:
    """Central differences of the price."""

    name = "central differences"

    def __init__(self, x, strike):
        pass

    def __call__(self, x, strike):
        y = price(x, strike)
        first = np.empty_like(x)
        for i in range(4):
            up, down = x.copy(), x.copy()
            step = 6e-6 * x[i]  # cube root of the rounding unit, which balances truncation and rounding errors
            up[i] += step
            down[i] -= step
            first[i] = (price(up, strike) - price(down, strike)) / (up[i] - down[i])
        up, down = x.copy(), x.copy()
        step = 1.2e-4 * x[SPOT]  # fourth root
        up[SPOT] += step
        down[SPOT] -= step
        second = (price(up, strike) - 2 * y + price(down, strike)) / step**2
        return y, named(first, [second])


def closed_form(x, strike):
    """Return the greeks and their scales: the sums of term magnitudes, without the factors that make them small."""
    s, t, r, sigma = x
    root = np.sqrt(t)
    d1 = (np.log(s / strike) + (r + sigma**2 / 2) * t) / (sigma * root)
    d2 = d1 - sigma * root
    density = np.exp(-(d1**2) / 2) / np.sqrt(2 * np.pi)
    paid = strike * np.exp(-r * t)
    greeks = {
        "delta": ndtr(d1),
        "gamma": density / (s * sigma * root),
        "theta": -s * density * sigma / (2 * root) - r * paid * ndtr(d2),
        "rho": t * paid * ndtr(d2),
        "vega": s * density * root,
    }
    scales = {
        "delta": np.ones_like(s),
        "gamma": 1 / (s * sigma * root),
        "theta": s * sigma / (2 * root) + r * paid,
        "rho": t * paid,
        "vega": s * root,
    }
    return greeks, scales


# ---- the report ----------------------------------------------------------------------------------


class Way:
    """A method of computing the greeks, its time, and its distance from the closed form."""

    def __init__(self, kind, x, strike):
        self.name = kind.name
        start = perf_counter()
        run = kind(x, strike)
        run(x, strike)
        self.first = perf_counter() - start
        times = []
        for _ in range(3):
            start = perf_counter()
            self.price, self.greeks = run(x, strike)
            times.append(perf_counter() - start)
        self.seconds = min(times)
        exact, scales = closed_form(x, strike)
        self.errors = {greek: np.abs(self.greeks[greek] - exact[greek]) / scales[greek] for greek in GREEKS}

    def worst(self, greek):
        return self.errors[greek].max()


def print_comparison(ways, n):
    width = 22

    def row(name, entries):
        print(f"{name:38}" + "".join(f"{entry:>{width}}" for entry in entries))

    print(f"{n} options")
    row("", [way.name for way in ways])
    row("time for price and greeks, s", [f"{way.seconds:.3f}" for way in ways])
    row("  first call", [f"{way.first:.3f}" for way in ways])
    print("max scaled error against the closed form")
    for greek in GREEKS:
        row(f"  {greek}", [f"{way.worst(greek):.1e}" for way in ways])
    print()


def draw(ways, path):
    """Plot the greeks along the spot price, and the differences from the closed form."""
    figure = Figure(figsize=(8, 6.5), layout="constrained")
    panels = figure.subplots(2, 3).ravel()
    s = np.linspace(60, 140, 300)
    years = [0.1, 0.5, 2.0]
    for panel, greek in zip(panels, GREEKS):
        for i, t in enumerate(years):
            x = np.stack([s, np.full_like(s, t), np.full_like(s, 0.03), np.full_like(s, 0.25)])
            strike = np.full_like(s, 100)
            panel.plot(s, Replay(x, strike)(x, strike)[1][greek], color=f"C{i}", label=f"{t} years")
        panel.axvline(100, color="0.7", linewidth=0.8, zorder=0)
        panel.set_title(greek)
        panel.set_xlabel("spot price")
    panels[0].legend(frameon=False)
    below = panels[5]
    bins = np.linspace(-18, -4, 57)
    for way in ways:
        if way.name != ClosedForm.name:
            found = np.concatenate([np.log10(np.maximum(error, 1e-18)) for error in way.errors.values()])
            below.hist(found, bins, density=True, histtype="stepfilled", alpha=0.6, label=way.name)
    below.axvline(np.log10(TOLERANCE), color="black", linewidth=0.8, linestyle="--")
    below.set_title("error against closed form")
    below.set_xlabel("log10 of scaled error")
    below.set_yticks([])
    below.legend(frameon=False, fontsize="small")
    figure.suptitle("Greeks of a European call: strike 100, rate 3 %, volatility 25 %")
    figure.savefig(path, dpi=150)
    print(f"figure: {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--options", type=int, default=10**6, help="how many options")
    figure = Path("black_scholes_greeks.png")
    parser.add_argument("--figure", type=Path, default=figure, help="file the figure goes to")
    given = parser.parse_args()

    x, strike = some_options(given.options)
    kinds = [Replay, ClosedForm, Differences]
    if wengert.cuda.is_available():
        kinds.insert(1, Gpu)
    else:
        print(f"GPU skipped: {wengert.cuda.why_not()}\n")
    ways = [Way(kind, x, strike) for kind in kinds]
    print_comparison(ways, given.options)
    draw(ways, given.figure)

    failed = False
    for way in ways:
        for greek in GREEKS:
            if way.name in (Replay.name, Gpu.name) and not way.worst(greek) <= TOLERANCE:
                failed = True
                print(f"failed: {greek}, {way.name}: scaled error {way.worst(greek):.1e}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
