"""Vectors of the pinned formats, as data: each has a ``desc`` that says what it shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def load(name: str) -> Any:
    """Content of the vector file ``name``.json. Numbers that matter stand in strings there."""
    return json.loads(Path(__file__).with_name(f"{name}.json").read_bytes())
