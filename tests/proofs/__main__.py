"""``python -m tests.proofs [--full]``: each proof in a process of its own, since a crash must be seen as a failure."""

from __future__ import annotations

import subprocess
import sys

PROOFS = ("tests.proofs.memory", "tests.proofs.flat")


def main(options: list[str]) -> int:
    """Runs every proof; answers 1 where one failed or crashed."""
    failed = [
        name
        for name in PROOFS
        if subprocess.run([sys.executable, "-X", "faulthandler", "-m", name, *options], check=False).returncode
    ]
    for name in failed:
        print(f"{name} failed", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["--full"]):
        sys.exit("usage: python -m tests.proofs [--full]")
    sys.exit(main(sys.argv[1:]))
