from mcpinput._core.limits import Bounds

def dump(value: object, *, limits: Bounds = ...) -> bytes: ...

__pyx_capi__: dict[str, object]  # C functions for the other units of the core
