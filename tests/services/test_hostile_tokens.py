"""Bad request state over real HTTP: whatever is wrong with it, status, headers and body are the same bytes."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from mcpinput import ANONYMOUS, Server
from tests.services.servers import KINDS, price_server, ring
from tests.services.wire import FORM, NO_TLS, call, headers, meta

Serve = Callable[[Any], str]

KEY = bytes(range(32))
BODY = (
    b'{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"Invalid or expired requestState",'
    b'"data":{"reason":"invalid_request_state"}}}'
)


def retry(url: str, kind: str, state: str, **more: Any) -> httpx.Response:
    """One retry with the id 7, and its answer as it came."""
    method, params = KINDS[kind]
    members = {"_meta": meta(FORM), **params, "requestState": state, **more}
    name = members.get("name", members.get("uri"))
    body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": members}).encode()
    with httpx.Client(timeout=60, trust_env=False, verify=NO_TLS) as client:
        return client.post(url, content=body, headers=headers(method, name))


def first(url: str, kind: str = "tool") -> str:
    method, params = KINDS[kind]
    state: str = call(url, method, params).result["requestState"]
    return state


def changed(state: str, at: int) -> str:
    token = bytearray(base64.urlsafe_b64decode(state + "=" * (-len(state) % 4)))
    token[at] ^= 1
    return base64.urlsafe_b64encode(token).rstrip(b"=").decode()


def as_seen(response: httpx.Response) -> tuple[int, list[tuple[str, str]], bytes]:
    """Everything of an answer but the time that the web server writes."""
    return (
        response.status_code,
        [(name, value) for name, value in response.headers.multi_items() if name != "date"],
        response.content,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_cause_has_one_answer(serve: Serve, kind: str) -> None:
    seen: list[Any] = []
    url = serve(price_server(seen, ring(KEY)))
    state = first(url, kind)
    other_kind = next(other for other in KINDS if other != kind)
    wrong = [
        "",
        "A",
        "not a token",
        "v1." + state,
        "é" * 100,
        "\U0001f511",
        state + "=",
        state + "\n",
        state[:-1],
        state[1:],
        changed(state, -1),
        changed(state, 0),
        changed(state, 3),
        changed(state, 10),
        "A" * 65_536,
        "A" * 65_537,
        "A" * (1024 * 1024),
        first(serve(price_server([], ring(KEY, "k2"))), kind),
        first(serve(price_server([], ring(bytes(range(1, 33))))), kind),
        first(url, other_kind),
    ]
    answers = {repr(as_seen(retry(url, kind, text))) for text in wrong}
    assert len(answers) == 1
    assert as_seen(retry(url, kind, wrong[0]))[::2] == (400, BODY)
    assert seen == []
    accepted = {"price": {"action": "accept", "content": {"price": 3}}}
    assert retry(url, kind, state, inputResponses=accepted).status_code == 200
    assert seen == [3]


def test_other_modes_answer_with_the_same_bytes(serve: Serve) -> None:
    """A tool without state, and one with state of its own, tell a bad token as the sealed ones do."""
    from mcpinput import RequestStateMode

    server = Server("shop", version="1", admission=ANONYMOUS)
    server.tool("price")(lambda ctx: "done")
    handles = Server("shop", version="1", admission=ANONYMOUS)
    handles.tool("price", request_state=RequestStateMode.APPLICATION_PROTECTED)(lambda ctx: "done")
    sealed = serve(price_server([], ring(KEY)))
    answers = [
        as_seen(retry(sealed, "tool", "x")),
        as_seen(retry(serve(server), "tool", "x")),
        as_seen(retry(serve(handles), "tool", "")),
        as_seen(retry(serve(handles), "tool", "x" * 65_537)),
    ]
    assert answers == answers[:1] * 4
    assert answers[0][::2] == (400, BODY)


def test_state_that_stands_twice_in_a_request_is_no_json(serve: Serve) -> None:
    """Whoever stands between might read the other one."""
    seen: list[Any] = []
    url = serve(price_server(seen, ring(KEY)))
    state = first(url)
    method, params = KINDS["tool"]
    for twice in ((state, "x"), ("x", state), (state, state)):
        both = ",".join(f'"requestState":{json.dumps(text)}' for text in twice)
        text = json.dumps({**params, "_meta": meta(FORM)}).removesuffix("}") + f",{both}}}"
        body = f'{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{text}}}'.encode()
        with httpx.Client(timeout=60, trust_env=False, verify=NO_TLS) as client:
            response = client.post(url, content=body, headers=headers(method, "price"))
        assert (response.status_code, response.json()["error"]["code"]) == (400, -32700)
    assert seen == []
