"""Several instances, and one that gets bad input: over real HTTP, every connection new."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from mcpinput import ANONYMOUS, Limits, ProtectionConfig
from mcpinput._demo import demo_server
from tests.services.servers import KINDS, price_server, ring
from tests.services.wire import FORM, Reply, call, headers, meta, post

Serve = Callable[[Any], str]

KEY = bytes(range(32))
OTHER_KEY = bytes(range(1, 33))
ANSWER = b'{"price": {"action": "accept", "content": {"price": 3.50}}}'
REFUSED = {
    "code": -32602,
    "message": "Invalid or expired requestState",
    "data": {"reason": "invalid_request_state"},
}


def first(url: str, kind: str) -> str:
    method, params = KINDS[kind]
    state = call(url, method, params).result["requestState"]
    assert isinstance(state, str)
    return state


def retry(url: str, kind: str, state: str) -> Reply:
    method, params = KINDS[kind]
    return call(url, method, params | {"requestState": state}, answers=ANSWER)


@pytest.mark.parametrize("kind", KINDS)
def test_one_instance_asks_and_another_takes_the_answer(serve: Serve, kind: str) -> None:
    here: list[Any] = []
    there: list[Any] = []
    one, other = serve(price_server(here, ring(KEY))), serve(price_server(there, ring(KEY)))
    assert retry(other, kind, first(one, kind)).result["resultType"] == "complete"
    assert retry(one, kind, first(other, kind)).result["resultType"] == "complete"
    assert [str(price) for price in here + there] == ["3.50", "3.50"]


@pytest.mark.parametrize("kind", KINDS)
def test_other_bytes_under_the_same_key_id_open_nothing(serve: Serve, kind: str) -> None:
    seen: list[Any] = []
    one, other = serve(price_server(seen, ring(KEY))), serve(price_server(seen, ring(OTHER_KEY)))
    reply = retry(other, kind, first(one, kind))
    assert (reply.status, reply.error) == (400, REFUSED)
    assert seen == []


def test_ephemeral_instances_share_nothing(serve: Serve) -> None:
    one, other = (serve(price_server([], ProtectionConfig.ephemeral())) for _ in range(2))
    reply = retry(other, "tool", first(one, "tool"))
    assert (reply.status, reply.error) == (400, REFUSED)


def test_state_of_one_kind_opens_in_no_other(serve: Serve) -> None:
    url = serve(price_server([], ring(KEY)))
    for asking in KINDS:
        state = first(url, asking)
        for answering in KINDS:
            reply = retry(url, answering, state)
            assert (reply.status == 200) is (asking == answering)
            if asking != answering:
                assert reply.error == REFUSED


# ---- bad input, and then good ----


def tampered(state: str) -> str:
    token = bytearray(base64.urlsafe_b64decode(state + "=" * (-len(state) % 4)))
    token[-1] ^= 1
    return base64.urlsafe_b64encode(token).rstrip(b"=").decode()


def test_bad_input_leaves_no_trace(serve: Serve) -> None:
    seen: list[Any] = []
    url = serve(price_server(seen, ring(KEY)))
    state = first(url, "tool")
    sent = headers("tools/call", "price")
    good = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {'

    def bad_json() -> Reply:
        return post(url, good, sent)

    def bad_header() -> Reply:
        return post(url, b'{"jsonrpc": "2.0"}', {**sent, "content-type": "text/plain"})

    def wrong_name() -> Reply:
        return call_with_headers(url, headers("tools/call", "another"))

    def bad_token() -> Reply:
        return retry(url, "tool", tampered(state))

    def long_token() -> Reply:
        return retry(url, "tool", "A" * 100_000)

    def too_large() -> Reply:
        return post(url, b" " * (Limits().body_bytes + 1), sent)

    cases = [
        (bad_json, 400),
        (bad_header, 415),
        (wrong_name, 400),
        (bad_token, 400),
        (long_token, 400),
        (too_large, 413),
    ]
    for case, status in cases:
        assert case().status == status, case.__name__
        assert retry(url, "tool", state).result["resultType"] == "complete", f"after {case.__name__}"
    assert len(seen) == len(cases)


def call_with_headers(url: str, sent: dict[str, str]) -> Reply:
    params = {"_meta": meta(FORM), "name": "price", "arguments": {}}
    return post(url, json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode(), sent)


def test_refused_token_is_told_the_same_whatever_was_wrong(serve: Serve) -> None:
    url = serve(price_server([], ring(KEY)))
    state = first(url, "tool")
    for wrong in ("", "A", "not a token", state[:-4], state + "A", tampered(state), state + "=", "A" * 70_000):
        reply = retry(url, "tool", wrong)
        assert (reply.status, reply.error) == (400, REFUSED), wrong[:80]


def test_demo_runs_in_a_fleet(serve: Serve) -> None:
    one, other = (serve(demo_server(ring(KEY), admission=ANONYMOUS)) for _ in range(2))
    params: dict[str, Any] = {"name": "catalog.continue", "arguments": {}}
    params["requestState"] = call(one, "tools/call", params).result["requestState"]
    reply = call(other, "tools/call", params, answers=b'{"approval": {"action": "accept"}}')
    assert reply.result["content"] == [{"type": "text", "text": "approved"}]
