"""Key material leaves no object of the package: not by repr, format, vars, copies, pickles or tracebacks."""

import asyncio
import base64
import copy
import json
import logging
import pickle
import traceback

import pytest

from mcpinput.errors import RequestStateProtectionError
from mcpinput.protection import ProtectionConfig, ProtectionKey, ProtectionKeyring, ProtectionKeyringManager
from mcpinput.protection.context import Bindings
from mcpinput.protection.state import AskedRequest, Call, StateBoundary

RAW = b"Tr0ub4dor&3-this-is-the-key-material-of-this-test"
OTHER = b"another-key-material-of-this-test-0123456789"
STATE = "what the handler remembers"
PRINCIPAL = "alice@example.test"


def spellings(secret: bytes) -> list[str]:
    """Ways in which 12 bytes of a secret could show in a text."""
    found = []
    for at in range(0, len(secret) - 12, 3):
        part = secret[at : at + 12]
        found += [repr(part)[2:-1], part.hex(), base64.b64encode(part).decode(), str(list(part))[1:-1]]
        found.append(str(int.from_bytes(part, "big")))
    return found


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
    }
    derived = [key.output(purpose) for purpose in ("state", "sdk-state", "record", "fingerprint")]
    return objects, [RAW, OTHER, *derived], sealed.token


OBJECTS, SECRETS, TOKEN = build()
FORBIDDEN = [text for secret in SECRETS for text in spellings(secret)]
each_object = pytest.mark.parametrize("thing", OBJECTS.values(), ids=OBJECTS)


def assert_clean(text: str) -> None:
    assert not [secret for secret in FORBIDDEN if secret in text]


def test_the_search_finds_what_it_looks_for():
    for leak in (repr(RAW), RAW.hex(), str(list(OTHER)), base64.b64encode(RAW).decode(), repr(SECRETS[-1])):
        with pytest.raises(AssertionError):
            assert_clean(leak)


@each_object
def test_no_text_of_an_object_shows_a_secret(thing):
    texts = [repr(thing), str(thing), f"{thing}", f"{thing!a}", repr([thing]), repr({"x": thing})]
    texts.append(logging.LogRecord("x", logging.INFO, "x", 1, "%s %r", (thing, thing), None).getMessage())
    for text in texts:
        assert_clean(text)
        for private in (STATE, PRINCIPAL, TOKEN):
            assert private not in text


@each_object
def test_no_attribute_of_an_object_shows_a_secret(thing):
    with pytest.raises(TypeError):
        vars(thing)
    for name in dir(thing):
        if not name.startswith("_"):
            assert_clean(repr(getattr(thing, name)))
    with pytest.raises(TypeError):
        json.dumps(thing)


@pytest.mark.parametrize("name", ["key", "cipher", "builder", "ring", "config", "manager"])
def test_what_holds_keys_is_neither_copied_nor_pickled(name):
    thing = OBJECTS[name]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="key material and cannot be pickled"):
            pickle.dumps(thing, protocol)
    for take in (copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="key material and cannot be copied"):
            take(thing)


@pytest.mark.parametrize("name", ["reservation", "boundary", "sealed"])
def test_what_leads_to_keys_is_not_pickled(name):
    with pytest.raises(TypeError, match=r"key material|cannot pickle"):
        pickle.dumps(OBJECTS[name])
    with pytest.raises(TypeError, match=r"key material|cannot pickle"):
        copy.deepcopy(OBJECTS[name])


@each_object
def test_the_state_of_an_object_shows_no_secret(thing):
    try:
        state = thing.__getstate__()
    except TypeError:
        return
    assert_clean(repr(state))


def everything_told(action) -> str:
    """The traceback with every local of every frame inside the package."""
    try:
        action()
    except Exception as error:
        chain = traceback.TracebackException.from_exception(error, capture_locals=True)
        del chain.stack[0]  # this function, whose local is the action
        return "".join(chain.format())
    raise AssertionError("nothing was raised")


class Keeper:
    """Holds an argument where no frame has it as a local."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


@pytest.mark.parametrize(
    ("key_id", "raw"),
    [
        ("k1", RAW[:31]),
        ("", RAW),
        ("é", RAW),
        (1, RAW),
        ("x" * 65, bytearray(RAW)),
        ("k1", list(RAW)),
        ("k1", RAW.decode()),
    ],
)
def test_a_refused_key_is_not_in_the_traceback(key_id, raw):
    keeper = Keeper(raw)
    del raw
    told = everything_told(lambda: ProtectionKey.from_id_and_bytes(key_id, keeper.value))
    assert "from_id_and_bytes" in told
    assert_clean(told)


@pytest.mark.parametrize(
    "action",
    [
        lambda: OBJECTS["manager"].stage_verification_key(ProtectionKey.from_id_and_bytes("k1", OTHER)),
        lambda: OBJECTS["manager"].stage_verification_key(ProtectionKey.from_id_and_bytes("k3", RAW)),
        lambda: OBJECTS["manager"].remove_verification_key("k1"),
        lambda: OBJECTS["key"].output("other"),
        lambda: OBJECTS["key"].cipher("state").encrypt(b"", b"", b""),
        lambda: OBJECTS["key"].cipher("state").decrypt(bytes(24), bytes(40), b""),
        lambda: OBJECTS["key"].cipher("state").encrypt(bytes(24), None, b""),
        lambda: ProtectionConfig(keyring=OBJECTS["ring"], maximum_request_state_rounds=0),
        lambda: ProtectionConfig(keyring=OBJECTS["key"]),
        lambda: pickle.dumps(OBJECTS["ring"]),
        lambda: asyncio.run(OBJECTS["boundary"].open(TOKEN[:-8] + "AAAAAAAA", OBJECTS["call"])),
        lambda: asyncio.run(OBJECTS["boundary"].open(TOKEN, OBJECTS["call"])),
    ],
)
def test_no_traceback_shows_a_secret(action):
    assert_clean(everything_told(action))


def test_a_refused_token_tells_nothing_of_what_was_sealed():
    told = everything_told(lambda: asyncio.run(OBJECTS["boundary"].open(TOKEN, OBJECTS["call"])))
    assert "request id" in told
    assert STATE not in told
    assert PRINCIPAL not in told
    with pytest.raises(RequestStateProtectionError) as caught:
        asyncio.run(OBJECTS["boundary"].open(TOKEN, OBJECTS["call"]))
    assert TOKEN not in str(caught.value) + repr(caught.value)


def test_managers_name_only_ids():
    manager = ProtectionKeyringManager(OBJECTS["ring"])
    assert "'k1'" in repr(manager)
    assert_clean(repr(manager))
