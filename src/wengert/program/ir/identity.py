"""Hashable keys that compare objects by identity."""

import types


class Same:
    """Compares equal only to a key of the same object; bound methods compare by function and instance."""

    __slots__ = ("parts", "value")

    def __init__(self, value):
        self.value = value
        self.parts = (value.__func__, value.__self__) if type(value) is types.MethodType else (value,)

    def __eq__(self, other):
        return (
            type(other) is Same
            and len(self.parts) == len(other.parts)
            and all(mine is its for mine, its in zip(self.parts, other.parts))
        )

    def __hash__(self):
        return hash(tuple(map(id, self.parts)))
