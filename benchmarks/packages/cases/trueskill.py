"""Bayesian ratings of players and teams."""

import numpy as np
from trueskill import Rating, TrueSkill, quality_1vs1, rate_1vs1

from benchmarks.packages.cases import Cases

PACKAGE = "trueskill"
cases = Cases()


@cases([25.0, 8.0, 30.0, 6.0])
def winner_and_loser(x):
    winner, loser = rate_1vs1(Rating(x[0], x[1]), Rating(x[2], x[3]))
    return np.array([winner.mu, winner.sigma, loser.mu, loser.sigma])


@cases([25.0, 8.0, 28.0, 6.0])
def draw(x):
    first, second = rate_1vs1(Rating(x[0], x[1]), Rating(x[2], x[3]), drawn=True)
    return np.array([first.mu, first.sigma, second.mu, second.sigma])


@cases([25.0, 8.0, 30.0, 6.0])
def quality(x):
    return quality_1vs1(Rating(x[0], x[1]), Rating(x[2], x[3]))


@cases([25.0, 7.0, 27.0, 5.0, 30.0, 4.0])
def teams(x):
    (a, b), (c,) = TrueSkill().rate([(Rating(x[0], x[1]), Rating(x[2], x[3])), (Rating(x[4], x[5]),)])
    return np.array([a.mu, b.mu, c.mu, a.sigma, b.sigma, c.sigma])


@cases([25.0, 8.0, 4.0, 0.1])
def exposed_skill(x):
    environment = TrueSkill(mu=x[0], sigma=x[1], beta=x[2], tau=x[3])
    winner, _ = rate_1vs1(environment.create_rating(), environment.create_rating(), env=environment)
    return environment.expose(winner)


@cases([25.0, 22.0, 30.0], rtol=1e-5)
def three_players(mu):
    groups = TrueSkill().rate([(Rating(m, 6.0),) for m in mu], ranks=[1, 0, 2], min_delta=1e-10)
    return np.array([rating.mu for (rating,) in groups])
