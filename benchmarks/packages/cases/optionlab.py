"""Options by the formula of Black and Scholes."""

import numpy as np
from optionlab import black_scholes, support

from benchmarks.packages.cases import Cases

PACKAGE = "optionlab"
cases = Cases()
STRIKES = np.array([90.0, 100.0, 115.0])


@cases([100.0, 0.03, 0.25, 0.5])
def call(x):
    d1 = black_scholes.get_d1(x[0], STRIKES, x[1], x[2], x[3])
    d2 = black_scholes.get_d2(x[0], STRIKES, x[1], x[2], x[3])
    return black_scholes.get_option_price("call", x[0], STRIKES, x[1], x[3], d1, d2)


@cases([100.0, 0.03, 0.25, 0.5])
def greeks(x):
    s, r, vol, years = x
    d1 = black_scholes.get_d1(s, 105.0, r, vol, years)
    d2 = black_scholes.get_d2(s, 105.0, r, vol, years)
    return np.array([
        black_scholes.get_delta("put", d1, years),
        black_scholes.get_gamma(s, vol, years, d1),
        black_scholes.get_theta("put", s, 105.0, r, vol, years, d1, d2),
        black_scholes.get_vega(s, years, d1),
        black_scholes.get_rho("put", 105.0, r, years, d2),
    ])


@cases([8.0, 100.0, 0.03], step=1e-3)
def implied_volatility(x):
    return black_scholes.get_implied_vol("call", x[0], x[1], 105.0, x[2], 0.5)


@cases([100.0, 0.03, 0.25, 0.5])
def all_of_one_option(x):
    info = black_scholes.get_bs_info(x[0], 105.0, x[1], x[2], 0.5 * 365 / 365)
    return np.array([info.call_price, info.put_price, info.call_delta, info.vega]) * x[3]


@cases([100.0, 0.25])
def probability_of_touch(x):
    return black_scholes.get_probability_of_touch("call", x[0], 115.0, 0.03, x[1], 0.5)


@cases([5.0, 102.0], step=1e-3)
def profit_at_maturity(x):
    return support.get_pl_profile("call", "buy", x[1], x[0], 3, np.array([95.0, 110.0, 120.0]), 0.5)[0]
