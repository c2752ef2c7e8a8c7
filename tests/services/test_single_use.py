"""Processes that share a ledger in one SQLite file, over real HTTP: a token enters one handler of all of them, once."""

from __future__ import annotations

import base64
import json
import signal
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.services.conftest import Process, url_of
from tests.services.servers import KINDS
from tests.services.wire import FORM, Reply, call, headers, meta

Run = Callable[..., Process]

SHOP = """
import os
import time
from mcpinput import *

KEY = ProtectionKey.from_id_and_bytes("k1", bytes(range(32)))
FORM = InputRequestDeclaration.from_elicitation_form(Requirement.CONDITIONAL)
PRICE = InputRequest.from_declaration(
    FORM, {"message": "Which price?", "requestedSchema": {"type": "object", "properties": {}}}
)
server = Server(
    "shop",
    version="1",
    protection=ProtectionConfig(
        keyring=ProtectionKeyring.with_active_key(KEY).build(), single_use=SqliteStore("ledger.db")
    ),
    admission=ANONYMOUS,
)
entries = os.open("entries", os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)

def price(ctx):
    if not ctx.round:
        return input_required({"price": PRICE})
    os.write(entries, ctx.flow_id.hex().encode() + b"\\n")
    if os.path.exists("busy"):
        ctx.return_state()
    while os.path.exists("wait"):
        time.sleep(0.01)
    return "done"

def price_of(ctx, arguments):
    return price(ctx)

sealed = {"input_requests": [FORM], "request_state": RequestStateMode.FRAMEWORK_PROTECTED}
server.tool("price", **sealed)(price)
server.prompt("price", **sealed)(price)
server.resource("shop://prices/{number}", **sealed)(price_of)
"""
ANSWER = b'{"price": {"action": "accept", "content": {}}}'
REFUSED = {
    "code": -32602,
    "message": "Invalid or expired requestState",
    "data": {"reason": "invalid_request_state"},
}


class Fleet:
    """Processes of one service, in one folder."""

    def __init__(self, run: Run, folder: Path, size: int = 2) -> None:
        self.run = run
        self.folder = folder
        (folder / "shop.py").write_text(SHOP)
        self.processes = [self.start() for _ in range(size)]
        self.urls = [url_of(process) for process in self.processes]

    def start(self) -> Process:
        return self.run("-m", "mcpinput", "serve", "shop:server", "--port", "0")

    def entries(self) -> list[str]:
        return (self.folder / "entries").read_text().split()

    def end(self) -> None:
        """Ends all of them, once they have done what they were at; their stderr tells of refused tokens alone."""
        for process in self.processes:
            process.signal(signal.SIGTERM)
            code, _, err = process.end()
            assert code == 0
            assert all("request state refused: " in line for line in err.splitlines()), err


@pytest.fixture
def fleet(run: Run, tmp_path: Path) -> Fleet:
    return Fleet(run, tmp_path)


def ask(url: str, kind: str = "tool") -> str:
    method, params = KINDS[kind]
    token: str = call(url, method, params).result["requestState"]
    return token


def retry(url: str, token: str, kind: str = "tool") -> Reply:
    method, params = KINDS[kind]
    return call(url, method, params | {"requestState": token}, answers=ANSWER)


@pytest.mark.parametrize("kind", KINDS)
def test_of_fifty_retries_to_two_processes_one_enters(fleet: Fleet, kind: str) -> None:
    with ThreadPoolExecutor(50) as pool:
        for asking in fleet.urls:
            token = ask(asking, kind)
            replies = list(pool.map(lambda number, token=token: retry(fleet.urls[number % 2], token, kind), range(50)))
            assert sorted(reply.status for reply in replies) == [200] + [400] * 49
            for reply in replies:
                if reply.status == 400:
                    assert reply.error == REFUSED
                else:
                    assert reply.result["resultType"] == "complete"
    assert len(fleet.entries()) == len(set(fleet.entries())) == 2
    fleet.end()


def test_what_is_given_back_in_one_process_opens_once_in_the_other(fleet: Fleet) -> None:
    one, other = fleet.urls
    token = ask(one)
    (fleet.folder / "busy").touch()
    assert retry(one, token).status == 200
    assert retry(other, token).status == 200
    (fleet.folder / "busy").unlink()
    assert [retry(url, token).status for url in (one, other, one)] == [200, 400, 400]
    assert len(fleet.entries()) == 3
    fleet.end()


def test_a_client_that_hangs_up_over_and_over_redeems_once(fleet: Fleet) -> None:
    """It closes its connection at all kinds of moments: in the body, right after it, and while the handler runs."""
    tokens = [ask(fleet.urls[number % 2]) for number in range(20)]
    for turn in range(5):
        for number, token in enumerate(tokens):
            hang_up(fleet.urls[(turn + number) % 2], token, (turn + number) % 5)
    statuses = [[retry(url, token).status for url in fleet.urls] for token in tokens]
    assert all(200 not in later for _, *later in statuses)
    fleet.end()
    entries = fleet.entries()
    assert len(entries) == len(set(entries)) == len(tokens)


def hang_up(url: str, token: str, how: int) -> None:
    method, params = KINDS["tool"]
    members = {**params, "requestState": token, "inputResponses": json.loads(ANSWER), "_meta": meta(FORM)}
    body = json.dumps({"jsonrpc": "2.0", "id": 9, "method": method, "params": members}).encode()
    parts = urlsplit(url)
    sent = headers(method, "price") | {"host": parts.netloc, "content-length": str(len(body))}
    head = f"POST {parts.path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in sent.items()) + "\r\n"
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=30) as connection:
        connection.sendall(head.encode() + (body[: len(body) // 2] if how == 0 else body))
        if how == 1:
            connection.shutdown(socket.SHUT_WR)
        if how == 2:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes([1, 0, 0, 0, 0, 0, 0, 0]))  # a reset
        if how == 3:
            connection.recv(1)


def test_what_was_spent_stays_so_when_a_process_is_killed_in_its_handler(fleet: Fleet) -> None:
    one, other = fleet.urls
    token = ask(one)
    (fleet.folder / "wait").touch()
    with ThreadPoolExecutor(1) as pool:
        lost = pool.submit(retry, one, token)
        while not (fleet.folder / "entries").exists() or not fleet.entries():
            assert not lost.done()
        fleet.processes[0].signal(signal.SIGKILL)
        with pytest.raises(Exception, match=r"disconnected|reset"):
            lost.result()
    (fleet.folder / "wait").unlink()
    assert (retry(other, token).status, retry(other, token).error) == (400, REFUSED)
    fleet.processes[0] = fleet.start()
    assert retry(url_of(fleet.processes[0]), token).status == 400
    assert len(fleet.entries()) == 1
    fleet.end()


def test_requests_with_bad_tokens_spend_nothing(fleet: Fleet) -> None:
    one, other = fleet.urls
    token = ask(one)
    data = bytearray(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    data[-1] ^= 1
    forged = base64.urlsafe_b64encode(data).rstrip(b"=").decode()
    assert [retry(url, forged).status for url in fleet.urls] == [400, 400]
    assert retry(other, token, "prompt").status == 400
    assert [retry(url, token).status for url in (other, one)] == [200, 400]
    fleet.end()
