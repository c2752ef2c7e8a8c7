"""A token opens only where everything it is bound to is the same. Each test changes just one thing."""

from __future__ import annotations

from typing import Any

import pytest

from mcpinput import Admission, ProtectionConfig, ProtectionFailure, ProtectionKey
from tests.support.asgi import VERSION, Client, meta
from tests.support.servers import Clock, Recorder, accept, price_server, ring

FROZEN = (
    b'{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"Invalid or expired requestState",'
    b'"data":{"reason":"invalid_request_state"}}}'
)


class Flow:
    """A server, and a client that has been asked once."""

    def __init__(self, **options: Any) -> None:
        self.clock = options.setdefault("clock", Clock())
        self.recorder = Recorder()
        self.server, self.entered = price_server(observer=self.recorder, **options)
        self.client = Client(self.server.asgi(), path=self.server.path)
        self.arguments = {"amount": "1"}

    def ask(self, **more: Any) -> str:
        result = self.client.call_tool("set_price", self.arguments, **more).result
        assert result["resultType"] == "input_required"
        self.entered.clear()
        token: str = result["requestState"]
        return token

    def retry(self, token: str, **more: Any) -> Any:
        more.setdefault("id", 2)
        more.setdefault("answers", accept(price=3))
        name = more.pop("name", "set_price")
        return self.client.call_tool(name, more.pop("arguments", self.arguments), state=token, **more)

    def assert_frozen(self, response: Any, reason: ProtectionFailure) -> None:
        assert response.status == 400
        assert response.body == FROZEN
        assert response.headers == [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(FROZEN)).encode()),
        ]
        assert self.entered == []
        assert self.recorder.rejections[-1].failure is reason


def test_unchanged_opens() -> None:
    flow = Flow()
    response = flow.retry(flow.ask())
    assert response.result["content"] == [{"type": "text", "text": "price 3 state {'step': 10}"}]
    assert len(flow.entered) == 1


def test_an_instance_with_the_same_ring_opens() -> None:
    token = Flow().ask()
    assert Flow().retry(token).result["resultType"] == "complete"


def test_path() -> None:
    token = Flow(path="/mcp").ask()
    flow = Flow(path="/other")
    flow.assert_frozen(flow.retry(token), ProtectionFailure.ENDPOINT_PATH)


def test_path_is_normalised_before_it_is_bound() -> None:
    token = Flow(path="/mcp").ask()
    assert Flow(path="mcp/").retry(token).result["resultType"] == "complete"


def test_audience_is_the_servers_name() -> None:
    token = Flow(name="prices").ask()
    flow = Flow(name="prices-7f9c")
    flow.assert_frozen(flow.retry(token), ProtectionFailure.AUDIENCE)


def test_audience_may_be_shared_by_replicas_of_different_names() -> None:
    def protection(clock: Clock) -> ProtectionConfig:
        return ProtectionConfig(keyring=ring(), audience="prices", clock=clock)

    clock = Clock()
    token = Flow(name="pod-1", protection=protection(clock)).ask()
    assert Flow(name="pod-2", protection=protection(clock)).retry(token).result["resultType"] == "complete"


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        ("partition", ProtectionFailure.PARTITION),
        ("tenant", ProtectionFailure.TENANT),
        ("principal", ProtectionFailure.PRINCIPAL),
    ],
)
@pytest.mark.parametrize(("sealed_as", "opened_as"), [("alice", "bob"), ("alice", None), (None, "alice")])
def test_who_is_calling(part: str, reason: ProtectionFailure, sealed_as: str | None, opened_as: str | None) -> None:
    caller: list[str | None] = [sealed_as]

    def admission(facts: Any, identity: Any) -> Admission:
        parts: dict[str, Any] = {"partition": "p", "tenant": "t", "principal": "u", part: caller[0]}
        return Admission(**parts)

    flow = Flow(admission=admission)
    token = flow.ask()
    caller[0] = opened_as
    flow.assert_frozen(flow.retry(token), reason)
    caller[0] = sealed_as
    assert flow.retry(token, id=3).result["resultType"] == "complete"


def test_principal_can_be_left_unbound_on_purpose() -> None:
    caller = ["alice"]

    def admission(facts: Any, identity: Any) -> Admission:
        return Admission("team", principal=caller[0])

    config = ProtectionConfig(keyring=ring(), bind_principal=False, clock=Clock())
    flow = Flow(admission=admission, protection=config)
    token = flow.ask()
    caller[0] = "bob"
    assert flow.retry(token).result["resultType"] == "complete"


def test_operation() -> None:
    flow = Flow()
    flow.assert_frozen(flow.retry(flow.ask(), name="other"), ProtectionFailure.PARAMETERS)


def test_method() -> None:
    # A prompt and a tool of the same name and arguments differ in nothing but the method.
    from mcpinput import RequestStateMode
    from tests.support.servers import FORM

    flow = Flow()

    @flow.server.prompt("set_price", input_requests=[FORM], request_state=RequestStateMode.FRAMEWORK_PROTECTED)
    def same_name(ctx: Any, arguments: Any) -> str:
        flow.entered.append(ctx)
        return "never"

    response = flow.client.get_prompt("set_price", flow.arguments, state=flow.ask(), answers=accept(price=3), id=2)
    flow.assert_frozen(response, ProtectionFailure.METHOD)


@pytest.mark.parametrize(
    ("asked", "retried"),
    [
        (b"1", b"2"),
        (b"9007199254740992", b"9007199254740993"),
        (b"18446744073709551616", b"18446744073709551617"),
        (b"0.1", b"0.1000000000000000055"),
        (b"1", b"true"),
        (b"1", b'"1"'),
        (b"1", b"[1]"),
        (b'"\\u00e9"', b'"e\\u0301"'),
        (b"{}", b"null"),
        (b'{"a":1}', b'{"a":1,"b":null}'),
        (b"[1,2]", b"[2,1]"),
    ],
)
def test_one_parameter(asked: bytes, retried: bytes) -> None:
    flow = Flow()
    token = _raw(flow, asked, None, 1).result["requestState"]
    flow.entered.clear()
    flow.assert_frozen(_raw(flow, retried, token, 2), ProtectionFailure.PARAMETERS)


@pytest.mark.parametrize(
    ("asked", "retried"),
    [
        (b"1", b"1.0"),
        (b"1", b"10e-1"),
        (b"100", b"1E2"),
        (b"0", b"-0.0"),
        (b"3.50", b"3.5"),
        (b'"\\u00e9"', '"é"'.encode()),
        (b'"\\/"', b'"/"'),
        (b'{"a":1,"b":2}', b' { "b" : 2 , "a" : 1.00 } '),
    ],
)
def test_the_same_parameter_in_another_spelling_opens(asked: bytes, retried: bytes) -> None:
    flow = Flow()
    token = _raw(flow, asked, None, 1).result["requestState"]
    assert _raw(flow, retried, token, 2).result["resultType"] == "complete"


def _raw(flow: Flow, value: bytes, token: str | None, request_id: int, more_meta: bytes = b"") -> Any:
    retry = (
        b""
        if token is None
        else b',"requestState":"%b","inputResponses":{"price":{"action":"accept"}}' % token.encode()
    )
    return flow.client.request(
        "tools/call",
        {"name": "set_price"},
        id=request_id,
        raw_params=(
            b'{"name":"set_price","arguments":{"v":%b}%b,"_meta":{"io.modelcontextprotocol/protocolVersion":"%b",'
            b'"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}%b}}'
        )
        % (value, retry, VERSION.encode(), more_meta),
    )


@pytest.mark.parametrize("member", ["progressToken", "traceparent", "tracestate", "baggage"])
def test_transient_metadata_may_change(member: str) -> None:
    flow = Flow()
    token = _raw(flow, b"1", None, 1, b',"%b":"a"' % member.encode()).result["requestState"]
    assert _raw(flow, b"1", token, 2, b',"%b":"b"' % member.encode()).result["resultType"] == "complete"
    assert _raw(flow, b"1", token, 3).result["resultType"] == "complete"


def test_other_metadata_is_bound() -> None:
    flow = Flow()
    token = _raw(flow, b"1", None, 1, b',"locale":"en"').result["requestState"]
    flow.entered.clear()
    flow.assert_frozen(_raw(flow, b"1", token, 2, b',"locale":"de"'), ProtectionFailure.PARAMETERS)


def test_no_arguments_and_empty_arguments_are_different_parameters() -> None:
    flow = Flow()
    flow.arguments = None  # type: ignore[assignment]
    token = flow.ask()
    flow.assert_frozen(flow.retry(token, arguments={}), ProtectionFailure.PARAMETERS)


def test_client_capabilities_are_bound() -> None:
    flow = Flow()
    token = flow.ask()
    flow.assert_frozen(flow.retry(token, capabilities={"elicitation": {}}), ProtectionFailure.PARAMETERS)


def test_the_id_of_the_asking_request_is_refused() -> None:
    flow = Flow()
    token = flow.ask(id=2)
    flow.assert_frozen(flow.retry(token, id=2), ProtectionFailure.REQUEST_ID)


@pytest.mark.parametrize("request_id", [2, "1", "a", "", 0, 9007199254740993, 10**1000])
def test_any_other_id_is_taken(request_id: Any) -> None:
    flow = Flow()
    response = flow.retry(flow.ask(id=1), id=request_id)
    assert response.result["resultType"] == "complete"
    assert response.json["id"] == request_id
    assert type(response.json["id"]) is type(request_id)


def test_lifetime_is_exact_and_anchored_to_the_first_ask() -> None:
    flow = Flow()
    token = flow.ask(id=1)
    flow.clock.now += 899
    again = flow.retry(token, id=5, answers={})
    second = again.result["requestState"]
    assert again.result["resultType"] == "input_required"
    flow.entered.clear()
    flow.clock.now += 0.999
    assert flow.retry(second, id=3).result["resultType"] == "complete"
    flow.entered.clear()
    flow.clock.now += 0.001
    flow.assert_frozen(flow.retry(second, id=2), ProtectionFailure.EXPIRED)
    flow.assert_frozen(flow.retry(token, id=2), ProtectionFailure.EXPIRED)


def test_clock_skew_of_a_minute_is_taken_and_no_more() -> None:
    flow = Flow()
    token = flow.ask()
    flow.clock.now -= 60
    assert flow.retry(token, id=3).result["resultType"] == "complete"
    flow.entered.clear()
    flow.clock.now -= 1
    flow.assert_frozen(flow.retry(token), ProtectionFailure.ISSUED_IN_FUTURE)


def test_a_longer_lifetime_elsewhere_is_not_taken_here() -> None:
    from datetime import timedelta

    def config(minutes: int, clock: Clock) -> ProtectionConfig:
        return ProtectionConfig(keyring=ring(), maximum_request_state_lifetime=timedelta(minutes=minutes), clock=clock)

    clock = Clock()
    token = Flow(protection=config(60, clock), clock=clock).ask()
    flow = Flow(protection=config(15, clock), clock=clock)
    flow.assert_frozen(flow.retry(token), ProtectionFailure.LIFETIME)


def test_the_last_round_completes_but_asks_no_more() -> None:
    flow = Flow()
    token = flow.ask(id=0)
    for round_number in range(1, 10):
        response = flow.retry(token, id=round_number + 100, answers={})
        assert flow.entered[-1].round == round_number
        assert flow.entered[-1].rounds_left == 10 - round_number
        token = response.result["requestState"]
    refused = flow.retry(token, id=300, answers={})
    assert (refused.status, refused.error["code"]) == (200, -32603)
    assert flow.recorder.outcomes[-1].failure is ProtectionFailure.ROUND
    assert flow.retry(token, id=301).result["resultType"] == "complete"


def test_a_round_beyond_this_instances_maximum_is_refused() -> None:
    clock = Clock()
    flow = Flow(clock=clock)
    second = flow.retry(flow.ask(), id=5, answers={}).result["requestState"]
    low = Flow(protection=ProtectionConfig(keyring=ring(), maximum_request_state_rounds=1, clock=clock), clock=clock)
    low.assert_frozen(low.retry(second, id=2), ProtectionFailure.ROUND)


def test_every_bit_counts() -> None:
    flow = Flow()
    token = flow.ask()
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for position in range(len(token)):
        value = alphabet.index(token[position])
        for bit in range(6):
            changed = token[:position] + alphabet[value ^ (1 << bit)] + token[position + 1 :]
            response = flow.retry(changed)
            assert response.body == FROZEN
            assert response.status == 400
    assert flow.entered == []


def test_every_truncation_and_addition_is_refused() -> None:
    flow = Flow()
    token = flow.ask()
    texts = [token[:length] for length in range(len(token))]
    texts += [token + tail for tail in ("A", "AA", "AAA", "AAAA", "=", "==", "-TAMPERED", " ", "\n", "\0", "!")]
    texts += [head + token for head in ("A", " ", "AAAA", "v1.")]
    texts += [token[:50] + inserted + token[50:] for inserted in (" ", "\n", "!", "\uff21", "\0", "=")]
    texts += [token.upper(), token.lower(), token.swapcase(), "x" * 70_000]
    for text in texts:
        assert flow.retry(text).body == FROZEN, text
    assert flow.entered == []


@pytest.mark.parametrize("state", [None, 7, True, 1.5, [], {}, [""], {"s": "x"}])
def test_state_that_is_no_string_is_invalid_params(state: Any) -> None:
    flow = Flow()
    token = flow.ask()
    if isinstance(state, dict) and state:
        state = {"s": token}
    if isinstance(state, list) and state:
        state = [token]
    params = {"name": "set_price", "arguments": flow.arguments, "requestState": state, "_meta": meta()}
    response = flow.client.request("tools/call", params, id=2)
    assert (response.status, response.error["code"]) == (400, -32602)
    assert flow.entered == []


def test_the_same_id_under_other_key_bytes_is_refused() -> None:
    token = Flow().ask()
    flow = Flow(keys=ring(ProtectionKey.from_id_and_bytes("k1", bytes(range(1, 33)))))
    flow.assert_frozen(flow.retry(token), ProtectionFailure.NOT_AUTHENTIC)


def test_an_unknown_key_is_refused() -> None:
    token = Flow().ask()
    flow = Flow(keys=ring(ProtectionKey.from_id_and_bytes("k2", bytes(range(1, 33)))))
    flow.assert_frozen(flow.retry(token), ProtectionFailure.UNKNOWN_KEY)


def test_a_verification_key_opens_and_the_active_one_seals() -> None:
    new = ProtectionKey.from_id_and_bytes("k2", bytes(range(1, 33)))
    old = ProtectionKey.from_id_and_bytes("k1", bytes(range(32)))
    token = Flow(keys=ring(old)).ask()
    rotated = Flow(keys=ring(new, old))
    second = rotated.retry(token, answers={}).result["requestState"]
    assert Flow(keys=ring(new)).retry(second, id=3).result["resultType"] == "complete"


def test_protocol_version_is_bound() -> None:
    """Only one version is served, so the binding is changed where it is made."""
    import asyncio

    from mcpinput import RequestStateProtectionError
    from mcpinput.protection.context import Bindings
    from mcpinput.protection.state import Call, StateBoundary

    boundary = StateBoundary(ProtectionConfig(keyring=ring(), clock=Clock()))

    def call(version: str, request_id: int) -> Call:
        bindings = Bindings(
            audience="a",
            path="/mcp",
            protocol_version=version,
            method="tools/call",
            partition=None,
            tenant=None,
            principal=None,
        )
        return Call(bindings, request_id, lambda: bytes(32))

    async def scenario() -> None:
        sealed = await boundary.seal(call(VERSION, 1), None, {}, has_state=False)
        assert (await boundary.open(sealed.token, call(VERSION, 2))).round == 1
        with pytest.raises(RequestStateProtectionError) as caught:
            await boundary.open(sealed.token, call("2027-01-01", 2))
        assert caught.value.reason is ProtectionFailure.PROTOCOL_VERSION
        sealed.release()

    asyncio.run(scenario())
