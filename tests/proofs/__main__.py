"""``python -m tests.proofs [NAME...] [--full]``: each proof in a process of its own, since a crash must be seen.

Without a name: those of the compiled core, which need nothing but the package. ``rotation`` needs ``mcpinput[server]``.
"""

from __future__ import annotations

import subprocess
import sys

CORE = ("memory", "flat")
ALL = (*CORE, "rotation")


def main(names: list[str], options: list[str]) -> int:
    """Runs proofs; answers 1 where one failed or crashed."""
    failed = [
        name
        for name in names
        if subprocess.run(
            [sys.executable, "-X", "faulthandler", "-m", f"tests.proofs.{name}", *options], check=False
        ).returncode
    ]
    for name in failed:
        print(f"{name} failed", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    options = [argument for argument in sys.argv[1:] if argument == "--full"]
    names = [argument for argument in sys.argv[1:] if argument != "--full"]
    if not set(names) <= set(ALL) or len(options) > 1:
        sys.exit(f"usage: python -m tests.proofs [{'] ['.join(ALL)}] [--full]")
    sys.exit(main(names or [*CORE], options))
