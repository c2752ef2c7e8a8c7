"""Instances that share a file of keys, over real HTTP: why keys are rotated in the order in which they are."""

from __future__ import annotations

import base64
import json
import secrets
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mcpinput import KeyFile, ProtectionConfig, ProtectionKey, ProtectionKeyring, Server
from mcpinput.cli import main
from tests.services.conftest import SECONDS
from tests.services.servers import KINDS, price_server
from tests.services.wire import Reply, call

Serve = Callable[[Any], str]

ANSWER = b'{"price": {"action": "accept", "content": {"price": 3.50}}}'
REFUSED = {
    "code": -32602,
    "message": "Invalid or expired requestState",
    "data": {"reason": "invalid_request_state"},
}
METHOD, PARAMS = KINDS["tool"]


class Clock:
    """A clock that stands still until it is moved; seconds."""

    def __init__(self) -> None:
        self.now = float(int(time.time()))

    def __call__(self) -> float:
        return self.now


def ask(url: str) -> str:
    state: str = call(url, METHOD, PARAMS).result["requestState"]
    return state


def retry(url: str, state: str) -> Reply:
    return call(url, METHOD, PARAMS | {"requestState": state}, answers=ANSWER)


def key_id_of(state: str) -> str:
    data = base64.urlsafe_b64decode(state + "=" * (-len(state) % 4))
    return data[2 : 2 + data[1]].decode()


def assert_all_serve_all(urls: list[str]) -> None:
    """Whoever asks, everybody takes the answer."""
    for state in [ask(url) for url in urls]:
        for url in urls:
            assert retry(url, state).result["resultType"] == "complete"


def until(is_so: Callable[[], bool]) -> None:
    """Waits for what another thread will bring about."""
    end = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < end, "it never came about"
        time.sleep(0.005)


# ---- rings ----


def ringed(*keys: ProtectionKey) -> Server:
    builder = ProtectionKeyring.with_active_key(keys[0])
    for key in keys[1:]:
        builder.verification_key(key)
    return price_server([], ProtectionConfig(keyring=builder.build()))


def test_a_key_that_seals_before_every_instance_has_it_refuses_honest_clients(serve: Serve) -> None:
    """The order that looks simpler, and why it is wrong: as long as the instances differ, half of the answers fail."""
    old, new = (ProtectionKey.from_id_and_bytes(key_id, secrets.token_bytes(32)) for key_id in ("old", "new"))
    behind, ahead = serve(ringed(old)), serve(ringed(new, old))
    state = ask(ahead)
    assert (retry(behind, state).status, retry(behind, state).error) == (400, REFUSED)
    # The client did nothing wrong: where the key is known, the same token opens. And the other way round all is well.
    assert retry(ahead, state).result["resultType"] == "complete"
    assert retry(ahead, ask(behind)).result["resultType"] == "complete"


def test_a_key_that_every_instance_has_before_it_seals_refuses_nobody(serve: Serve) -> None:
    old, new = (ProtectionKey.from_id_and_bytes(key_id, secrets.token_bytes(32)) for key_id in ("old", "new"))
    servers = [ringed(old), ringed(old)]
    urls = [serve(server) for server in servers]
    managers = [server.protection_keyring_manager for server in servers]
    steps: list[Callable[[Any], None]] = [
        lambda manager: manager.stage_verification_key(new),
        lambda manager: manager.activate_staged_key("new"),
    ]
    for step in steps:
        for manager in managers:
            step(manager)
            assert_all_serve_all(urls)
    pending = ask(urls[0])
    for manager in managers:
        manager.remove_verification_key("old")
        assert_all_serve_all(urls)
        assert retry(urls[1], pending).result["resultType"] == "complete"


# ---- files ----


def following(file: Path, clock: Clock, **settings: Any) -> Server:
    settings = {"activation_delay": timedelta(seconds=10), "poll_interval": timedelta(milliseconds=10)} | settings
    return price_server([], ProtectionConfig(key_file=KeyFile(file, **settings), clock=clock))


def text_of(key: bytes) -> str:
    return base64.urlsafe_b64encode(key).rstrip(b"=").decode()


def promote(file: Path) -> None:
    """What somebody in a hurry does by hand: a new key, active at once."""
    content = json.loads(file.read_text())
    content["keys"].append({"id": "new", "key": text_of(secrets.token_bytes(32))})
    replace(file, content | {"active": "new"})


def replace(file: Path, content: Any) -> None:
    beside = file.with_suffix(".new")
    beside.touch(mode=0o600)
    beside.write_text(json.dumps(content))
    beside.rename(file)


def ids(server: Server) -> tuple[str, tuple[str, ...]]:
    snapshot = server.protection_keyring_manager.snapshot()
    return snapshot.active_key_id, snapshot.verification_key_ids


def test_a_key_that_is_promoted_in_a_hurry_opens_at_once_and_seals_after_the_delay(
    serve: Serve, tmp_path: Path
) -> None:
    clock, file = Clock(), tmp_path / "keys.json"
    assert main(["keys", "new", str(file), "--id", "old"]) == 0
    servers = [following(file, clock) for _ in range(2)]
    urls = [serve(server) for server in servers]
    assert_all_serve_all(urls)
    promote(file)
    until(lambda: all(ids(server) == ("old", ("new",)) for server in servers))
    assert_all_serve_all(urls)
    clock.now += 9.9
    assert {key_id_of(ask(url)) for url in urls} == {"old"}
    clock.now += 0.2
    until(lambda: ids(servers[0]) == ("new", ("old",)))
    assert_all_serve_all(urls)
    until(lambda: ids(servers[1]) == ("new", ("old",)))
    assert_all_serve_all(urls)


def test_an_instance_that_does_not_see_the_file_within_the_delay_refuses_honest_clients(
    serve: Serve, tmp_path: Path
) -> None:
    """What the delay is for: it must be longer than any instance needs to see a new file."""
    clock, file = Clock(), tmp_path / "keys.json"
    assert main(["keys", "new", str(file), "--id", "old"]) == 0
    seldom = {"activation_delay": timedelta(hours=1), "poll_interval": timedelta(hours=1)}
    ahead, behind = following(file, clock), following(file, clock, **seldom)
    urls = [serve(ahead), serve(behind)]
    assert_all_serve_all(urls)
    promote(file)
    until(lambda: ids(ahead) == ("old", ("new",)))
    clock.now += 11
    until(lambda: ids(ahead) == ("new", ("old",)))
    state = ask(urls[0])
    assert (retry(urls[1], state).status, retry(urls[1], state).error) == (400, REFUSED)
    assert ids(behind) == ("old", ())


def test_the_command_rotates_under_the_clients_of_two_instances(
    serve: Serve, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    clock, file = Clock(), tmp_path / "keys.json"
    monkeypatch.setattr("mcpinput._keys.time", SimpleNamespace(time=clock))
    assert main(["keys", "new", str(file), "--id", "old"]) == 0
    servers = [following(file, clock) for _ in range(2)]
    urls = [serve(server) for server in servers]
    assert_all_serve_all(urls)
    pending = ask(urls[0])
    rotate = ["keys", "rotate", str(file), "--activation-delay", "10", "--lifetime", "900"]

    def step(right: tuple[str, tuple[str, ...]]) -> None:
        assert main(rotate) == 0
        until(lambda: all(ids(server) == right for server in servers))
        assert_all_serve_all(urls)

    assert main([*rotate, "--id", "new"]) == 0
    until(lambda: all(ids(server) == ("old", ("new",)) for server in servers))
    assert_all_serve_all(urls)
    assert main(rotate) == 1
    assert "the next step is right from" in capsys.readouterr().err
    clock.now += 11
    step(("old", ("new",)))
    clock.now += 11
    until(lambda: all(ids(server) == ("new", ("old",)) for server in servers))
    assert_all_serve_all(urls)
    assert retry(urls[1], pending).result["resultType"] == "complete"
    last = ask(urls[1])
    assert key_id_of(last) == "new"
    clock.now += 880
    assert main(rotate) == 1
    assert retry(urls[0], last).result["resultType"] == "complete"
    clock.now += 100
    step(("new", ()))
    assert (retry(urls[1], pending).status, retry(urls[1], pending).error) == (400, REFUSED)


def test_a_key_that_is_revoked_in_the_file_opens_nothing_at_any_instance(serve: Serve, tmp_path: Path) -> None:
    clock, file = Clock(), tmp_path / "keys.json"
    assert main(["keys", "new", str(file), "--id", "old"]) == 0
    servers = [following(file, clock) for _ in range(2)]
    urls = [serve(server) for server in servers]
    states = [ask(url) for url in urls]
    promote(file)
    until(lambda: all(ids(server) == ("old", ("new",)) for server in servers))
    content = json.loads(file.read_text())
    content["keys"][0]["revoked"] = True
    replace(file, content)
    until(lambda: all(ids(server) == ("new", ()) for server in servers))
    for state in states:
        for url in urls:
            assert (retry(url, state).status, retry(url, state).error) == (400, REFUSED)
    assert_all_serve_all(urls)
