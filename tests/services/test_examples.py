"""The examples, as processes outside of the checkout."""

from __future__ import annotations

import asyncio
import base64
import importlib.util
import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.services.conftest import SECONDS, Process, ended, url_of
from tests.services.wire import Reply, call
from tests.support.asgi import Client, Response
from tests.support.keyfiles import assert_shows_no_key, document, entry, put
from tests.support.keyfiles import text_of as key_text

Run = Callable[..., Process]
EXAMPLES = Path(__file__).parents[2] / "examples"


def text_of(reply: Reply) -> str:
    text = reply.result["content"][0]["text"]
    assert isinstance(text, str)
    return text


# ---- demo.py ----


def test_demo(run: Run) -> None:
    process = run(str(EXAMPLES / "demo.py"), "--port", "0")
    url = url_of(process)
    params: dict[str, Any] = {"name": "catalog.continue", "arguments": {}}
    params["requestState"] = call(url, "tools/call", params).result["requestState"]
    reply = call(url, "tools/call", params, answers=b'{"approval": {"action": "accept", "content": {}}}')
    assert text_of(reply) == "approved"
    ended(process, signal.SIGINT)


# ---- catalog.py ----


@pytest.fixture
def catalog(run: Run) -> str:
    return url_of(run(str(EXAMPLES / "catalog.py"), "--port", "0"))


def add(url: str, state: str | None = None, answer: bytes | None = None) -> Reply:
    params: dict[str, Any] = {"name": "catalog.add", "arguments": {}}
    if state is not None:
        params["requestState"] = state
    return call(url, "tools/call", params, answers=None if answer is None else b'{"item": %b}' % answer)


def question(reply: Reply) -> tuple[str, list[str]]:
    params = reply.result["inputRequests"]["item"]["params"]
    assert params["requestedSchema"]["required"] == list(params["requestedSchema"]["properties"])
    return params["message"], params["requestedSchema"]["required"]


def test_catalog_asks_until_it_has_all(catalog: str) -> None:
    reply = add(catalog)
    assert question(reply) == ("Please describe the new item.", ["name", "price", "kind"])
    answer = b'{"action": "accept", "content": {"name": " Teapot ", "price": -1, "kind": "kitchen"}}'
    reply = add(catalog, reply.result["requestState"], answer)
    assert question(reply) == ("The price must be a number of at least 0. Please describe the new item.", ["price"])
    reply = add(catalog, reply.result["requestState"], b'{"action": "accept", "content": {"price": 3.50}}')
    assert text_of(reply) == '{"name":"Teapot","price":3.50,"kind":"kitchen"}'
    total = call(catalog, "tools/call", {"name": "catalog.total", "arguments": {}})
    assert text_of(total) == '{"items":1,"total":3.50}'
    read = call(catalog, "resources/read", {"uri": "catalog://items/Teapot"})
    assert read.result["contents"][0]["text"] == "Teapot (kitchen), 3.50"


@pytest.mark.parametrize("action", [b"decline", b"cancel"])
def test_catalog_takes_no_for_an_answer(catalog: str, action: bytes) -> None:
    reply = add(catalog, add(catalog).result["requestState"], b'{"action": "%b"}' % action)
    assert text_of(reply) == "Nothing was added."
    assert call(catalog, "resources/read", {"uri": "catalog://items/Teapot"}).error["code"] == 1


def test_catalog_checks_every_field(catalog: str) -> None:
    state = add(catalog).result["requestState"]
    for content in (b'{"name": "", "price": true, "kind": "cellar"}', b'{"name": ["a"], "price": "1"}', b"{}"):
        reply = add(catalog, state, b'{"action": "accept", "content": %b}' % content)
        assert question(reply)[1] == ["name", "price", "kind"]
        assert question(reply)[0].count("must") == 3


def test_catalog_ends_when_no_rounds_are_left(catalog: str) -> None:
    reply = add(catalog)
    for _ in range(9):
        reply = add(catalog, reply.result["requestState"])
        assert reply.result["resultType"] == "input_required"
    reply = add(catalog, reply.result["requestState"])
    assert reply.result["isError"] is True
    assert text_of(reply).startswith("Nothing was added: the last question was not answered in full.")


# ---- admitted.py ----

CLEAR = {"name": "catalog.clear", "arguments": {}}
SURE = b'{"sure": {"action": "accept"}}'


class Keys:
    """The file of keys, and the environment that names it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.write("k1", "k1")
        self.env = {"CATALOG_KEYS": str(path), "CATALOG_TOKENS": json.dumps({"alice": "token-a", "bob": "token-b"})}

    def write(self, active: str, *keys: str | dict[str, Any], **members: Any) -> None:
        put(self.path, document(active, *keys, **members))


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path / "keys.json")


def clear(url: str, token: str, state: str | None = None, answers: bytes | None = None) -> Reply:
    return call(
        url, "tools/call", CLEAR if state is None else CLEAR | {"requestState": state}, answers=answers, token=token
    )


def key_of(state: str) -> str:
    """The id of the key that sealed a state."""
    header = base64.urlsafe_b64decode(state[:80])
    return header[2 : 2 + header[1]].decode()


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_admitted_lets_in_whom_it_knows(run: Run, keys: Keys) -> None:
    first, second = (run(str(EXAMPLES / "admitted.py"), "--port", "0", **keys.env) for _ in range(2))
    one, two = url_of(first), url_of(second)
    assert call(one, "tools/call", CLEAR).status == 401
    assert clear(one, "token-c").status == 401
    reply = clear(one, "token-a")
    assert reply.result["inputRequests"]["sure"]["params"]["message"] == "Remove all items of alice?"
    state = reply.result["requestState"]
    assert clear(two, "token-b", state, SURE).error["data"] == {"reason": "invalid_request_state"}
    assert text_of(clear(two, "token-a", state, SURE)) == "All items of alice are removed."
    assert text_of(clear(two, "token-a", state, b'{"sure": {"action": "decline"}}')) == "Nothing was removed."
    ended(first, signal.SIGINT)
    second.signal(signal.SIGTERM)
    code, out, err = second.end()
    assert (code, out) == (0, "")
    assert err.startswith("request state refused: authorization partition (key k1, ")


def test_admitted_follows_its_keys_while_it_runs(run: Run, keys: Keys) -> None:
    def start() -> str:
        return url_of(run(str(EXAMPLES / "admitted.py"), "--port", "0", **keys.env))

    def sure(url: str, state: str) -> int:
        return clear(url, "token-a", state, SURE).status

    one = start()
    state = clear(one, "token-a").result["requestState"]
    assert key_of(state) == "k1"

    # The first instance waits for two minutes: it has met the new key just now. One that starts goes by the file.
    keys.write("k2", "k1", entry("k2", not_before="2026-01-01T00:00:00Z"), previous="k1")
    two = start()
    newer = clear(two, "token-a").result["requestState"]
    assert key_of(newer) == "k2"
    wait_until(lambda: sure(one, newer) == 200)
    assert key_of(clear(one, "token-a").result["requestState"]) == "k1"
    assert sure(two, state) == 200

    keys.write("k2", entry("k1", revoked=True), entry("k2", not_before="2026-01-01T00:00:00Z"))
    for url in (one, two):
        wait_until(lambda: sure(url, state) == 400)  # noqa: B023 - called at once
        assert sure(url, newer) == 200
        assert key_of(clear(url, "token-a").result["requestState"]) == "k2"


def test_admitted_keeps_its_keys_where_the_file_is_wrong(run: Run, keys: Keys) -> None:
    process = run(str(EXAMPLES / "admitted.py"), "--port", "0", **keys.env)
    url = url_of(process)
    state = clear(url, "token-a").result["requestState"]
    put(keys.path, b'{"version": 1, "active": "k2", "keys": [{"id": "k2", "key": "' + key_text("k2").encode())
    end = time.monotonic() + 2.5  # it reads every second
    while time.monotonic() < end:
        assert text_of(clear(url, "token-a", state, SURE)) == "All items of alice are removed."
    process.signal(signal.SIGTERM)
    code, out, err = process.end()
    assert (code, out, err.count("\n")) == (0, "", 1)
    assert err.startswith(f"key file {str(keys.path)!r}: is no JSON text: ")
    assert_shows_no_key(err)


@pytest.mark.parametrize("name", ["CATALOG_KEYS", "CATALOG_TOKENS"])
def test_admitted_says_what_it_lacks(run: Run, keys: Keys, name: str) -> None:
    env = {key: value for key, value in keys.env.items() if key != name}
    code, out, err = run(str(EXAMPLES / "admitted.py"), "--port", "0", **env).end()
    assert (code, out) == (1, "")
    assert err.startswith(f"set {name} to ")
    assert err.count("\n") == 1


def test_admitted_tells_of_a_missing_file_in_one_line(run: Run, keys: Keys) -> None:
    keys.path.unlink()
    code, out, err = run(str(EXAMPLES / "admitted.py"), "--port", "0", **keys.env).end()
    assert (code, out) == (2, "")
    assert err.startswith("mcpinput serve: calling __main__:build_server failed: KeyFileError: key file ")
    assert err.count("\n") == 1


# ---- kms.py ----

RELEASE: dict[str, Any] = {"name": "payouts.release", "arguments": {}}


@pytest.fixture
def kms_example() -> Any:
    """The example as a module, with a short time limit for its service."""
    spec = importlib.util.spec_from_file_location("kms_example", EXAMPLES / "kms.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.SECONDS = 0.05
    return module


@pytest.fixture
def payouts(kms_example: Any) -> tuple[Any, Client]:
    """The stand-in of the service, and a client of the server that uses it."""
    kms = kms_example.Kms()
    return kms, Client(kms_example.build_server(kms).asgi())


def release(client: Client, state: str | None = None, id: int = 2, arguments: Any = None) -> Response:
    answers = None if state is None else {"sure": {"action": "accept"}}
    return client.call_tool(
        "payouts.release", {} if arguments is None else arguments, id=id, state=state, answers=answers
    )


def test_kms_carries_the_flow(payouts: tuple[Any, Client]) -> None:
    _, client = payouts
    state = release(client, id=1).result["requestState"]
    assert b"asked" not in base64.urlsafe_b64decode(state)
    assert state != release(client, id=1).result["requestState"]
    assert release(client, state).result["content"][0]["text"] == "All payouts are released."


def test_kms_refuses_every_token_that_it_did_not_make(payouts: tuple[Any, Client]) -> None:
    _, client = payouts
    state = release(client, id=1).result["requestState"]
    data = base64.urlsafe_b64decode(state)
    changed = [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(len(data))]
    cut = [data[:at] for at in range(len(data))]
    spellings = [state + "=", state.rstrip("=") + "===", f"!{state}", state.replace("=", ""), f" {state}", state[:-1]]
    tokens = [base64.urlsafe_b64encode(each).decode() for each in (*changed, *cut, data + b"x")]
    answers = [release(client, each) for each in (*tokens, *(each for each in spellings if each != state)) if each]
    assert {(answer.status, answer.body) for answer in answers} == {(400, release(client, "!").body)}
    assert release(client, state, arguments={"more": 1}).status == 400
    assert release(client, state).status == 200


def test_kms_keeps_the_flow_while_its_service_is_away(payouts: tuple[Any, Client]) -> None:
    kms, client = payouts
    state = release(client, id=1).result["requestState"]
    kms.is_away = True
    away = release(client, state)
    assert (away.status, away.error["code"], away.header(b"retry-after")) == (503, -32603, b"1")
    assert release(client, id=1).error["message"] == "Request state could not be sealed"
    kms.is_away = False
    assert release(client, state).status == 200


def test_kms_does_not_wait_for_a_service_that_hangs(kms_example: Any, payouts: tuple[Any, Client]) -> None:
    kms, client = payouts
    state = release(client, id=1).result["requestState"]

    async def hang() -> None:
        await asyncio.Event().wait()

    kms._travel = hang
    assert release(client, state).status == 503
    assert release(client, id=1).error["message"] == "Request state could not be sealed"


def test_kms_is_served(run: Run) -> None:
    process = run(str(EXAMPLES / "kms.py"), "--port", "0")
    url = url_of(process)
    retry = RELEASE | {"requestState": call(url, "tools/call", RELEASE).result["requestState"]}
    process.signal(signal.SIGUSR1)
    process.wait_for("kms: away\n")
    assert call(url, "tools/call", retry, answers=SURE).status == 503
    process.signal(signal.SIGUSR1)
    process.wait_for("kms: back\n")
    assert (
        text_of(call(url, "tools/call", retry, answers=b'{"sure": {"action": "decline"}}')) == "Nothing was released."
    )
    assert text_of(call(url, "tools/call", retry, answers=SURE)) == "All payouts are released."
    process.signal(signal.SIGTERM)
    code, out, err = process.end()
    assert (code, out) == (0, "")
    assert err.startswith("request state refused: unavailable (")
