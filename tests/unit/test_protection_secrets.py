"""Key material leaves no object of the package: not by repr, format, vars, copies, pickles, logs or tracebacks.

The tables say what is looked at. A new object goes into ``build``, a new way to be refused into ``REFUSALS``.
"""

import asyncio
import base64
import copy
import dataclasses
import json
import logging
import os
import pickle
import pprint
import traceback
from datetime import timedelta

import msgspec
import pytest

from mcpinput import ProtectionContext, Server
from mcpinput.errors import EnvelopeError, ProtectionFailure, ProtectionKeyInUseError, RequestStateProtectionError
from mcpinput.json import canonical_bytes, dump
from mcpinput.protection import ProtectionConfig, ProtectionKey, ProtectionKeyring, ProtectionKeyringManager
from mcpinput.protection.context import Bindings
from mcpinput.protection.keyfile import KeyFile
from mcpinput.protection.protector import open_token, seal_token
from mcpinput.protection.state import AskedRequest, Call, StateBoundary
from tests.support.asgi import Client
from tests.support.secrets import Keeper, Search, everything_told, shown, told_in, told_of
from tests.support.servers import Clock, accept, price_server

RAW = b"Tr0ub4dor&3-this-is-the-key-material-of-this-test"
OTHER = b"another-key-material-of-this-test-0123456789"
STATE = "what the handler remembers"
PRINCIPAL = "alice@example.test"


def fails_to_digest():
    raise EnvelopeError("no digest")


def build():
    key = ProtectionKey.from_id_and_bytes("k1", RAW)
    other = ProtectionKey.from_id_and_bytes("k2", OTHER)
    builder = ProtectionKeyring.with_active_key(key).verification_key(other)
    ring = builder.build()
    config = ProtectionConfig(keyring=ring)
    boundary = StateBoundary(config)
    bindings = Bindings("aud", "/mcp", "2026-07-28", "tools/call", "part", "ten", PRINCIPAL)
    call = Call(bindings, 1, lambda: b"p" * 32)
    asked = {"k": AskedRequest(1, bytes(16))}
    sealed = asyncio.run(boundary.seal(call, None, asked, has_state=True, state=STATE))
    opened = asyncio.run(boundary.open(sealed.token, Call(bindings, 2, lambda: b"p" * 32)))
    manager = boundary.keyring_manager
    server, _ = price_server(keys=ring, clock=Clock())
    objects = {
        "key": key,
        "cipher": key.cipher("state"),
        "builder": builder,
        "ring": ring,
        "config": config,
        "manager": manager,
        "reservation": manager.sealing(),
        "snapshot": manager.snapshot(),
        "boundary": boundary,
        "bindings": bindings,
        "call": call,
        "sealed": sealed,
        "opened": opened,
        "another call": Call(dataclasses.replace(bindings, principal="bob"), 2, lambda: b"p" * 32),
        "call that fails": Call(bindings, 2, fails_to_digest),
        "fingerprint": ring.fingerprint,
        "protection context": ProtectionContext(bindings, lambda: b"p" * 32),
        "refusal": RequestStateProtectionError(ProtectionFailure.NOT_AUTHENTIC, key_id="k1", age_ms=1, round=1),
        "server": server,
        "application": server.asgi(),
    }
    derived = [key.output(purpose) for purpose in ("state", "sdk-state", "record", "fingerprint")]
    return objects, [RAW, OTHER, *derived], sealed.token


OBJECTS, SECRETS, TOKEN = build()
assert_clean = Search(*SECRETS)
each_object = pytest.mark.parametrize("thing", OBJECTS.values(), ids=OBJECTS)


def test_the_search_finds_what_it_looks_for():
    for leak in (
        repr(RAW),
        RAW.hex(),
        str(list(OTHER)),
        base64.b64encode(RAW).decode(),
        base64.urlsafe_b64encode(b"?" + OTHER).decode(),
        repr(RAW[::-1]),
        repr({"a": bytearray(RAW[7:])}),
        f"{int.from_bytes(RAW[4:16], 'big')}",
        *map(repr, SECRETS),
        *(shown({"a": [memoryview(secret)]}) for secret in SECRETS),
    ):
        with pytest.raises(AssertionError):
            assert_clean(leak)
    assert_clean(shown({"a": [b"x" * 99, memoryview(bytes(32))]}))


def leaks_deep_inside():
    def inner(view):
        try:
            raise KeyError("first")
        except KeyError:
            raise ValueError("second") from None

    inner(memoryview(OTHER))


def test_the_search_finds_what_stands_in_a_frame():
    with pytest.raises(AssertionError, match="are shown"):
        assert_clean(everything_told(leaks_deep_inside))


# ---- objects ----


@each_object
def test_no_text_of_an_object_shows_a_secret(thing):
    texts = [
        repr(thing),
        str(thing),
        f"{thing}",
        f"{thing!a}",
        repr([thing]),
        repr({"x": thing}),
        pprint.pformat(thing),
    ]
    texts.append(logging.LogRecord("x", logging.INFO, "x", 1, "%s %r", (thing, thing), None).getMessage())
    for text in texts:
        assert_clean(text)
        for private in (STATE, PRINCIPAL, TOKEN):
            assert private not in text


@each_object
def test_no_attribute_of_an_object_shows_a_secret(thing):
    assert_clean(shown(getattr(thing, "__dict__", {})))
    for name in dir(thing):
        # Only the cipher itself has key bytes in an attribute, of a private name; all else leads there by its holder.
        if not (name.startswith("_") and thing is OBJECTS["cipher"]):
            try:
                value = getattr(thing, name)
            except AttributeError:  # a slot that is still empty
                continue
            assert_clean(shown(value))


SERIALISERS = {
    "json": json.dumps,
    "json with a default": lambda thing: json.dumps({"x": thing}, default=str),
    "msgspec": msgspec.to_builtins,
    "msgspec json": msgspec.json.encode,
    "mcpinput json": lambda thing: dump({"x": thing}),
    "canonical": canonical_bytes,
    "asdict": dataclasses.asdict,
    "astuple": dataclasses.astuple,
    "replace": dataclasses.replace,
    "bytes": bytes,
    "iteration": list,
    "getstate": lambda thing: thing.__getstate__(),
    "reduce": lambda thing: thing.__reduce__(),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "replace of one that is copied": lambda thing: dataclasses.replace(copy.copy(thing)),
    **{
        f"pickle {protocol}": lambda thing, protocol=protocol: pickle.dumps(thing, protocol)
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
    },
}


@each_object
@pytest.mark.parametrize("serialise", SERIALISERS.values(), ids=SERIALISERS)
def test_nothing_that_can_be_made_of_an_object_shows_a_secret(thing, serialise):
    try:
        made = serialise(thing)
    except Exception as error:
        assert_clean(told_of(error))
    else:
        assert_clean(shown(made))


@pytest.mark.parametrize("name", ["key", "cipher", "builder", "ring", "config", "manager"])
def test_what_holds_keys_is_neither_copied_nor_pickled(name):
    thing = OBJECTS[name]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="key material and cannot be pickled"):
            pickle.dumps(thing, protocol)
    for take in (copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="key material and cannot be copied"):
            take(thing)


@pytest.mark.parametrize("name", ["reservation", "boundary", "sealed", "server", "application"])
def test_what_leads_to_keys_is_not_pickled(name):
    with pytest.raises(TypeError, match=r"key material|cannot pickle"):
        pickle.dumps(OBJECTS[name])
    with pytest.raises(TypeError, match=r"key material|cannot pickle"):
        copy.deepcopy(OBJECTS[name])


# ---- errors ----


@pytest.mark.parametrize(
    ("key_id", "raw"),
    [
        ("k1", RAW[:31]),
        ("", RAW),
        ("é", RAW),
        (1, RAW),
        (RAW, "k1"),
        (None, memoryview(RAW)),
        ("x" * 65, bytearray(RAW)),
        ("k1", list(RAW)),
        ("k1", tuple(RAW)),
        ("k1", {"key": RAW}),
        ("k1", RAW.decode()),
        ("k1", int.from_bytes(RAW, "big")),
    ],
)
def test_a_refused_key_is_not_in_the_traceback(key_id, raw):
    keeper = Keeper((key_id, raw))
    del key_id, raw
    told = everything_told(lambda: ProtectionKey.from_id_and_bytes(*keeper.value))
    assert "from_id_and_bytes" in told
    assert_clean(told)


def opened(token, call="call"):
    return asyncio.run(OBJECTS["boundary"].open(token, OBJECTS[call]))


def sealed_again(**options):
    return asyncio.run(OBJECTS["boundary"].seal(OBJECTS["call"], None, {}, has_state=True, **options))


def a_key(key_id, raw):
    return ProtectionKey.from_id_and_bytes(key_id, raw)


REFUSALS = {
    "other bytes under an id": lambda: OBJECTS["manager"].stage_verification_key(a_key("k1", OTHER)),
    "the same bytes under another id": lambda: OBJECTS["manager"].stage_verification_key(a_key("k3", RAW)),
    "the same, at once active": lambda: OBJECTS["manager"].rotate_active_key(a_key("k3", RAW)),
    "the same, in a new ring": lambda: OBJECTS["ring"].staged(a_key("k3", RAW)),
    "an id twice in a builder": lambda: OBJECTS["builder"].verification_key(a_key("k2", RAW)),
    "bytes twice in a builder": lambda: OBJECTS["builder"].verification_key(a_key("k3", OTHER)),
    "removing the active key": lambda: OBJECTS["manager"].remove_verification_key("k1"),
    "removing an unknown key": lambda: OBJECTS["manager"].remove_verification_key("k9"),
    "activating the active key": lambda: OBJECTS["manager"].activate_staged_key("k1"),
    "activating an unknown key": lambda: OBJECTS["manager"].activate_staged_key("k9"),
    "an unknown purpose": lambda: OBJECTS["key"].output("other"),
    "a short nonce": lambda: OBJECTS["key"].cipher("state").encrypt(b"", b"", b""),
    "a bad tag": lambda: OBJECTS["key"].cipher("state").decrypt(bytes(24), bytes(40), b""),
    "no plaintext": lambda: OBJECTS["key"].cipher("state").encrypt(bytes(24), None, b""),
    "no ciphertext": lambda: OBJECTS["key"].cipher("record").decrypt(bytes(24), None, b""),
    "a cipher of a short key": lambda: type(OBJECTS["cipher"])(OBJECTS["key"].output("record")[:31]),
    "a short nonce for a token": lambda: seal_token(OBJECTS["key"], bytes(23), b"x"),
    "no payload for a token": lambda: seal_token(OBJECTS["key"], bytes(24), None),
    "no rounds": lambda: ProtectionConfig(keyring=OBJECTS["ring"], maximum_request_state_rounds=0),
    "no ring": lambda: ProtectionConfig(keyring=OBJECTS["key"]),
    "ring and protector": lambda: ProtectionConfig(keyring=OBJECTS["ring"], protector=OBJECTS["ring"]),
    "a ring that is no protector": lambda: ProtectionConfig(protector=OBJECTS["ring"]),
    "a ring for an ephemeral one": lambda: ProtectionConfig.ephemeral(keyring=OBJECTS["ring"]),
    "a lifetime that cannot be": lambda: ProtectionConfig(
        keyring=OBJECTS["ring"], maximum_request_state_lifetime=timedelta(0)
    ),
    "a manager of a key": lambda: ProtectionKeyringManager(OBJECTS["key"]),
    "changing a key": lambda: setattr(OBJECTS["key"], "id", "k9"),
    "changing a configuration": lambda: setattr(OBJECTS["config"], "keyring", None),
    "comparing": lambda: OBJECTS["key"] < OBJECTS["key"],
    "making a key": lambda: ProtectionKey(OBJECTS["key"]),
    "making a ring": lambda: ProtectionKeyring(OBJECTS["ring"]),
    "pickling": lambda: pickle.dumps(OBJECTS["ring"]),
    "no handler for the mode": lambda: Server("s", version="1", protection=OBJECTS["config"]).asgi(),
    "a bad tag of a token": lambda: opened(TOKEN[:-8] + "AAAAAAAA"),
    "a token that is none": lambda: opened("no token"),
    "a token that is too long": lambda: opened("A" * 70_000),
    "a token of another ring": lambda: open_token(ProtectionKeyring.ephemeral(), TOKEN),
    "the id of the request that asked": lambda: opened(TOKEN),
    "another caller": lambda: opened(TOKEN, "another call"),
    "state that is too large": lambda: sealed_again(state="x" * 50_000),
    "state that is no JSON": lambda: sealed_again(state=0.5),
    "the parameters have no digest": lambda: asyncio.run(
        OBJECTS["boundary"].seal(OBJECTS["call that fails"], None, {}, has_state=False)
    ),
}


@pytest.mark.parametrize("action", REFUSALS.values(), ids=REFUSALS)
def test_no_error_tells_a_secret(action):
    assert_clean(everything_told(action))


IN_PLACE_OF_A_KEY = {
    "an active key": lambda keeper: ProtectionKeyring.with_active_key(keeper.value),
    "a verification key": lambda keeper: OBJECTS["builder"].verification_key(keeper.value),
    "a staged key": lambda keeper: OBJECTS["ring"].staged(keeper.value),
    "a staged key of a manager": lambda keeper: OBJECTS["manager"].stage_verification_key(keeper.value),
    "a rotated key": lambda keeper: OBJECTS["manager"].rotate_active_key(keeper.value),
    "a ring": lambda keeper: ProtectionKeyringManager(keeper.value),
    "a configuration": lambda keeper: Server("s", version="1", protection=keeper.value),
    "a new ring": lambda keeper: OBJECTS["manager"].replace_keyring(keeper.value),
    "a configured ring": lambda keeper: ProtectionConfig(keyring=keeper.value),
    "a configured file": lambda keeper: ProtectionConfig(key_file=keeper.value),
    "a configured protector": lambda keeper: ProtectionConfig(protector=keeper.value),
    "an ephemeral ring": lambda keeper: ProtectionConfig.ephemeral(keyring=keeper.value),
}


@pytest.mark.parametrize("raw", [RAW, bytearray(RAW), RAW.decode(), list(RAW)], ids=["bytes", "array", "text", "list"])
@pytest.mark.parametrize("use", IN_PLACE_OF_A_KEY.values(), ids=IN_PLACE_OF_A_KEY)
def test_bytes_that_were_passed_in_place_of_a_key_or_ring_are_in_no_frame(use, raw):
    keeper = Keeper(raw)
    del raw
    told = everything_told(lambda: use(keeper))
    assert "TypeError" in told
    assert_clean(told)


IN_PLACE_OF_AN_ID = {
    "an activated key": lambda keeper: OBJECTS["manager"].activate_staged_key(keeper.value),
    "a removed key": lambda keeper: OBJECTS["manager"].remove_verification_key(keeper.value),
    "revoked keys": lambda keeper: OBJECTS["manager"].replace_keyring(OBJECTS["ring"], revoke=[keeper.value]),
    "a path": lambda keeper: KeyFile(keeper.value),
}


@pytest.mark.parametrize("use", IN_PLACE_OF_AN_ID.values(), ids=IN_PLACE_OF_AN_ID)
def test_bytes_that_were_passed_in_place_of_text_are_in_no_frame(use):
    told = everything_told(lambda: use(Keeper(RAW)))
    assert "TypeError" in told
    assert_clean(told)


@pytest.mark.parametrize("make", [ProtectionKey, ProtectionKeyring, lambda: ProtectionKeyringManager(RAW)])
def test_what_was_never_made_has_a_repr(make):
    """Tools that show the locals of a traceback call it, and some of them fail where it fails."""
    with pytest.raises(TypeError) as caught:
        make()
    chain = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert "<Protection" in "".join(chain.format())


@pytest.mark.parametrize("where", ["Cipher", "algorithms.AES", "modes.ECB", "_masks"])
def test_a_cipher_that_cannot_be_made_leaves_no_key_in_the_traceback(where, monkeypatch):
    key, keeper = a_key("k1", RAW), Keeper(RAW)

    def fails(*args):
        del args
        raise RuntimeError("this OpenSSL does not do that")

    monkeypatch.setattr(f"mcpinput.protection.xaes.{where}", fails)
    assert_clean(everything_told(lambda: key.cipher("record")))
    assert_clean(everything_told(lambda: ProtectionKey.from_id_and_bytes("k2", keeper.value)))


def test_a_refused_token_tells_nothing_of_what_was_sealed():
    told = everything_told(lambda: asyncio.run(OBJECTS["boundary"].open(TOKEN, OBJECTS["call"])))
    assert "request id" in told
    with pytest.raises(RequestStateProtectionError) as caught:
        asyncio.run(OBJECTS["boundary"].open(TOKEN, OBJECTS["call"]))
    text = str(caught.value) + repr(caught.value)
    for private in (TOKEN, STATE, PRINCIPAL):
        assert private not in text
    assert STATE not in told
    assert PRINCIPAL not in told


def test_a_key_in_use_is_named_by_its_id_alone():
    manager = ProtectionKeyringManager(OBJECTS["ring"])
    manager.sealing()
    manager.activate_staged_key("k2")

    def remove():
        manager.remove_verification_key("k1")

    with pytest.raises(ProtectionKeyInUseError, match="'k1'"):
        remove()
    assert_clean(everything_told(remove))


def test_managers_name_only_ids():
    manager = ProtectionKeyringManager(OBJECTS["ring"])
    assert "'k1'" in repr(manager)
    assert_clean(repr(manager))


# ---- logs ----


class FailingObserver:
    def on_request(self, ctx):
        raise RuntimeError("an observer fails")

    def on_rejection(self, facts, rejection):
        raise RuntimeError("an observer fails")


class FailingProtector:
    """Has keys of its own, in places where its tracebacks would show them."""

    def seal(self, payload, context):
        key = RAW
        raise RuntimeError(f"the service does not take {key!r}")

    def open(self, token, context):
        key = RAW
        raise RuntimeError(f"the service does not take {key!r}")


def whole_flow(client, manager, clock):
    call = client.call_tool
    token = call("set_price", {}).result["requestState"]
    again = call("set_price", {}, id=2, state=token).result["requestState"]
    assert call("set_price", {}, id=3, state=again, answers=accept(price=1)).status == 200
    manager.rotate_active_key(a_key("k5", b"yet-another-key-of-this-test-0123456789"))
    manager.activate_staged_key("k1")
    manager.remove_verification_key("k5")
    for bad in ("", "x", token[:-8] + "AAAAAAAA", token + "A", "A" * 70_000):
        assert call("set_price", {}, id=2, state=bad).status == 400
    assert call("set_price", {"other": 1}, id=2, state=token).status == 400
    assert call("other", {}, id=2, state=token).status == 400
    assert call("set_price", {}, id=1, state=token).status == 400
    clock.now += 10_000
    assert call("set_price", {}, id=2, state=token).status == 400
    assert call("fails").error["code"] == -32603
    good, clock.now = clock.now, float("nan")
    assert call("set_price", {}).error["code"] == -32603
    clock.now = good


@pytest.mark.parametrize("observers", [(), (FailingObserver(),)], ids=["no observer", "an observer that fails"])
def test_whole_flows_log_no_secret(observers, caplog, monkeypatch):
    monkeypatch.setenv("PYTHONASYNCIODEBUG", "1")
    caplog.set_level(logging.DEBUG)
    clock = Clock()
    server, _ = price_server(keys=OBJECTS["ring"], clock=clock, observer=observers[0] if observers else None)

    @server.tool("fails")
    async def fails(ctx):
        raise RuntimeError("a handler fails")

    whole_flow(Client(server.asgi()), server.protection_keyring_manager, clock)
    assert len(caplog.records) >= 10
    told = told_in(caplog.records)
    assert "a handler fails" in told
    assert_clean(told)


def test_what_a_protector_raises_is_not_logged(caplog):
    caplog.set_level(logging.DEBUG)
    server, _ = price_server(protection=ProtectionConfig(protector=FailingProtector()))
    client = Client(server.asgi())
    assert client.call_tool("set_price", {}).error["code"] == -32603
    assert client.call_tool("set_price", {}, id=2, state="token").status == 400
    assert caplog.records
    assert_clean(told_in(caplog.records))


def test_the_library_itself_failing_logs_no_secret(caplog, monkeypatch):
    """Whatever breaks in the middle of a seal or an opening, the log has its traceback, and no key is in that."""
    caplog.set_level(logging.DEBUG)
    server, _ = price_server(keys=OBJECTS["ring"], clock=Clock())
    client = Client(server.asgi())
    token = client.call_tool("set_price", {}).result["requestState"]

    def fails(*args, **options):
        raise AssertionError("a fault")

    for where in (
        "protector.encode_token",
        "protector.decode_token",
        "xaes.AESGCM",
        "state.open_payload",
        "state.next_payload",
    ):
        with monkeypatch.context() as patch:
            patch.setattr(f"mcpinput.protection.{where}", fails)
            asked = client.call_tool("set_price", {})
            retried = client.call_tool("set_price", {}, id=2, state=token, answers=accept(price=1))
        assert -32603 in (asked.json.get("error", {}).get("code"), retried.json.get("error", {}).get("code"))
    told = told_in(caplog.records)
    assert told.count("a fault") >= 5
    assert_clean(told)


def test_nothing_is_left_in_the_environment_or_on_the_command_line():
    assert_clean(repr(dict(os.environ)))
