"""Prices of options."""

from jetblack_options.american import barone_adesi_whaley, bjerksund_stensland_2002
from jetblack_options.european import black_76, generalised_black_scholes
from jetblack_options.trees import cox_ross_rubinstein, trinomial

from benchmarks.packages.cases import Cases

PACKAGE = "jetblack-options"
cases = Cases()


@cases([100.0, 95.0, 1.0, 0.05, 0.02, 0.3])
def call(x):
    return generalised_black_scholes.price(True, x[0], x[1], x[2], x[3], x[4], x[5])


@cases([100.0, 95.0, 1.0, 0.05, 0.3])
def delta_on_forward(x):
    return black_76.delta(True, x[0], x[1], x[2], x[3], x[4])


@cases([100.0, 95.0, 1.0, 0.05, 0.02, 0.3])
def american_call_by_bjerksund_stensland(x):
    return bjerksund_stensland_2002.price(True, x[0], x[1], x[2], x[3], x[4], x[5])


@cases([100.0, 95.0, 1.0, 0.05, 0.02, 0.3], rtol=1e-3)
def american_call_by_barone_adesi_whaley(x):
    return barone_adesi_whaley.price(True, x[0], x[1], x[2], x[3], x[4], x[5])


@cases([100.3, 95.0, 1.0, 0.05, 0.02, 0.3], step=1e-5)
def american_put_by_tree(x):
    return cox_ross_rubinstein.price(False, False, x[0], x[1], x[2], x[3], x[4], x[5], 20)


@cases([100.3, 95.0, 1.0, 0.05, 0.02, 0.3], step=1e-5)
def call_by_trinomial_tree(x):
    return trinomial.price(True, True, x[0], x[1], x[2], x[3], x[4], x[5], 20)
