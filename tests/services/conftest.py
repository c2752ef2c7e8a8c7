"""Real servers on loopback: uvicorn in a thread, or the command line in a process; each is stopped at the end."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvicorn

SECONDS = 120.0
"""How long anything may take before a test fails; what is waited for comes much sooner."""


class Process:
    """One run of the command line, with everything that it prints."""

    def __init__(self, arguments: Sequence[str], cwd: Path, env: dict[str, str], stdin: int) -> None:
        # Where this runs in the background of a script, Ctrl-C is ignored, and whoever is started inherits that.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            self.popen = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=cwd,
                env={name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"} | env,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        finally:
            signal.signal(signal.SIGINT, before)
        self.output = b""

    def wait_for(self, text: str) -> str:
        """What was printed up to the first occurrence of a text that was not waited for yet."""
        assert self.popen.stdout is not None
        end = time.monotonic() + SECONDS
        wanted = text.encode()
        while wanted not in self.output:
            ready, _, _ = select.select([self.popen.stdout], [], [], max(0.0, end - time.monotonic()))
            chunk = os.read(self.popen.stdout.fileno(), 65_536) if ready else b""
            assert chunk, f"{text!r} never came; printed: {self.output.decode()!r}, {self.stop()}"
            self.output += chunk
        before, _, self.output = self.output.partition(wanted)
        return (before + wanted).decode()

    def type(self, text: str) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write(text.encode())
        self.popen.stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def wait_until_it_listens_no_more(self, url: str) -> None:
        """Until a new connection is refused: the server has heard that it should end."""
        parts = urlsplit(url)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            try:
                socket.create_connection((parts.hostname or "", parts.port or 80), timeout=1).close()
            except OSError:
                return
            time.sleep(0.05)
        raise AssertionError("it still listens")

    def end(self, typed: str = "") -> tuple[int, str, str]:
        """Exit code, the rest of the output, and stderr, once the process ended by itself; its input ends."""
        out, err = self.popen.communicate(typed.encode() or None, timeout=SECONDS)
        return self.popen.returncode, (self.output + out).decode(), err.decode()

    def stop(self) -> str:
        """Ends the process where it still runs; its stderr."""
        if self.popen.poll() is None:
            self.popen.kill()
        if self.popen.stderr is None or self.popen.stderr.closed:
            return ""
        _, err = self.popen.communicate(timeout=SECONDS)
        return err.decode()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Starts ``python ...`` outside of the checkout."""
    processes: list[Process] = []

    def start(*arguments: str, stdin: int = subprocess.PIPE, **env: str) -> Process:
        processes.append(Process(arguments, tmp_path, env, stdin))
        return processes[-1]

    yield start
    for process in processes:
        process.stop()


def url_of(process: Process) -> str:
    """Where a server that was just started says that it is."""
    return process.wait_for("/mcp\n").strip()


def ended(process: Process, number: signal.Signals) -> None:
    """Ends a server by a signal, which must be an end and no failure."""
    process.signal(number)
    assert process.popen.wait(SECONDS) == 0
    assert process.end() == (0, "", "")


@contextmanager
def served(app: Any, path: str = "/mcp") -> Iterator[str]:
    """Serves an ASGI application on a free port; the URL."""
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}{path}"
    server = uvicorn.Server(uvicorn.Config(app, ws="none", log_config=None, timeout_graceful_shutdown=5))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield url
    finally:
        server.should_exit = True
        thread.join(SECONDS)
        listener.close()
        assert not thread.is_alive(), "the server did not stop"


@pytest.fixture
def serve() -> Iterator[Callable[[Any], str]]:
    """Serves a ``Server`` on a free port for as long as the test runs."""
    with ExitStack() as stack:
        yield lambda server: stack.enter_context(served(server.asgi()))
