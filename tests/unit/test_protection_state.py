"""The state boundary: what a token is bound to, for how long, how often, and that every other token is refused."""

import asyncio
import base64
import dataclasses
import itertools
import os
import string
import sys
import threading
from datetime import timedelta
from decimal import Decimal

import pytest

from mcpinput.errors import (
    JsonError,
    JsonErrorKind,
    ProtectionFailure,
    ProtectionKeyInUseError,
    RequestStateProtectionError,
)
from mcpinput.protection import ProtectionConfig, ProtectionKey, ProtectionKeyring
from mcpinput.protection.context import Bindings
from mcpinput.protection.protector import open_token, seal_token
from mcpinput.protection.state import AskedRequest, Call, OpenedState, StateBoundary

ALPHABET = string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_"
START = 1_785_000_000.0
ASKED = {"approval": AskedRequest(1, b"d" * 16)}
BINDINGS = Bindings("refunds", "/mcp", "2026-07-28", "tools/call", "acme", "eu", "alice")
F = ProtectionFailure


class Clock:
    """Wall clock that stands still until it is set, in whole milliseconds."""

    def __init__(self):
        self.ms = round(START * 1000)

    def __call__(self):
        return self.ms / 1000


def key(key_id, seed=None):
    return ProtectionKey.from_id_and_bytes(key_id, (seed or key_id).encode().ljust(32, b"."))


def ring(active, *verification):
    builder = ProtectionKeyring.with_active_key(active)
    for other in verification:
        builder.verification_key(other)
    return builder.build()


def call(request_id=1, parameters=b"p" * 32, **changes):
    return Call(dataclasses.replace(BINDINGS, **changes), request_id, lambda: parameters)


def run(coroutine):
    """Drives a coroutine that never suspends, as those of the built-in protector."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("suspended")


class Service:
    """One instance: a boundary with its clock, driven without ``await`` at each use."""

    def __init__(self, *, keyring=None, clock=None, **settings):
        self.clock = clock or Clock()
        self.config = ProtectionConfig(keyring=keyring or ring(key("k1")), clock=self.clock, **settings)
        self.boundary = StateBoundary(self.config)

    def seal(self, this_call, previous=None, asked=ASKED, **options):
        options = {"has_state": True, "state": {"step": 1}, **options}
        sealed = run(self.boundary.seal(this_call, previous, asked, **options))
        sealed.release()
        return sealed.token

    def open(self, token, this_call, **options):
        return run(self.boundary.open(token, this_call, **options))

    def refusal(self, token, this_call, **options):
        with pytest.raises(RequestStateProtectionError) as caught:
            self.open(token, this_call, **options)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
        return caught.value

    def seal_refusal(self, *args, **options):
        with pytest.raises(RequestStateProtectionError) as caught:
            self.seal(*args, **options)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
        return caught.value


@pytest.fixture
def service():
    return Service()


@pytest.fixture
def token(service):
    return service.seal(call())


# ---- what comes back ----


def test_a_retry_gets_what_was_sealed(service, token):
    opened = service.open(token, call(2))
    assert opened.has_state
    assert opened.state == {"step": 1}
    assert opened.round == 1
    assert opened.issued_ms == START * 1000
    assert opened.expires_ms == (START + 900) * 1000
    assert len(opened.flow_id) == 16
    assert opened.asked == ASKED
    assert opened.key_id == "k1"
    opened.asked["other"] = ASKED["approval"]
    assert opened.asked == ASKED
    with pytest.raises(AttributeError):
        opened.state = None


def test_an_identical_retry_opens_again(service, token):
    once, again = service.open(token, call(2)), service.open(token, call(2))
    assert (once.state, once.round, once.flow_id) == (again.state, again.round, again.flow_id)


@pytest.mark.parametrize("state", [None, False, 0, "", [], {}, {"a": [None, "é\0", {"": -1}]}])
def test_every_json_value_is_state(service, state):
    opened = service.open(service.seal(call(), state=state), call(2))
    assert opened.has_state
    assert opened.state == state
    assert type(opened.state) is type(state)


def test_no_state_differs_from_null_state(service):
    opened = service.open(service.seal(call(), has_state=False, state=None), call(2))
    assert (opened.has_state, opened.state, opened.asked) == (False, None, ASKED)


def test_state_comes_back_with_canonical_numbers(service):
    state = {"z": Decimal("1.50"), "a": Decimal("100"), "i": 10, "n": Decimal("-0.0"), "e": Decimal("1e2000")}
    opened = service.open(service.seal(call(), state=state), call(2)).state
    assert opened == state
    assert list(opened) == ["a", "e", "i", "n", "z"]
    assert [type(opened[name]) for name in "aein"] == [int, Decimal, int, int]
    assert str(opened["z"]) == "1.5"
    assert [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11][opened["i"]] == 11
    again = service.seal(call(), state=opened)
    assert service.open(again, call(2)).state == state


def test_any_keys_can_be_asked(service):
    names = ["", " ", "é\0", "x" * 999]
    asked = {name: AskedRequest(1 + index, bytes([index]) * 16) for index, name in enumerate(names)}
    assert service.open(service.seal(call(), asked=asked), call(2)).asked == asked
    assert service.open(service.seal(call(), asked={}), call(2)).asked == {}


@pytest.mark.parametrize(
    "state",
    [0.5, {"a": float("nan")}, {1: 2}, {"a": "\ud800"}, object(), Decimal("NaN"), 10**5000],
    ids=["float", "nan", "key", "surrogate", "object", "decimal nan", "digits"],
)
def test_state_without_canonical_form_is_a_json_error(service, state):
    with pytest.raises(JsonError):
        service.seal(call(), state=state)
    assert service.boundary.keyring_manager.snapshot().sealing_reservations == {"k1": 0}


# ---- bindings ----


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"audience": "payouts"}, F.AUDIENCE),
        ({"path": "/mcp2"}, F.ENDPOINT_PATH),
        ({"path": "/MCP"}, F.ENDPOINT_PATH),
        ({"protocol_version": "2027-01-01"}, F.PROTOCOL_VERSION),
        ({"method": "prompts/get"}, F.METHOD),
        ({"partition": "other"}, F.PARTITION),
        ({"partition": ""}, F.PARTITION),
        ({"partition": None}, F.PARTITION),
        ({"tenant": "us"}, F.TENANT),
        ({"tenant": None}, F.TENANT),
        ({"principal": "bob"}, F.PRINCIPAL),
        ({"principal": "alice "}, F.PRINCIPAL),
        ({"principal": None}, F.PRINCIPAL),
        ({"parameters": b"q" * 32}, F.PARAMETERS),
        ({"parameters": b"p" * 31 + b"q"}, F.PARAMETERS),
    ],
)
def test_each_binding_by_itself(service, token, change, reason):
    error = service.refusal(token, call(2, **change))
    assert (error.reason, error.key_id, error.age_ms, error.round) == (reason, "k1", 0, 1)
    if None not in change.values():
        back = service.seal(call(1, **change))
        assert service.refusal(back, call(2)).reason is reason


@pytest.mark.parametrize("name", ["partition", "tenant", "principal"])
def test_absent_opens_only_for_absent(service, name):
    absent = service.seal(call(**{name: None}))
    assert service.open(absent, call(2, **{name: None})).round == 1
    for value in ("", "None", "alice"):
        assert service.refusal(absent, call(2, **{name: value})).reason is F[name.upper()]


def test_the_first_binding_that_differs_is_the_reason(service, token):
    changes = {}
    names = ["principal", "tenant", "partition", "method", "protocol_version", "path", "audience"]
    reasons = [F.PRINCIPAL, F.TENANT, F.PARTITION, F.METHOD, F.PROTOCOL_VERSION, F.ENDPOINT_PATH, F.AUDIENCE]
    for name, reason in zip(names, reasons, strict=True):
        changes[name] = "other"
        assert service.refusal(token, call(1, b"q" * 32, **changes)).reason is reason


def test_the_principal_can_be_left_unbound(service):
    shared = Service(bind_principal=False)
    token = shared.seal(call())
    for principal in ("bob", "", None):
        assert shared.open(token, call(2, principal=principal)).round == 1
    assert shared.refusal(token, call(2, tenant="us")).reason is F.TENANT
    assert shared.refusal(token, call(2, partition=None)).reason is F.PARTITION
    assert service.refusal(token, call(2)).reason is F.PRINCIPAL
    assert service.open(token, call(2, principal=None)).round == 1


@pytest.mark.parametrize(
    ("sealed_by", "opened_by"), [(1, "1"), ("1", 1), (1, 2), ("a", "A"), ("", 0), (10**30, 10**30 + 1)]
)
def test_the_id_of_a_retry_differs(service, sealed_by, opened_by):
    token = service.seal(call(sealed_by))
    assert service.open(token, call(opened_by)).round == 1
    assert service.refusal(token, call(sealed_by)).reason is F.REQUEST_ID


def test_ask_kinds_do_not_mix(service, token):
    terms = service.boundary.terms(replayed=True)
    replayed = service.seal(call(), terms=terms)
    assert service.open(replayed, call(2), terms=terms).round == 1
    assert service.refusal(replayed, call(2)).reason is F.ASK_KIND
    assert service.refusal(token, call(2), terms=terms).reason is F.ASK_KIND


def test_parameters_are_digested_once_and_only_for_authentic_tokens(service, token):
    count = itertools.count()

    def digest():
        next(count)
        return b"p" * 32

    forged = token[:-4] + ("AAAA" if token[-4:] != "AAAA" else "BBBB")
    for bad in ("", "x", forged, "A" * 70_000, Service(keyring=ring(key("other"))).seal(call())):
        service.refusal(bad, Call(BINDINGS, 2, digest))
    assert next(count) == 0
    retry = Call(BINDINGS, 2, digest)
    service.seal(retry, service.open(token, retry))
    assert next(count) == 2


def test_parameters_over_the_canonical_limit_never_sealed_anything(service, token):
    def digest():
        raise JsonError(JsonErrorKind.SIZE, "too long", None, 1)

    assert service.refusal(token, Call(BINDINGS, 2, digest)).reason is F.PARAMETERS
    with pytest.raises(JsonError):
        service.seal(Call(BINDINGS, 2, digest))


# ---- rounds and time ----


def test_rounds_are_counted_and_end(service):
    flow = None
    for number in range(1, 11):
        token = service.seal(call(number), flow, state=number)
        flow = service.open(token, call(number + 1))
        assert (flow.round, flow.state) == (number, number)
    error = service.seal_refusal(call(11), flow)
    assert (error.reason, error.round) == (F.ROUND, 11)


def test_a_re_ask_keeps_issue_expiry_and_flow_and_records_its_own_id(service):
    first = service.open(service.seal(call(1)), call(2))
    service.clock.ms += 60_000
    second_token = service.seal(call(2), first)
    second = service.open(second_token, call(3))
    assert (second.issued_ms, second.expires_ms, second.flow_id) == (first.issued_ms, first.expires_ms, first.flow_id)
    assert second.round == 2
    assert service.refusal(second_token, call(2)).reason is F.REQUEST_ID
    assert service.open(second_token, call(1)).round == 2


def test_every_first_ask_begins_a_flow(service):
    tokens = [service.seal(call()) for _ in range(50)]
    assert len({service.open(token, call(2)).flow_id for token in tokens}) == 50


def test_many_rounds_do_not_outlive_the_first_expiry():
    service = Service(maximum_request_state_rounds=65_535)
    flow = None
    for _ in range(9):
        flow = service.open(service.seal(call(1), flow), call(2))
        service.clock.ms += 99_999
    token = service.seal(call(1), flow)
    service.clock.ms = flow.expires_ms
    assert service.refusal(token, call(2)).reason is F.EXPIRED
    error = service.seal_refusal(call(1), flow)
    assert (error.reason, error.age_ms, error.round) == (F.EXPIRED, 900_000, 10)


@pytest.mark.parametrize("start", [0, 1, 123, 499, 500, 999])
def test_expiry_is_exact(start):
    service = Service()
    service.clock.ms += start
    token = service.seal(call())
    expires_ms = service.open(token, call(2)).expires_ms
    service.clock.ms = expires_ms - 1
    assert service.open(token, call(2)).round == 1
    service.clock.ms = expires_ms
    error = service.refusal(token, call(2))
    assert (error.reason, error.age_ms) == (F.EXPIRED, 900_000)
    service.clock.ms = expires_ms + 10**9
    assert service.refusal(token, call(2)).reason is F.EXPIRED


@pytest.mark.parametrize(
    ("back_ms", "reason"),
    [(30_000, None), (60_000, None), (60_001, F.ISSUED_IN_FUTURE), (3_600_000, F.ISSUED_IN_FUTURE)],
)
def test_a_clock_may_be_60_seconds_behind(service, token, back_ms, reason):
    service.clock.ms -= back_ms
    if reason is None:
        assert service.open(token, call(2)).round == 1
    else:
        error = service.refusal(token, call(2))
        assert (error.reason, error.age_ms) == (reason, -back_ms)


def test_an_instance_with_a_shorter_lifetime_refuses_longer_ones(token):
    short = Service(maximum_request_state_lifetime=timedelta(milliseconds=899_999))
    assert short.refusal(token, call(2)).reason is F.LIFETIME


def test_an_instance_with_fewer_rounds_refuses_later_ones(service):
    flow = service.open(service.seal(call(1)), call(2))
    token = service.seal(call(2), flow)
    assert Service(maximum_request_state_rounds=1).refusal(token, call(3)).reason is F.ROUND


def test_an_operation_may_set_lower_limits_but_not_higher_ones(service):
    own = {"terms": service.boundary.terms(lifetime=timedelta(seconds=1), rounds=2)}
    token = service.seal(call(1), **own)
    flow = service.open(token, call(2), **own)
    assert flow.expires_ms - flow.issued_ms == 1000
    flow = service.open(service.seal(call(2), flow, **own), call(3), **own)
    assert service.seal_refusal(call(3), flow, **own).reason is F.ROUND
    assert service.refusal(service.seal(call(1)), call(2), **own).reason is F.LIFETIME
    with pytest.raises(ValueError, match=r"maximum_request_state_lifetime \(901000 ms\) is above .* \(900000 ms\)"):
        service.boundary.terms(lifetime=timedelta(seconds=901))
    with pytest.raises(ValueError, match=r"maximum_request_state_rounds \(11\) is above .* \(10\)"):
        service.boundary.terms(rounds=11)
    assert service.boundary.terms(lifetime=timedelta(seconds=900), rounds=10).rounds == 10


def reseal(service, token, edit):
    """A token of changed payload bytes under the same key: what only a holder of the key, or a bug, could make."""
    manager = service.boundary.keyring_manager
    payload = bytearray(open_token(manager.keyring, token)[1])
    edit(payload)
    return seal_token(manager.keyring.active_key, os.urandom(24), bytes(payload))


@pytest.mark.parametrize(
    ("desc", "at", "value", "reason"),
    [
        ("round 0", 2, b"\0\0", F.ROUND),
        ("round 11", 2, b"\0\x0b", F.ROUND),
        ("expires when issued", 12, (round(START) * 1000).to_bytes(8, "big"), F.LIFETIME),
        ("expires before it is issued", 12, bytes(8), F.LIFETIME),
        ("expires at the end of time", 12, b"\x7f" + b"\xff" * 7, F.LIFETIME),
        ("issued at the beginning of time", 4, b"\x80" + bytes(7), F.LIFETIME),
        ("version 2", 0, b"\2", F.MALFORMED),
        ("unknown flag", 1, b"\5", F.MALFORMED),
        ("state that is no JSON", -1, b"]", F.MALFORMED),
        ("bound to nobody", 36, bytes(16), F.AUDIENCE),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_authentic_payloads_are_judged_too(service, token, desc, at, value, reason):
    def edit(payload):
        at_least = at % len(payload)
        payload[at_least : at_least + len(value)] = value

    error = service.refusal(reseal(service, token, edit), call(2))
    assert error.reason is reason
    assert error.key_id == "k1"


# ---- exactly one text ----


def test_every_bit_of_a_token_counts(service, token):
    data = bytearray(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    for bit in range(len(data) * 8):
        data[bit // 8] ^= 1 << bit % 8
        service.refusal(base64.urlsafe_b64encode(data).decode().rstrip("="), call(2))
        data[bit // 8] ^= 1 << bit % 8
    assert service.open(base64.urlsafe_b64encode(data).decode().rstrip("="), call(2)).round == 1


def test_every_truncation_and_extension_is_refused(service, token):
    for size in range(len(token)):
        service.refusal(token[:size], call(2))
    for more in ("A", "AA", "AAA", "AAAA", token):
        service.refusal(token + more, call(2))
        service.refusal(more + token, call(2))


def test_there_is_one_text_for_a_token(service):
    lengths = set()
    for filler in range(3):
        token = service.seal(call(), state="x" * filler)
        lengths.add(len(token) % 4)
        for last in ALPHABET:
            if last != token[-1]:
                service.refusal(token[:-1] + last, call(2))
        for more in ("=", "==", "===", " ", "\n", "\r\n", "\0", "!", "."):
            service.refusal(token + more, call(2))
            service.refusal(more + token, call(2))
            service.refusal(token[:50] + more + token[50:], call(2))
        for other in (token.replace("-", "+"), token.replace("_", "/"), token.lower(), token.upper(), token.swapcase()):
            if other != token:
                service.refusal(other, call(2))
        wide = token[:50] + chr(0xFEE0 + ord(token[50])) + token[51:]
        service.refusal(wide, call(2))
    assert len(lengths) == 3


def test_tags_cannot_be_shortened_or_emptied(service, token):
    data = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    header = 2 + 2 + 24
    for body in (b"", bytes(16), data[header:-16], data[header:-16] + bytes(16), data[-16:]):
        text = base64.urlsafe_b64encode(data[:header] + body).decode().rstrip("=")
        assert service.refusal(text, call(2)).reason in (F.MALFORMED, F.NOT_AUTHENTIC)


def test_reasons_of_unreadable_tokens(service, token):
    assert service.refusal("", call(2)).reason is F.MALFORMED
    assert service.refusal("A", call(2)).reason is F.MALFORMED
    assert service.refusal("é" * 10, call(2)).reason is F.MALFORMED
    assert service.refusal("\ud800", call(2)).reason is F.MALFORMED
    assert service.refusal("A" * 65_537, call(2)).reason is F.TOO_LARGE
    foreign = service.refusal(Service(keyring=ring(key("k2"))).seal(call()), call(2))
    assert (foreign.reason, foreign.key_id, foreign.age_ms, foreign.round) == (F.UNKNOWN_KEY, "k2", None, None)
    same_id = service.refusal(Service(keyring=ring(key("k1", "other"))).seal(call()), call(2))
    assert (same_id.reason, same_id.key_id) == (F.NOT_AUTHENTIC, "k1")


# ---- sizes ----


def sealed_sizes(service, filler):
    token = service.seal(call(), state="x" * filler)
    payload = open_token(service.boundary.keyring_manager.keyring, token)[1]
    return len(token), len(payload)


def test_the_decoded_limit_is_exact():
    _, small = sealed_sizes(Service(), 0)
    for limit in (small + 100, small + 1000):
        service = Service(maximum_decoded_bytes=limit)
        assert sealed_sizes(service, limit - small)[1] == limit
        assert service.seal_refusal(call(), state="x" * (limit - small + 1)).reason is F.TOO_LARGE
        assert service.seal_refusal(call(), state="x" * (limit + 1)).reason is F.TOO_LARGE
        larger = Service().seal(call(), state="x" * (limit - small + 1))
        error = service.refusal(larger, call(2))
        assert (error.reason, error.key_id) == (F.TOO_LARGE, "k1")
        assert service.boundary.keyring_manager.snapshot().sealing_reservations == {"k1": 0}


def test_the_encoded_limit_is_exact():
    length, decoded = sealed_sizes(Service(), 300)
    exact = Service(maximum_encoded_bytes=length, maximum_decoded_bytes=length)
    token = exact.seal(call(), state="x" * 300)
    assert exact.open(token, call(2)).state == "x" * 300
    below = Service(maximum_encoded_bytes=length - 1, maximum_decoded_bytes=length - 1)
    assert decoded < length - 1
    assert below.seal_refusal(call(), state="x" * 300).reason is F.TOO_LARGE
    assert below.refusal(token, call(2)).reason is F.TOO_LARGE
    assert below.boundary.keyring_manager.snapshot().sealing_reservations == {"k1": 0}


def test_more_keys_than_a_payload_counts_are_too_large():
    service = Service(maximum_encoded_bytes=10**7, maximum_decoded_bytes=10**7)
    asked = {str(number): ASKED["approval"] for number in range(65_536)}
    assert service.seal_refusal(call(), asked=asked).reason is F.TOO_LARGE


# ---- confidentiality ----


def test_a_token_shows_nothing_but_the_key_id(service):
    secrets = ["principal-of-this-test", "what-the-handler-remembers", "question-key-of-this-test"]
    asked = {secrets[2]: AskedRequest(1, bytes(16))}
    tokens = [service.seal(call(principal=secrets[0]), state={"note": secrets[1]}, asked=asked) for _ in range(2)]
    assert tokens[0] != tokens[1]
    for token in tokens:
        data = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        assert data.startswith(b"\1\2k1")
        for secret in (*(text.encode() for text in secrets), b"p" * 32, b"\0" * 16):
            assert all(secret[at : at + 6] not in data for at in range(len(secret) - 5))
            for shift in range(3):
                # As base64 would spell it at this alignment, without the characters that it shares with neighbours.
                spelled = base64.urlsafe_b64encode(bytes(shift) + secret).decode().rstrip("=")[4 if shift else 0 : -1]
                assert all(spelled[at : at + 8] not in token for at in range(len(spelled) - 7))
    assert service.open(tokens[0], call(2, principal=secrets[0])).state == {"note": secrets[1]}


def test_nonces_do_not_repeat_across_threads():
    service = Service()
    nonces = []

    def work():
        mine = []
        for _ in range(500):
            sealed = run(service.boundary.seal(call(), None, {}, has_state=False))
            sealed.release()
            mine.append(base64.urlsafe_b64decode(sealed.token + "==")[4:28])
        nonces.extend(mine)

    in_threads(*[work] * 4)
    assert len(nonces) == len(set(nonces)) == 2000


# ---- keys and their rotation ----


def test_a_seal_reserves_its_key_until_it_is_released(service):
    manager = service.boundary.keyring_manager
    sealed = run(service.boundary.seal(call(), None, ASKED, has_state=False))
    manager.rotate_active_key(key("k2"))
    with pytest.raises(ProtectionKeyInUseError):
        manager.remove_verification_key("k1")
    sealed.release()
    sealed.release()
    manager.remove_verification_key("k1")
    assert service.refusal(sealed.token, call(2)).reason is F.UNKNOWN_KEY


def test_a_failing_seal_releases_its_key(service, monkeypatch):
    manager = service.boundary.keyring_manager

    def interrupted(*args):
        assert manager.snapshot().sealing_reservations == {"k1": 1}
        raise asyncio.CancelledError

    monkeypatch.setattr("mcpinput.protection.state.seal_token", interrupted)
    with pytest.raises(asyncio.CancelledError):
        run(service.boundary.seal(call(), None, ASKED, has_state=False))
    assert manager.snapshot().sealing_reservations == {"k1": 0}


def test_boundaries_of_one_configuration_rotate_apart(service, token):
    other = StateBoundary(service.config)
    other.keyring_manager.rotate_active_key(key("k2"))
    other.keyring_manager.remove_verification_key("k1")
    assert service.open(token, call(2)).key_id == "k1"
    assert service.boundary.keyring_manager.snapshot().active_key_id == "k1"


def test_promoting_first_is_wrong_and_staging_first_is_right():
    old, new = key("old"), key("new")
    a, b = Service(keyring=ring(old)), Service(keyring=ring(new, old))
    assert a.refusal(b.seal(call()), call(2)).reason is F.UNKNOWN_KEY
    instances = [Service(keyring=ring(old)) for _ in range(3)]

    def all_open(tokens):
        for token in tokens:
            for instance in instances:
                assert instance.open(token, call(2)).round == 1

    tokens = [instance.seal(call()) for instance in instances]
    for change in (
        lambda manager: manager.stage_verification_key(new),
        lambda manager: manager.activate_staged_key("new"),
    ):
        for instance in instances:
            change(instance.boundary.keyring_manager)
            tokens.append(instance.seal(call()))
            all_open(tokens)
    fresh = [instance.seal(call()) for instance in instances]
    for instance in instances:
        instance.boundary.keyring_manager.remove_verification_key("old")
    all_open(fresh)
    assert instances[0].refusal(tokens[0], call(2)).reason is F.UNKNOWN_KEY


def test_the_key_id_of_a_token_is_authentic():
    service = Service(keyring=ring(key("k1"), key("k2")))
    data = base64.urlsafe_b64decode(service.seal(call()) + "==")
    swapped = base64.urlsafe_b64encode(data.replace(b"\2k1", b"\2k2", 1)).decode().rstrip("=")
    error = service.refusal(swapped, call(2))
    assert (error.reason, error.key_id) == (F.NOT_AUTHENTIC, "k2")


def test_last_used_follows_openings(service, token):
    manager = service.boundary.keyring_manager
    manager.rotate_active_key(key("k2"))
    assert manager.snapshot().last_used == {"k1": None, "k2": None}
    service.clock.ms += 5_000
    service.open(token, call(2))
    assert manager.snapshot().last_used == {"k1": START + 5, "k2": None}


def test_an_ephemeral_configuration_opens_only_its_own():
    first, second = (Service(keyring=ProtectionConfig.ephemeral().keyring) for _ in range(2))
    token = first.seal(call())
    assert first.open(token, call(2)).round == 1
    assert second.refusal(token, call(2)).reason is F.UNKNOWN_KEY


# ---- threads ----


@pytest.fixture
def eager_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)


def in_threads(*works):
    failures = []

    def guarded(work):
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.usefixtures("eager_switches")
def test_sealing_and_opening_while_rings_are_swapped():
    service = Service(keyring=ring(key("first")))
    boundary = service.boundary
    manager = boundary.keyring_manager
    stop = threading.Event()
    rounds = itertools.count()

    def work():
        while not stop.is_set():
            sealed = run(boundary.seal(call(1), None, ASKED, has_state=True, state={"n": 1}))
            # The reservation holds the key: until it is released, whatever is sealed opens.
            opened = run(boundary.open(sealed.token, call(2)))
            assert isinstance(opened, OpenedState)
            assert opened.state == {"n": 1}
            sealed.release()
            next(rounds)

    def swap():
        try:
            for number in range(300):
                former = manager.snapshot().active_key_id
                fresh = key(f"k{number}")
                manager.stage_verification_key(fresh)
                manager.activate_staged_key(fresh.id)
                while True:
                    try:
                        manager.remove_verification_key(former)
                        break
                    except ProtectionKeyInUseError:
                        continue
                sealed = run(boundary.seal(call(1), None, {}, has_state=False))
                assert run(boundary.open(sealed.token, call(2))).key_id == fresh.id
                sealed.release()
        finally:
            stop.set()

    in_threads(work, work, work, swap)
    assert next(rounds) > 0
    assert manager.snapshot().sealing_reservations == {"k299": 0}
    assert manager.snapshot().verification_key_ids == ()


def test_a_removed_key_opens_nothing_in_any_thread():
    service = Service(keyring=ring(key("k1")))
    token = service.seal(call())
    service.boundary.keyring_manager.rotate_active_key(key("k2"))
    service.boundary.keyring_manager.remove_verification_key("k1")

    def work():
        for _ in range(20):
            with pytest.raises(RequestStateProtectionError):
                run(service.boundary.open(token, call(2)))

    in_threads(*[work] * 4)
