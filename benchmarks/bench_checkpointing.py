"""Checkpoint schedules: to plan them, to go through them, and what they come to."""

from collections import deque

from wengert.checkpointing.schedule import binomial, plan

MANY = 1_000_000


class Schedules:
    """A million steps in closed form."""

    params = [10, 100, 1000]
    param_names = ["slots"]

    def setup(self, slots):
        self.schedule = binomial(MANY, slots)

    def time_count_and_first_action(self, slots):
        schedule = binomial(MANY, slots)
        return schedule.extra_steps, next(iter(schedule))

    def time_all_actions(self, slots):
        deque(self.schedule, maxlen=0)


class Plans:
    """Bytes shared by states and tapes, in units of a state."""

    params = [[(1000, 20, 1), (10_000, 1000, 5), (100_000, 1000, 5), (1_000_000, 20_000, 5)]]
    param_names = ["steps, memory, tape"]

    def plan(self, case):
        steps, memory, tape = case
        return plan(steps, memory=memory, state_bytes=1, tape_bytes=tape)

    def time_plan(self, case):
        self.plan(case)

    def track_factor(self, case):
        return self.plan(case).factor

    track_factor.unit = "steps run / steps"
