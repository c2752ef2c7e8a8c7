"""Key material that is kept in files leaves no object, error, log or output, whatever a file looks like."""

from __future__ import annotations

import asyncio
import atexit
import base64
import copy
import dataclasses
import json
import logging
import pickle
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mcpinput import KeyFile, ProtectionConfig, ProtectionFailure
from mcpinput._core.envelope import decode_token
from mcpinput.cli import main
from mcpinput.errors import KeyFileError, RequestStateProtectionError
from mcpinput.protection import ProtectionKey, ProtectionKeyring
from mcpinput.protection.context import Bindings
from mcpinput.protection.explain import Known, explain
from mcpinput.protection.single_use import SingleUse
from mcpinput.protection.state import Call, StateBoundary
from mcpinput.stores import MemoryStore, SqliteStore
from tests.support.secrets import Keeper, Search, everything_told, shown, told_in, told_of

NOW = 1_800_000_000.0
SECRETS = {
    "k1": bytes.fromhex("9d1f7f6a3c0be4d28815c9a6f07be3542d8e61b7044fca93ee5078d1ba26935c"),
    "k2": bytes.fromhex("07c4b86df1932ea55b7d90e83cf61a42d98bef1073c5260de41fa7b3948862fb"),
    "k0": bytes.fromhex("e3a9165cd07840bf2b96fd31c8547aee610b83f5da2c479018e6bb7d35f0a4c2"),
}
SPELLED = {key_id: base64.urlsafe_b64encode(raw).rstrip(b"=").decode() for key_id, raw in SECRETS.items()}
DERIVED = [
    ProtectionKey.from_id_and_bytes(key_id, raw).output(purpose)
    for key_id, raw in SECRETS.items()
    for purpose in ("state", "record", "fingerprint")
]
assert_clean = Search(*SECRETS.values(), *(text.encode() for text in SPELLED.values()), *DERIVED)


def content(**changes: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "active": "k2",
        "previous": "k1",
        "keys": [
            {"id": "k1", "key": SPELLED["k1"], "created": "2026-12-01T00:00:00Z"},
            {"id": "k2", "key": SPELLED["k2"], "created": "2026-12-01T00:00:00Z", "not_before": "2026-12-01T01:00:00Z"},
            {"id": "k0", "key": SPELLED["k0"], "revoked": True},
        ],
    } | changes


def write(file: Path, data: bytes | dict[str, Any]) -> Path:
    file.touch(mode=0o600)
    file.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
    return file


FOLDER = tempfile.TemporaryDirectory()
atexit.register(FOLDER.cleanup)
FILE = write(Path(FOLDER.name) / "keys.json", content())


def build() -> dict[str, Any]:
    key_file = KeyFile(FILE)
    read = key_file.read(NOW)
    watcher = key_file.follow(clock=lambda: NOW, maximum_lifetime_ms=900_000)
    memory, sqlite = MemoryStore(clock=lambda: NOW), SqliteStore(Path(FOLDER.name) / "spent.db", clock=lambda: NOW)
    atexit.register(sqlite.close)
    single_use = SingleUse(sqlite)
    boundary = StateBoundary(ProtectionConfig(keyring=watcher.manager.keyring, clock=lambda: NOW))
    call = Call(Bindings("a", "/mcp", "2026-07-28", "tools/call"), 1, lambda: bytes(32))

    async def sealed_and_spent() -> Any:
        sealed = await boundary.seal(call, None, {}, has_state=True, state="what the handler remembers")
        return sealed, await single_use.spend(bytes(16), 1, int(NOW * 1000) + 900_000)

    sealed, spent = asyncio.run(sealed_and_spent())
    return {
        "key file": key_file,
        "content": read,
        "entry": read.entries[0],
        "watcher": watcher,
        "manager": watcher.manager,
        "snapshot": watcher.manager.snapshot(),
        "configuration": ProtectionConfig(key_file=key_file, single_use=memory),
        "memory store": memory,
        "sqlite store": sqlite,
        "single use": single_use,
        "spent": spent,
        "explanation": explain(sealed.token, watcher.manager.keyring, Known(audience="b"), int(NOW * 1000)),
        "an explanation of nonsense": explain("nonsense", watcher.manager.keyring, Known(), int(NOW * 1000)),
    }


OBJECTS = build()
each_object = pytest.mark.parametrize("thing", OBJECTS.values(), ids=OBJECTS)


def test_the_search_finds_what_it_looks_for() -> None:
    for key_id, raw in SECRETS.items():
        for leak in (repr(raw), raw.hex(), SPELLED[key_id][5:30], repr([raw[::-1]])):
            with pytest.raises(AssertionError, match="are shown"):
                assert_clean(leak)


# ---- objects ----


@each_object
def test_no_text_or_attribute_of_an_object_shows_a_key(thing: Any) -> None:
    for text in (
        repr(thing),
        str(thing),
        f"{thing}",
        f"{thing!a}",
        repr([thing]),
        shown(getattr(thing, "__dict__", {})),
    ):
        assert_clean(text)
        assert "what the handler remembers" not in text
    for name in dir(thing):
        if name == "_text" and thing is OBJECTS["entry"]:
            continue  # the one place where the text of a key is kept
        try:
            value = getattr(thing, name)
        except AttributeError:
            continue
        assert_clean(shown(value))


MAKERS: dict[str, Callable[[Any], Any]] = {
    "pickle": pickle.dumps,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "asdict": dataclasses.asdict,
    "json": lambda thing: json.dumps(thing, default=repr),
    "getstate": lambda thing: thing.__getstate__(),
    "reduce": lambda thing: thing.__reduce__(),
}


@each_object
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_nothing_that_is_made_of_an_object_shows_a_key(thing: Any, make: Callable[[Any], Any]) -> None:
    try:
        made = make(thing)
    except Exception as error:
        assert_clean(told_of(error))
    else:
        assert_clean(shown(made))


@pytest.mark.parametrize("name", ["content", "entry", "watcher", "manager", "configuration"])
def test_what_leads_to_keys_is_neither_copied_nor_pickled(name: str) -> None:
    for make in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="key material"):
            make(OBJECTS[name])


# ---- files that cannot be used ----


def spoilt() -> dict[str, Any]:
    """Contents that are refused; each still holds the keys."""
    keys = content()["keys"]
    changed: dict[str, Any] = {
        "no json": json.dumps(content()).encode()[:-1],
        "an unknown member": content(more=SPELLED["k1"]),
        "a key for a member": content(**{SPELLED["k1"]: 1}),
        "another version": content(version=2),
        "a key for a version": content(version=SPELLED["k1"]),
        "an unknown active key": content(active="k9"),
        "a key in place of an id": content(active=SPELLED["k1"]),
        "a key in place of the previous id": content(previous=SPELLED["k1"]),
        "a revoked active key": content(active="k0"),
        "no keys": content(keys=[]),
        "a key in place of an entry": content(keys=[SPELLED["k1"]]),
        "keys that are no array": content(keys={"k1": SPELLED["k1"]}),
        "an id twice": content(keys=[*keys, {"id": "k1", "key": SPELLED["k0"]}]),
        "a key twice": content(keys=[*keys, {"id": "k4", "key": SPELLED["k1"]}]),
        "a member twice": json.dumps(content()).replace('"id": "k1"', '"id": "k1", "id": "k1"').encode(),
        "no text": b"\xff" + json.dumps(content()).encode(),
        "too large": json.dumps(content()).encode() + b" " * 1_100_000,
    }
    for name, entry in {
        "a key as its id": {"id": SPELLED["k1"], "key": SPELLED["k1"] + "="},
        "a key with padding": {"id": "k4", "key": SPELLED["k1"] + "="},
        "a key in base64": {"id": "k4", "key": base64.b64encode(SECRETS["k2"]).decode()},
        "a key in hexadecimal": {"id": "k4", "key": SECRETS["k1"].hex()},
        "a key as numbers": {"id": "k4", "key": list(SECRETS["k1"])},
        "a key as a number": {"id": "k4", "key": int.from_bytes(SECRETS["k1"], "big")},
        "a key that is cut": {"id": "k4", "key": SPELLED["k1"][:-3]},
        "a key with white space": {"id": "k4", "key": SPELLED["k1"] + "\n"},
        "a key under a wrong name": {"id": "k4", "secret": SPELLED["k1"]},
        "a bad id": {"id": "k 4", "key": SPELLED["k1"][::-1]},
        "a key as its time": {"id": "k4", "key": SPELLED["k1"][::-1], "created": SPELLED["k1"]},
        "a bad time": {"id": "k4", "key": SPELLED["k1"][::-1], "not_before": "tomorrow"},
        "a day that is none": {"id": "k4", "key": SPELLED["k1"][::-1], "not_before": "2026-02-30T00:00:00Z"},
        "a mark that is none": {"id": "k4", "key": SPELLED["k1"][::-1], "revoked": SPELLED["k1"]},
    }.items():
        changed[name] = content(keys=[*keys, entry])
    return changed


SPOILT = spoilt()
each_spoilt = pytest.mark.parametrize("data", SPOILT.values(), ids=SPOILT)


@each_spoilt
def test_a_refused_file_is_told_without_its_keys(data: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "keys.json", data)
    keeper = Keeper(KeyFile(file))
    del data
    told = everything_told(lambda: keeper.value.read(NOW))
    assert "KeyFileError" in told
    assert_clean(told)
    assert_clean(everything_told(lambda: keeper.value.follow(clock=lambda: NOW, maximum_lifetime_ms=1000)))
    for action in ("check", "fingerprint", "rotate"):
        assert main(["keys", action, str(file)]) == 1
    printed = capsys.readouterr()
    assert printed.err.count("\n") == 3
    assert_clean(printed.out + printed.err)


def test_a_file_that_is_cut_at_any_byte_is_told_without_its_keys(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    whole = json.dumps(content()).encode()
    for size in range(len(whole)):
        write(file, whole[:size])
        assert_clean(everything_told(lambda: KeyFile(file).read(NOW)))


@each_spoilt
def test_a_follower_that_meets_a_spoilt_file_logs_no_key(
    data: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    file = write(tmp_path / "keys.json", content())
    problems: list[str] = []
    watcher = KeyFile(file).follow(clock=lambda: NOW, maximum_lifetime_ms=1000, on_problem=problems.append)
    write(file, data)
    watcher.poll_once()
    write(file, content(active="k1", previous="k2"))
    watcher.poll_once()
    assert len(problems) == 1
    assert len(caplog.records) >= 2
    assert_clean("".join(problems) + told_in(caplog.records))


# ---- whatever else goes wrong ----


@pytest.mark.parametrize("error", [RuntimeError, MemoryError, RecursionError, KeyError, OSError, UnicodeError])
@pytest.mark.parametrize(
    "where",
    ["parse", "hashlib.sha256", "base64.urlsafe_b64decode", "ProtectionKey.from_id_and_bytes", "KeyFileContent"],
)
def test_an_error_that_nobody_expects_is_told_without_keys(
    where: str,
    error: type[Exception],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    caplog.set_level(logging.DEBUG)
    file = write(tmp_path / "keys.json", content())
    watcher = KeyFile(file).follow(clock=lambda: NOW, maximum_lifetime_ms=1000)
    write(file, content(active="k1", previous="k2"))

    def fails(*args: Any, **options: Any) -> Any:
        raise error(f"this was in hand: {args} {options}")

    monkeypatch.setattr(f"mcpinput.protection.keyfile.{where}", fails)
    told = everything_told(lambda: KeyFile(file).read(NOW))
    assert "KeyFileError" in told
    assert_clean(told)
    watcher.poll_once()
    assert_clean(told_in(caplog.records))
    assert caplog.records


@pytest.mark.parametrize("error", [RuntimeError, MemoryError, OSError, KeyboardInterrupt])
@pytest.mark.parametrize("where", ["data_of", "os.write", "os.rename", "os.fsync", "content_of", "_next"])
def test_a_rotation_that_fails_is_told_without_keys(
    where: str, error: type[BaseException], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: Any
) -> None:
    file = write(tmp_path / "keys.json", content(active="k1", previous="k2"))
    before = file.read_bytes()

    def fails(*args: Any, **options: Any) -> Any:
        raise error(f"this was in hand: {args} {options}")

    monkeypatch.setattr(f"mcpinput._keys.{where}", fails)
    assert main(["keys", "rotate", str(file)]) in (1, 130)
    monkeypatch.undo()
    printed = capfd.readouterr()
    assert_clean(printed.out + printed.err)
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["keys.json"]


def test_the_commands_print_no_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    made = tmp_path / "made.json"
    assert main(["keys", "new", str(made)]) == 0
    (entry,) = json.loads(made.read_text())["keys"]
    raw = base64.urlsafe_b64decode(entry["key"] + "=" * (-len(entry["key"]) % 4))
    clean_of_made = Search(raw, entry["key"].encode())
    for arguments in (["check"], ["fingerprint"], ["rotate", "--id", "k2"], ["rotate"], ["check"]):
        main(["keys", arguments[0], str(made), *arguments[1:]])
    for action in ("check", "fingerprint"):
        assert main(["keys", action, str(FILE)]) == 0
    printed = capsys.readouterr()
    assert "k2" in printed.out
    for clean in (assert_clean, clean_of_made):
        clean(printed.out + printed.err + told_in(caplog.records))


# ---- stores ----


def test_a_ledger_holds_and_tells_no_key_and_no_token(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level(logging.DEBUG)
    path = tmp_path / "spent.db"
    ring = OBJECTS["manager"].keyring
    boundary = StateBoundary(ProtectionConfig(keyring=ring, clock=lambda: NOW))
    bindings = Bindings("a", "/mcp", "2026-07-28", "tools/call", "part", "ten", "alice@example.test")

    async def flow(store: Any) -> str:
        sealed = await boundary.seal(Call(bindings, 1, lambda: bytes(32)), None, {}, has_state=True, state="remembered")
        opened = await boundary.open(sealed.token, Call(bindings, 2, lambda: bytes(32)))
        await SingleUse(store).spend(opened.flow_id, opened.round, opened.expires_ms)
        with pytest.raises(RequestStateProtectionError) as caught:
            await SingleUse(store).spend(opened.flow_id, opened.round, opened.expires_ms)
        assert caught.value.reason is ProtectionFailure.SPENT
        assert_clean(told_of(caught.value))
        return sealed.token

    store = SqliteStore(path, clock=lambda: NOW)
    try:
        token = asyncio.run(flow(store))
    finally:
        store.close()
    data = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    _, header, _, sealed = decode_token(token)
    for private in (b"remembered", b"alice", token.encode(), sealed[:12], header, *SECRETS.values()):
        assert private not in data
    assert_clean(told_in(caplog.records))


def test_an_explanation_of_a_revoked_key_shows_none(tmp_path: Path) -> None:
    ring = OBJECTS["content"].ring(OBJECTS["content"].entries[0])
    other = ProtectionKeyring.with_active_key(ProtectionKey.from_id_and_bytes("k0", SECRETS["k0"])).build()
    call = Call(Bindings("a", "/mcp", "2026-07-28", "tools/call"), 1, lambda: bytes(32))
    sealed = asyncio.run(StateBoundary(ProtectionConfig(keyring=other)).seal(call, None, {}, has_state=True, state="x"))
    for keyring, revoked in ((ring, ()), (other, ("k0",)), (other, ())):
        told = explain(sealed.token, keyring, Known(), int(datetime.now(UTC).timestamp() * 1000), revoked=revoked)
        assert_clean(repr(told) + shown(dataclasses.asdict(told)))
        assert sealed.token not in repr(told)


def test_a_key_file_error_can_be_pickled_and_names_file_and_member() -> None:
    with pytest.raises(KeyFileError) as caught:
        KeyFile("/nowhere/keys.json").read(NOW)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert "/nowhere/keys.json" in str(caught.value)
