"""Explaining a token offline: it agrees with the server in every case, and tells all that differs."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from datetime import timedelta
from typing import Any

import pytest

from mcpinput import ProtectionConfig, ProtectionFailure, ProtectionKey, ProtectionKeyring, RequestStateProtectionError
from mcpinput._core.envelope import encode_payload, request_id_hash
from mcpinput.protection.context import Bindings
from mcpinput.protection.explain import Explanation, Known, Verdict, explain
from mcpinput.protection.protector import seal_token
from mcpinput.protection.state import AskedRequest, Call, StateBoundary

NOW_MS = 1_800_000_000_000
KEY = ProtectionKey.from_id_and_bytes("k1", bytes(range(32)))
OTHER = ProtectionKey.from_id_and_bytes("k2", bytes(range(1, 33)))
RING = ProtectionKeyring.with_active_key(KEY).build()
BOUND = Bindings("orders", "/mcp", "2026-07-28", "tools/call", "p4rtition", "t3nant", "pr1ncipal")
DIGEST = b"d" * 32
NAMES = [field.name for field in dataclasses.fields(Bindings) if field.init]
F = ProtectionFailure


def token_of(key: ProtectionKey = KEY, **changes: Any) -> str:
    """A token of round 1 whose flow began now, but for what is changed in its payload."""
    parts: dict[str, Any] = {
        "flags": 1,
        "round": 1,
        "issued_ms": NOW_MS,
        "expires_ms": NOW_MS + 900_000,
        "flow_id": bytes(16),
        "bindings": BOUND.digests(),
        "parameter_digest": DIGEST,
        "request_id_hash": request_id_hash(1),
        "asked": [("k", 1, bytes(16)), ("l", 2, bytes(16))],
        "state": b'{"secret":"st4te"}',
    }
    return seal_token(key, bytes(24), encode_payload(**(parts | changes)))


def known(bound: Bindings = BOUND, **changes: Any) -> Known:
    facts: dict[str, Any] = {name: getattr(bound, name) for name in NAMES}
    return Known(**(facts | {"parameter_digest": DIGEST, "request_id": 2, "replayed": False} | changes))


def server_says(token: str, bound: Bindings, at: Known, now_ms: int) -> ProtectionFailure | None:
    """What a server with the same configuration does with the same request."""
    boundary = StateBoundary(
        ProtectionConfig(
            keyring=RING,
            clock=lambda: now_ms / 1000,
            maximum_request_state_lifetime=timedelta(milliseconds=at.maximum_lifetime_ms),
            maximum_request_state_rounds=at.maximum_rounds,
            maximum_encoded_bytes=at.maximum_encoded_bytes,
            maximum_decoded_bytes=at.maximum_decoded_bytes,
        )
    )
    assert at.request_id is not None
    assert at.parameter_digest is not None
    digest = at.parameter_digest
    call = Call(bound, at.request_id, lambda: digest)
    try:
        asyncio.run(boundary.open(token, call, boundary.terms(replayed=bool(at.replayed))))
    except RequestStateProtectionError as refused:
        return refused.reason
    return None


# What may be wrong with a token or its request, and how a server calls it where nothing else is wrong.
FAULTS: list[tuple[ProtectionFailure, dict[str, Any], dict[str, Any], int]] = [
    *((getattr(F, "ENDPOINT_PATH" if name == "path" else name.upper()), {}, {name: "x"}, 0) for name in NAMES),
    (F.PARAMETERS, {}, {"parameter_digest": bytes(32)}, 0),
    (F.REQUEST_ID, {}, {"request_id": 1}, 0),
    (F.ROUND, {"round": 0}, {}, 0),
    (F.ROUND, {"round": 11}, {}, 0),
    (F.ROUND, {"round": 2}, {"maximum_rounds": 1}, 0),
    (F.LIFETIME, {}, {"maximum_lifetime_ms": 899_999}, 0),
    (F.LIFETIME, {"expires_ms": NOW_MS}, {}, 0),
    (F.ISSUED_IN_FUTURE, {}, {}, -60_001),
    (F.EXPIRED, {}, {}, 900_000),
    (F.ASK_KIND, {"flags": 3}, {}, 0),
    (F.ASK_KIND, {}, {"replayed": True}, 0),
    (F.MALFORMED, {"state": b'{"secret":'}, {}, 0),
    (F.TOO_LARGE, {}, {"maximum_decoded_bytes": 200, "maximum_encoded_bytes": 4096}, 0),
    (F.TOO_LARGE, {}, {"maximum_encoded_bytes": 200, "maximum_decoded_bytes": 200}, 0),
]


def explained(sealed: dict[str, Any], request: dict[str, Any], later: int) -> tuple[Explanation, Any]:
    """What is explained of a token, and what the server says of it."""
    token, at, now = token_of(**sealed), known(**request), NOW_MS + later
    bound = dataclasses.replace(BOUND, **{name: value for name, value in request.items() if name in NAMES})
    return explain(token, RING, at, now), server_says(token, bound, at, now)


def test_a_good_token_opens() -> None:
    found, server = explained({}, {}, 0)
    assert found.failure is server is None
    assert found.key_id == "k1"
    assert found.contents is not None
    assert {each.verdict for each in found.contents.bindings} == {Verdict.SAME}
    assert (found.contents.parameters, found.contents.request_id) == (Verdict.SAME, Verdict.DIFFERS)


@pytest.mark.parametrize(("failure", "sealed", "request_", "later"), FAULTS, ids=lambda value: repr(value)[:40])
def test_each_fault_is_named_as_the_server_names_it(
    failure: ProtectionFailure, sealed: dict[str, Any], request_: dict[str, Any], later: int
) -> None:
    found, server = explained(sealed, request_, later)
    assert found.failure is server is failure


@pytest.mark.parametrize("later", [-60_001, -60_000, 0, 899_999, 900_000])
def test_the_edges_of_time_are_the_servers(later: int) -> None:
    found, server = explained({}, {}, later)
    assert found.failure is server
    assert (found.failure is None) == (-60_000 <= later < 900_000)


def test_of_several_faults_it_names_the_one_that_the_server_meets_first() -> None:
    choose = random.Random(7)
    for _ in range(400):
        sealed: dict[str, Any] = {}
        request: dict[str, Any] = {}
        later = 0
        for _, in_token, in_request, shift in choose.sample(FAULTS, choose.randint(1, 5)):
            sealed |= in_token
            request |= in_request
            later = shift or later
        request.setdefault("maximum_encoded_bytes", 65_536)
        found, server = explained(sealed, request, later)
        assert found.failure is server


@pytest.mark.parametrize(
    ("token", "failure", "key_id"),
    [
        ("", F.MALFORMED, None),
        ("not a token", F.MALFORMED, None),
        ("é" * 10, F.MALFORMED, None),
        ("A" * 65_537, F.TOO_LARGE, None),
        (token_of(OTHER), F.UNKNOWN_KEY, "k2"),
        (token_of(ProtectionKey.from_id_and_bytes("k1", b"x" * 32)), F.NOT_AUTHENTIC, "k1"),
        (seal_token(KEY, bytes(24), b"\x01"), F.MALFORMED, "k1"),
    ],
)
def test_what_cannot_be_decrypted_or_read(token: str, failure: ProtectionFailure, key_id: str | None) -> None:
    assert explain(token, RING, known(), NOW_MS) == Explanation(failure, key_id, None)
    assert server_says(token, BOUND, known(), NOW_MS) is failure


def test_a_token_under_a_revoked_key_is_explained_all_the_same() -> None:
    found = explain(token_of(), RING, known(tenant="x"), NOW_MS, revoked={"k1"})
    assert found.failure is F.UNKNOWN_KEY
    assert found.contents is not None
    differing = [each.failure for each in found.contents.bindings if each.verdict is Verdict.DIFFERS]
    assert differing == [F.TENANT]


def test_it_goes_on_after_the_first_difference() -> None:
    found = explain(token_of(), RING, known(path="/x", principal="x", parameter_digest=bytes(32)), NOW_MS + 10**9)
    assert found.failure is F.ENDPOINT_PATH
    assert found.contents is not None
    assert [each.verdict.value for each in found.contents.bindings] == [
        "same",
        "differs",
        "same",
        "same",
        "same",
        "same",
        "differs",
    ]
    assert found.contents.parameters is Verdict.DIFFERS
    assert found.contents.age_ms == 10**9


def test_what_is_not_known_counts_as_the_same_and_absence_is_told() -> None:
    bound = Bindings("orders", "/mcp", "2026-07-28", "tools/call", None, None, "pr1ncipal")
    found = explain(token_of(bindings=bound.digests()), RING, Known(), NOW_MS)
    assert found.failure is None
    assert found.contents is not None
    assert {each.verdict for each in found.contents.bindings} == {Verdict.NOT_GIVEN}
    assert [each.absent for each in found.contents.bindings] == [False, False, False, False, True, True, False]
    assert found.contents.parameters is found.contents.request_id is Verdict.NOT_GIVEN
    assert explain(token_of(flags=3), RING, Known(), NOW_MS).failure is None


def test_it_tells_of_round_times_and_kinds() -> None:
    contents = explain(token_of(round=3, flags=3), RING, Known(), NOW_MS + 5).contents
    assert contents is not None
    assert (contents.round, contents.issued_ms, contents.expires_ms, contents.age_ms) == (
        3,
        NOW_MS,
        NOW_MS + 900_000,
        5,
    )
    assert (contents.replayed, contents.state_bytes, contents.asked) == (True, 18, (1, 2))
    bare = explain(token_of(flags=0, state=b"", asked=[]), RING, Known(), NOW_MS).contents
    assert bare is not None
    assert (bare.replayed, bare.state_bytes, bare.asked) == (False, None, ())


def test_a_token_that_a_server_made_opens_and_shows_nothing_secret() -> None:
    boundary = StateBoundary(ProtectionConfig(keyring=RING, clock=lambda: NOW_MS / 1000))
    call = Call(BOUND, 1, lambda: DIGEST)
    asked = {"qu3stion": AskedRequest(1, bytes(16))}
    token = asyncio.run(boundary.seal(call, None, asked, has_state=True, state={"secret": "st4te"})).token
    found = explain(token, RING, known(), NOW_MS)
    assert found.failure is None
    shown = repr(found)
    for secret in (
        token,
        "st4te",
        "qu3stion",
        "p4rtition",
        "t3nant",
        "pr1ncipal",
        repr(DIGEST),
        repr(bytes(range(32))),
    ):
        assert secret not in shown
