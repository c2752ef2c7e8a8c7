"""What a request must be before any handler runs, in which order, and what bad input gets."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from mcpinput import Limits, ProtectionConfig, Server
from tests.support.asgi import Client, meta
from tests.support.servers import Recorder, price_server, ring

Pairs = list[tuple[bytes, bytes]]


@pytest.fixture
def entered() -> list[Any]:
    return []


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def client(entered: list[Any], recorder: Recorder) -> Client:
    server = Server("s", version="1", observers=[recorder])

    @server.tool("greet")
    async def greet(ctx: Any, arguments: Any) -> str:
        entered.append(ctx)
        return "hello"

    @server.tool("großer Gruß")
    async def greet_unicode(ctx: Any) -> str:
        entered.append(ctx)
        return "hallo"

    @server.tool(" padded ")
    async def greet_padded(ctx: Any) -> str:
        return "padded"

    @server.prompt("greeting")
    async def greeting(ctx: Any) -> str:
        return "hello"

    @server.resource("demo://{sku}")
    async def item(ctx: Any, arguments: Any) -> str:
        return f"item {arguments['sku']}"

    return Client(server.asgi())


def pairs(client: Client, method: str = "tools/call", name: str = "greet", **replaced: bytes | None) -> Pairs:
    headers = client.headers(method, {"name": name})
    for key, value in replaced.items():
        header = key.replace("_", "-").encode()
        if value is None:
            headers.pop(header, None)
        else:
            headers[header] = value
    return list(headers.items())


def body(**replaced: Any) -> bytes:
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "greet", "arguments": {}, "_meta": meta()},
        **replaced,
    }
    return json.dumps({key: value for key, value in message.items() if value is not LEFT_OUT}).encode()


LEFT_OUT = object()


# ---- HTTP ----


@pytest.mark.parametrize(
    "host",
    [b"localhost", b"localhost:8000", b"LOCALHOST", b"127.0.0.1", b"127.0.0.1:80", b"127.9.9.9", b"[::1]", b"[::1]:9"],
)
def test_loopback_hosts_are_served(client: Client, host: bytes) -> None:
    assert client.send(body(), pairs(client, host=host)).status == 200


@pytest.mark.parametrize(
    "host",
    [
        b"example.com",
        b"localhost.example.com",
        b"localhost.",
        b"127.0.0.1.example.com",
        b"127.0.0.1:80@example.com",
        b"example.com#localhost",
        b"localhost:",
        b"localhost:x",
        b"localhost:999999",
        b"0.0.0.0",
        b"[::2]",
        b"::1",
        b"2130706433",
        b"[127.0.0.1]",
        b"[localhost]",
        b"",
        b"local host",
        b"localhost, localhost",
        b"loc\xc3\xa4lhost",
    ],
)
def test_other_hosts_are_not(client: Client, entered: list[Any], recorder: Recorder, host: bytes) -> None:
    response = client.send(body(), pairs(client, host=host))
    assert response.status == 421
    assert entered == []
    assert recorder.rejections[-1].reason == "host"


def test_host_must_stand_once(client: Client) -> None:
    assert client.send(body(), pairs(client, host=None)).status == 421
    assert client.send(body(), [*pairs(client), (b"host", b"localhost")]).status == 421


@pytest.mark.parametrize("origin", [b"http://localhost", b"https://localhost", b"HTTP://LocalHost"])
def test_the_own_origin_may_call(client: Client, origin: bytes) -> None:
    assert client.send(body(), pairs(client, origin=origin)).status == 200


@pytest.mark.parametrize(
    "origin",
    [
        b"null",
        b"http://localhost:3000",
        b"http://localhost.evil.example",
        b"http://evil.example/localhost",
        b"http://user@localhost",
        b"https://evil.example",
        b"file://localhost",
        b"localhost",
        b"http://localhost/",
        b"",
        b"http://127.0.0.1",
    ],
)
def test_other_origins_may_not(client: Client, entered: list[Any], origin: bytes) -> None:
    assert client.send(body(), pairs(client, origin=origin)).status == 403
    assert entered == []


def test_two_origins_may_not(client: Client) -> None:
    doubled = [*pairs(client), (b"origin", b"http://localhost"), (b"origin", b"http://localhost")]
    assert client.send(body(), doubled).status == 403


def test_named_hosts_and_origins() -> None:
    server = Server(
        "s", version="1", allowed_hosts=["mcp.example", "other.example:8443"], allowed_origins=["https://app.example"]
    )
    server.tool("greet")(lambda ctx: "hello")
    client = Client(server.asgi(), host=b"mcp.example")
    assert client.send(body(), pairs(client)).status == 200
    assert client.send(body(), pairs(client, host=b"mcp.example:1")).status == 200
    assert client.send(body(), pairs(client, host=b"other.example:8443")).status == 200
    assert client.send(body(), pairs(client, host=b"other.example")).status == 421
    assert client.send(body(), pairs(client, host=b"localhost")).status == 421
    assert client.send(body(), pairs(client, origin=b"https://app.example")).status == 200
    assert client.send(body(), pairs(client, origin=b"https://mcp.example")).status == 403
    assert client.send(body(), pairs(client, origin=b"https://app.example.evil")).status == 403


def test_with_every_host_no_origin_is_own() -> None:
    server = Server("s", version="1", allowed_hosts=["*"])
    server.tool("greet")(lambda ctx: "hello")
    client = Client(server.asgi(), host=b"anything.example")
    assert client.send(body(), pairs(client)).status == 200
    assert client.send(body(), pairs(client, origin=b"https://anything.example")).status == 403


@pytest.mark.parametrize(
    ("option", "value", "error"),
    [
        ("allowed_hosts", "localhost", TypeError),
        ("allowed_hosts", [b"localhost"], TypeError),
        ("allowed_hosts", ["http://localhost"], ValueError),
        ("allowed_hosts", [""], ValueError),
        ("allowed_origins", ["app.example"], ValueError),
        ("allowed_origins", ["https://app.example/"], ValueError),
        ("allowed_origins", "https://app.example", TypeError),
        ("path", "", ValueError),
        ("path", "/", ValueError),
        ("path", "/a//b", ValueError),
        ("path", "/a/../b", ValueError),
        ("path", "/a/./b", ValueError),
        ("path", "/a?b", ValueError),
        ("path", "/a%2fb", ValueError),
        ("path", None, TypeError),
        ("admission", 7, TypeError),
        ("authenticate", "x", TypeError),
        ("observers", [object()], TypeError),
        ("name", "", ValueError),
        ("name", "\ud800", ValueError),
        ("title", 5, TypeError),
        ("instructions", b"x", TypeError),
        ("interceptors", [5], TypeError),
        ("version", None, TypeError),
        ("protection", b"k" * 32, TypeError),
        ("protection", ring(), TypeError),
        ("protection", ProtectionConfig, TypeError),
    ],
)
def test_a_server_that_cannot_be_is_refused(option: str, value: Any, error: type[Exception]) -> None:
    options: dict[str, Any] = {"name": "s", "version": "1", option: value}
    with pytest.raises(error, match=option):
        Server(options.pop("name"), **options)


def test_path_and_method(client: Client, recorder: Recorder) -> None:
    for path in ("/", "/mcp/", "/mcp/x", "/MCP", "/mc", ""):
        response = client.send(body(), pairs(client), path=path)
        assert (response.status, response.header(b"content-type")) == (404, b"text/plain; charset=utf-8"), path
    for method in ("GET", "DELETE", "PUT", "HEAD", "OPTIONS", "PATCH"):
        response = client.send(b"", pairs(client), http_method=method)
        assert (response.status, response.header(b"allow")) == (405, b"POST")
    assert recorder.rejections[-1].reason == "http method"


def test_after_a_request_with_upgrade_the_connection_is_closed(client: Client) -> None:
    """Some servers take its body for the next request, so there must be none."""
    response = client.send(body(), pairs(client, upgrade=b"h2c"))
    assert (response.status, response.header(b"connection")) == (200, b"close")
    lost = client.send(b"", pairs(client, upgrade=b"h2c"))
    assert (lost.status, lost.header(b"connection")) == (400, b"close")
    assert b"Upgrade" in lost.body
    assert client.send(body(), pairs(client)).header(b"connection") is None


def test_below_a_mount_the_path_is_the_rest(client: Client) -> None:
    assert client.send(body(), pairs(client), path="/app/mcp", root_path="/app").status == 200
    assert client.send(body(), pairs(client), path="/application/mcp", root_path="/app").status == 404


@pytest.mark.parametrize(
    "content_type",
    [
        b"application/json",
        b"Application/JSON",
        b"application/json; charset=utf-8",
        b"application/json;",
        b"application/json;charset=latin-1",
    ],
)
def test_content_types_that_are_json(client: Client, content_type: bytes) -> None:
    assert client.send(body(), pairs(client, content_type=content_type)).status == 200


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        b"",
        b"text/plain",
        b"text/plain; a=application/json",
        b"application/jsonfoo",
        b"application/json, text/plain",
        b"application/x-www-form-urlencoded",
        b"multipart/form-data",
        b"application/vnd.api+json",
    ],
)
def test_content_types_that_are_not(client: Client, entered: list[Any], content_type: bytes | None) -> None:
    assert client.send(body(), pairs(client, content_type=content_type)).status == 415
    assert entered == []


@pytest.mark.parametrize(
    "accept",
    [
        b"application/json, text/event-stream",
        b"text/event-stream, application/json",
        b"*/*",
        b"application/*, text/event-stream",
        b"application/*,text/*",
        b"application/json;q=0.9, text/event-stream;q=0.1",
        b"APPLICATION/JSON , Text/Event-Stream",
        b"application/json;charset=utf-8;q=1.000, text/event-stream",
        b"text/html, */*;q=0.1",
    ],
)
def test_accept_that_takes_both(client: Client, accept: bytes) -> None:
    assert client.send(body(), pairs(client, accept=accept)).status == 200


@pytest.mark.parametrize(
    "accept",
    [
        None,
        b"",
        b"application/json",
        b"text/event-stream",
        b"application/json;q=0, text/event-stream",
        b"application/json;q=0.000, */*",
        b"*/*;q=0",
        b"text/html",
        b"application/json;q=x, text/event-stream",
    ],
)
def test_accept_that_does_not(client: Client, entered: list[Any], accept: bytes | None) -> None:
    assert client.send(body(), pairs(client, accept=accept)).status == 406
    assert entered == []


def test_accept_over_two_lines(client: Client) -> None:
    both = [*pairs(client, accept=b"application/json"), (b"accept", b"text/event-stream")]
    assert client.send(body(), both).status == 200


def test_body_limit(entered: list[Any]) -> None:
    server = Server("s", version="1", limits=Limits(body_bytes=1000))

    @server.tool("greet")
    async def greet(ctx: Any) -> str:
        entered.append(ctx)
        return "hello"

    client = Client(server.asgi())
    message = body()
    padded = message + b" " * (1000 - len(message))
    assert client.send(padded, pairs(client)).status == 200
    assert client.send(padded + b" ", pairs(client)).status == 413
    # In chunks without a length, with a length that lies either way, and with one that is no number.
    assert client.send(b"", pairs(client), chunks=[padded[:500], padded[500:]]).status == 200
    assert client.send(b"", pairs(client), chunks=[padded, b" ", b"never read"]).status == 413
    assert client.send(padded, pairs(client, content_length=b"1001")).status == 413
    assert client.send(padded, pairs(client, content_length=b"9" * 40)).status == 413
    assert client.send(padded + b" ", pairs(client, content_length=b"5")).status == 413
    assert len(entered) == 2


# ---- JSON ----

BAD_JSON = [
    b"",
    b"   ",
    b"{",
    b"\xef\xbb\xbf{}",
    b"{} {}",
    b"{}x",
    b"{}\0",
    b"\xff",
    b"{'a':1}",
    b'{"a":01}',
    b'{"a":NaN}',
    b'{"a":-Infinity}',
    b'{"a":1e10001}',
    b'{"a":' + b"1" * 1025 + b"}",
    b'{"a":"\\ud800"}',
    b'{"a":"\\u\xef\xbc\x9141"}',
    b'{"a":1,"a":2}',
    b'{"a":1,"\\u0061":2}',
    b'{"a":1,}',
    b'{"a":"\x01"}',
    b"\x0c{}",
    b"[" * 1_000_000,
    b'{"a":' * 200_000,
    b'{"a":' + b"[" * 257 + b"]" * 257 + b"}",
]


@pytest.mark.parametrize("raw", BAD_JSON, ids=lambda raw: repr(raw[:20]))
def test_bad_json_is_a_parse_error_and_the_next_request_is_served(
    client: Client, entered: list[Any], raw: bytes
) -> None:
    response = client.send(raw, pairs(client))
    assert (response.status, response.error["code"]) == (400, -32700)
    assert "id" not in response.json
    assert entered == []
    assert client.send(body(), pairs(client)).status == 200


@pytest.mark.parametrize("digits", [0, 640])
def test_long_integers_are_taken_whatever_the_process_says(client: Client, digits: int) -> None:
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(digits)
    try:
        long_id = b"1" * 1024
        raw = body(id=0).replace(b'"id": 0', b'"id":' + long_id)
        response = client.send(raw, pairs(client))
        assert response.status == 200
        assert b'"id":' + long_id + b"," in response.body
        too_long = body(id=0).replace(b'"id": 0', b'"id":' + b"1" * 5000)
        assert client.send(too_long, pairs(client)).status == 400
    finally:
        sys.set_int_max_str_digits(limit)


# ---- JSON-RPC ----


@pytest.mark.parametrize("raw", [b"[]", b"[{}]", b"[1]", b'"x"', b"1", b"null", b"true"])
def test_anything_but_one_object_is_an_invalid_request(client: Client, raw: bytes) -> None:
    response = client.send(raw, pairs(client))
    assert (response.status, response.error["code"]) == (400, -32600)
    assert "id" not in response.json


@pytest.mark.parametrize("request_id", [None, 1.0, 1.5, True, [], {}, [1]])
def test_ids_that_are_none(client: Client, entered: list[Any], request_id: Any) -> None:
    response = client.send(body(id=request_id), pairs(client))
    assert (response.status, response.error["code"]) == (400, -32600)
    assert "id" not in response.json
    assert entered == []


@pytest.mark.parametrize("request_id", [0, "", "1", 1, -7, "a\u2028é\n\0", 2**64, "x" * 65_536])
def test_ids_are_echoed_with_their_type(client: Client, request_id: Any) -> None:
    for name, status in (("greet", 200), ("nobody", 400)):
        response = client.call_tool(name, {}, id=request_id)
        assert response.status == status
        assert response.json["id"] == request_id
        assert type(response.json["id"]) is type(request_id)
        assert b"\n" not in response.body


def test_an_id_too_long_to_echo_is_refused(client: Client) -> None:
    response = client.call_tool("greet", {}, id="x" * 65_537)
    assert (response.status, response.error["code"]) == (400, -32600)


@pytest.mark.parametrize("jsonrpc", ["1.0", 2.0, 2, None, LEFT_OUT])
def test_jsonrpc_version(client: Client, jsonrpc: Any) -> None:
    response = client.send(body(jsonrpc=jsonrpc), pairs(client))
    assert (response.status, response.error["code"]) == (400, -32600)
    assert response.json["id"] == 1


@pytest.mark.parametrize("method", [None, 1, [], LEFT_OUT])
def test_method_must_be_a_string(client: Client, method: Any) -> None:
    response = client.send(body(method=method), pairs(client))
    assert (response.status, response.error["code"]) == (400, -32600)


def test_a_posted_response_is_refused(client: Client) -> None:
    response = client.send(b'{"jsonrpc":"2.0","id":1,"result":{}}', pairs(client))
    assert (response.status, response.error["code"]) == (400, -32600)


@pytest.mark.parametrize(
    "message",
    [
        {"method": "notifications/cancelled", "params": {"requestId": 1}},
        {"method": "anything"},
        {"method": "tools/call", "params": {"name": "greet", "_meta": meta()}},
        {"method": "x", "params": {"_meta": {"io.modelcontextprotocol/protocolVersion": "1900-01-01"}}},
    ],
)
def test_notifications_are_taken_and_never_acted_upon(client: Client, entered: list[Any], message: Any) -> None:
    response = client.send(json.dumps({"jsonrpc": "2.0", **message}).encode(), pairs(client))
    assert (response.status, response.body) == (202, b"")
    assert entered == []


@pytest.mark.parametrize("message", [{}, {"method": 7}, {"params": {}}])
def test_a_notification_without_a_method_is_refused(client: Client, message: Any) -> None:
    response = client.send(json.dumps({"jsonrpc": "2.0", **message}).encode(), pairs(client))
    assert (response.status, response.error["code"]) == (400, -32600)


def test_members_in_other_spellings_are_unknown_members(client: Client) -> None:
    raw = body()[:-1] + b', "Method": "x", "METHOD": 7, "Jsonrpc": "1.0", "param\\u017f": {}}'
    assert client.send(raw, pairs(client)).status == 200
    raw = b'{"Jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}'
    assert client.send(raw, pairs(client)).error["code"] == -32600


# ---- _meta ----


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in meta().items() if name != key}


VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"


@pytest.mark.parametrize(
    ("params", "named"),
    [
        (LEFT_OUT, "params"),
        (None, "params"),
        ([], "params"),
        ({}, "_meta"),
        ({"_meta": None}, "_meta"),
        ({"_meta": []}, "_meta"),
        ({"_meta": {}}, VERSION_KEY),
        ({"_meta": without(VERSION_KEY)}, VERSION_KEY),
        ({"_meta": {**meta(), VERSION_KEY: 1}}, VERSION_KEY),
        ({"_meta": {**meta(), VERSION_KEY: None}}, VERSION_KEY),
        ({"_meta": without(CAPABILITIES_KEY)}, CAPABILITIES_KEY),
        ({"_meta": {**meta(), CAPABILITIES_KEY: []}}, CAPABILITIES_KEY),
        ({"_meta": {**meta(), CAPABILITIES_KEY: None}}, CAPABILITIES_KEY),
        ({"_meta": {**meta(), "io.modelcontextprotocol/clientInfo": "x"}}, "clientInfo"),
        ({"_meta": meta({"extensions": {"a": 5}})}, "extensions"),
        ({"_meta": meta({"experimental": []})}, "experimental"),
        *(({"_meta": {**meta(), "progressToken": token}}, "progressToken") for token in (1.5, None, True, {}, [])),
    ],
)
def test_what_meta_must_have(client: Client, entered: list[Any], params: Any, named: str) -> None:
    if isinstance(params, dict):
        params = {"name": "greet", **params}
    response = client.send(body(params=params), pairs(client))
    assert (response.status, response.error["code"], response.json["id"]) == (400, -32602, 1)
    assert named in response.error["message"]
    assert entered == []


@pytest.mark.parametrize("token", [0, "", "a", 7])
def test_progress_tokens_that_are_right(client: Client, token: Any) -> None:
    assert client.request("tools/call", {"name": "greet", "_meta": meta(progressToken=token)}).status == 200


def test_meta_comes_before_the_header(client: Client) -> None:
    response = client.send(body(params={"name": "greet"}), pairs(client, mcp_protocol_version=b"1900-01-01"))
    assert response.error["code"] == -32602


# ---- headers against the body ----


@pytest.mark.parametrize("header", ["mcp_protocol_version", "mcp_method", "mcp_name"])
@pytest.mark.parametrize("value", [None, b"", b"x", b"UPPER"])
def test_routing_headers_must_repeat_the_body(
    client: Client, entered: list[Any], header: str, value: bytes | None
) -> None:
    right = dict(pairs(client))[header.replace("_", "-").encode()]
    replaced = right.upper() + b"X" if value == b"UPPER" else value
    response = client.send(body(), pairs(client, **{header: replaced}))
    assert (response.status, response.error["code"], response.json["id"]) == (400, -32020, 1)
    assert header.replace("_", "-") in response.error["message"].lower()
    assert entered == []


@pytest.mark.parametrize("header", [b"mcp-protocol-version", b"mcp-method", b"mcp-name"])
def test_routing_headers_must_stand_once(client: Client, entered: list[Any], header: bytes) -> None:
    same = [*pairs(client), (header, dict(pairs(client))[header])]
    other = [*pairs(client), (header, b"other")]
    first = [(header, b"other"), *pairs(client)]
    for doubled in (same, other, first):
        response = client.send(body(), doubled)
        assert (response.status, response.error["code"]) == (400, -32020)
    assert entered == []


@pytest.mark.parametrize("value", [b"Tools/Call", b"tools/call, tools/call", b"tools/call\x00", b"tools/call\x7f"])
def test_header_values_are_exact(client: Client, value: bytes) -> None:
    assert client.send(body(), pairs(client, mcp_method=value)).error["code"] == -32020


def test_white_space_around_a_value_does_not_count(client: Client) -> None:
    assert client.send(body(), pairs(client, mcp_name=b" greet\t", mcp_method=b"\ttools/call ")).status == 200
    assert client.send(body(), pairs(client, mcp_name=b"gr eet")).error["code"] == -32020


def test_names_outside_ascii_come_encoded(client: Client) -> None:
    assert client.call_tool("großer Gruß").status == 200
    assert client.call_tool(" padded ").result["content"][0]["text"] == "padded"
    for wrong in (
        "großer Gruß".encode(),
        "großer Gruß".encode("latin-1"),
        b"=?base64?Z3Jv?=",
        b"=?base64?!!!!?=",
        b"=?BASE64?Z3Jvw59lciBHcnXDnw==?=",
        b"=?base64?Z3Jvw59lciBHcnXDnw?=",
        b"=?base64?Z3Jvw59lciBHcnXDnx==?=",
        b"=?base64?=",
        b"=?base64??=",
    ):
        response = client.call_tool("großer Gruß", headers={b"mcp-name": wrong})
        assert (response.status, response.error["code"]) == (400, -32020), wrong
    plain = client.call_tool("greet", headers={b"mcp-name": b"=?base64?Z3JlZXQ=?="})
    assert plain.status == 200


def test_unsupported_versions(client: Client) -> None:
    for version in ("2025-11-25", "1900-01-01", "x" * 64):
        params = {"name": "greet", "_meta": {**meta(), VERSION_KEY: version}}
        response = client.request("tools/call", params, headers={b"mcp-protocol-version": version.encode()})
        assert (response.status, response.error["code"]) == (400, -32022)
        assert response.error["data"] == {"supported": ["2026-07-28"], "requested": version}
        mismatch = client.request("tools/call", params)
        assert mismatch.error["code"] == -32020
    long = "x" * 5_000_000
    params = {"name": "greet", "_meta": {**meta(), VERSION_KEY: long}}
    response = client.request("tools/call", params, headers={b"mcp-protocol-version": long.encode()})
    assert response.error["data"] == {"supported": ["2026-07-28"], "requested": "x" * 64 + "…"}


def test_an_older_client_is_told_which_revision_is_spoken(client: Client) -> None:
    for params in ({}, {"protocolVersion": "2025-11-25", "capabilities": {}, "_meta": meta()}):
        response = client.send(
            body(method="initialize", params=params),
            pairs(client, method="initialize", mcp_method=None, mcp_name=None, mcp_protocol_version=None),
        )
        assert response.status == 400
        assert "2026-07-28" in response.error["message"]
        assert response.error["data"]["supported"] == ["2026-07-28"]
    complete = client.request("initialize")
    assert (complete.status, complete.error["code"]) == (404, -32601)
    assert complete.error["data"]["supported"] == ["2026-07-28"]


def test_unknown_methods(client: Client) -> None:
    for method in ("nothing", "tools/Call", "", "ping", "logging/setLevel", "resources/subscribe", "tasks/list"):
        response = client.request(method)
        assert (response.status, response.error["code"]) == (404, -32601), method


@pytest.mark.parametrize(
    ("method", "member"), [("tools/call", "name"), ("prompts/get", "name"), ("resources/read", "uri")]
)
def test_a_body_without_the_name_is_invalid_params_whatever_the_header_says(
    client: Client, method: str, member: str
) -> None:
    for params in ({}, {member: 7}, {member: None}):
        response = client.request(method, params, headers={b"mcp-name": b"greet"})
        assert (response.status, response.error["code"]) == (400, -32602)
        assert member in response.error["message"]


# ---- operations ----


def test_unknown_operations(client: Client) -> None:
    tool = client.call_tool("nobody")
    assert (tool.status, tool.error["code"]) == (400, -32602)
    prompt = client.get_prompt("nobody")
    assert (prompt.status, prompt.error["code"]) == (400, -32602)
    resource = client.read_resource("other://x")
    assert (resource.status, resource.error["code"], resource.error["data"]) == (400, -32602, {"uri": "other://x"})
    longest = "other://" + "x" * (65_536 - 8)
    assert client.read_resource(longest).error["data"] == {"uri": longest}
    huge = client.read_resource(longest + "x")
    assert (huge.status, huge.error["code"]) == (400, -32602)
    assert "65536" in huge.error["message"]


@pytest.mark.parametrize("arguments", [[], "x", 7, None, True])
def test_arguments_must_be_an_object(client: Client, entered: list[Any], arguments: Any) -> None:
    for method, name in (("tools/call", "greet"), ("prompts/get", "greeting")):
        response = client.request(method, {"name": name, "arguments": arguments, "_meta": meta()})
        assert (response.status, response.error["code"]) == (400, -32602)
    assert entered == []


def test_prompt_arguments_are_strings(client: Client) -> None:
    for value in (1, None, ["x"], {"a": "b"}, True):
        response = client.get_prompt("greeting", {"a": value})
        assert (response.status, response.error["code"]) == (400, -32602)
    assert client.get_prompt("greeting", {"a": "x"}).status == 200


def test_required_prompt_arguments_are_named() -> None:
    from mcpinput import PromptArgument

    server = Server("s", version="1")
    server.prompt("p", arguments=[PromptArgument("style", required=True), PromptArgument("tone")])(lambda ctx: "x")
    client = Client(server.asgi())
    response = client.get_prompt("p", {"tone": "warm"})
    assert (response.status, response.error["code"]) == (400, -32602)
    assert "style" in response.error["message"]
    assert client.get_prompt("p", {"style": "short"}).status == 200


@pytest.mark.parametrize("uri", ["demo://a%ff", "demo://", "demo://a/b", "demo://a?b"])
def test_uris_that_no_template_takes(client: Client, uri: str) -> None:
    assert client.read_resource(uri).error["code"] == -32602


def test_template_variables_are_decoded_once(client: Client) -> None:
    assert client.read_resource("demo://a%20%2525").result["contents"] == [
        {"uri": "demo://a%20%2525", "text": "item a %25"}
    ]


def test_unknown_members_of_every_type_are_skipped_at_every_level(client: Client) -> None:
    odd: dict[str, Any] = {"x1": None, "x2": [[]], "x3": {"a": {}}, "x4": 1.5, "x5": "s", "x6": False}
    params = {"name": "greet", "arguments": odd, "_meta": {**meta({"elicitation": {}, **odd}), **odd}, **odd}
    assert client.send(body(params=params, **odd), pairs(client)).status == 200


def test_lists(client: Client) -> None:
    tools = client.request("tools/list").result
    assert [tool["name"] for tool in tools["tools"]] == ["greet", "großer Gruß", " padded "]
    assert all(tool["inputSchema"] == {"type": "object"} for tool in tools["tools"])
    assert (tools["ttlMs"], tools["cacheScope"], tools["resultType"]) == (0, "private", "complete")
    assert [prompt["name"] for prompt in client.request("prompts/list").result["prompts"]] == ["greeting"]
    assert client.request("resources/list").result["resources"] == []
    templates = client.request("resources/templates/list").result["resourceTemplates"]
    assert [template["uriTemplate"] for template in templates] == ["demo://{sku}"]
    for method in ("tools/list", "prompts/list", "resources/list", "resources/templates/list"):
        refused = client.request(method, {"cursor": "x", "_meta": meta()})
        assert (refused.status, refused.error["code"]) == (400, -32602)


def test_discover(client: Client) -> None:
    result = client.request("server/discover").result
    assert result == {
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}},
    }


def test_order_of_checks(recorder: Recorder) -> None:
    """A request that is wrong in every way is answered by the first fault; mended one by one, by the next."""
    server, entered = price_server(observer=recorder, limits=Limits(body_bytes=2000))
    client = Client(server.asgi())
    good = client.headers("tools/call", {"name": "set_price"})
    steps: list[tuple[int, int | None]] = []

    def send(raw: bytes, headers: dict[bytes, bytes], **more: Any) -> None:
        response = client.send(raw, headers, **more)
        code = response.json["error"]["code"] if response.body.startswith(b"{") else None
        steps.append((response.status, code))

    wrong = {b"host": b"evil", b"origin": b"http://evil"}
    big = b"x" * 2001
    send(big, wrong, path="/x", http_method="GET")
    wrong[b"host"] = b"localhost"
    send(big, wrong, path="/x", http_method="GET")
    del wrong[b"origin"]
    send(big, wrong, path="/x", http_method="GET")
    send(big, wrong, http_method="GET")
    send(big, wrong)
    wrong[b"content-type"] = b"application/json"
    send(big, wrong)
    wrong[b"accept"] = b"*/*"
    send(big, wrong)
    send(b"x", wrong)
    send(b"[]", wrong)
    message: dict[str, Any] = {"id": True, "jsonrpc": "1"}
    send(json.dumps(message).encode(), wrong)
    message["id"] = 1
    send(json.dumps(message).encode(), wrong)
    message.update(jsonrpc="2.0", method="tools/calls")
    send(json.dumps(message).encode(), wrong)
    message["params"] = params = {"_meta": {**meta({}), VERSION_KEY: "1900-01-01"}}
    send(json.dumps(message).encode(), wrong)
    wrong[b"mcp-protocol-version"] = b"1900-01-01"
    send(json.dumps(message).encode(), wrong)
    params["_meta"][VERSION_KEY] = "2026-07-28"
    wrong[b"mcp-protocol-version"] = b"2026-07-28"
    send(json.dumps(message).encode(), wrong)
    wrong[b"mcp-method"] = b"tools/calls"
    send(json.dumps(message).encode(), wrong)
    message["method"] = "tools/call"
    wrong[b"mcp-method"] = b"tools/call"
    send(json.dumps(message).encode(), wrong)
    params.update(name="nobody", arguments=7, requestState="bad", inputResponses=7)
    send(json.dumps(message).encode(), wrong)
    wrong[b"mcp-name"] = b"nobody"
    send(json.dumps(message).encode(), wrong)
    params["name"] = "set_price"
    wrong[b"mcp-name"] = b"set_price"
    send(json.dumps(message).encode(), wrong)
    params["arguments"] = {}
    send(json.dumps(message).encode(), wrong)
    del params["requestState"]
    send(json.dumps(message).encode(), wrong)
    del params["inputResponses"]
    send(json.dumps(message).encode(), wrong)
    assert steps == [
        (421, None),
        (403, None),
        (404, None),
        (405, None),
        (415, None),
        (406, None),
        (413, None),
        (400, -32700),
        (400, -32600),
        (400, -32600),
        (400, -32600),
        (400, -32602),
        (400, -32020),
        (400, -32022),
        (400, -32020),
        (404, -32601),
        (400, -32602),
        (400, -32020),
        (400, -32602),
        (400, -32602),
        (400, -32602),
        (400, -32602),
        (400, -32021),
    ]
    assert len(entered) == 1
    assert wrong == {name: value for name, value in good.items() if name != b"accept"} | {b"accept": b"*/*"}
