"""Checkpoint schedules: `simulate` executes each one, and counts equal dynamic programming and other packages."""

import ast
import itertools
import sys
import tracemalloc
from dataclasses import FrozenInstanceError, astuple
from functools import cache
from math import comb
from pathlib import Path

import checkpoint_schedules
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wengert.checkpointing import schedule as schedules
from wengert.checkpointing.schedule import (
    Advance,
    Discard,
    End,
    Free,
    Load,
    Online,
    Reverse,
    Store,
    Tape,
    binomial,
    blocks,
    plan,
    simulate,
    two_level,
    uniform,
)

# ---- references ----------------------------------------------------------------------------------


def binomial_formula(steps, slots):
    """Minimum of extra steps with one step on the tape: r l - C(s + r, s + 1), Griewank and Walther (2008), ch. 12."""
    r = next(r for r in itertools.count() if comb(slots + r, slots) >= steps)
    return r * steps - comb(slots + r, slots + 1)


def fewest_with_slots(steps, slots):
    """Return the same for all smaller numbers, by dynamic programming."""
    t = np.zeros((slots + 1, steps + 1), int)
    t[0, 2:] = 10**9
    for s in range(1, slots + 1):
        for n in range(2, steps + 1):
            t[s, n] = np.min(np.arange(1, n) + t[s, 1:n] + t[s - 1, n - 1 : 0 : -1])
    return t


def fewest_in_bytes(steps, memory, state, tape):
    """Return the minimum of extra steps in `memory` bytes, for each number of steps, by dynamic programming.

    A range of steps is taped, or its first step is taped and the tape kept, or its first state is stored.
    """
    t = np.full((memory + 1, steps + 1), 10**9)
    for space, row in enumerate(t):
        row[: space // tape + 1] = 0
        for n in range(space // tape + 1, steps + 1):
            if space >= tape:
                row[n] = t[space - tape, n - 1]
            if space >= state:
                row[n] = min(
                    row[n], np.min(np.arange(1, n) + row[1:n] + t[space - state, n - 1 : 0 : -1], initial=10**9)
                )
    return t[memory]


def tape_capacities(memory, state, tape):
    """Return how many steps can be taped while 0, 1, ... states are stored."""
    return [(memory - kept * state) // tape for kept in range((memory - tape) // state + 1)]


def oracle(schedule, steps):
    """Return steps run, and states written to and read from disk, by a schedule of checkpoint_schedules."""
    on_disk = checkpoint_schedules.StorageType.DISK
    run = written = read = 0
    for action in schedule:
        match type(action).__name__:
            case "Forward":
                run += min(action.n1, steps) - action.n0
                written += action.write_ics and action.storage == on_disk
            case "Copy" | "Move":
                read += action.from_storage == on_disk
            case "EndReverse":
                return run, written, read


class HandWritten(list):
    """Hand-written actions, with the attributes that `simulate` reads from a schedule."""

    def __init__(self, actions, n, ram=1, disk=0):
        super().__init__(actions)
        self.n, self.ram, self.disk = n, ram, disk


# ---- counts --------------------------------------------------------------------------------------


def test_binomial_counts_are_optimal_for_all_small_numbers_of_steps_and_slots():
    @cache
    def extra(steps, free, price):
        """Return the extra steps of a range by the decisions of `tree`, which depend on nothing else."""
        if steps == 1:
            return 0
        right = tree.right(steps, tree.slots - free, price)
        left = steps - right
        assert left > 0
        assert right > 0
        return left + extra(right, free - 1, price) + extra(left, free, price - 1)

    fewest = fewest_with_slots(399, 11)
    for slots, steps in itertools.product(range(1, 12), range(1, 400)):
        tree = binomial(steps, slots)
        found = extra(steps, tree.slots, tree.price)
        assert found == tree.extra_steps == fewest[slots, steps] == binomial_formula(steps, slots), (steps, slots)


@pytest.mark.parametrize("slots", range(1, 8))
def test_binomial_schedules_execute_their_predicted_steps(slots):
    for steps in range(45):
        done = simulate(schedule := binomial(steps, slots))
        assert (done.advanced, done.taped) == (schedule.extra_steps, steps)
        assert done.peak_ram == schedule.ram <= slots
        assert done.peak_tape == min(steps, 1)


@pytest.mark.parametrize(("steps", "slots"), [(1, 1), (10, 3), (50, 3), (100, 5), (100, 10), (300, 4), (150, 30)])
def test_binomial_counts_equal_revolve(steps, slots):
    run = simulate(binomial(steps, slots)).advanced + steps
    assert run == oracle(checkpoint_schedules.Revolve(steps, slots), steps)[0]
    assert run == oracle(checkpoint_schedules.MultistageCheckpointSchedule(steps, slots, 0), steps)[0]


@pytest.mark.filterwarnings("ignore:Numba not available")
@pytest.mark.parametrize(("steps", "slots"), [(10, 3), (60, 2), (60, 12), (150, 5)])
def test_tapes_as_large_as_states_give_mixed_schedule(steps, slots):
    """Maddison's schedule counts states or tapes as units, and one more tape for the step being swept."""
    schedule = blocks(steps, slots + 1, 1, 1)
    assert schedule.extra_steps + steps == oracle(checkpoint_schedules.MixedCheckpointSchedule(steps, slots), steps)[0]


@pytest.mark.parametrize(
    ("steps", "memory", "tape", "extra"),
    [
        (1000, 11, 1, 2921),  # slots alone 3636, Maddison's mixed schedule 2921, equal blocks 3340
        (1000, 20, 1, 1853),  # slots alone 2769, equal blocks 2160
        (1000, 20, 5, 2816),  # 3031, 3031
        (10_000, 100, 1, 15_003),  # 24849, 17400
        (10_000, 100, 5, 19_124),  # 25247, 19480
        (10_000, 100, 20, 23_613),  # 26597, 26094
        (10_000, 1000, 5, 9811),  # 19003, 9828
        (100_000, 1000, 5, 100_299),  # 199003, 149800
    ],
)
def test_sharing_memory_between_states_and_tapes_beats_equal_blocks(steps, memory, tape, extra):
    """Memory is in units of a state; comments give the best number of slots and the best size of equal blocks."""
    schedule = blocks(steps, memory, 1, tape)
    assert schedule.extra_steps == extra
    assert schedule.memory(1, tape) <= memory
    if steps < 10_000:
        assert simulate(schedule).advanced == extra


@pytest.mark.parametrize(
    ("memory", "state", "tape", "is_exact"),
    [
        (7, 1, 1, True),
        (11, 1, 1, True),
        (12, 1, 2, True),
        (33, 1, 7, True),
        (20, 2, 1, True),
        (20, 5, 1, True),
        (30, 4, 1, True),
        (26, 5, 3, False),
        (23, 10, 1, False),
        (33, 9, 2, False),
        (37, 3, 4, False),
    ],
)
def test_block_counts_exceed_optimum_by_at_most_a_capacity_decrease(memory, state, tape, is_exact):
    capacity = tape_capacities(memory, state, tape)
    most = 0 if is_exact else max(a - b for a, b in itertools.pairwise(capacity))
    fewest = fewest_in_bytes(120, memory, state, tape)
    for steps in range(1, 121):
        schedule = blocks(steps, memory, state, tape)
        assert 0 <= schedule.extra_steps - fewest[steps] <= most, steps


@pytest.mark.parametrize(
    ("steps", "memory", "state", "tape", "disk"),
    [(12, 100, 3, 7, 0), (30, 100, 3, 7, 0), (1000, 20, 1, 1, 0), (40, 150, 10, 30, 9), (400, 150, 10, 30, 99)],
)
def test_predicted_memory_equals_used_memory(steps, memory, state, tape, disk):
    schedule = blocks(steps, memory, state, tape, disk=disk)
    assert schedule.memory(state, tape) == simulate(schedule, state, tape).peak_bytes <= memory


def test_uniform_schedule_with_few_states():
    schedule = uniform(100, 7)
    done = simulate(schedule)
    assert [a.step for a in schedule if isinstance(a, Store)] == [0, 15, 30, 45, 60, 75]
    assert (done.advanced, done.peak_ram, done.peak_tape) == (85, 6, 15)
    assert schedule.extra_steps == 85
    assert schedule.memory(1000, 10) == 6150


# ---- disk ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("steps", "ram", "disk"), [(10, 2, 1), (60, 3, 3), (100, 2, 5), (150, 6, 2), (300, 1, 4)])
def test_least_used_states_are_on_disk(steps, ram, disk):
    schedule = two_level(steps, ram, disk)
    done = simulate(schedule)
    assert done.advanced == binomial_formula(steps, ram + disk)
    assert (done.peak_ram, done.peak_disk) == (schedule.ram, schedule.disk) == (ram, disk)
    # any other choice of tree levels on disk moves at least as much data
    moved = dict.fromkeys(range(ram + disk), 0)
    for action in binomial(steps, ram + disk):
        if isinstance(action, Store | Load):
            moved[action.slot] += 1
    assert done.stores + done.loads == sum(sorted(moved.values())[:disk])
    theirs = checkpoint_schedules.MultistageCheckpointSchedule(steps, ram, disk)
    assert done.stores + done.loads <= sum(oracle(theirs, steps)[1:])


@pytest.mark.parametrize("steps", [6, 40, 400])
def test_spill_folder_makes_every_step_run_at_most_twice(steps):
    sizes = {"state_bytes": 10, "tape_bytes": 30}
    schedule = plan(steps, memory=150, spill=True, **sizes)
    done = simulate(schedule, **sizes)
    assert done.advanced == schedule.extra_steps < steps
    assert done.stores == done.loads == done.peak_disk == schedule.disk
    assert done.peak_bytes <= schedule.peak_bytes <= 150
    assert (schedule.disk > 0) == (plan(steps, memory=150, **sizes).extra_steps >= steps)
    if schedule.disk:
        less = plan(steps, memory=150, spill=10 * (schedule.disk - 1), **sizes)
        assert less.disk == schedule.disk - 1
        assert simulate(less, **sizes).advanced == less.extra_steps >= steps


# ---- one step in closed form, all steps in little memory ------------------------------------------


@pytest.mark.parametrize("slots", [1, 10, 1000, 999_999])
def test_schedule_of_very_many_steps_starts_without_a_loop_over_them(slots):
    steps = 10**12  # a loop over all of them would not end
    schedule = binomial(steps, slots)
    assert schedule.extra_steps >= steps - 1
    assert next(iter(schedule)) == Store(0, 0)


def test_iteration_needs_memory_for_slots_only():
    tracemalloc.start()
    try:
        for _ in binomial(20_000, 10):
            pass
        few = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        for _ in binomial(5_000, 4_999):
            pass
        many = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert few < 100_000  # a table of all steps would take at least 160 kB; other threads allocate some memory
    assert many < 5_000 * 300


def test_schedules_use_integers_and_import_no_other_module():
    for module in ("actions", "online", "schedule", "tree"):
        tree = ast.parse((Path(schedules.__file__).parent / f"{module}.py").read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                assert {alias.name for alias in node.names} <= sys.stdlib_module_names
            if isinstance(node, ast.ImportFrom):
                assert node.level or node.module in sys.stdlib_module_names
    for schedule in (binomial(9, 3), blocks(30, 20, 3, 2), plan(30, memory=9, spill=True, state_bytes=3, tape_bytes=2)):
        assert {type(field) for action in schedule for field in astuple(action)} <= {int, bool}


# ---- runs of unknown length ----------------------------------------------------------------------


def extra_of(done, steps):
    return done.advanced + done.taped - steps


@pytest.mark.parametrize("slots", [1, 2, 3, 5, 10, 30])
@pytest.mark.parametrize("steps", [1, 2, 9, 10, 33, 100, 300, 1000])
def test_online_schedules_are_close_to_optimal_offline_schedules(slots, steps):
    schedule = Online(slots)
    done = simulate(schedule, end=steps)
    assert done.peak_ram <= slots
    assert done.advanced + done.taped <= 1 + 1.34 * (steps + binomial_formula(steps, slots))
    assert simulate(schedule) == done  # the schedule knows the end by now


@pytest.mark.parametrize(("memory", "steps"), [(100, 50), (100, 300), (100, 3000), (1000, 3000), (20, 1000)])
def test_online_schedules_share_memory(memory, steps):
    sizes = {"state_bytes": 1, "tape_bytes": 5}
    schedule = plan(None, memory=memory, **sizes)
    done = simulate(schedule, **sizes, end=steps)
    assert done.peak_bytes <= schedule.peak_bytes == memory
    assert extra_of(done, steps) <= max(steps, 1.25 * plan(steps, memory=memory, **sizes).extra_steps)


def test_short_run_of_unknown_length_is_taped_as_it_runs():
    schedule = plan(None, memory=1000, state_bytes=1, tape_bytes=5)
    done = simulate(schedule, end=80)
    assert extra_of(done, 80) == 0
    assert list(schedule) == [Store(0, 0), Tape(0, 80), Free(0), Reverse(0, 80), End()]


def test_states_of_unknown_run_spill_to_disk_before_any_is_dropped():
    schedule = plan(None, memory=100, spill=True, state_bytes=1, tape_bytes=5)
    done = simulate(schedule, 1, 5, end=5000)
    assert done.stores == done.loads == done.peak_disk == 450  # gaps of 10 steps, 50 states in memory
    assert done.advanced == 5000 - 10
    assert done.peak_bytes <= 100


def test_thinning_keeps_every_second_state():
    schedule = Online(4)
    actions = list(itertools.takewhile(lambda a: not isinstance(a, Load), ended(schedule, 10)))
    assert actions == [
        *(Store(0, 0), Tape(0, 1), Discard()),
        *(Store(1, 1), Advance(1, 2), Store(2, 2), Advance(2, 3), Store(3, 3), Advance(3, 4)),
        *(Free(1), Free(3), Store(4, 1), Advance(4, 6), Store(6, 3), Advance(6, 8)),
        *(Free(2), Free(3), Store(8, 2), Advance(8, 12)),
    ]


def ended(schedule, n):
    """Return the actions of a schedule that is notified of its end when it comes."""
    for action in schedule:
        yield action
        if schedule.n is None and isinstance(action, Advance | Tape) and action.last >= n:
            schedule.finalize(n)


def test_end_may_come_at_any_step():
    for steps in range(40):
        schedule = Online(3)
        simulate(schedule, end=steps)
        known = Online(3)
        known.finalize(steps)
        assert list(known) == list(schedule)
        assert simulate(known) == simulate(schedule)


@pytest.mark.parametrize("budget", [{"checkpoints": 3}, {"memory": 40}, {"checkpoints": 1, "spill": 30}])
def test_end_may_be_noticed_at_the_next_step(budget):
    for steps in range(60):
        schedule = plan(None, **budget, state_bytes=3, tape_bytes=5)
        actions = []
        for action in schedule:
            if schedule.n is None and isinstance(action, Advance | Tape) and action.last > steps:
                schedule.finalize(steps)
                if action.first == steps:
                    continue  # nothing of it is run
                action = type(action)(action.first, steps)
            actions.append(action)
        simulate(HandWritten(actions, steps, schedule.ram, schedule.disk))


def test_finalize_accepts_one_end_only():
    schedule = Online(3)
    schedule.finalize(7)
    schedule.finalize(7)
    with pytest.raises(ValueError, match=r"^the number of steps is 7 already, and cannot be set to 8$"):
        schedule.finalize(8)


# ---- any schedule --------------------------------------------------------------------------------


@settings(deadline=None, max_examples=200, derandomize=True)
@given(st.data())
def test_every_plan_stays_within_its_budget(data):
    draw = lambda low, high: data.draw(st.integers(low, high))
    state, tape, work = draw(1, 12), draw(1, 12), draw(0, 5)
    memory = work + state + tape + draw(0, 60)
    steps, is_known = draw(0, 120), data.draw(st.booleans())
    checkpoints = data.draw(st.none() | st.integers(1, 9))
    spill = data.draw(st.none() | st.just(True) | st.integers(0, 100))
    if checkpoints and data.draw(st.booleans()):
        memory = None
    schedule = plan(
        steps if is_known else None, checkpoints=checkpoints, memory=memory, spill=spill,
        state_bytes=state, tape_bytes=tape, work_bytes=work,
    )  # fmt: skip
    done = simulate(schedule, state, tape, end=steps)
    assert done.peak_ram <= min(schedule.ram, checkpoints or schedule.ram)
    assert spill is True or done.peak_disk * state <= (spill or 0)
    assert done.peak_bytes + work <= schedule.peak_bytes
    assert memory is None or schedule.peak_bytes <= memory
    if is_known:
        assert (done.advanced, done.taped) == (schedule.extra_steps, steps)
        assert (done.peak_ram, done.peak_disk) == (schedule.ram, schedule.disk)
        assert done.peak_tape <= schedule.block
        assert schedule.factor == ((steps + done.advanced) / steps if steps else 1)


@settings(deadline=None, max_examples=50, derandomize=True)
@given(st.integers(1, 2000), st.integers(1, 30), st.integers(1, 20))
def test_counts_of_schedules_too_long_for_dynamic_programming(steps, slots, block):
    slots = max(slots, 3)
    schedule = schedules.Binomial(steps, slots, block=block)
    assert simulate(schedule).advanced == schedule.extra_steps
    # equal blocks count as the steps of a shorter schedule
    assert schedule.extra_steps <= block * binomial_formula(-(-steps // block), slots)


MORE = {
    "binomial": binomial(12, 3),
    "uniform": uniform(12, 4),
    "disk": two_level(12, 2, 1),
    "blocks": blocks(25, 9, 2, 1),
}


@pytest.mark.parametrize("name", MORE)
def test_omitted_or_repeated_action_raises(name):
    schedule = MORE[name]
    actions = list(schedule)
    simulate(HandWritten(actions, schedule.n, schedule.ram, schedule.disk))
    for i in range(len(actions)):
        for changed in (actions[:i] + actions[i + 1 :], actions[: i + 1] + actions[i:]):
            if isinstance(actions[i], Load) and actions[i].keep and len(changed) > len(actions):
                continue  # loading twice is merely useless
            with pytest.raises(ValueError, match=r"."):
                simulate(HandWritten(changed, schedule.n, schedule.ram, schedule.disk))


STORE, ADVANCE, TAPE = Store(0, 0), Advance(0, 1), Tape(1, 2)
REFUSED = [
    ([Load(0, 0, False)], "Load(step=0, slot=0, keep=False): the slot holds state None"),
    ([STORE, Load(1, 0, True)], "Load(step=1, slot=0, keep=True): the slot holds state 0"),
    ([STORE, STORE], "Store(step=0, slot=0): the slot holds state 0"),
    ([Store(0, 1)], "Store(step=0, slot=1): there is no such slot"),
    ([Store(0, -1)], "Store(step=0, slot=-1): there is no such slot"),
    ([Store(1, 0)], "Store(step=1, slot=0): the current state is 0"),
    ([Free(0)], "Free(slot=0): the slot is empty"),
    ([Advance(1, 2)], "Advance(first=1, last=2): the current state is 0"),
    ([Advance(0, 0)], "Advance(first=0, last=0): no step is run"),
    ([Advance(0, 3)], "Advance(first=0, last=3): the schedule has 2 steps"),
    ([Tape(1, 2)], "Tape(first=1, last=2): the current state is 0"),
    ([Tape(0, 1), Advance(1, 2)], "Advance(first=1, last=2): steps (0, 1) are on the tape"),
    ([Tape(0, 1), Tape(1, 2)], "Tape(first=1, last=2): steps (0, 1) are on the tape"),
    ([Tape(0, 1), Store(1, 0)], "Store(step=1, slot=0): steps (0, 1) are on the tape"),
    ([STORE, Tape(0, 1), Load(0, 0, True)], "Load(step=0, slot=0, keep=True): steps (0, 1) are on the tape"),
    ([Tape(0, 1), Reverse(0, 1)], "Reverse(first=0, last=1): 2 steps left to sweep"),
    ([Tape(0, 2), Reverse(1, 2)], "Reverse(first=1, last=2): steps (0, 2) are on the tape"),
    ([Reverse(0, 2)], "Reverse(first=0, last=2): steps None are on the tape"),
    ([ADVANCE, TAPE, Reverse(1, 2), TAPE], "Tape(first=1, last=2): the current state is None"),
    ([Discard()], "Discard(): nothing is on the tape"),
    ([ADVANCE, TAPE, Reverse(1, 2), End()], "End(): 1 step left to sweep"),
    ([STORE, Tape(0, 2), Reverse(0, 2), End()], "End(): states [0] are still stored"),
    ([Tape(0, 2), Reverse(0, 2), End(), End()], "End(): after the end"),
    ([Tape(0, 2), Reverse(0, 2)], "Reverse(first=0, last=2): the last action is not End"),
    (["stop"], "stop: not an action of a schedule"),
]


@pytest.mark.parametrize(("actions", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_simulate_rejects_invalid_schedules(actions, message):
    with pytest.raises(ValueError) as refused:  # noqa: PT011  (compared word for word)
        simulate(HandWritten(actions, 2))
    assert str(refused.value) == message


def test_simulate_counts_the_cost():
    assert simulate(two_level(4, 2, 1), state_bytes=10, tape_bytes=1) == schedules.Counts(
        advanced=3, taped=4, stores=1, loads=1, peak_ram=2, peak_disk=1, peak_tape=1, peak_bytes=21
    )


# ---- budgets, repr -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "budget", "message"),
    [
        (10, {}, "a schedule needs checkpoints, memory, or both"),
        (10, {"checkpoints": 0}, "10 steps need at least one checkpoint, since a tape holds only 1 step"),
        (9, {"checkpoints": 0, "memory": 99}, "9 steps need at least one checkpoint, since a tape holds only 3 steps"),
        (None, {"checkpoints": 0}, "a run of unknown length needs at least one checkpoint"),
        *(
            (n, budget, f"memory of {budget['memory']} bytes is too small: a state takes 8, the tape of a step 30, and "
             f"work buffers 5; give at least {least}")
            for n, budget, least in [
                (10, {"memory": 42}, 43),
                (None, {"memory": 42}, 43),
                (1, {"memory": 34}, 35),
                (10, {"memory": 34, "spill": True}, 35),
            ]
        ),
    ],
)  # fmt: skip
def test_too_small_budget_raises(n, budget, message):
    with pytest.raises(ValueError) as raised:  # noqa: PT011  (compared word for word)
        plan(n, **budget, state_bytes=8, tape_bytes=30, work_bytes=5)
    assert str(raised.value) == message
    if "give at least" in message:
        enough = {**budget, "memory": int(message.split()[-1])}
        simulate(plan(n, **enough, state_bytes=8, tape_bytes=30, work_bytes=5), 8, 30, end=10)


def test_run_that_fits_is_taped_at_once():
    schedule = plan(10, memory=400, state_bytes=8, tape_bytes=30)
    assert list(schedule) == [Tape(0, 10), Reverse(0, 10), End()]
    assert (schedule.extra_steps, schedule.factor, schedule.slots, schedule.peak_bytes) == (0, 1.0, 0, 300)
    unused = schedules.Blocks(3, [5, 5], disk=1)
    assert (unused.ram, unused.disk) == (0, 0)
    assert list(plan(0, memory=300, state_bytes=8, tape_bytes=30)) == [End()]


@pytest.mark.parametrize(
    ("schedule", "text"),
    [
        (
            binomial(1000, 10),
            "<Binomial: 1000 steps, 10 states in memory, 1 step on a tape, 3636 extra steps (factor 4.64)>",
        ),
        (
            two_level(9, 2, 1),
            "<Binomial: 9 steps, 2 states in memory, 1 on disk, 1 step on a tape, 13 extra steps (factor 2.44)>",
        ),
        (
            plan(1000, memory=50_000_000, state_bytes=2_000_000, tape_bytes=1_000_000),
            "<Blocks: 1000 steps, 24 states in memory, 50 steps on a tape, 1364 extra steps (factor 2.36), "
            "at most 50 MB>",
        ),
        (Online(5), "<Online: ? steps, 5 states in memory, 1 step on a tape>"),
        (
            plan(None, memory=900, spill=True, state_bytes=8, tape_bytes=30),
            "<Online: ? steps, 108 states in memory, any number on disk, 30 steps on a tape, at most 900 bytes>",
        ),
    ],
)
def test_repr_of_schedules_shows_their_options(schedule, text):
    assert repr(schedule) == text


def test_actions_are_frozen_values():
    assert Advance(1, 2) == Advance(1, 2) != Tape(1, 2)
    assert repr(Load(3, 1, False)) == "Load(step=3, slot=1, keep=False)"
    assert Store(step=4, slot=2) == Store(4, 2)
    assert len({Free(1), Free(1), Free(2), End(), End(), Discard()}) == 4
    with pytest.raises(FrozenInstanceError):
        Advance(1, 2).first = 0
    with pytest.raises(TypeError):
        Advance(1)
