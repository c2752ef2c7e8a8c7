"""Record stores: where spent tokens are kept."""

from mcpinput.stores.base import Record, RecordStore
from mcpinput.stores.memory import MemoryStore
from mcpinput.stores.sqlite import SqliteStore

__all__ = ["MemoryStore", "Record", "RecordStore", "SqliteStore"]
