"""Sealing of request state: keys, rings, live rotation, configuration, custom protectors."""

from mcpinput.protection.config import ProtectionConfig
from mcpinput.protection.context import ProtectionContext
from mcpinput.protection.key import ProtectionKey
from mcpinput.protection.keyfile import KeyFile
from mcpinput.protection.keyring import ProtectionKeyring, ProtectionKeyringBuilder, ProtectionKeyringFingerprint
from mcpinput.protection.manager import ProtectionKeyringManager, ProtectionKeyringSnapshot
from mcpinput.protection.protector import RequestStateProtector
from mcpinput.protection.sizes import SealedSize
from mcpinput.protection.watch import KeyFileWatcher

__all__ = [
    "KeyFile",
    "KeyFileWatcher",
    "ProtectionConfig",
    "ProtectionContext",
    "ProtectionKey",
    "ProtectionKeyring",
    "ProtectionKeyringBuilder",
    "ProtectionKeyringFingerprint",
    "ProtectionKeyringManager",
    "ProtectionKeyringSnapshot",
    "RequestStateProtector",
    "SealedSize",
]
