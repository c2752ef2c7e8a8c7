from decimal import Decimal
from typing import Literal

from mcpinput._core.limits import Bounds

def canonical_bytes(value: object, *, floats: Literal["refuse", "repr"] = "refuse", limits: Bounds = ...) -> bytes: ...
def canonical_number(x: int | Decimal | float) -> str: ...

__pyx_capi__: dict[str, object]  # C functions for the other units of the core
