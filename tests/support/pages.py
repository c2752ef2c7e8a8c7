"""What the pages show: the contents of their fenced blocks."""

from __future__ import annotations

import re


def blocks(page: str, language: str) -> list[str]:
    """Contents of the fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def program(page: str) -> str:
    """The Python blocks as one program, each on the lines where it stands in the page."""
    lines = page.splitlines()
    kept = [""] * len(lines)
    inside = False
    for index, line in enumerate(lines):
        if line.startswith("```"):
            inside = not inside and line == "```python"
        elif inside:
            kept[index] = line
    return "\n".join(kept) + "\n"
