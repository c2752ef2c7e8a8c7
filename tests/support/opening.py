"""Tokens that a manager's ring opens, as a server does it."""

from __future__ import annotations

import os
from contextlib import suppress

from mcpinput import ProtectionConfig, ProtectionKey, ProtectionKeyringManager, RequestStateProtectionError
from mcpinput.protection.context import Bindings
from mcpinput.protection.protector import seal_token
from mcpinput.protection.state import Call, StateBoundary


def open_with(manager: ProtectionKeyringManager, key: ProtectionKey, seconds: float = 1000.5) -> None:
    """Has a server that shares the manager meet a token under a key, at this time. It opens if the key is in the ring,
    and is refused for what is in it, or for its key."""
    boundary = StateBoundary(ProtectionConfig(keyring=manager.keyring, clock=lambda: seconds))
    boundary.keyring_manager = manager  # in the place of its own, which starts from the same ring
    call = Call(Bindings("orders", "/mcp", "2026-07-28", "tools/call"), 2, lambda: bytes(32))
    with suppress(RequestStateProtectionError):
        boundary.open_now(seal_token(key, os.urandom(24), b"no payload"), call, boundary.default_terms)
