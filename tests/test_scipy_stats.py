"""Distributions, statistics and tests of ``scipy.stats``."""

import numpy as np
import pytest
import scipy.stats as st
from scipy.stats import distributions

import wengert as wg
from scipy_cases import check
from wengert.errors import NonSmoothError, UnsupportedFunctionError

r = np.random.default_rng(2)
x = r.gamma(2.0, size=9)
y = r.gamma(3.0, size=9) + 0.3 * x
X2 = r.normal(size=(6, 2))
S = np.array([[1.5, 0.3], [0.3, 0.8]])
M = np.array([0.2, -0.1])
kde, mvn, nrm = st.gaussian_kde(x), st.multivariate_normal(M, S), st.norm(0.3, 1.2)


def pos(m):
    return m @ m.T + np.eye(len(m))


class Ours(st.rv_continuous):
    """A user's distribution, which calls its base class."""

    def _pdf(self, x, a):
        return a * np.exp(-a * x)

    def _cdf(self, x, a):
        return 1 - np.exp(-a * x)

    def _argcheck(self, *args):
        return super()._argcheck(*args)


ours = Ours(a=0, name="ours")
frozen_ours = ours(1.3, scale=2.0)
histogram = st.rv_histogram(np.histogram(np.linspace(0, 4, 30) ** 1.3, 7))
outer = st.Normal(mu=0.3, sigma=1.2)
RANDOM_VARIABLES = {
    "Normal logpdf": lambda m, s: st.Normal(mu=m, sigma=s).logpdf(0.3),
    "Normal cdf": lambda m, s: st.Normal(mu=m, sigma=s).cdf(0.3),
    "Normal icdf": lambda m, s: st.Normal(mu=m, sigma=s).icdf(0.3),
    "Normal entropy": lambda m, s: st.Normal(mu=m, sigma=s).entropy(),
    "Normal outside": lambda m, s: outer.pdf(m) + outer.ccdf(s),
    "exp of a global": lambda m, s: st.exp(outer).logpdf(m + s) * st.exp(outer).mean(),
    "Uniform": lambda m, s: st.Uniform(a=m - 9, b=s + 9).logpdf(0.7),
    "shifted": lambda m, s: (st.Normal() * s + m).variance() + (st.Normal() * s + m).cdf(0.3),
    "Mixture": lambda m, s: st.Mixture([st.Normal(mu=m), st.Normal(sigma=s)], weights=[0.4, 0.6]).pdf(0.7),
    "Mixture variance": lambda m, s: st.Mixture([st.Normal(mu=m), st.Normal(sigma=s)], weights=[0.4, 0.6]).variance(),
    "exp": lambda m, s: st.exp(st.Normal(mu=m, sigma=s)).logpdf(0.7),
    "truncate": lambda m, s: st.truncate(st.Normal(mu=m, sigma=s), -1, 4).logpdf(0.7),
    "shifted, between two points": lambda m, s: (s * st.Normal() + m).cdf(0.2, 1.9),
    "make_distribution": lambda m, s: st.make_distribution(st.gamma)(a=m).logpdf(s),
}


def imported_distribution(x):
    from scipy.stats.distributions import norm

    return norm.cdf(x)


class Density(st.gaussian_kde):
    """A density with methods and an attribute of its own."""

    weight = 2.0

    def weighted(self, x):
        return self.weight * np.log(self(x)) + self.factor

    def evaluate(self, points):
        return super().evaluate(points) + 0.1


density = Density(np.array([0.1, 0.5, 0.9, 1.3, 0.2]), bw_method="silverman")


diagonal = st.Covariance.from_diagonal([1.0, 2.0])
CASES = {
    "density of a subclass": (lambda x: density.weighted(x), x),
    "call of a subclass": (lambda x: density(x) * x, x),
    "distributions": (lambda x: distributions.norm.logpdf(x, 0.2) + st.distributions.gamma.sf(x, 2.0), x),
    "import of distributions": (imported_distribution, x),
    "describe": (lambda x: st.describe(x).variance, x),
    "gmean": (st.gmean, x),
    "hmean": (st.hmean, x),
    "pmean": (lambda x: st.pmean(x, 2.5), x),
    "moment": (lambda x: st.moment(x, 3), x),
    "skew": (st.skew, x),
    "kurtosis": (lambda x: st.kurtosis(x, bias=False), x),
    "skewtest": (lambda x: st.skewtest(x).statistic, x),
    "kurtosistest p": (lambda x: st.kurtosistest(x).pvalue, x),
    "normaltest": (lambda x: st.normaltest(x).pvalue, x),
    "jarque_bera": (lambda x: st.jarque_bera(x).pvalue, x),
    "sem": (st.sem, x),
    "zscore": (st.zscore, x),
    "zmap": (lambda x: st.zmap(x, y), x),
    "gzscore": (st.gzscore, x),
    "gstd": (st.gstd, x),
    "iqr": (st.iqr, x),
    "mad": (st.median_abs_deviation, x),
    "trim_mean": (lambda x: st.trim_mean(x, 0.2), x),
    "tmean": (lambda x: st.tmean(x, (0.1, 9)), x),
    "tvar": (lambda x: st.tvar(x, (0.1, 9)), x),
    "tstd": (st.tstd, x),
    "tsem": (st.tsem, x),
    "tmin": (st.tmin, x),
    "tmax": (st.tmax, x),
    "trimboth": (lambda x: st.trimboth(x, 0.1), x),
    "trim1": (lambda x: st.trim1(x, 0.1), x),
    "sigmaclip": (lambda x: st.sigmaclip(x, 3, 3)[0], x),
    "variation": (st.variation, x),
    "entropy": (st.entropy, x),
    "entropy2": (lambda x: st.entropy(x, y), x),
    "diffent": (lambda x: st.differential_entropy(x), x),
    "pearsonr": (lambda x: st.pearsonr(x, y).statistic, x),
    "pearsonr p": (lambda x: st.pearsonr(x, y)[1], x),
    "linregress": (lambda x: st.linregress(x, y).slope, x),
    "linregress all": (lambda x: np.array(st.linregress(x, y)[:5]), x),
    "pointbiserialr": (lambda x: st.pointbiserialr([0, 1, 1, 0, 1, 0, 0, 1, 1], x)[0], x),
    "ttest_1samp": (lambda x: st.ttest_1samp(x, 1.0).statistic, x),
    "ttest_1samp p": (lambda x: st.ttest_1samp(x, 1.0).pvalue, x),
    "ttest_ind": (lambda x: st.ttest_ind(x, y).pvalue, x),
    "welch": (lambda x: st.ttest_ind(x, y, equal_var=False).pvalue, x),
    "ttest_rel": (lambda x: st.ttest_rel(x, y)[0], x),
    "from_stats": (lambda x: st.ttest_ind_from_stats(x[0], x[1], 9, 1.2, 0.8, 7)[1], x),
    "f_oneway": (lambda x: st.f_oneway(x, y).pvalue, x),
    "alexander": (lambda x: st.alexandergovern(x, y).statistic, x),
    "chisquare": (lambda x: st.chisquare(x, x.sum() * np.ones(9) / 9)[1], x),
    "power_div": (lambda x: st.power_divergence(x, x.sum() * np.ones(9) / 9, lambda_=0)[0], x),
    "bartlett": (lambda x: st.bartlett(x, y).statistic, x),
    "levene": (lambda x: st.levene(x, y).statistic, x),
    "combine": (lambda p: st.combine_pvalues(p / 10)[1], x),
    "boxcox": (lambda x: st.boxcox(x, 0.4), x),
    "boxcox_llf": (lambda x: st.boxcox_llf(0.4, x), x),
    "yeojohnson": (lambda x: st.yeojohnson(x, 0.4), x),
    "circmean": (lambda x: st.circmean(x), x / 4),
    "circstd": (lambda x: st.circstd(x), x / 4),
    "circvar": (st.circvar, x / 4),
    "kstat": (lambda x: st.kstat(x, 3), x),
    "lmoment": (lambda x: st.lmoment(x, order=2), x),
    "scoreat": (lambda x: st.scoreatpercentile(x, 30), x),
    "obrien": (lambda x: st.obrientransform(x, y)[0], x),
    "directional": (lambda X: st.directional_stats(X).mean_direction, X2),
    "axis": (lambda X: st.zscore(X, axis=0, ddof=1), X2),
    "quantile": (lambda x: st.quantile(x, 0.3), x),
    "spearman+": (lambda x: st.spearmanr(x, y)[0] + x[0], x),
    "rank": (lambda x: st.rankdata(x) * x, x),
    "kendall": (lambda x: st.kendalltau(x, y).statistic * x, x),
    "mvn": (lambda z: st.multivariate_normal.logpdf(z, M, S), X2),
    "mvn mean": (lambda m: st.multivariate_normal.logpdf(X2, m, S), M),
    "mvn cov": (lambda a: st.multivariate_normal.logpdf(X2, M, pos(a)), S),
    "mvn eye": (lambda t: st.multivariate_normal.logpdf(X2, M, t[0] * np.eye(2)), M + 1),
    "mvn pdf": (lambda a: st.multivariate_normal.pdf(X2, M, pos(a)), S),
    "mvn frozen": (lambda z: mvn.logpdf(z), X2),
    "mvn frozen in": (lambda a: st.multivariate_normal(M, pos(a)).logpdf(X2), S),
    "mvn entropy": (lambda a: st.multivariate_normal.entropy(M, pos(a)), S),
    "mvt": (lambda a: st.multivariate_t.logpdf(X2, M, pos(a), df=4), S),
    "mvt z": (lambda z: st.multivariate_t.logpdf(z, M, S, df=4), X2),
    "dirichlet": (lambda a: st.dirichlet.logpdf([0.2, 0.3, 0.5], a), x[:3]),
    "wishart": (lambda a: st.wishart.logpdf(pos(a), 4, S), S),
    "wishart scale": (lambda a: st.wishart.logpdf(S, 4, pos(a)), S),
    "matrix_normal": (lambda z: st.matrix_normal.logpdf(z.T, np.zeros((2, 6)), S, np.eye(6)), X2),
    "multinomial": (lambda p: st.multinomial.logpmf([1, 2, 3], 6, p / p.sum()), x[:3]),
    "vonmises_fisher": (lambda k: st.vonmises_fisher.logpdf(np.array([1.0, 0, 0]), np.array([0.0, 1, 0]), k[0]), x),
    "kde pts": (lambda z: kde(z), x[:4] + 0.1),
    "kde logpdf": (lambda z: kde.logpdf(z), x[:4] + 0.1),
    "kde data": (lambda d: st.gaussian_kde(d)(y[:3]), x),
    "kde data log": (lambda d: st.gaussian_kde(d, bw_method=0.5).logpdf(y[:3]), x),
    "kde 2d": (lambda d: st.gaussian_kde(d.T)(np.zeros((2, 2))), X2),
    "kde int": (lambda d: st.gaussian_kde(d).integrate_box_1d(0.0, 2.0), x),
    "frozen out": (lambda z: nrm.logpdf(z), x),
    "frozen in": (lambda t: st.gamma(t[0], scale=t[1]).logpdf(y), x),
    "rvs": (lambda t: st.norm.rvs(t[0], t[1], size=3, random_state=1), x),
    "rvs expon": (lambda t: st.expon.rvs(scale=t[1], size=3, random_state=1), x),
    "interval": (lambda t: np.array(st.norm.interval(0.9, t[0], t[1])), x),
    "stats": (lambda t: np.array(st.gamma.stats(t[0], scale=t[1], moments="mvsk")), x),
    "nll": (lambda t: -np.sum(st.weibull_min.logpdf(y, t[0], scale=t[1])), x),
    "moment d": (lambda t: st.gamma.moment(3, t[0]), x),
    "norm list": (lambda t: st.norm.logpdf([0.1, 0.2], loc=[t[0], t[1]]), x),
    "logistic cdf": (lambda t: st.logistic.cdf(t), x),
    "ks_1samp": (lambda v: np.array(st.ks_1samp(v, st.norm.cdf, args=(1.0, 0.8))[:2]), x),
    "kstest": (lambda v: np.asarray(st.kstest(v, "expon").statistic), x),
    "anderson": (lambda v: np.asarray(st.anderson(v, method="interpolate").statistic), x),
    "cramervonmises": (lambda v: np.asarray(st.cramervonmises(v, "norm").statistic), x),
    "chi2_contingency": (lambda v: np.asarray(st.chi2_contingency(v[:4].reshape(2, 2), correction=False)[:2]), 9 * x),
    "expected_freq": (lambda v: st.contingency.expected_freq(v[:4].reshape(2, 2)), x),
    "false_discovery_control": (lambda v: st.false_discovery_control(v / 9), x),
    "expectile": (lambda v: np.asarray(st.expectile(v, 0.37)), x),
    "expectile alpha": (lambda a: np.asarray(st.expectile(x, a)), np.asarray(0.37)),
    "probplot": (lambda v: np.array(st.probplot(v)[1]), x),
    "tukey_hsd": (lambda v: st.tukey_hsd(v[:3], v[3:] * 2).statistic[0, 1:], x),
    "fligner": (lambda v: np.asarray(st.fligner(v, y)[:2]), x),
    "wasserstein": (lambda v: np.asarray(st.wasserstein_distance(v, y)), x),
    "binned_statistic": (lambda v: st.binned_statistic(np.arange(len(v)), v, "std", bins=2).statistic, x),
    "binned_statistic_2d": (
        lambda v: st.binned_statistic_2d(np.arange(len(v)), np.arange(len(v)) % 2, v, "mean", bins=[2, 2]).statistic,
        x,
    ),
    "binned_statistic of a function": (
        lambda v: st.binned_statistic(np.arange(len(v)) // 3, v, lambda z: np.sum(z) * 2, bins=5).statistic,
        x,
    ),
    "binned_statistic of no values": (lambda v: st.binned_statistic([0.0, 4.0], v[:2], np.sum, bins=3).statistic, x),
    "covariance by its factor": (
        lambda v: st.multivariate_normal.logpdf(v[:2], M, st.Covariance.from_cholesky(np.linalg.cholesky(S) * v[2])),
        x,
    ),
    "covariance by its diagonal": (
        lambda v: st.multivariate_normal(M, st.Covariance.from_diagonal(v[1:3])).logpdf(v[:2]),
        x,
    ),
    "covariance by its inverse": (lambda v: st.Covariance.from_precision(pos(S) * v[0]).whiten(v[1:3]), x),
    "covariance made before": (lambda v: diagonal.whiten(v[:2]) * diagonal.log_pdet, x),
    "invwishart": (lambda a: st.invwishart.logpdf(pos(a), 4, S), S),
    "invwishart scale": (lambda a: st.invwishart.logpdf(S, 4.5, pos(a)), S),
    "pearson3": (lambda t: st.pearson3.logpdf(t[:3], 0.5 + t[3] / 9) + st.pearson3.cdf(t[:3], 0.4, t[4], t[5] + 1), x),
    "pearson3 ppf": (lambda t: st.pearson3.ppf([0.2, 0.9], -t[0], t[1], t[2]) * st.pearson3.sf(0.3, t[0]), x),
    "theilslopes": (lambda v: np.array(st.theilslopes(v[:5], y[:5], method="joint")), x),
    "siegelslopes": (lambda v: np.array(st.siegelslopes(v[:5], y[:5])), x),
    "siegelslopes, separate": (lambda v: np.array(st.siegelslopes(v[:5], y[:5], method="separate")), x),
    "noncentral t": (lambda t: st.nct.logpdf(t[:2] - 1, 4.5, t[2]) + st.nct.cdf(t[:2] - 1, 4.5, t[2]), x),
    "noncentral t of few degrees of freedom": (lambda t: st.nct.cdf(t[:2] - 1, 0.8, t[2]), x),
    "noncentral t, tails": (lambda t: st.nct.sf(t[:2], 4.5, t[2]) + st.nct.isf(t[:2] / 9, 4.5, t[2]), x),
    "noncentral t, moments": (lambda t: np.array([st.nct.mean(t[2] + 4, t[1]), st.nct.var(t[2] + 4, t[1])]), x),
    "Kolmogorov": (lambda t: st.kstwobign.cdf(t[:3]) + st.ksone.cdf(t[:3] / 9, 8), x),
    "Landau": (lambda t: st.landau.cdf(t[:2], t[2], t[1]) + st.landau.sf(t[:2] ** 2), x),
    "von Mises, several turns": (lambda t: st.vonmises.cdf(9 * t[:2], t[2]), x),
    "von Mises, narrow": (lambda t: st.vonmises.cdf(t[:2] / 9, 40 + t[2]) + st.vonmises.ppf(t[:2] / 9, 40 + t[2]), x),
    "mvn rvs": (lambda t: st.multivariate_normal.rvs(t[:2], pos(S) * t[2], size=2, random_state=3), x),
    "qmc scale": (lambda t: st.qmc.scale(np.full((3, 2), 0.3), [0.0, t[0] - 9], t[1:3]), x),
    "own distribution": (lambda v: ours.logpdf(v, 1.3), x),
    "own distribution cdf": (lambda v: ours.cdf(v, v[0], loc=-0.1, scale=2.0), x),
    "own distribution frozen": (lambda v: frozen_ours.pdf(v), x),
    "histogram": (lambda v: histogram.pdf(v) + histogram.cdf(v), x),
    **{name: (lambda v, f=f: np.asarray(f(v[0], v[1])), x) for name, f in RANDOM_VARIABLES.items()},
}

@pytest.mark.parametrize("name", CASES)
def test_statistics_and_distributions_have_their_derivatives(name):
    f, at = CASES[name]
    check(f, at, order=1, batches=False, sparse=False)


CONTINUOUS = {
    "norm": (), "lognorm": (0.8,), "gamma": (2.3,), "beta": (2.0, 3.0), "expon": (), "t": (4.0,), "chi2": (3.5,),
    "f": (3.0, 7.0), "weibull_min": (1.7,), "logistic": (), "cauchy": (), "halfnorm": (), "halfcauchy": (),
    "invgamma": (2.5,), "invgauss": (0.8,), "pareto": (2.1,), "lomax": (2.1,), "gumbel_r": (), "gumbel_l": (),
    "genextreme": (0.2,), "genpareto": (0.2,), "rayleigh": (), "maxwell": (), "truncnorm": (-1.0, 2.0),
    "skewnorm": (1.5,), "triang": (0.4,), "alpha": (1.5,), "betaprime": (2.0, 3.0), "bradford": (0.7,),
    "burr": (2.0, 1.5), "burr12": (2.0, 1.5), "chi": (2.5,), "cosine": (), "exponnorm": (1.2,), "exponpow": (1.5,),
    "exponweib": (1.5, 1.2), "fatiguelife": (0.7,), "fisk": (2.0,), "foldcauchy": (0.7,), "foldnorm": (0.7,),
    "gengamma": (1.5, 1.2), "genlogistic": (1.3,), "gompertz": (0.8,), "halflogistic": (), "hypsecant": (),
    "johnsonsb": (1.0, 1.5), "johnsonsu": (1.0, 1.5), "laplace_asymmetric": (1.3,), "levy": (), "loggamma": (1.3,),
    "loguniform": (0.1, 2.0), "mielke": (2.0, 1.5), "moyal": (), "nakagami": (1.3,), "powerlaw": (1.5,),
    "powerlognorm": (1.5, 0.7), "powernorm": (1.5,), "recipinvgauss": (0.8,), "rice": (0.7,), "semicircular": (),
    "truncexpon": (2.0,), "truncpareto": (1.5, 3.0), "uniform": (), "wald": (), "weibull_max": (1.7,),
    "wrapcauchy": (0.4,), "vonmises": (1.3,), "arcsine": (), "anglit": (), "laplace": (), "genexpon": (1.0, 1.2, 0.8),
}  # fmt: skip
DISCRETE = {
    "poisson": (1.3,), "binom": (7, 0.3), "nbinom": (5.0, 0.4), "geom": (0.3,), "bernoulli": (0.3,), "planck": (0.5,),
    "betabinom": (7, 2.0, 3.0), "skellam": (1.0, 2.0), "zipf": (4.5,), "logser": (0.4,), "boltzmann": (0.5, 9),
    "dlaplace": (0.8,), "yulesimon": (2.5,),
}  # fmt: skip
U = np.array([0.21, 0.53, 0.72])


def differences(f, x, h=1e-5):
    """Derivatives of order 4."""
    columns = []
    for i in range(len(x)):
        e = h * np.eye(len(x))[i]
        columns.append((8 * (f(x + e) - f(x - e)) - (f(x + 2 * e) - f(x - 2 * e))) / (12 * h))
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distributions_have_derivatives_in_points_shapes_location_and_scale(name):
    d, shapes = getattr(st, name), CONTINUOUS[name]
    point = d.ppf(U, *shapes, loc=0.1, scale=1.7)

    for method in ("logpdf", "pdf", "cdf", "sf", "logcdf", "logsf", "ppf"):
        at = U if method == "ppf" else point

        def f(v, method=method):
            n = len(U)
            return getattr(d, method)(v[:n], *[v[n + i] for i in range(len(shapes))], loc=v[-2], scale=v[-1])

        v = np.array([*at, *shapes, 0.1, 1.7])
        value, _ = wg.jvp(f, v, np.ones_like(v))
        np.testing.assert_array_equal(value, f(v))
        found = wg.jacobian(f)(v)
        np.testing.assert_allclose(found, differences(f, v), rtol=1e-6, atol=1e-7, err_msg=method)
        program = wg.compile(wg.jacobian(f))
        program(v)
        for w in (v, v * (1 - 1e-3)):
            np.testing.assert_allclose(program(w), wg.jacobian(f)(w), rtol=1e-8, atol=1e-11, err_msg=method)


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_distributions_have_derivatives_in_their_parameters(name):
    d, shapes = getattr(st, name), DISCRETE[name]
    k = np.array([1, 2, 3]) if name != "bernoulli" else np.array([0, 1])
    moving = [i for i, s in enumerate(shapes) if isinstance(s, float)]
    for method in ("logpmf", "pmf", "mean", "var"):

        def f(v, method=method):
            given = [v[moving.index(i)] if i in moving else s for i, s in enumerate(shapes)]
            return getattr(d, method)(*([k] if method.endswith("pmf") else []), *given)

        v = np.array([shapes[i] for i in moving])
        found = np.reshape(wg.jacobian(f)(v), (-1, len(v)))
        np.testing.assert_allclose(found, np.reshape(differences(f, v), (-1, len(v))), rtol=1e-6, atol=1e-8)


def test_kernel_density_has_a_derivative_in_its_weights():
    def f(w):
        return st.gaussian_kde(x, weights=w)(y[:3])

    np.testing.assert_allclose(wg.jacobian(f)(y), differences(f, y), rtol=1e-7, atol=1e-10)


def test_density_outside_of_the_support_has_derivative_zero():
    assert wg.grad(lambda x: st.expon.pdf(x))(-0.5) == 0.0
    assert wg.grad(lambda t: st.uniform.pdf(0.5, scale=t))(0.3) == 0.0


@pytest.mark.parametrize("name", ["genextreme", "genpareto", "skewnorm", "tukeylambda"])
def test_special_values_of_shapes_are_refused_and_the_remedy_works(name):
    d = getattr(st, name)
    with pytest.raises(NonSmoothError, match=rf"{name}.*1e-8"):
        wg.grad(lambda c: d.logpdf(0.7, c))(0.0)
    limit = (d.logpdf(0.7, 1e-4) - d.logpdf(0.7, -1e-4)) / 2e-4
    np.testing.assert_allclose(wg.grad(lambda c: d.logpdf(0.7, c))(1e-8), limit, rtol=1e-3)
    assert np.isfinite(wg.grad(lambda x: d.logpdf(x, 0.0))(0.7))


def test_quantiles_found_by_iterations_solve_the_equation():
    d = st.exponnorm
    slope = wg.grad(lambda q: d.ppf(q, 1.2))(0.4)
    np.testing.assert_allclose(slope, 1 / d.pdf(d.ppf(0.4, 1.2), 1.2), rtol=1e-12)
    second = wg.derivative(wg.derivative(lambda q: d.ppf(q, 1.2)))(0.4)
    h = 1e-4
    slopes = [1 / d.pdf(d.ppf(q, 1.2), 1.2) for q in (0.4 + h, 0.4 - h)]
    np.testing.assert_allclose(second, (slopes[0] - slopes[1]) / (2 * h), rtol=1e-6)


POWERS = {
    "boxcox_llf": (lambda t: st.boxcox_llf(t, x), 0.0),
    "yeojohnson_llf of positive data": (lambda t: st.yeojohnson_llf(t, x), 0.0),
    "yeojohnson_llf of negative data": (lambda t: st.yeojohnson_llf(t, -x), 2.0),
    "yeojohnson_llf": (lambda t: st.yeojohnson_llf(t, x - 1), 0.0),
    "boxcox": (lambda t: np.sum(st.boxcox(x, t) ** 2), 0.0),
    "yeojohnson": (lambda t: np.sum(st.yeojohnson(x - 1, t) ** 2), 0.0),
    "pmean": (lambda t: st.pmean(x**2 + 1, t, weights=np.arange(1.0, np.size(x) + 1)), 0.0),
    "pmean of columns": (lambda t: np.sum(st.pmean(np.outer(x**2 + 1, [1.0, 2.0]), t, keepdims=True) ** 2), 0.0),
    "yeojohnson, 2": (lambda t: np.sum(st.yeojohnson(x - 1, t) ** 2), 2.0),
}


@pytest.mark.parametrize("name", POWERS)
def test_power_transforms_have_derivatives_where_the_power_becomes_a_logarithm(name):
    f, at = POWERS[name]
    g = wg.compile(wg.grad(f))
    for h in (0.0, 1e-7, 0.05):
        slope = np.ravel(differences(lambda t: np.array([f(t[0])]), np.array([at + h]), 1e-2))[0]
        np.testing.assert_allclose(wg.grad(f)(at + h), slope, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(g(at + h), slope, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(wg.hessian(f)(at), wg.hessian(f)(at + 1e-5), rtol=1e-3)


def test_entropies_and_expectations_have_derivatives():
    c = 1.7  # a Weibull distribution, without a closed form in SciPy
    slope = wg.grad(lambda c: st.exponweib.entropy(1.0, c))(c)
    np.testing.assert_allclose(slope, np.euler_gamma / c**2 - 1 / c, rtol=1e-7)
    np.testing.assert_allclose(wg.grad(lambda s: st.norm.expect(lambda x: x**2, scale=s))(c), 2 * c, rtol=1e-9)
    np.testing.assert_allclose(wg.grad(lambda b: st.norm.expect(lb=0, ub=b))(c), c * st.norm.pdf(c), rtol=1e-9)


REFUSED = {
    "fit": (lambda v: st.norm.fit(v)[0], UnsupportedFunctionError, "minimise the negative log-likelihood"),
    "boxcox": (lambda v: st.boxcox(v)[0], UnsupportedFunctionError, "lmbda"),
    "bootstrap": (lambda v: st.bootstrap((v,), np.mean).standard_error, UnsupportedFunctionError, "statistic itself"),
    "dirichlet draws": (lambda v: st.dirichlet.rvs(v), UnsupportedFunctionError, "dirichlet"),
    "truncated mean": (
        lambda v: st.truncate(st.Normal(mu=v[0]), 0, 1).mean(), UnsupportedFunctionError, "quadrature nodes"
    ),
    "masked": (lambda v: st.mstats.trimmed_mean(v), UnsupportedFunctionError, r"mstats.*scipy\.stats"),
    "shapiro": (lambda v: st.shapiro(v).statistic, UnsupportedFunctionError, "probplot"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_searches_are_refused_with_a_remedy(name):
    f, error, remedy = REFUSED[name]
    with pytest.raises(error, match=remedy):
        wg.grad(lambda v: np.sum(f(v)))(x)
