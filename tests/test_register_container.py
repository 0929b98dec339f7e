"""User classes as containers: arguments, results, directions, states, arguments of compiled functions."""

import dataclasses

import numpy as np
import pytest

import wengert as wg


class Body:
    """Like a dataclass, with a name that is not numeric."""

    def __init__(self, position, speed, name="m"):
        self.position, self.speed, self.name = position, speed, name

    def __eq__(self, other):
        same = [np.array_equal(a, b) for a, b in zip((self.position, self.speed), (other.position, other.speed))]
        return all(same) and self.name == other.name

    __hash__ = None


class Slotted:
    __slots__ = ("parts",)

    def __init__(self, parts):
        self.parts = parts


wg.register_container(Body, lambda b: ([b.position, b.speed], b.name), lambda parts, name: Body(*parts, name))
wg.register_container(Slotted, lambda s: s.parts, Slotted)

BODY = Body(np.array([1.0, 2.0]), 3.0, "sun")


def energy(b):
    return np.sum(b.position**2) * b.speed


def test_gradient_hessian_and_products_have_the_container_structure():
    assert wg.grad(energy, BODY) == Body(np.array([6.0, 12.0]), 5.0, "sun")
    y, pullback = wg.vjp(energy, BODY)
    assert y == 15.0
    assert pullback(2.0) == Body(np.array([12.0, 24.0]), 10.0, "sun")
    assert wg.jvp(energy, BODY, Body(np.zeros(2), 1.0))[1] == 5.0
    assert wg.hvp(energy, BODY, Body(np.zeros(2), 1.0)) == Body(np.array([2.0, 4.0]), 0.0, "sun")
    blocks = wg.hessian(energy, BODY)
    assert np.array_equal(blocks.position.speed, [2, 4])


def test_jacobian_nests_outputs_outside_and_inputs_inside():
    J = wg.jacobian(lambda b: {"moved": Body(b.position * b.speed, b.speed, "new")}, BODY)
    moved = J["moved"]
    assert moved.name == "new"
    assert np.array_equal(moved.position.position, 3 * np.eye(2))
    assert np.array_equal(moved.position.speed, [1, 2])
    assert moved.speed == Body(np.zeros(2), 1.0, "sun")


def test_registered_class_inside_containers_and_with_slots():
    found = wg.grad(lambda s: np.sum(s["all"].parts[1] ** 2) + energy(s["body"]), {
        "all": Slotted([np.ones(1), np.array([2.0])]), "body": BODY,
    })  # fmt: skip
    assert np.array_equal(found["all"].parts[1], [4])
    assert np.array_equal(found["all"].parts[0], [0])
    assert found["body"].speed == 5


def test_registered_class_may_be_a_loop_state():
    def step(b, h):
        return Body(b.position + h * b.speed * np.cos(b.position), 0.9 * b.speed, b.name)

    def end(b):
        found = wg.loop(step, b, 20, args=(0.1,))
        assert found.name == "sun"
        return energy(found)

    def plain(p):
        b = Body(p[:2], p[2])
        for _ in range(20):
            b = step(b, 0.1)
        return energy(b)

    got = wg.grad(end, BODY)
    np.testing.assert_allclose([*got.position, got.speed], wg.grad(plain, [1.0, 2.0, 3.0]), rtol=1e-13)
    with pytest.raises(ValueError, match="state"):
        wg.grad(lambda b: energy(wg.loop(lambda b: Body(b.position, b.speed, b.name + "x"), b, 3)), BODY)


def test_rest_of_a_container_is_part_of_the_cache_key():
    @wg.compile
    def f(b):
        return energy(b) * (2.0 if b.name == "two" else 1.0)

    assert f(BODY) == 15
    assert f(Body(BODY.position, 3.0, "two")) == 30
    assert f(Body(2 * BODY.position, 3.0, "two")) == 120
    assert wg.grad(f)(Body(BODY.position, 3.0, "two")).speed == 10
    assert f.paths == 2


@pytest.mark.parametrize(
    ("cls", "flatten", "message"),
    [
        ("Body", list, "expected a class"),
        (dict, list, "already has a structure of its own"),
        (np.ndarray, list, "already has a structure of its own"),
    ],
)
def test_unsupported_class_raises(cls, flatten, message):
    with pytest.raises(TypeError, match=message):
        wg.register_container(cls, flatten, lambda parts: None)


def test_flatten_without_a_list_raises():
    class Wrong:
        pass

    wg.register_container(Wrong, lambda w: 1.0, lambda parts: Wrong())
    with pytest.raises(TypeError, match="flatten must return a list of parts"):
        wg.grad(lambda w: 1.0, Wrong())
    wg.register_container(Wrong, lambda w: [1.0, 2.0], lambda parts, rest: Wrong())
    with pytest.raises(TypeError, match=r"flatten must return\s*\(parts, rest\)"):
        wg.grad(lambda w: 1.0, Wrong())


class _Once:
    """A descriptor that accepts a first assignment only."""

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, x, cls):
        return self if x is None else vars(x)[self.name]

    def __set__(self, x, value):
        if self.name in vars(x):
            raise AttributeError(f"cannot assign to {self.name}")
        vars(x)[self.name] = value


@dataclasses.dataclass
class _Rates:
    a: float = _Once()
    b: float = _Once()


def test_fields_whose_descriptor_accepts_one_assignment_are_restored():
    rates = _Rates(2.0, 3.0)
    found = wg.grad(lambda r: r.a**2 * r.b, rates)
    assert (found.a, found.b) == (12.0, 4.0) and (rates.a, rates.b) == (2.0, 3.0)
