"""Fit the orbit of an eccentric planet to radial velocities, with Kepler's equation solved inside the model.

The model solves E - e sin E = M for all times at once by `newton`.  Its derivative follows from the equation, not
from the iteration, so `least_squares` gets the exact Jacobian of the residuals with respect to the six elements of
the orbit; so do the uncertainties of the elements and of the velocity curve.

The observations are synthetic: the elements are those of HD 80606 b (e = 0.93), the times lie in six visibility
seasons, and the errors are those of a good spectrograph, drawn with a fixed seed.

The fit itself is then differentiated with respect to the observations, to find the influential ones.  This needs
second derivatives of the model: a linearised model gets several influences wrong by a quarter or more.

The exit status is 1 if the Jacobian differs from its closed form in the eleventh digit, if an element is off by more
than four standard deviations or chi squared is improbable, or if the influences contradict fits to moved observations.

    python tests/applications/kepler_orbit.py [--figure FILE]

Reference: Naef et al. (2001), HD 80606 b, a planet on an extremely elongated orbit, A&A 375, L27.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure  # not pyplot: a separate Figure needs no display

import wengert
from wengert.scipy.optimize import least_squares, newton

NAMES = ("period, days", "periastron, day", "eccentricity", "omega, degrees", "K, m/s", "gamma, m/s")
TRUE = np.array([111.436, 55.2, 0.933, np.radians(300.6), 472.0, 3.8])
START = np.array([111.3, 54.5, 0.90, np.radians(290.0), 430.0, 0.0])

DIGITS_REQUIRED = 11


# ---- the model, in plain NumPy -------------------------------------------------------------------


def kepler(E, e, M):
    return E - e * np.sin(E) - M


def mean_anomaly(elements, t):
    M = 2 * np.pi * (t - elements[1]) / elements[0]
    return M - 2 * np.pi * np.round(M / (2 * np.pi))


def velocity(elements, t):
    """Return radial velocities at the times t."""
    _, _, e, omega, K, gamma = elements
    M = mean_anomaly(elements, t)
    E = newton(kepler, np.pi * np.sign(M), args=(e, M))  # Newton's method converges from this start for every e and M
    r = 1 - e * np.cos(E)
    cos_nu, sin_nu = (np.cos(E) - e) / r, np.sqrt(1 - e**2) * np.sin(E) / r
    return gamma + K * (np.cos(omega) * (cos_nu + e) - np.sin(omega) * sin_nu)


# ---- the observations ----------------------------------------------------------------------------


def observe():
    """Return times, velocities and their standard errors, with more observations around the second periastron."""
    random = np.random.default_rng(80606)
    seasons = [365.25 * year + random.uniform(0, 200, 9) for year in range(6)]
    campaign = TRUE[1] + 5 * TRUE[0] + random.uniform(-2.0, 2.0, 16)
    t = np.sort(np.concatenate([*seasons, campaign]))
    error = random.uniform(3.0, 8.0, t.size)
    return t, velocity(TRUE, t) + error * random.standard_normal(t.size), error


# ---- the fit and what follows from it ------------------------------------------------------------


def residuals(elements, t, v, error):
    return (velocity(elements, t) - v) / error


def fit(v, t, error, start=START):
    """Return the elements that best fit the velocities v."""
    options = {"x_scale": "jac", "xtol": 1e-14, "ftol": 1e-14, "gtol": 1e-12}
    return least_squares(residuals, start, args=(t, v, error), **options).x


def influence_by_refits(k, elements, t, v, error):
    """Return the change of the elements with observation k, from fits with it moved by a tenth of its error."""
    step = np.zeros(t.size)
    step[k] = 0.1 * error[k]
    return (fit(v + step, t, error, elements) - fit(v - step, t, error, elements)) / (2 * step[k])


def covariance(J):
    """Return the inverse of J^T J from a QR factorisation of the scaled J."""
    scale = np.linalg.norm(J, axis=0)
    inverse = np.linalg.inv(np.linalg.qr(J / scale, mode="r"))
    return inverse @ inverse.T / np.outer(scale, scale)


def jacobian_in_closed_form(elements, t):
    """Return derivatives of the velocities by textbook formulas, with E found by bisection."""
    P, tau, e, omega, K, _ = elements
    M = mean_anomaly(elements, t)
    low, high = np.full(t.size, -np.pi), np.full(t.size, np.pi)
    for _ in range(60):
        middle = (low + high) / 2
        is_below = kepler(middle, e, M) < 0
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    E = (low + high) / 2
    E -= kepler(E, e, M) / (1 - e * np.cos(E))
    r, root = 1 - e * np.cos(E), np.sqrt(1 - e**2)
    cos_nu, sin_nu = (np.cos(E) - e) / r, root * np.sin(E) / r
    slope = -K * (np.cos(omega) * sin_nu + np.sin(omega) * (cos_nu))  # dv/dnu
    nu_of_M, nu_of_e = root / r**2, sin_nu * (2 + e * cos_nu) / (1 - e**2)
    M_of_t = 2 * np.pi / P
    return np.stack([
        -slope * nu_of_M * M_of_t * (t - tau) / P,
        -slope * nu_of_M * M_of_t,
        slope * nu_of_e + K * np.cos(omega),
        -K * (np.sin(omega) * (cos_nu + e) + np.cos(omega) * sin_nu),
        np.cos(omega) * (cos_nu + e) - np.sin(omega) * sin_nu,
        np.ones(t.size),
    ], axis=1)  # fmt: skip


def digits(values, exact):
    """Return the digits in agreement, column by column, relative to the largest entry of the column."""
    error = np.max(np.abs(values - exact), axis=0) / np.max(np.abs(exact), axis=0)
    return -np.log10(np.maximum(error, 1e-17))


# ---- the report ----------------------------------------------------------------------------------


def in_units(elements):
    return np.where(np.arange(6) == 3, np.degrees(elements), elements)


def draw(elements, cov, t, v, error, path):
    figure = Figure(figsize=(8, 6.5), layout="constrained")
    above, below = figure.subplots(2, 1, height_ratios=[3, 1], sharex=True)
    P, tau = elements[:2]
    phase = np.sort(np.concatenate([np.linspace(-0.5, 0.5, 400), np.linspace(-0.03, 0.03, 400)]))
    days = tau + P * (5 + phase)  # around the campaign
    curve = velocity(elements, days)
    J = wengert.jacobian(velocity)(elements, days)
    band = np.sqrt(np.einsum("ij,jk,ik->i", J, cov, J))
    observed = (t - tau) / P - np.round((t - tau) / P)

    above.fill_between(phase, curve - 2 * band, curve + 2 * band, color="C0", alpha=0.25, linewidth=0)
    above.plot(phase, curve, color="C0", label="fitted orbit, band: two standard deviations")
    above.errorbar(observed, v, error, fmt="o", color="black", markersize=3, linewidth=1, label="observations")
    above.set_ylabel("radial velocity, m/s")
    above.set_title("An orbit of eccentricity 0.93, fitted through Kepler's equation")
    above.legend(loc="upper right", frameon=False)
    inset = above.inset_axes([0.08, 0.45, 0.3, 0.48])
    near = np.abs(phase) < 0.03
    inset.plot(24 * P * phase[near], curve[near], color="C0")
    inset.errorbar(24 * P * observed, v, error, fmt="o", color="black", markersize=3, linewidth=1)
    inset.set_xlim(-48, 48)
    inset.set_xlabel("hours from periastron", fontsize="small")

    below.fill_between(phase, -2 * band, 2 * band, color="C0", alpha=0.25, linewidth=0)
    below.errorbar(observed, v - velocity(elements, t), error, fmt="o", color="black", markersize=3, linewidth=1)
    below.axhline(0, color="C0", linewidth=1)
    below.set_ylim(-30, 30)
    below.set_ylabel("observed - fit, m/s")
    below.set_xlabel("orbital phase")
    figure.align_ylabels()
    figure.savefig(path, dpi=150)
    print(f"figure: {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--figure", type=Path, default=Path("kepler_orbit.png"), help="file the figure goes to")
    path = parser.parse_args().figure
    failures = []

    t, v, error = observe()
    elements = fit(v, t, error)
    J = wengert.jacobian(residuals)(elements, t, v, error)
    cov = covariance(J)
    deviation = np.sqrt(np.diag(cov))
    chi_squared, freedom = np.sum(residuals(elements, t, v, error) ** 2), t.size - elements.size

    agreement = digits(J, jacobian_in_closed_form(elements, t) / error[:, None])
    off = (elements - TRUE) / deviation
    print(f"{'':24}{'fitted':>16}{'std. dev.':>12}{'true':>12}{'error/std. dev.':>17}{'digits of J':>13}")
    for row in zip(NAMES, in_units(elements), in_units(deviation), in_units(TRUE), off, agreement):
        print("{:24}{:16.6f}{:12.6f}{:12.4f}{:17.1f}{:13.1f}".format(*row))
    print(f"chi squared {chi_squared:.1f} for {freedom} degrees of freedom")
    if agreement.min() < DIGITS_REQUIRED:
        failures.append(f"Jacobian agrees to {agreement.min():.1f} digits, {DIGITS_REQUIRED} required")
    if np.max(np.abs(off)) > 4 or abs(chi_squared - freedom) > 4 * np.sqrt(2 * freedom):
        failures.append("the fit does not agree with the true orbit")

    influence = wengert.jacobian(fit)(v, t, error)  # d elements / d velocities
    linear = cov @ J.T / error  # the same for a linearised model
    by_influence = np.linalg.norm(influence * error, axis=1)
    print("standard deviations from the influences, relative to those above:", np.round(by_influence / deviation, 3))
    k = np.argmax(np.abs(influence[0]) * error)
    again = influence_by_refits(k, elements, t, v, error)
    phase = mean_anomaly(elements, t)[k] / (2 * np.pi)
    print(f"observation {k}, at phase {phase:+.4f}, has the largest influence on the period:")
    print(f"{'':24}{'influence':>16}{'refits':>16}{'linearised':>20}")
    for row in zip(NAMES, influence[:, k], again, linear[:, k]):
        print("{:24}{:16.8f}{:16.8f}{:20.8f}".format(*row))
    if not np.all(np.abs(again / influence[:, k] - 1) < 1e-3):
        failures.append("the refits disagree with the influences")

    draw(elements, cov, t, v, error, path)
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
