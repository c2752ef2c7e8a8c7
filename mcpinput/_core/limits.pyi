from typing import Final

from typing_extensions import disjoint_base

@disjoint_base
class Bounds:
    """The numbers of a Limits as the core sees them."""

    def __init__(self, *args: object, **kwargs: object) -> None: ...
    def _hold(
        self,
        depth: int,
        nodes: int,
        string_bytes: int,
        body_bytes: int,
        canonical_bytes: int,
        response_bytes: int,
    ) -> None: ...

DEFAULT: Final[Bounds]
__pyx_capi__: dict[str, object]  # C functions for the other units of the core
