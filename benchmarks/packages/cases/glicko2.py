"""Ratings of players after a period of games."""

import numpy as np
from glicko2 import Player

from benchmarks.packages.cases import Cases

PACKAGE = "glicko2"
cases = Cases()


@cases([1500.0, 200.0])
def rating(x):
    player = Player(rating=x[0], rd=x[1])
    player.update_player([1400.0, 1550.0, 1700.0], [30.0, 100.0, 300.0], [1, 0, 0])
    return player.rating


@cases([1500.0, 200.0])
def deviation(x):
    player = Player(rating=x[0], rd=x[1])
    player.update_player([1400.0, 1550.0, 1700.0], [30.0, 100.0, 300.0], [1, 0, 0])
    return player.rd


@cases([1400.0, 1550.0, 1700.0, 30.0, 100.0, 300.0])
def rating_by_opponents(x):
    player = Player(rating=1500, rd=200)
    player.update_player(list(x[:3]), list(x[3:]), [1, 0, 0])
    return player.rating


@cases([1500.0, 200.0, 0.06])
def pause(x):
    player = Player(rating=x[0], rd=x[1], vol=x[2])
    player.did_not_compete()
    return np.array([player.rating, player.rd, player.vol])


@cases([1500.0, 200.0, 1650.0, 120.0])
def two_periods(x):
    player = Player(rating=x[0], rd=x[1])
    player.update_player([x[2]], [x[3]], [1])
    player.update_player([x[2] + 20], [x[3]], [0])
    return player.rating
