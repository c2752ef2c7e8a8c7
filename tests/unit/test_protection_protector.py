"""Custom protectors: what they are given, and that no mistake of theirs is believed or told."""

import asyncio
import dataclasses
import traceback

import pytest

from mcpinput.errors import ProtectionFailure, RequestStateProtectionError
from mcpinput.protection import ProtectionConfig
from mcpinput.protection.context import Bindings
from mcpinput.protection.state import AskedRequest, Call, StateBoundary

ASKED = {"approval": AskedRequest(1, b"d" * 16)}
BINDINGS = Bindings("refunds", "/mcp", "2026-07-28", "tools/call", "acme", "eu", "alice")
F = ProtectionFailure


class Vault:
    """Keeps payloads under numbers, as a service that encrypts elsewhere would look from here."""

    def __init__(self):
        self.kept = {}
        self.contexts = []

    def seal(self, payload, context):
        self.contexts.append(context)
        token = f"vault:{len(self.kept)}"
        self.kept[token] = (payload, context.associated_data)
        return token

    def open(self, token, context):
        self.contexts.append(context)
        payload, associated_data = self.kept[token]
        if associated_data != context.associated_data:
            raise PermissionError("payload is for somebody else")
        return payload


class AsyncVault(Vault):
    async def seal(self, payload, context):
        await asyncio.sleep(0)
        return super().seal(payload, context)

    async def open(self, token, context):
        await asyncio.sleep(0)
        return super().open(token, context)


class Sloppy(Vault):
    """Authenticates nothing."""

    def open(self, token, context):
        return self.kept[token][0]


def call(request_id=1, parameters=b"p" * 32, **changes):
    return Call(dataclasses.replace(BINDINGS, **changes), request_id, lambda: parameters)


def boundary_of(protector, **settings):
    return StateBoundary(ProtectionConfig(protector=protector, clock=lambda: 1_785_000_000.0, **settings))


def seal(boundary, this_call=None, state="kept"):
    return asyncio.run(boundary.seal(this_call or call(), None, ASKED, has_state=True, state=state))


def refusal(action):
    with pytest.raises(RequestStateProtectionError) as caught:
        action()
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return caught.value


def open_refusal(boundary, token, this_call=None):
    return refusal(lambda: asyncio.run(boundary.open(token, this_call or call(2))))


@pytest.mark.parametrize("make", [Vault, AsyncVault, Sloppy])
def test_protectors_may_be_sync_or_async(make):
    boundary = boundary_of(make())
    sealed = seal(boundary)
    assert sealed.token == "vault:0"
    sealed.release()
    opened = asyncio.run(boundary.open(sealed.token, call(2)))
    assert (opened.state, opened.round, opened.asked, opened.key_id) == ("kept", 1, ASKED, None)
    assert boundary.keyring_manager is None


def test_a_protector_is_told_what_state_is_bound_to():
    vault = Vault()
    boundary = boundary_of(vault)
    asyncio.run(boundary.open(seal(boundary).token, call(2)))
    sealing, opening = vault.contexts
    assert (sealing.audience, sealing.method, sealing.principal) == ("refunds", "tools/call", "alice")
    assert sealing.associated_data == opening.associated_data
    assert open_refusal(boundary, "vault:0", call(2, principal="bob")).reason is F.PROTECTOR_FAILED


def test_an_unbound_principal_is_not_told():
    vault = Vault()
    boundary = boundary_of(vault, bind_principal=False)
    token = seal(boundary).token
    assert asyncio.run(boundary.open(token, call(2, principal="bob"))).round == 1
    assert [context.principal for context in vault.contexts] == [None, None]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"audience": "x"}, F.AUDIENCE),
        ({"path": "x"}, F.ENDPOINT_PATH),
        ({"protocol_version": "x"}, F.PROTOCOL_VERSION),
        ({"method": "x"}, F.METHOD),
        ({"partition": None}, F.PARTITION),
        ({"tenant": None}, F.TENANT),
        ({"principal": None}, F.PRINCIPAL),
        ({"parameters": b"q" * 32}, F.PARAMETERS),
        ({"request_id": 1}, F.REQUEST_ID),
    ],
)
def test_a_sloppy_protector_is_caught(change, reason):
    boundary = boundary_of(Sloppy())
    token = seal(boundary).token
    error = open_refusal(boundary, token, call(**{"request_id": 2, **change}))
    assert (error.reason, error.key_id, error.round) == (reason, None, 1)


def test_the_digest_is_computed_only_if_it_is_asked_for_or_needed():
    calls = []

    def digest():
        calls.append(1)
        return b"p" * 32

    class Forged(Vault):
        def open(self, token, context):
            raise ValueError(token)

    boundary = boundary_of(Forged())
    for token in ("forged", "", "é", "a\n", "x" * 70_000):
        open_refusal(boundary, token, Call(BINDINGS, 2, digest))
    assert calls == []
    vault = Vault()
    boundary = boundary_of(vault)
    sealed = seal(boundary)
    asyncio.run(boundary.open(sealed.token, Call(BINDINGS, 2, digest)))
    assert calls == [1]


class Answers(Vault):
    """Answers one thing, or raises it."""

    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def give(self):
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    def seal(self, payload, context):
        return self.give()

    def open(self, token, context):
        return self.give()


class AsyncAnswers(Answers):
    async def seal(self, payload, context):
        await asyncio.sleep(0)
        return self.give()

    async def open(self, token, context):
        await asyncio.sleep(0)
        return self.give()


@pytest.mark.parametrize("make", [Answers, AsyncAnswers])
@pytest.mark.parametrize(
    "answer",
    [
        None,
        b"bytes",
        1,
        "",
        "not ascii: é",
        "line\nfeed",
        "\ud800",
        ["token"],
        ValueError("secret of the service"),
        KeyError("secret of the service"),
        TimeoutError("secret of the service"),
        RuntimeError("secret of the service"),
        RequestStateProtectionError(F.NOT_AUTHENTIC),
    ],
    ids=repr,
)
def test_a_failing_seal(make, answer):
    error = refusal(lambda: seal(boundary_of(make(answer))))
    assert error.reason is F.PROTECTOR_FAILED
    assert error.round == 1
    assert "secret" not in "".join(traceback.format_exception(error))


@pytest.mark.parametrize("make", [Answers, AsyncAnswers])
@pytest.mark.parametrize(
    "answer",
    [
        None,
        "text",
        1,
        bytearray(b"x"),
        memoryview(b"x"),
        ValueError("secret of the service"),
        LookupError("secret of the service"),
        RequestStateProtectionError(F.NOT_AUTHENTIC),
    ],
    ids=repr,
)
def test_a_failing_open(make, answer):
    error = open_refusal(boundary_of(make(answer)), "token")
    assert error.reason is F.PROTECTOR_FAILED
    assert "secret" not in "".join(traceback.format_exception(error))


@pytest.mark.parametrize("make", [Answers, AsyncAnswers])
def test_an_unavailable_protector_is_told_apart(make):
    boundary = boundary_of(make(RequestStateProtectionError(F.UNAVAILABLE)))
    assert open_refusal(boundary, "token").reason is F.UNAVAILABLE
    assert refusal(lambda: seal(boundary)).reason is F.UNAVAILABLE


@pytest.mark.parametrize("answer", [b"", b"garbage", bytes(198), b"\1" + bytes(300)], ids=["empty", "text", "0", "1"])
def test_opened_bytes_must_be_a_payload(answer):
    assert open_refusal(boundary_of(Answers(answer)), "token").reason is F.MALFORMED


def test_what_is_too_long_is_refused_in_both_directions():
    assert open_refusal(boundary_of(Answers(bytes(49_153))), "token").reason is F.TOO_LARGE
    assert open_refusal(boundary_of(Vault()), "x" * 65_537).reason is F.TOO_LARGE
    assert refusal(lambda: seal(boundary_of(Answers("x" * 65_537)))).reason is F.TOO_LARGE
    assert seal(boundary_of(Answers("x" * 65_536))).token == "x" * 65_536


@pytest.mark.parametrize("token", ["é", "a\nb", "a\0", "\ud800", "\uff21"], ids=ascii)
def test_text_that_no_protector_can_have_made_is_not_shown_to_it(token):
    vault = Vault()
    assert open_refusal(boundary_of(vault), token).reason is F.MALFORMED
    assert vault.contexts == []


@pytest.mark.parametrize("action", ["seal", "open"])
def test_cancellation_passes(action):
    class Slow(Vault):
        async def seal(self, payload, context):
            await asyncio.sleep(60)

        async def open(self, token, context):
            await asyncio.sleep(60)

    boundary = boundary_of(Slow())

    async def main():
        if action == "seal":
            task = asyncio.ensure_future(boundary.seal(call(), None, ASKED, has_state=False))
        else:
            task = asyncio.ensure_future(boundary.open("token", call(2)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
