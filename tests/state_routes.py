"""Routes on which a function reads one and the same state twice, often once by name and once through a container."""

import collections
import functools
import types

import state_library
from state_library import Model, g

functions, by_name, fixed, group = [g], {"g": g}, (g,), {g}
ordered, nested, read_only = collections.OrderedDict(g=g), {"a": [g]}, types.MappingProxyType({"g": g})
model = Model()
models, classes, set_of_models, partials = [model], [Model], {model}, [functools.partial(g)]


class Slotted:
    __slots__ = ("f", "model")

    def __init__(self):
        self.f, self.model = g, model


class Holder:
    table = {"g": g}
    functions = (g,)

    def call(self, u):
        return self.table["g"](u) + self.functions[0](u)


slotted, holder = Slotted(), Holder()


def an_import(u):
    import state_library

    return state_library.g(u) + g(u)


def an_import_from(u):
    from state_library import g as other

    return other(u) + g(u)


def an_import_as(u):
    import state_library as library

    return library.g(u) + g(u)


def a_module(u):
    return state_library.g(u) + g(u)


def an_attribute_by_name(u):
    return getattr(state_library, "g")(u) + g(u)  # noqa: B009


def a_list(u):
    return functions[0](u) + g(u)


def a_list_alone(u):
    return functions[0](u)


def a_dict(u):
    return by_name["g"](u) + g(u)


def a_method_of_a_dict(u):
    return by_name.get("g")(u) + g(u)


def a_tuple(u):
    return fixed[0](u) + g(u)


def an_ordered_dict(u):
    return ordered["g"](u) + g(u)


def a_list_in_a_dict(u):
    return nested["a"][0](u) + g(u)


def a_set(u):
    return sum(f(u) for f in group) + g(u)


def a_mapping_proxy(u):
    return read_only["g"](u) + g(u)


def an_object_in_a_list(u):
    return models[0].h(u) + model.h(u)


def an_object_in_a_set(u):
    return sum(each.h(u) * each.rate for each in set_of_models) + model.h(u)


def a_class_in_a_list(u):
    return classes[0]().h(u) + Model().h(u)


def a_class_by_another_name(u):
    cls = Model
    return cls().h(u) + Model().h(u) + g(u)


def a_slot(u):
    return slotted.f(u) + g(u)


def an_object_in_a_slot(u):
    return slotted.model.h(u) + g(u) + model.h(u)


def containers_of_a_class(u):
    return holder.call(u) + g(u)


def a_partial(u):
    return partials[0](u) + g(u)


def iteration(u):
    return sum(f(u) for f in functions) + sum(f(u) for f in by_name.values()) + g(u)


def a_map(u):
    return sum(map(functions[0], [u, u])) + g(u)


def defaults(u, f=g, fs=functions):
    return f(u) + fs[0](u) + g(u)


def cells():
    held, one = [g], g

    def f(u):
        return held[0](u) + one(u) + g(u)

    return f


def a_subclass(u):
    class Sub(Model):
        def h(self, u):
            return super().h(u) + 1

    return Sub().h(u) + g(u)


def a_bound_method(u):
    return types.MethodType(Model.h, model)(u) + g(u)


ROUTES = {
    name: f() if f is cells else f
    for name, f in list(vars().items())
    if type(f) is types.FunctionType and f.__module__ == __name__
}
