"""``mcpinput serve``, as a process outside of the checkout."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.services.conftest import SECONDS, Process, ended, url_of
from tests.services.wire import FORM, NO_TLS, call, headers, meta

Run = Callable[..., Process]
SERVE = ("-m", "mcpinput", "serve")
CONTINUE = {"name": "catalog.continue", "arguments": {}}


def flows(url: str) -> None:
    """The tool asks, and takes the answer."""
    state = call(url, "tools/call", CONTINUE).result["requestState"]
    answers = b'{"approval": {"action": "accept", "content": {}}}'
    reply = call(url, "tools/call", CONTINUE | {"requestState": state}, answers=answers)
    assert reply.result["content"][0]["text"] == "approved"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serves_until_a_signal(run: Run, number: signal.Signals) -> None:
    process = run(*SERVE, "mcpinput._demo:server", "--port", "0")
    url = url_of(process)
    assert url.startswith("http://127.0.0.1:")
    flows(url)
    ended(process, number)


def test_signal_right_after_the_start(run: Run) -> None:
    process = run(*SERVE, "mcpinput._demo:server", "--port", "0")
    url_of(process)
    ended(process, signal.SIGINT)


def test_open_connection_does_not_keep_it(run: Run) -> None:
    process = run(*SERVE, "mcpinput._demo:server", "--port", "0")
    url = url_of(process)
    with httpx.Client(trust_env=False, verify=NO_TLS) as client:
        assert client.get(url).status_code == 405
        ended(process, signal.SIGTERM)


@pytest.mark.parametrize("target", ["shop:server", "shop:make", "shop:Shops.server", "shop:app", "shop:make_app"])
def test_what_can_be_served(run: Run, tmp_path: Path, target: str) -> None:
    (tmp_path / "shop.py").write_text(
        "from mcpinput._demo import demo_server as make\n"
        "server = make()\n"
        "class Shops:\n"
        "    server = server\n"
        "app = server.asgi()\n"
        "def make_app():\n"
        "    return app\n"
    )
    process = run(*SERVE, target, "--port", "0")
    flows(url_of(process))
    ended(process, signal.SIGTERM)


def test_safe_path_is_respected(run: Run, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("from mcpinput._demo import server\n")
    code, _, err = run(*SERVE, "shop:server", PYTHONSAFEPATH="1").end()
    assert code == 2
    assert "there is no module 'shop'" in err


def test_allowed_host_takes_effect(run: Run) -> None:
    process = run(*SERVE, "mcpinput._demo:server", "--port", "0", "--allowed-host", "shop.example")
    url = url_of(process)
    assert status(url, "shop.example") == 200
    assert status(url, "shop.example:8443") == 200
    assert status(url, "127.0.0.1") == 421
    assert status(url, "other.example") == 421
    ended(process, signal.SIGINT)


def test_any_host_must_be_said_aloud(run: Run) -> None:
    process = run(*SERVE, "mcpinput._demo:server", "--port", "0", "--host", "0.0.0.0", "--allowed-host", "*")
    url = url_of(process).replace("0.0.0.0", "127.0.0.1")
    assert status(url, "any.example") == 200
    ended(process, signal.SIGINT)


def status(url: str, host: str) -> int:
    body = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta({})}}
    with httpx.Client(trust_env=False, verify=NO_TLS) as client:
        sent = headers("server/discover", None) | {"host": host}
        return client.post(url, content=json.dumps(body).encode(), headers=sent).status_code


SLOW = (
    "import asyncio\n"
    "from mcpinput import Server\n"
    "server = Server('slow', version='1')\n"
    "@server.tool('slow')\n"
    "async def slow(ctx):\n"
    "    print('entered', flush=True)\n"
    "    await asyncio.sleep(60)\n"
)


def test_a_second_signal_ends_what_is_still_running_without_noise(run: Run, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    process = run(*SERVE, "slow:server", "--port", "0")
    url = url_of(process)
    params = {"name": "slow", "arguments": {}, "_meta": meta(FORM)}
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(
            httpx.post,
            url,
            json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params},
            headers=headers("tools/call", "slow"),
            timeout=SECONDS,
            trust_env=False,
            verify=NO_TLS,
        )
        process.wait_for("entered\n")
        process.signal(signal.SIGINT)
        process.wait_until_it_listens_no_more(url)
        process.signal(signal.SIGINT)
        assert process.end() == (0, "", "")
        assert waiting.result().status_code == 503


def test_the_body_of_a_request_with_upgrade_is_no_second_request(run: Run) -> None:
    """The HTTP server below takes what follows such a request for the next one; a proxy before it does not."""
    process = run(*SERVE, "mcpinput._demo:server", "--port", "0")
    url = httpx.URL(url_of(process))
    message = {"jsonrpc": "2.0", "id": "smuggled", "method": "tools/list", "params": {"_meta": meta(FORM)}}
    inner_body = json.dumps(message)
    inner_headers = "".join(f"{name}: {value}\r\n" for name, value in headers("tools/list", None).items())
    inner = (
        f"POST /mcp HTTP/1.1\r\nHost: localhost\r\n{inner_headers}Content-Length: {len(inner_body)}\r\n\r\n{inner_body}"
    )
    outer_headers = "".join(f"{name}: {value}\r\n" for name, value in headers("tools/list", None).items())
    outer = (
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n"
        f"{outer_headers}Content-Length: {len(inner)}\r\n\r\n"
    )
    for pause in (0.0, 0.2):
        with socket.create_connection((url.host, url.port or 80), timeout=SECONDS) as connection:
            connection.sendall(outer.encode())
            time.sleep(pause)
            received = b""
            with contextlib.suppress(ConnectionError):
                connection.sendall(inner.encode())
                while chunk := connection.recv(65_536):
                    received += chunk
        assert b"smuggled" not in received
        assert received.count(b"HTTP/1.1 ") <= 1
    flows(str(url))
    process.signal(signal.SIGTERM)
    assert process.end()[0] == 0  # stderr has what uvicorn says of upgrades
