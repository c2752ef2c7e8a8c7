"""The ground that immutable values with named factories stand on.

Rules

- Calling the class raises TypeError that names the factories; they make the value through ``_new``.
- A value never changes, so a copy of it is itself. It is not pickled: what crosses a process is JSON.
"""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn, Self

__all__ = ["FactoryValue"]


class FactoryValue:
    """Base of the immutable values that only their factories make."""

    __slots__ = ()

    _factories: ClassVar[str]
    """How to get one, for the error message."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        raise TypeError(f"{cls.__name__} has no public constructor; use {cls._factories}")

    @classmethod
    def _new(cls, **members: Any) -> Self:
        self = object.__new__(cls)
        for name, value in members.items():
            object.__setattr__(self, name, value)
        return self

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} cannot be changed")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} cannot be changed")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(f"{type(self).__name__} cannot be pickled")
