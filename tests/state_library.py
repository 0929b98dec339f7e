"""A module with state, which the routes of `state_routes` read."""

count = 2.0


def g(u):
    return u * count


class Model:
    rate = 3.0

    def h(self, u):
        return u * count * self.rate
