"""The order of floors: who may know of whom, read from every import and cimport of the sources.

Rules

- A file imports from lower floors only, and within its own room from the files that stand before it. Rooms of one floor
  do not know of each other.
- Imports for type checkers count between floors and rooms, since they say as much about who knows of whom. Only inside
  a room may they look at a later file.
- Every source file stands in the list. A new one is added here, to the page ``docs/architecture.md``, and to the map in
  README where it is a new module or folder.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent

# Floors from the ground up; each has rooms, each room its files in order. A unit of the core goes by one name for its
# .pyx, .pxd and .pyi.
FLOORS: Final[tuple[tuple[tuple[str, ...], ...], ...]] = (
    (("mcpinput/errors.py",), ("mcpinput/protocol.py",), ("mcpinput/_ending.py",), ("_core/scan.h", "_core/write.h")),
    (
        ("_core/__init__.pxd",),
        (
            "_core/limits",
            "_core/scan",
            "_core/write",
            "_core/parse",
            "_core/buf",
            "_core/dump",
            "_core/canonical",
            "_core/digest",
        ),
        ("_core/envelope",),
    ),
    (("_core/state",),),
    (("mcpinput/_core/__init__.py",),),
    (("mcpinput/json.py",),),
    (
        (
            "mcpinput/_values.py",
            "mcpinput/content.py",
            "mcpinput/binding.py",
            "mcpinput/responses.py",
            "mcpinput/requests.py",
            "mcpinput/results.py",
        ),
        ("mcpinput/stores/base.py",),
    ),
    (
        (
            "mcpinput/protection/secret.py",
            "mcpinput/protection/xaes.py",
            "mcpinput/protection/key.py",
            "mcpinput/protection/keyring.py",
            "mcpinput/protection/manager.py",
            "mcpinput/protection/watch.py",
            "mcpinput/protection/keyfile.py",
            "mcpinput/protection/context.py",
            "mcpinput/protection/protector.py",
            "mcpinput/protection/sizes.py",
            "mcpinput/protection/config.py",
            "mcpinput/protection/single_use.py",
            "mcpinput/protection/state.py",
            "mcpinput/protection/explain.py",
            "mcpinput/protection/__init__.py",
        ),
        ("mcpinput/stores/memory.py", "mcpinput/stores/sqlite.py", "mcpinput/stores/__init__.py"),
    ),
    (
        (
            "mcpinput/server/__init__.py",
            "mcpinput/server/headers.py",
            "mcpinput/server/uris.py",
            "mcpinput/server/schemas.py",
            "mcpinput/server/capabilities.py",
            "mcpinput/server/workers.py",
            "mcpinput/server/admission.py",
            "mcpinput/server/context.py",
            "mcpinput/server/counters.py",
            "mcpinput/server/observers.py",
            "mcpinput/server/registry.py",
            "mcpinput/server/message.py",
            "mcpinput/server/dispatcher.py",
            "mcpinput/server/asgi.py",
        ),
    ),
    (("mcpinput/server/server.py",),),
    (
        (
            "mcpinput/_demo.py",
            "mcpinput/_keys.py",
            "mcpinput/_serving.py",
            "mcpinput/_state.py",
            "mcpinput/_walkthrough.py",
            "mcpinput/cli.py",
        ),
    ),
    (("mcpinput/__init__.py",), ("mcpinput/__main__.py",)),
)

PLACES: Final = {
    name: (floor, room, place)
    for floor, rooms in enumerate(FLOORS)
    for room, names in enumerate(rooms)
    for place, name in enumerate(names)
}


def name_of(path: Path) -> str:
    """The name under which a source file stands in the list."""
    relative = path.relative_to(ROOT)
    if relative.suffix in (".pyx", ".pxd", ".pyi") and relative.stem != "__init__":
        return f"_core/{relative.stem}"
    return relative.as_posix()


def source_files() -> list[Path]:
    """Every source file of the package and its core."""
    found = [path for path in (ROOT / "_core").iterdir() if path.suffix in (".h", ".pxd", ".pyx", ".pyi", ".py")]
    found += [path for path in (ROOT / "mcpinput").rglob("*") if path.suffix in (".py", ".pyi")]
    return sorted(found)


def name_of_module(module: str, member: str | None = None) -> str | None:
    """The listed name of what an import reaches; None for what is not ours."""
    parts = module.split(".")
    if parts[0] != "mcpinput":
        return None
    if member is not None:
        below = name_of_module(f"{module}.{member}")
        if below in PLACES:
            return below
    if parts[1:2] == ["_core"] and len(parts) == 3:
        return f"_core/{parts[2]}"
    path = "/".join(parts)
    if f"{path}.py" in PLACES:
        return f"{path}.py"
    return f"{path}/__init__.py"


def nodes_for_types(tree: ast.AST) -> set[ast.AST]:
    """Everything under ``if TYPE_CHECKING:``."""
    return {
        below
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for statement in node.body
        for below in ast.walk(statement)
    }


def python_imports(text: str) -> Iterator[tuple[str, bool]]:
    """Listed names that Python source imports, and whether only for type checkers."""
    tree = ast.parse(text)
    for_types = nodes_for_types(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            pairs: list[tuple[str, str | None]] = [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute here"
            pairs = [(node.module or "", alias.name) for alias in node.names]
        else:
            continue
        for module, member in pairs:
            name = name_of_module(module, member)
            if name is not None:
                yield name, node in for_types


_FROM: Final = re.compile(r"^\s*from\s+([\w.]+)\s+c?import\s+(?:\(([^)]*)\)|(.*))", re.MULTILINE)
_IMPORT: Final = re.compile(r"^\s*c?import\s+([\w., ]+)", re.MULTILINE)
_HEADER: Final = re.compile(r'^\s*(?:cdef extern from|#include)\s+"([^"]+)"', re.MULTILINE)


def cython_imports(text: str) -> Iterator[tuple[str, bool]]:
    """Listed names that Cython source imports or cimports, with our headers that it takes in; never for types only."""
    text = re.sub(r'"""(?:[^"\\]|\\.|"(?!""))*"""', '""', text)  # a docstring may speak of imports
    for match in _FROM.finditer(text):
        assert not match[1].startswith("."), "imports are absolute here"
        for member in (match[2] or match[3]).split("#")[0].split(","):
            if member.strip():
                name = name_of_module(match[1], member.split()[0])
                if name is not None:
                    yield name, False
    for match in _IMPORT.finditer(text):
        for module in match[1].split(","):
            if module.strip():
                name = name_of_module(module.split()[0])
                if name is not None:
                    yield name, False
    for match in _HEADER.finditer(text):
        if (ROOT / "_core" / match[1]).exists():
            yield f"_core/{match[1]}", False


def imports_of(path: Path) -> set[tuple[str, bool]]:
    """Listed names that a file reaches, without itself, and whether only for type checkers."""
    read = python_imports if path.suffix in (".py", ".pyi") else cython_imports
    return {(name, for_types) for name, for_types in read(path.read_text(encoding="utf-8")) if name != name_of(path)}


def may_import(importer: str, imported: str, for_types: bool = False) -> bool:
    """Whether the order allows it."""
    floor, room, place = PLACES[importer]
    other_floor, other_room, other_place = PLACES[imported]
    if (other_floor, other_room) == (floor, room):
        return for_types or other_place < place
    return other_floor < floor


def test_every_source_file_has_a_place() -> None:
    assert {name_of(path) for path in source_files()} - PLACES.keys() == set()


def test_every_place_has_its_file() -> None:
    assert PLACES.keys() - {name_of(path) for path in source_files()} == set()


@pytest.mark.parametrize("path", source_files(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_imports_from_lower_floors_only(path: Path) -> None:
    importer = name_of(path)
    imports = imports_of(path)
    assert sorted(name for name, _ in imports if name not in PLACES) == []
    assert sorted(name for name, for_types in imports if not may_import(importer, name, for_types)) == []


def test_core_sources_are_not_glued_together() -> None:
    cython = {path.name: path.read_text(encoding="utf-8") for path in source_files() if path.suffix in (".pyx", ".pxd")}
    assert [name for name, text in cython.items() if re.search(r"^include ", text, re.MULTILINE)] == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("from mcpinput._core.parse cimport Reader, open_reader", {"_core/parse"}),
        ("from mcpinput._core cimport buf", {"_core/buf"}),
        ("from mcpinput._core.scan cimport (\n    find_quote,\n    find_escape,\n)", {"_core/scan"}),
        ("cimport mcpinput._core.scan as scan", {"_core/scan"}),
        ("def late():\n    from mcpinput.server.server import Server", {"mcpinput/server/server.py"}),
        ('cdef extern from "scan.h" nogil:\n    pass', {"_core/scan.h"}),
        ("from libc.string cimport memcpy\nimport hashlib", set()),
        ('"""Text\nfrom mcpinput.cli import main\n"""', set()),
    ],
)
def test_reader_sees_cython_imports(text: str, names: set[str]) -> None:
    assert {name for name, _ in cython_imports(text)} == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("from mcpinput import protocol", {"mcpinput/protocol.py"}),
        ("from mcpinput import Server", {"mcpinput/__init__.py"}),
        ("import mcpinput.server.asgi", {"mcpinput/server/asgi.py"}),
        ("if TYPE_CHECKING:\n    from mcpinput.protection import ProtectionKey", {"mcpinput/protection/__init__.py"}),
        ("from mcpinput._core import parse as _parse", {"_core/parse"}),
        ("from mcpinput.json import parse\nimport json", {"mcpinput/json.py"}),
    ],
)
def test_reader_sees_python_imports(text: str, names: set[str]) -> None:
    assert {name for name, _ in python_imports(text)} == names


def test_order_refuses_what_is_above_and_beside() -> None:
    assert may_import("mcpinput/server/asgi.py", "mcpinput/server/dispatcher.py")
    assert not may_import("mcpinput/server/dispatcher.py", "mcpinput/server/asgi.py")
    assert may_import("mcpinput/server/dispatcher.py", "mcpinput/server/asgi.py", for_types=True)
    assert not may_import("mcpinput/server/asgi.py", "mcpinput/server/server.py", for_types=True)
    assert not may_import("_core/parse", "mcpinput/json.py")
    assert not may_import("_core/envelope", "_core/digest")
    assert not may_import("mcpinput/errors.py", "mcpinput/protocol.py")


# ---- the pages that list the sources ----


def map_paths() -> list[str]:
    """First cells of the table under "Map" in README."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("\n## Map\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\| (.+?) \|", section, re.MULTILINE)
    return [path for cell in cells for path in re.findall(r"`([^`]+)`", cell)]


def test_map_in_readme_names_every_module_and_folder() -> None:
    wanted = {name if name.count("/") == 1 else name.rsplit("/", 1)[0] + "/" for name in PLACES}
    wanted = {"_core/" if name.startswith("_core/") else name for name in wanted}
    wanted |= {f"{name}/" for name in ("benchmarks", "docs", "examples", "tests") if (ROOT / name).is_dir()}
    assert wanted - set(map_paths()) == set()


def test_map_in_readme_names_nothing_else() -> None:
    assert [path for path in map_paths() if not (ROOT / path).exists()] == []


def test_architecture_page_names_every_source_file() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    missing = [
        path.relative_to(ROOT).as_posix()
        for path in source_files()
        if path.suffix != ".pyi" and not re.search(rf"(?<![\w.]){re.escape(path.name)}(?!\w)", page)
    ]
    assert missing == []
