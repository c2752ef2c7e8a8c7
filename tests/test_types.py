"""The types: mypy in strict mode over all that people read or import, and the stubs against the built core."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.support.pages import program

ROOT: Final = Path(__file__).resolve().parent.parent


def run(*arguments: str) -> tuple[int, str]:
    """Exit status and output of a Python module run in the checkout."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_mypy_strict_finds_nothing(tmp_path: Path) -> None:
    pages = []
    for page in ("README.md", "docs/guide.md"):
        pages.append(tmp_path / f"{Path(page).stem.lower()}_program.py")
        pages[-1].write_text(program((ROOT / page).read_text(encoding="utf-8")), encoding="utf-8")
    status, output = run("mypy", "--strict", "mcpinput", "benchmarks", "examples", "tests/typing", *map(str, pages))
    assert status == 0, output


def test_stubs_say_what_the_built_core_does() -> None:
    modules = sorted(f"mcpinput._core.{stub.stem}" for stub in (ROOT / "mcpinput" / "_core").glob("*.pyi"))
    assert modules != []
    status, output = run("mypy.stubtest", *modules)
    assert status == 0, output
