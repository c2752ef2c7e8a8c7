"""Coverage-guided fuzzing of the compiled core: ``python -m tests.fuzz [--seconds N] [TARGET ...]`` in a checkout.

It builds the core by clang with coverage and sanitizers (``MCPINPUT_BUILD=fuzz``), then runs each target for so many
seconds in a process of its own, as many at once as there are processors, and prints a line for each. What a target
finds is written to ``build/fuzz/findings``, what it has learnt to ``build/fuzz/corpus``, from where the next run goes
on. ``--merge`` takes into ``tests/fuzz/corpus`` the inputs learnt that reach code which nothing there does.

It needs clang and the extra ``fuzz``. It ends with 1 where anything was found, and with 2 where it cannot run.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CORPUS: Final = Path(__file__).resolve().parent / "corpus"
TARGETS: Final = sorted(folder.name for folder in CORPUS.iterdir())  # one for each; importing them needs a built core
ROOT: Final = Path(__file__).resolve().parent.parent.parent
BUILD: Final = ROOT / "build" / "fuzz"
FINDINGS: Final = BUILD / "findings"
LEARNT: Final = BUILD / "corpus"

OPTIONS: Final = (
    "-max_len=4096",
    "-timeout=60",  # seconds of one input, on a machine that may be busy
    "-rss_limit_mb=2048",
    "-detect_leaks=0",  # what the interpreter keeps would count
    "-len_control=20",
    "-verbosity=1",
    "-print_final_stats=1",
)


class CannotRun(Exception):
    """Something that fuzzing needs is not there."""


@dataclass(frozen=True)
class Run:
    """What one target did."""

    target: str
    executions: int
    coverage: tuple[int, int]
    failed: bool
    log: str

    def line(self) -> str:
        """For people."""
        before, after = self.coverage
        verdict = "FOUND SOMETHING" if self.failed else "holds"
        return f"{self.target:16} {self.executions:>11,} executions  edges {before:>5,} -> {after:>5,}  {verdict}"


def find_runtime() -> Path:
    """The library with the engine and the address sanitizer, which is loaded before anything else."""
    found = importlib.util.find_spec("atheris")
    if found is None or found.origin is None:
        raise CannotRun("no atheris: pip install -e '.[test,fuzz]'")
    runtime = Path(found.origin).parent.parent / "asan_with_fuzzer.so"
    if not runtime.exists():
        raise CannotRun(f"this atheris has no {runtime.name}, which its wheels for Linux have")
    return runtime


def build() -> Path:
    """Builds the instrumented core; gives the folder to import it from."""
    if shutil.which(os.environ.get("CC", "clang")) is None:
        raise CannotRun("no clang: the engine needs its coverage instrumentation (Debian: apt-get install clang)")
    if not (ROOT / "setup.py").exists():
        raise CannotRun("no checkout: fuzzing builds the core from its sources")
    environment = os.environ | {"MCPINPUT_BUILD": "fuzz"}
    command = [sys.executable, "setup.py", "-q", "build"]
    made = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if made.returncode:
        raise CannotRun(f"the core does not build:\n{made.stdout}{made.stderr}")
    (folder,) = BUILD.glob(f"lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}*")
    return folder


def environment_of(runtime: Path, folder: Path) -> dict[str, str]:
    """Environment in which the instrumented core runs."""
    return os.environ | {
        "LD_PRELOAD": str(runtime),
        # Few frames and a small quarantine: remembering more costs nine tenths of the speed.
        "ASAN_OPTIONS": "detect_leaks=0:malloc_context_size=4:quarantine_size_mb=32:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",  # so that the sanitizer sees the end of each object
        "PYTHONPATH": os.pathsep.join((str(folder), str(ROOT))),
        "PYTHONSAFEPATH": "1",
        "PYTHONHASHSEED": "0",
    }


def engine(target: str, environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the engine on one target to its end."""
    command = [sys.executable, "-m", "tests.fuzz.engine", target, *arguments]
    return subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        check=False,
    )


def fuzz(target: str, environment: dict[str, str], seconds: int) -> Run:
    """Runs one target for so long."""
    learnt = LEARNT / target
    learnt.mkdir(parents=True, exist_ok=True)
    done = engine(
        target,
        environment,
        *OPTIONS,
        f"-max_total_time={seconds}",
        f"-dict={ROOT / 'tests' / 'fuzz' / 'json.dict'}",
        f"-artifact_prefix={FINDINGS}/{target}-",
        str(learnt),
        str(CORPUS / target),
    )
    log = done.stdout
    (FINDINGS / f"{target}.log").write_text(log, encoding="utf-8")
    edges = [int(number) for number in re.findall(r"^#\d+\s.*? cov: (\d+) ", log, re.MULTILINE)] or [0]
    executions = re.findall(r"^stat::number_of_executed_units:\s+(\d+)|^Done (\d+) runs|^#(\d+)\s", log, re.MULTILINE)
    count = max((int(number) for row in executions for number in row if number), default=0)
    # A run that saw nothing of the core proves nothing.
    blind = "INFO: Loaded" not in log or edges[-1] == 0
    return Run(target, count, (edges[0], edges[-1]), bool(done.returncode) or blind, log)


def merge(target: str, environment: dict[str, str]) -> str:
    """Takes into the corpus of a target what reaches more code; gives a line for people."""
    corpus = CORPUS / target
    corpus.mkdir(parents=True, exist_ok=True)
    before = set(corpus.iterdir())
    done = engine(
        target, environment, *OPTIONS, "-set_cover_merge=1", "-use_counters=0", str(corpus), str(LEARNT / target)
    )
    if done.returncode or "MERGE-OUTER: successful" not in done.stdout:
        raise CannotRun(f"merging {target} failed:\n{done.stdout}")
    added = set(corpus.iterdir()) - before
    return f"{target:16} {len(before)} files, {len(added)} added"


def main(arguments: Sequence[str]) -> int:
    """Builds, runs, tells."""
    processors = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz the compiled core.")
    parser.add_argument("--seconds", type=int, default=60, help="for each target (60)")
    parser.add_argument("--jobs", type=int, default=processors, help=f"targets at once ({processors})")
    parser.add_argument("--merge", action="store_true", help="take what was learnt into the corpus")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; without, all")
    options = parser.parse_args(arguments)
    unknown = set(options.targets) - set(TARGETS)
    if unknown:
        parser.error(f"no target {', '.join(sorted(unknown))}")
    try:
        environment = environment_of(find_runtime(), build())
        targets = options.targets or TARGETS
        with ThreadPoolExecutor(options.jobs) as pool:
            if options.merge:
                for line in pool.map(lambda target: merge(target, environment), targets):
                    print(line, flush=True)
                return 0
            shutil.rmtree(FINDINGS, ignore_errors=True)
            FINDINGS.mkdir(parents=True)
            failed = []
            for run in pool.map(lambda target: fuzz(target, environment, options.seconds), targets):
                print(run.line(), flush=True)
                failed += [run] if run.failed else []
    except CannotRun as problem:
        print(f"tests.fuzz: {problem}", file=sys.stderr)
        return 2
    for run in failed:
        print(f"\n---- {run.target}\n{tail(run.log)}", file=sys.stderr)
    if failed:
        print(f"\nInputs and logs are in {FINDINGS}.", file=sys.stderr)
    return 1 if failed else 0


def tail(log: str) -> str:
    """The end of a log, without the engine's progress and statistics and the outer frames of its stacks."""
    lines = [line for line in log.splitlines() if not re.match(r'#\d+\s|\tNEW_FUNC|stat::|"|###|\s*#\d\d+ 0x', line)]
    return "\n".join(lines[-60:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
