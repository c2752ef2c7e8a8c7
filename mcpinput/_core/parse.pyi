from decimal import Decimal
from typing import Any

from typing_extensions import Buffer

from mcpinput._core.limits import Bounds

def parse(data: Buffer, *, limits: Bounds = ...) -> dict[str, Any] | list[Any] | str | int | Decimal | bool | None: ...
def parse_state(data: Buffer, *, limits: Bounds = ...) -> Any: ...

__pyx_capi__: dict[str, object]  # C functions for the other units of the core
