"""The installed package: what it offers by name, what it ships, and what an import costs."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import inspect
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

import pytest

import mcpinput

PACKAGE: Final = Path(mcpinput.__file__).parent
CORE: Final = ("canonical", "digest", "dump", "envelope", "limits", "parse", "state")


def python(code: str) -> str:
    """What a fresh interpreter prints, with no folder but the installation on its path."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd="/", capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_all_is_sorted_and_complete() -> None:
    assert list(mcpinput.__all__) == sorted(set(mcpinput.__all__))
    public = {
        name
        for name, value in vars(mcpinput).items()
        if not name.startswith("_") and not isinstance(value, type(sys))  # modules are reached by their own names
    }
    assert public == set(mcpinput.__all__)


def test_public_names_are_told_from_anywhere() -> None:
    assert python("import mcpinput; print(mcpinput.__all__)") == str(mcpinput.__all__)


def test_version_is_that_of_the_installation() -> None:
    assert mcpinput.__version__ == importlib.metadata.version("mcpinput")


@pytest.mark.parametrize("name", mcpinput.__all__)
def test_public_names_say_what_they_are(name: str) -> None:
    value = getattr(mcpinput, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        assert value.__doc__


@pytest.mark.parametrize("name", CORE)
def test_core_is_compiled_and_has_stubs(name: str) -> None:
    spec = importlib.util.find_spec(f"mcpinput._core.{name}")
    assert spec is not None
    assert spec.origin is not None
    assert spec.origin.endswith(sysconfig.get_config_var("EXT_SUFFIX"))
    assert (PACKAGE / "_core" / f"{name}.pyi").is_file()


IN_A_SUBINTERPRETER: Final = """
import importlib, sys
import mcpinput
interpreters = importlib.import_module("_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters")
files = {name: module.__file__ for name, module in sys.modules.items() if name.startswith("mcpinput._core.")}
interpreter = interpreters.create()
# The extension alone: what it imports may itself refuse.
interpreters.run_string(interpreter, f'''
from importlib.util import module_from_spec, spec_from_file_location
for name, file in {files!r}.items():
    try:
        module_from_spec(spec_from_file_location(name, file))
    except ImportError:
        print(name, "refuses", flush=True)
''')
interpreters.destroy(interpreter)
print(mcpinput.json.parse(b"1"))
"""


def test_a_subinterpreter_is_refused_and_not_harmed() -> None:
    *refusals, last = python(IN_A_SUBINTERPRETER).splitlines()
    assert sorted(refusals) == [f"mcpinput._core.{name} refuses" for name in CORE]
    assert last == "1"


def test_package_is_marked_as_typed() -> None:
    assert (PACKAGE / "py.typed").is_file()


def test_importing_needs_no_schema_library_no_server_and_no_client() -> None:
    heavy = ("jsonschema", "uvicorn", "mcp", "httpx", "importlib.metadata")
    code = f"import sys, mcpinput; print([name for name in {heavy!r} if name in sys.modules])"
    assert python(code) == "[]"


def test_command_line_is_installed() -> None:
    (entry,) = importlib.metadata.entry_points(group="console_scripts", name="mcpinput")
    assert callable(entry.load())


def test_a_checkout_that_was_not_built_says_what_to_do(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "mcpinput", ignore=shutil.ignore_patterns("*.so", "*.pyd", "__pycache__"))
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.path.insert(0, '.'); import mcpinput"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    last_line = done.stderr.strip().splitlines()[-1]
    assert last_line.startswith("ImportError:")
    assert "pip install -e ." in last_line
