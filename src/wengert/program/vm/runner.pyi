"""Type stubs of `runner`, the base class of programs."""

from typing import Any, TypeVar

from numpy.typing import NDArray

T = TypeVar("T")

class Vectored: ...

class Runner(Vectored):
    def __call__(self, *args: Any, out: NDArray[Any] | None = None, **kwargs: Any) -> Any: ...

def vectored(kind: type[T]) -> type[T]: ...
