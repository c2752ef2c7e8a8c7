"""What a request gets whose body is no JSON by the rules of this library, or JSON at the edge of them.

Wherever it is refused, no handler is entered, the answer is a parse error without an id, and the next request is
served.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from mcpinput import ProtectionConfig, RequestContext, RequestStateMode, Server, input_required
from mcpinput.json import dump
from tests.support.asgi import Client, Response, meta
from tests.support.servers import FORM, ask_form, price_server

PARSE_ERROR = (400, -32700)


class Echo:
    """A server with one tool that records the arguments it was called with."""

    def __init__(self) -> None:
        self.arguments: list[dict[str, Any]] = []
        server = Server("echo", version="1")

        @server.tool("echo")
        async def echo(ctx: RequestContext, arguments: dict[str, Any]) -> str:
            self.arguments.append(arguments)
            return "done"

        self.client = Client(server.asgi())

    def post(self, body: bytes) -> Response:
        return self.client.send(body, self.client.headers("tools/call", {"name": "echo"}))

    def refuses(self, body: bytes) -> None:
        response = self.post(body)
        assert (response.status, response.error["code"]) == PARSE_ERROR
        assert response.json.get("id") is None
        assert self.arguments == []
        assert self.post(request()).status == 200
        self.arguments.clear()


def request(
    *, id: bytes = b"1", arguments: bytes = b"{}", in_params: bytes = b"", in_meta: bytes = b"", on_top: bytes = b""
) -> bytes:
    """A tools/call in parts of the test's own spelling; the last three are whole members, with a comma before them."""
    return b'{"jsonrpc":"2.0","id":%b,"method":"tools/call","params":{"name":"echo","arguments":%b,"_meta":%b%b}%b}' % (
        id,
        arguments,
        json.dumps(meta()).encode()[:-1] + in_meta + b"}",
        in_params,
        on_top,
    )


# Places where a value may stand, whether or not anybody looks at it.
PLACES: dict[str, Any] = {
    "ignored member": lambda value: request(on_top=b',"x":' + value),
    "ignored member of params": lambda value: request(in_params=b',"x":' + value),
    "meta": lambda value: request(in_meta=b',"x":' + value),
    "arguments": lambda value: request(arguments=b'{"x":' + value + b"}"),
    "input responses": lambda value: request(in_params=b',"inputResponses":{"x":' + value + b"}"),
    "request state": lambda value: request(in_params=b',"requestState":' + value),
    "id": lambda value: request(id=value),
}


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture(params=[0, 640, 4300])
def int_digits(request: pytest.FixtureRequest) -> Iterator[None]:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(request.param)
    yield
    sys.set_int_max_str_digits(before)


# ---- numbers ----


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.usefixtures("int_digits")
def test_numbers_of_too_many_digits(echo: Echo, place: str) -> None:
    for token in (b"1" * 5000, b"-" + b"1" * 1024, b"0." + b"1" * 5000, b"1e99999", b"9.223372E+1010671858"):
        echo.refuses(PLACES[place](token))


@pytest.mark.usefixtures("int_digits")
def test_numbers_of_as_many_digits_as_are_allowed_reach_the_handler(echo: Echo) -> None:
    token = b"7" * 1024
    for place in ("ignored member", "ignored member of params", "meta", "id", "arguments"):
        assert echo.post(PLACES[place](token)).status == 200
    value = echo.arguments[-1]["x"]
    assert type(value) is int
    assert value * 9 == 7 * (10**1024 - 1)


@pytest.mark.parametrize("token", [b"NaN", b"Infinity", b"-Infinity", b"nan", b"-NaN", b"1e", b"Inf"])
@pytest.mark.parametrize("place", PLACES)
def test_numbers_that_are_none(echo: Echo, place: str, token: bytes) -> None:
    echo.refuses(PLACES[place](token))


def test_numbers_beyond_a_double_are_exact_and_never_infinite(echo: Echo) -> None:
    arguments = b'{"large":1e400,"small":-1e-400,"exact":0.1,"scale":3.50,"count":18446744073709551617}'
    assert echo.post(request(arguments=arguments)).status == 200
    (seen,) = echo.arguments
    assert dump(seen) == arguments.replace(b"1e400", b"1E+400").replace(b"1e-400", b"1E-400")
    assert {name: type(value) for name, value in seen.items()} == {
        **dict.fromkeys(("large", "small", "exact", "scale"), Decimal),
        "count": int,
    }


# ---- texts ----


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" \r\n\t",
        b"\xef\xbb\xbf" + request(),
        request()[:-1],
        request() + b"x",
        request() + b"\0",
        request() + request(),
        request() + b"\xc2\xa0",
        b"\x0c" + request(),
        b"/*c*/" + request(),
        request() + b"//c",
        request().replace(b'"', b"'"),
        request().replace(b'"echo"', b"echo"),
        request().decode().encode("utf-16"),
        request().decode().encode("utf-16-le"),
        request().replace(b'"echo"', b'"\xff"'),
        request().replace(b'"echo"', b'"ech\xc1\xaf"'),  # an overlong o
        request().replace(b'"echo"', b'"\xed\xa0\x80"'),
        request().replace(b'"echo"', b'"\\ud800"'),
        request().replace(b'"echo"', b'"ec\nho"'),
        request().replace(b'"echo"', b'"\\x65cho"'),
        request().replace(b'"echo"', b'"\\u\xef\xbc\x90065cho"'),
        *(request(id=token) for token in (b"01", b"+1", b"1.", b".5", b"1e", b"-", b"0x1", b"1_0", b"\xef\xbc\x91")),
    ],
    ids=lambda body: repr(body[:12] + body[-12:]),
)
def test_texts_that_are_no_json(echo: Echo, body: bytes) -> None:
    echo.refuses(body)


# ---- names ----


@pytest.mark.parametrize(
    "body",
    [
        request(on_top=b',"method":"tools/list"'),
        request(on_top=b',"\\u006dethod":"tools/call"'),
        request(on_top=b',"id":1'),
        request(on_top=b',"params":{}'),
        request(on_top=b',"x":1,"x":1'),
        request(in_params=b',"name":"echo"'),
        request(in_params=b',"arguments":{}'),
        request(in_params=b',"\\u005fmeta":{}'),
        request(in_params=b',"requestState":"a","request\\u0053tate":"a"'),
        request(in_meta=b',"progressToken":1,"progressToken":1'),
        request(arguments=b'{"a":1,"a":1}'),
        request(arguments=b'{"a":1,"\\u0061":2}'),
        request(arguments=b'{"a":[{"b":{"c":1,"d":2,"c":1}}]}'),
        request(in_params=b',"inputResponses":{"k":{"action":"accept"},"k":{"action":"decline"}}'),
        request(in_params=b',"inputResponses":{"k":{"action":"accept","action":"decline"}}'),
    ],
    ids=lambda body: body[78:].decode()[-60:],
)
def test_a_member_that_stands_twice_is_refused_wherever_it_stands(echo: Echo, body: bytes) -> None:
    echo.refuses(body)


@pytest.mark.parametrize("name", [b"Method", b"METHOD", b"param\xc5\xbf", b"params\\u0000", b"\xef\xbd\x90arams", b""])
def test_names_in_other_spellings_are_other_names(echo: Echo, name: bytes) -> None:
    assert echo.post(request(on_top=b',"' + name + b'":{"name":"other"}')).status == 200
    assert echo.post(request(in_params=b',"' + name + b'":7')).status == 200


@pytest.mark.parametrize("name", [b"Jsonrpc", b"JSONRPC", b"json\\u0072pc "])
def test_a_version_under_another_name_is_none(echo: Echo, name: bytes) -> None:
    response = echo.post(request().replace(b"jsonrpc", name))
    assert (response.status, response.error["code"]) == (400, -32600)
    assert echo.arguments == []


# ---- depth ----

UNITS: dict[str, tuple[bytes, bytes, int]] = {
    "arrays": (b"[", b"]", 1),
    "objects": (b'{"a":', b"}", 1),
    "both": (b'[{"a":', b"}]", 2),
}


@pytest.mark.parametrize("unit", UNITS)
def test_depth_is_counted_from_the_message_down(echo: Echo, unit: str) -> None:
    opening, closing, containers = UNITS[unit]
    for place, above in (("ignored member", 1), ("ignored member of params", 2), ("meta", 3), ("arguments", 3)):
        fitting = (256 - above) // containers
        deep = opening * fitting + b"0" + closing * fitting
        assert echo.post(PLACES[place](deep)).status == 200
        echo.arguments.clear()
        echo.refuses(PLACES[place](opening + deep + closing))


@pytest.mark.parametrize("times", [1_000, 20_000, 200_000, 1_000_000, 5_000_000])
@pytest.mark.parametrize("unit", UNITS)
def test_no_depth_is_too_much_to_be_refused(echo: Echo, unit: str, times: int) -> None:
    opening, closing, _ = UNITS[unit]
    room = 10 * 1024 * 1024 - 1_000
    for deep in (opening * times, opening * times + b"0" + closing * times):
        for body in (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","x":' + deep, request(on_top=b',"x":' + deep)):
            if len(deep) < room:
                echo.refuses(body)
            else:
                assert echo.post(body).status == 413


# ---- many names ----


def test_an_object_of_many_members_reaches_the_handler(echo: Echo) -> None:
    members = {f"member {number * 7919 % 10_007:05}": number for number in range(10_000)}
    arguments = dump(members)
    assert echo.post(request(arguments=arguments)).status == 200
    assert list(echo.arguments[0].items()) == list(members.items())
    echo.arguments.clear()
    echo.refuses(request(arguments=arguments[:-1] + b',"member 00000":0}'))


# ---- what goes out ----


def giving(value: Any) -> Any:
    """A handler that gives this value."""
    return lambda ctx: value


@pytest.mark.parametrize(
    "number", [math.nan, math.inf, -math.inf, Decimal("NaN"), Decimal("Infinity"), 10**1024], ids=range(6)
)
def test_numbers_that_json_has_not_never_go_out(number: Any) -> None:
    server = Server("s", version="1", protection=ProtectionConfig.ephemeral())
    values = {"alone": number, "in an array": [1, [number]], "in an object": {"a": {"b": number}}}
    for name, value in values.items():
        server.tool(name)(giving({"v": value}))

    @server.tool("state", input_requests=[FORM], request_state=RequestStateMode.FRAMEWORK_PROTECTED)
    async def state(ctx: RequestContext) -> Any:
        return input_required({"k": ask_form()}, framework_request_state={"n": number})

    client = Client(server.asgi())
    for name in (*values, "state"):
        response = client.call_tool(name)
        message = "Request state could not be sealed" if name == "state" else "Internal error"
        assert (response.status, response.error) == (200, {"code": -32603, "message": message})
    assert client.request("tools/list").status == 200


# ---- state of one request is not that of another that only looks alike ----


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ("18446744073709551616", "18446744073709551617"),
        ("9007199254740992", "9007199254740993"),
        ("0.1", "0.10000000000000001"),
        ("1e400", "1e401"),
        ("1", "true"),
        ("1", '"1"'),
        ('"\\u00e9"', '"e\\u0301"'),
        ("0", "null"),
    ],
)
def test_state_opens_for_the_same_values_only(first: str, other: str) -> None:
    server, entered = price_server()
    client = Client(server.asgi())
    named = json.dumps({"name": "set_price", "_meta": meta()})[:-1]

    def call(spelled: str, more: str = "", id: int = 1) -> Response:
        raw = f'{named},"arguments":{{"v":{spelled}}}{more}}}'.encode()
        return client.request("tools/call", {"name": "set_price"}, raw_params=raw, id=id)

    token = call(first).result["requestState"]
    answer = f',"inputResponses":{{"price":{{"action":"decline"}}}},"requestState":"{token}"'
    entered.clear()
    refused = call(other, answer, id=2)
    assert (refused.status, refused.error["code"]) == (400, -32602)
    assert refused.error["data"] == {"reason": "invalid_request_state"}
    assert entered == []
    assert call(f" {first} ", answer, id=3).result["content"][0]["text"] == "declined"
