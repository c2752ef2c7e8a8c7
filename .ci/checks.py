"""The looks that ``.ci/run`` takes: at a test report, at what was built, and at what the builds left behind.

``checks.py report FILE`` fails unless every test ran and passed: a skipped test has shown nothing.
``checks.py dist FOLDER`` fails unless the sdist has the sources and nothing generated, and the wheel what was built and
no sources of the core.
``checks.py sources FOLDER`` fails where a build left generated files among the sources of the core.
"""

from __future__ import annotations

import sys
import tarfile
import xml.etree.ElementTree as ElementTree
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GENERATED = (".c", ".so", ".o", ".pyc", ".pyd")
SOURCES = (".pyx", ".pxd", ".h")


def report(file: Path) -> list[str]:
    """Problems of a JUnit report."""
    suites = list(ElementTree.parse(file).getroot().iter("testsuite"))  # noqa: S314 - our own pytest wrote it
    names = ("tests", "failures", "errors", "skipped")
    count = {name: sum(int(suite.get(name, 0)) for suite in suites) for name in names}
    print(", ".join(f"{number} {name}" for name, number in count.items()))
    problems = [f"{count[name]} {name}" for name in names[1:] if count[name]]
    return problems if count["tests"] else ["no test ran"]


def dist(folder: Path) -> list[str]:
    """Problems of the sdist and the wheel in a folder."""
    (sdist,) = folder.glob("*.tar.gz")
    (wheel,) = folder.glob("*.whl")
    with tarfile.open(sdist) as archive:
        in_sdist = {name.partition("/")[2] for name in archive.getnames()}
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = set(archive.namelist())
    core = [path for path in (ROOT / "_core").iterdir() if path.suffix in SOURCES]
    units = [path.stem for path in core if path.suffix == ".pyx"]

    wanted_in_sdist = {
        path.relative_to(ROOT).as_posix()
        for pattern in (
            "mcpinput/**/*.py",
            "mcpinput/**/*.pyi",
            "tests/**/*.py",
            "tests/vectors/*",
            "tests/fuzz/*.dict",
            "tests/fuzz/*.txt",
            "tests/fuzz/corpus/*/*",
            "benchmarks/*.py",
            "examples/*.py",
            "docs/*.md",
            "*.md",
            ".ci/*",
        )
        for path in ROOT.glob(pattern)
        if path.is_file()
    }
    wanted_in_sdist |= {f"_core/{path.name}" for path in core}
    wanted_in_sdist |= {"mcpinput/py.typed", "pyproject.toml", "setup.py", "LICENSE"}
    problems = [f"sdist lacks {name}" for name in sorted(wanted_in_sdist - in_sdist)]
    problems += [f"sdist has {name}" for name in sorted(in_sdist) if name.endswith(GENERATED)]

    wanted_in_wheel = {path.relative_to(ROOT).as_posix() for path in (ROOT / "mcpinput").rglob("*.py")}
    wanted_in_wheel |= {f"mcpinput/_core/{unit}.pyi" for unit in units} | {"mcpinput/py.typed"}
    problems += [f"wheel lacks {name}" for name in sorted(wanted_in_wheel - in_wheel)]
    built = {name.split("/")[-1].split(".")[0] for name in in_wheel if name.endswith(".so")}
    problems += [f"wheel lacks the built {unit}" for unit in units if unit not in built]
    problems += [
        f"wheel has {name}"
        for name in sorted(in_wheel)
        if name.endswith((*SOURCES, ".c")) or not name.startswith(("mcpinput/", "mcpinput-"))
    ]
    print(f"{sdist.name}: {len(in_sdist)} entries; {wheel.name}: {len(in_wheel)} entries")
    return problems


def sources(folder: Path) -> list[str]:
    """Problems of the folder with the core's sources."""
    return [
        f"{path.name} is no source: a build left it" for path in sorted(folder.iterdir()) if path.suffix not in SOURCES
    ]


def main() -> int:
    """Runs one check."""
    name, path = sys.argv[1:]
    problems = {"report": report, "dist": dist, "sources": sources}[name](Path(path))
    for problem in problems:
        print(f"{name}: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
