"""``python -m benchmarks [json|state|all] [--quick] [--gate] [--json FILE]``: prints ratios, writes them where asked.

It fails for being slow only with ``--gate``, and only where not even half of a target is reached.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from benchmarks import json as json_lines
from benchmarks import peers
from benchmarks import state as state_lines
from benchmarks.measure import FULL, QUICK, Effort, Line

GROUPS: Final[dict[str, Callable[[Effort], Iterator[Line]]]] = {
    "json": json_lines.lines,
    "state": state_lines.lines,
}
_ROW: Final = "{:<48} {:>9} {:>9}  {:<2} {:<27} {:>6}  {:>6}  {}"


def _row(line: Line) -> str:
    met = {None: "", True: "met", False: "NOT MET"}[line.met]
    target = "" if line.target is None else _ratio(line.target)
    return _ROW.format(
        line.case, f"{line.ours:.2f}", f"{line.peer:.2f}", line.unit, line.peer_name, _ratio(line.ratio), target, met
    ).rstrip()


def _ratio(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio >= 0.2 else f"{ratio:.3f}"


def main() -> int:
    """Runs the groups that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Ratios against peers, in one run.")
    parser.add_argument("group", nargs="?", choices=[*GROUPS, "all"], default="all")
    parser.add_argument("--quick", action="store_true", help="short turns: for a look, not for a claim")
    parser.add_argument("--gate", action="store_true", help="fail where less than half of a target is reached")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the lines to FILE")
    options = parser.parse_args()
    effort = QUICK if options.quick else FULL

    print(f"{platform.python_implementation()} {platform.python_version()} on {platform.machine()}, "
          f"{effort.repetitions} turns of {effort.seconds * 1000:.0f} ms; ratio = peer / ours")  # fmt: skip
    for name in peers.NAMES:
        if peers.installed(name) is None:
            print(f"{name} is not installed (pip install -e '.[bench]'): lines against it are left out")
    print(_ROW.format("case", "ours", "peer", "", "peer name", "ratio", "target", ""))
    lines: list[Line] = []
    for name, group in GROUPS.items():
        if options.group not in (name, "all"):
            continue
        for line in group(effort):
            lines.append(line)
            print(_row(line), flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps([line.as_json() for line in lines], indent=1) + "\n")
    missing = [name for name in peers.NAMES if options.gate and peers.installed(name) is None]
    if missing:
        print(f"nothing was measured against {', '.join(missing)}", file=sys.stderr)
    slow = [line for line in lines if options.gate and line.by_far_missed]
    for line in slow:
        print(f"less than half of the target: {_row(line)}", file=sys.stderr)
    return 1 if slow or missing else 0


if __name__ == "__main__":
    sys.exit(main())
