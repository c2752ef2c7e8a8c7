"""The compiled core as Python sees it. Its sources are in ``_core/`` at the top of the repository."""

from __future__ import annotations

import importlib

try:
    importlib.import_module("mcpinput._core.parse")  # only to see that it is there
except ModuleNotFoundError as error:  # pragma: no cover - only in an unbuilt checkout
    if error.name != "mcpinput._core.parse":
        raise
    raise ImportError(
        "the compiled core of mcpinput is missing: this is a source checkout that was not built. "
        "Run 'pip install -e .' in it, or leave its folder to import an installed mcpinput "
        "(PYTHONSAFEPATH=1 keeps the current folder out of the way)."
    ) from error
