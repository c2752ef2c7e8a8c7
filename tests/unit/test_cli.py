"""The command line: what it refuses, in which words, and with which exit code. What it serves is in tests/services."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import runpy
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mcpinput.cli import main

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs one command that fails; its exit code and the one line that it prints."""

    def call(*argv: str) -> tuple[int, str]:
        code = main(argv)
        out, err = capsys.readouterr()
        assert out == ""
        assert err.endswith("\n")
        assert err.count("\n") == 1
        return code, err.removesuffix("\n")

    return call


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Writes module ``shop`` where it can be imported."""
    monkeypatch.syspath_prepend(tmp_path)
    yield (tmp_path / "shop.py").write_text
    sys.modules.pop("shop", None)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"mcpinput {importlib.metadata.version('mcpinput')}\n"


def test_python_m(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["mcpinput", "--version"])
    with pytest.raises(SystemExit) as caught:
        runpy.run_module("mcpinput", run_name="__main__")
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("mcpinput ")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "COMMAND"),
        (["fly"], "'fly'"),
        (["serve"], "MODULE:SERVER"),
        (["serve", "a:b", "--port", "65536"], "'65536' is no port"),
        (["demo", "--port", "-1"], "--port"),
        (["demo", "--port", "http"], "'http' is no port"),
    ],
)
def test_wrong_arguments(argv: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("target", ["shop", ":server", "shop:", ""])
def test_target_needs_two_parts(run: Run, target: str) -> None:
    assert run("serve", target) == (
        2,
        f"mcpinput serve: {target!r} is not of the form MODULE:SERVER, such as app:server for server in app.py",
    )


def test_no_such_module(run: Run) -> None:
    assert run("serve", "no_such_shop:server") == (
        2,
        "mcpinput serve: there is no module 'no_such_shop' here or among what is installed",
    )
    assert "'mcpinput.no_such_shop'" in run("serve", "mcpinput.no_such_shop:server")[1]


def test_no_such_attribute(run: Run) -> None:
    assert run("serve", "mcpinput._demo:servers") == (
        2,
        "mcpinput serve: module 'mcpinput._demo' has no 'servers'",
    )
    assert run("serve", "mcpinput._demo:server.nothing")[1].endswith("has no 'server.nothing'")


@pytest.mark.parametrize(
    ("text", "target", "words"),
    [
        ("server = 7", "shop:server", "shop:server is of type int, and no mcpinput.Server"),
        ("server = None", "shop:server", "shop:server is of type NoneType, and no mcpinput.Server"),
        ("def make(): return 7", "shop:make", "shop:make() is of type int, and no mcpinput.Server"),
        ("async def make(): return 7", "shop:make", "shop:make() is of type coroutine, and no mcpinput.Server"),
    ],
)
def test_wrong_type(run: Run, module: Callable[[str], None], text: str, target: str, words: str) -> None:
    module(text)
    assert run("serve", target) == (2, f"mcpinput serve: {words}")


@pytest.mark.parametrize(
    ("text", "target", "words", "line"),
    [
        ("\n1 / 0\n", "shop:server", "importing 'shop' failed: ZeroDivisionError: division by zero", 2),
        ("import no_such", "shop:server", "importing 'shop' failed: ModuleNotFoundError: No module named 'no_such'", 1),
        ("def make():\n    raise ValueError('one\\ntwo')", "shop:make", "calling shop:make failed: ValueError: one", 2),
        ("def make():\n    raise KeyError", "shop:make", "calling shop:make failed: KeyError", 2),
    ],
)
def test_fault_of_the_application_says_where(
    run: Run, module: Callable[[str], None], tmp_path: Path, text: str, target: str, words: str, line: int
) -> None:
    module(text)
    assert run("serve", target) == (2, f"mcpinput serve: {words} ({tmp_path / 'shop.py'}, line {line})")


def test_callable_with_arguments(run: Run, module: Callable[[str], None]) -> None:
    module("def make(name): return name")
    code, line = run("serve", "shop:make")
    assert code == 2
    assert "calling shop:make failed: TypeError: make() missing 1 required positional argument: 'name'" in line


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "shop.example", "192.0.2.7"])
def test_host_that_is_not_loopback_needs_allowed_hosts(run: Run, host: str) -> None:
    code, line = run("serve", "mcpinput._demo:server", "--host", host)
    assert code == 2
    assert line.startswith(f"mcpinput serve: --host {host} can be reached from outside, so it needs --allowed-host")


def test_host_of_an_application_is_set_already(run: Run, module: Callable[[str], None]) -> None:
    module("from mcpinput._demo import server\napp = server.asgi()")
    code, line = run("serve", "shop:app", "--allowed-host", "shop.example")
    assert code == 2
    assert line.startswith("mcpinput serve: shop:app is an application whose hosts are set already")


def test_allowed_host_that_is_no_host(run: Run) -> None:
    code, line = run("serve", "mcpinput._demo:server", "--allowed-host", "http://shop.example")
    assert code == 2
    assert "'http://shop.example'" in line


def test_server_that_lacks_admission(run: Run, module: Callable[[str], None]) -> None:
    module(
        "from mcpinput import Identity, Server\n"
        "server = Server('shop', version='1', authenticate=lambda facts: Identity('somebody'))\n"
    )
    code, line = run("serve", "shop:server")
    assert code == 2
    assert line.startswith("mcpinput serve: Server 'shop' needs admission=")


def test_taken_port(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run("serve", "mcpinput._demo:server", "--port", str(port)) == (
            1,
            f"mcpinput serve: cannot listen on 127.0.0.1 port {port}: Address already in use",
        )


@pytest.mark.parametrize(
    ("argv", "lacking", "extra"),
    [(["demo"], "mcp", "demo"), (["demo"], "uvicorn", "demo"), (["serve", "a:b"], "uvicorn", "server")],
)
def test_missing_extra_is_named(
    run: Run, monkeypatch: pytest.MonkeyPatch, argv: list[str], lacking: str, extra: str
) -> None:
    found = importlib.util.find_spec

    def find_spec(name: str) -> object:
        return None if name == lacking else found(name)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    assert run(*argv) == (
        1,
        f"mcpinput {argv[0]}: this command needs {lacking}: pip install 'mcpinput[{extra}]'",
    )
