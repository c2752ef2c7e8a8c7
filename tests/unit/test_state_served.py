"""Request state as a running server gives it out: what a token shows, and keys that change while requests run."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import string
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from mcpinput import (
    Admission,
    ProtectionFailure,
    ProtectionKey,
    ProtectionKeyInUseError,
    RequestContext,
    RequestStateMode,
    Server,
    input_required,
)
from mcpinput.server import dispatcher
from tests.support.asgi import Client, meta
from tests.support.servers import FORM, KEY, Recorder, accept, ask_form, price_server

OTHER = ProtectionKey.from_id_and_bytes("k2", bytes(range(1, 33)))


def token_of(client: Client, arguments: Any, *, id: int = 1) -> str:
    token: str = client.call_tool("set_price", arguments, id=id).result["requestState"]
    return token


def decoded(token: str) -> bytes:
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))


def key_id_of(token: str) -> str:
    data = decoded(token)
    return data[2 : 2 + data[1]].decode()


# ---- what a token shows ----


def windows(secret: bytes) -> Iterator[bytes]:
    """Every 6 bytes of a secret, plain, in hexadecimal, and in base64 at each alignment."""
    for at in range(len(secret) - 5):
        part = secret[at : at + 6]
        yield part
        yield part.hex().encode()
        yield base64.urlsafe_b64encode(part)
        yield base64.b64encode(part)


def test_a_token_shows_neither_arguments_nor_who_asks_nor_what_is_asked() -> None:
    names = ["tenant-of-this-test", "principal-of-this-test", "partition-of-this-test"]
    arguments = {"card": "4111-1111-1111-1111", "note": "what-the-caller-wrote"}
    question = ask_form("what-the-person-is-asked")
    state = {"remembered": "what-the-handler-remembers"}

    def admission(facts: Any, identity: Any) -> Admission:
        return Admission(names[2], names[1], names[0])

    server, _ = price_server(admission=admission)

    @server.tool("secretive", input_requests=[FORM], request_state=RequestStateMode.FRAMEWORK_PROTECTED)
    async def secretive(ctx: RequestContext, arguments: dict[str, Any]) -> Any:
        return input_required({"key-of-the-question": question}, framework_request_state=state)

    client = Client(server.asgi())
    tokens = [client.call_tool("secretive", arguments).result["requestState"] for _ in range(2)]
    private = [*names, *arguments.values(), question.params["message"], *state, *state.values(), "key-of-the-question"]
    for token in tokens:
        data = decoded(token)
        for text in private:
            for window in windows(text.encode()):
                assert window not in data
                assert window not in token.encode()
    # Equal requests get tokens that share nothing but version and key id: no one can tell that they are equal.
    first, second = map(decoded, tokens)
    assert first[:4] == second[:4] == b"\1\2k1"
    assert sum(one == other for one, other in zip(first[4:], second[4:], strict=True)) < len(first) // 8


def test_the_length_of_a_token_tells_nothing_of_arguments_and_caller() -> None:
    caller = ["a"]
    server, _ = price_server(admission=lambda facts, identity: Admission(caller[0], caller[0], caller[0]))
    client = Client(server.asgi())
    lengths = set()
    for size in (1, 10, 1000):
        caller[0] = "a" * size
        lengths |= {len(token_of(client, {"note": "x" * filler})) for filler in (0, 10, 10_000)}
    assert len(lengths) == 1


# ---- rounds that were left behind ----


def test_without_single_use_an_older_round_opens_again_and_is_a_branch_of_the_same_flow() -> None:
    server, entered = price_server()
    client = Client(server.asgi())
    first = token_of(client, {})
    second = client.call_tool("set_price", {}, id=2, state=first).result["requestState"]
    third = client.call_tool("set_price", {}, id=3, state=second).result["requestState"]
    entered.clear()
    for token, round_number in ((third, 3), (second, 2), (first, 1), (third, 3)):
        done = client.call_tool("set_price", {}, id=9, state=token, answers=accept(price=1))
        assert done.result["resultType"] == "complete"
        assert entered[-1].round == round_number
    assert len({ctx.flow_id for ctx in entered}) == 1


# ---- keys that change while requests run ----


def request(client: Client, request_id: int, **params: Any) -> tuple[bytes, dict[bytes, bytes]]:
    full = {"name": "waits", "arguments": {}, "_meta": meta(), **params}
    body = {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": full}
    return json.dumps(body).encode(), client.headers("tools/call", full)


def waiting_server() -> tuple[Server, asyncio.Event, asyncio.Event, list[int]]:
    """A tool that waits in every round but the first, and then asks once more."""
    server, _ = price_server()
    entered, may_go, rounds = asyncio.Event(), asyncio.Event(), []

    @server.tool("waits", input_requests=[FORM], request_state=RequestStateMode.FRAMEWORK_PROTECTED)
    async def waits(ctx: RequestContext) -> Any:
        rounds.append(ctx.round)
        if ctx.round:
            entered.set()
            await may_go.wait()
        return "done" if ctx.round == 2 else input_required({"price": ask_form()})

    return server, entered, may_go, rounds


def test_a_request_whose_state_was_opened_ends_well_though_its_key_is_removed_meanwhile() -> None:
    server, entered, may_go, rounds = waiting_server()
    client, manager = Client(server.asgi()), server.protection_keyring_manager

    async def scenario() -> None:
        first = (await client.exchange(*request(client, 1))).result["requestState"]
        running = asyncio.create_task(client.exchange(*request(client, 2, requestState=first)))
        await entered.wait()
        manager.rotate_active_key(OTHER)
        manager.remove_verification_key("k1")
        may_go.set()
        second = (await running).result["requestState"]
        assert key_id_of(second) == "k2"
        assert (await client.exchange(*request(client, 3, requestState=second))).result["resultType"] == "complete"
        assert (await client.exchange(*request(client, 4, requestState=first))).status == 400

    asyncio.run(scenario())
    assert rounds == [0, 1, 2]


def test_once_a_change_has_returned_no_thread_seals_or_opens_by_the_former_key() -> None:
    server, _ = price_server()
    client, manager = Client(server.asgi()), server.protection_keyring_manager
    old = token_of(client, {})
    changed = threading.Barrier(9, timeout=120)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(3):
                token_of(client, {})
            changed.wait()
            changed.wait()
            for _ in range(20):
                assert key_id_of(token_of(client, {})) == "k2"
                assert client.call_tool("set_price", {}, id=2, state=old, answers=accept(price=1)).status == 400
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    changed.wait()
    manager.rotate_active_key(OTHER)
    manager.remove_verification_key("k1")
    changed.wait()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.fixture
def eager_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("eager_switches")
def test_whole_flows_run_through_any_number_of_rotations() -> None:
    """Six threads ask and answer, one rotates: a key goes when no flow that it sealed for is under way any more."""
    server, _ = price_server()
    client, manager = Client(server.asgi()), server.protection_keyring_manager
    stop = threading.Event()
    failures: list[BaseException] = []
    flows, lock = [0], threading.Lock()
    under_way: dict[str, int] = {}

    def work() -> None:
        try:
            while not stop.is_set():
                with lock:  # whichever key seals, the rotating thread knows of the flow
                    token = token_of(client, {})
                    key_id = key_id_of(token)
                    under_way[key_id] = under_way.get(key_id, 0) + 1
                done = client.call_tool("set_price", {}, id=2, state=token, answers=accept(price=1))
                assert done.result["resultType"] == "complete"
                with lock:
                    under_way[key_id] -= 1
                    flows[0] += 1
        except BaseException as error:
            failures.append(error)
            stop.set()

    def rotate() -> None:
        try:
            for number in range(60):
                former = manager.snapshot().active_key_id
                key = ProtectionKey.from_id_and_bytes(f"r{number}", secrets.token_bytes(32))
                manager.stage_verification_key(key)
                manager.activate_staged_key(key.id)
                while not stop.is_set():
                    with lock:
                        if not under_way.get(former):
                            try:
                                manager.remove_verification_key(former)
                                break
                            except ProtectionKeyInUseError:
                                pass
        except BaseException as error:
            failures.append(error)
        finally:
            stop.set()

    threads = [threading.Thread(target=work) for _ in range(6)] + [threading.Thread(target=rotate)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert flows[0] > 0
    assert manager.snapshot().sealing_reservations == {"r59": 0}


def test_one_request_is_judged_by_one_ring_though_it_changes_in_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    """The digest of the body is computed between tag and bindings; a key that goes just then has opened already."""
    recorder = Recorder()
    server, entered = price_server(observer=recorder)
    client, manager = Client(server.asgi()), server.protection_keyring_manager
    token = token_of(client, {})
    entered.clear()
    compute: Any = dispatcher.__dict__["message_digest"]

    def change_and_compute(*args: Any, **options: Any) -> Any:
        if "k1" in manager.snapshot().verification_key_ids or manager.snapshot().active_key_id == "k1":
            manager.rotate_active_key(OTHER)
            manager.remove_verification_key("k1")
        return compute(*args, **options)

    monkeypatch.setattr(dispatcher, "message_digest", change_and_compute)
    done = client.call_tool("set_price", {}, id=2, state=token, answers=accept(price=1))
    assert done.result["resultType"] == "complete"
    assert len(entered) == 1
    again = client.call_tool("set_price", {}, id=2, state=token, answers=accept(price=1))
    assert again.status == 400
    assert (recorder.rejections[-1].failure, recorder.rejections[-1].key_id) == (ProtectionFailure.UNKNOWN_KEY, "k1")


def test_rings_that_cannot_be_leave_the_old_one_in_force() -> None:
    server, _ = price_server()
    client, manager = Client(server.asgi()), server.protection_keyring_manager
    token = token_of(client, {})
    before = manager.snapshot()
    raw = bytes(range(32))
    for key in (
        ProtectionKey.from_id_and_bytes("k1", bytes(range(1, 33))),
        ProtectionKey.from_id_and_bytes("k9", raw),
    ):
        with pytest.raises(ValueError, match=r"other bytes|same bytes"):
            manager.stage_verification_key(key)
        with pytest.raises(ValueError, match=r"other bytes|same bytes"):
            manager.rotate_active_key(key)
    for key_id in ("", "k\0", "K1", "k" * 256):
        with pytest.raises(ValueError, match="no such key"):
            manager.activate_staged_key(key_id)
        with pytest.raises(ValueError, match="no such key"):
            manager.remove_verification_key(key_id)
    assert manager.snapshot().fingerprint == before.fingerprint
    assert client.call_tool("set_price", {}, id=2, state=token, answers=accept(price=1)).status == 200


# ---- what a service is called ----


@pytest.mark.parametrize("name", ["", None, 7, "\ud800"])
def test_a_service_has_a_name_which_its_state_is_bound_to(name: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="name"):
        price_server(name=name)


def test_tokens_use_one_alphabet_and_differ_each_time() -> None:
    server, _ = price_server()
    client = Client(server.asgi())
    tokens = [token_of(client, {}) for _ in range(200)]
    assert len({token[6:38] for token in tokens}) == 200
    assert set("".join(tokens)) == set(string.ascii_letters + string.digits + "-_")
    assert {key_id_of(token) for token in tokens} == {KEY.id}
