"""``mcpinput demo`` as a person runs it: a process outside of the checkout, with its input and output."""

from __future__ import annotations

import os
import pty
import signal
import socket
import subprocess
from collections.abc import Callable
from contextlib import suppress

from tests.services.conftest import SECONDS, Process

Run = Callable[..., Process]
DEMO = ("-m", "mcpinput", "demo")
ACCEPT = "ccept, [d]ecline or [c]ancel? "


def finished(run: Run, typed: str) -> tuple[int, str, str]:
    return run(*DEMO).end(typed)


def test_yes_answers_by_itself_and_shows_every_round(run: Run) -> None:
    code, out, err = run(*DEMO, "--yes").end()
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("Serving at http://127.0.0.1:")
    wire = [line.split(maxsplit=1) for line in lines if line.startswith(("  ->", "  <-"))]
    assert [direction for direction, _ in wire] == ["->", "<-"] * 4
    first, ask, retry, result = (text for _, text in wire[:4])
    assert '"name":"catalog.add_item"' in first
    assert "inputResponses" not in first
    assert '"resultType":"input_required"' in ask
    assert " characters)" in ask.partition('"requestState":"')[2]
    assert '"content":{"name":"Blue teapot","price":3.5}' in retry
    assert " characters)" in retry.partition('"requestState":"')[2]
    assert '"structuredContent":{"name":"Blue teapot","price":3.5}' in result
    assert lines[-1] == "Both results are what they must be."
    assert max(map(len, lines)) < 1000


def test_person_accepts(run: Run) -> None:
    code, out, err = finished(run, "a\nRed kettle\n12.25\na\n")
    assert (code, err) == (0, "")
    assert '"content":{"name":"Red kettle","price":12.25}' in out
    assert '  = {"name":"Red kettle","price":12.25}' in out
    assert out.endswith("  = approved\n")


def test_person_declines(run: Run) -> None:
    code, out, err = finished(run, "d\nd\n")
    assert (code, err) == (0, "")
    assert "  = Nothing was added: the person declined.\n" in out
    assert out.endswith("  = not approved\n")


def test_person_cancels(run: Run) -> None:
    code, out, err = finished(run, "c\ncancel\n")
    assert (code, err) == (0, "")
    assert "  = Nothing was added: the person cancelled.\n" in out
    assert '"inputResponses":{"approval":{"action":"cancel"}}' in out
    assert out.endswith("  = not approved\n")


def test_person_is_asked_until_the_fields_fit(run: Run) -> None:
    typed = "what\na\n\nBlue teapot\n\nthree\n-1\nnan\n0.10000000000000000001\n3.50\nd\n"
    code, out, err = finished(run, typed)
    assert (code, err) == (0, "")
    assert out.count(ACCEPT) == 3  # the first answer was none of the three
    assert out.count("This field is needed.") == 2
    assert out.count("That is no number.") == 2
    assert "It must be at least 0." in out
    assert "This client cannot send that number exactly" in out
    assert '  = {"name":"Blue teapot","price":3.5}' in out


def test_end_of_input_ends_it(run: Run) -> None:
    for typed in ("", "a\nBlue teapot\n"):
        code, out, err = finished(run, typed)
        assert code == 1
        assert err == "mcpinput demo: the input ended before the demo did; 'mcpinput demo --yes' answers by itself\n"
        assert "approved" not in out


def interrupted(process: Process) -> int:
    """The exit code after Ctrl-C, which is pressed again where it is not heard.

    Python hears a signal that comes just before it reads only once something was read.
    """
    for _ in range(6):
        process.signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            return process.popen.wait(SECONDS / 6)
    raise AssertionError("Ctrl-C was never heard")


def test_ctrl_c_ends_it_and_its_server(run: Run) -> None:
    process = run(*DEMO)
    url = process.wait_for("/mcp").split()[-1]
    process.wait_for(ACCEPT)
    assert interrupted(process) == 130
    _, out, err = process.end()
    assert (out, err) == ("", "\n")
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", int(url.split(":")[2].partition("/")[0]))) != 0


def test_terminal(run: Run) -> None:
    """Where the input is a terminal, it shows what is typed, and Ctrl-C comes from its keyboard."""
    keyboard, terminal = pty.openpty()
    try:
        process = run(*DEMO, stdin=terminal)
        process.wait_for(ACCEPT)
        os.write(keyboard, b"d\n")
        out = process.wait_for(ACCEPT)
        assert "the person declined" in out
        os.write(keyboard, b"c\n")
        code, out, err = process.end()
    finally:
        os.close(keyboard)
        os.close(terminal)
    assert (code, err) == (0, "")
    assert out.endswith("  = not approved\n")
    assert not out.startswith("c")  # the terminal's echo is enough


def test_taken_port_is_one_line(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, out, err = run(*DEMO, "--yes", "--port", str(port)).end()
    assert (code, out) == (1, "")
    assert err == f"mcpinput demo: cannot listen on 127.0.0.1 port {port}: Address already in use\n"


def test_chosen_port(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    code, out, _ = run(*DEMO, "--yes", "--port", str(port)).end()
    assert code == 0
    assert out.startswith(f"Serving at http://127.0.0.1:{port}/mcp\n")


def test_wrong_result_is_one_line(run: Run) -> None:
    """``--yes`` checks what comes back: here the server gets another price than was filled in."""
    broken = """
import sys
from decimal import Decimal
from mcpinput import _demo, cli
whole = _demo._filled
def wrong(draft, content):
    return whole(draft, {**content, "price": Decimal("3.6")})
_demo._filled = wrong
sys.exit(cli.main(["demo", "--yes"]))
"""
    code, out, err = run("-c", broken).end()
    assert code == 1
    assert err.startswith("mcpinput demo: AssertionError: the result of catalog.add_item must be ")
    assert err.count("\n") == 1
    assert "must be." not in out


def test_failing_tool_is_one_line(run: Run) -> None:
    broken = """
import logging, sys
from mcpinput import _demo, cli
logging.disable()
def wrong(draft, content):
    raise RuntimeError("no disk")
_demo._filled = wrong
sys.exit(cli.main(["demo", "--yes"]))
"""
    code, _, err = run("-c", broken).end()
    assert (code, err) == (1, "mcpinput demo: MCPError: Internal error\n")
