"""What every object that holds, or leads to, key material has in common."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["Secret"]


class Secret:
    """Base of objects that cannot be copied or pickled and whose repr shows nothing of what they hold."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} (redacted)>"

    def __copy__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} leads to key material and cannot be copied")

    def __deepcopy__(self, memo: object) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} leads to key material and cannot be copied")

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} leads to key material and cannot be pickled")

    def __reduce__(self) -> NoReturn:
        self.__reduce_ex__(0)

    def __getstate__(self) -> NoReturn:  # that of object would hand out what the slots hold
        self.__reduce_ex__(0)
