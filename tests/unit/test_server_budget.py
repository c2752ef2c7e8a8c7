"""What a handler is told of its bounds, and whether it is true: rounds, lifetime, sizes, and the idempotency key."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpinput import (
    JsonError,
    KeyFile,
    PromptRegistration,
    ProtectionConfig,
    ProtectionFailure,
    ProtectionKey,
    ProtectionKeyring,
    RequestContext,
    RequestStateMode,
    ResourceRegistration,
    Server,
    ToolRegistration,
    input_required,
)
from mcpinput.errors import EnvelopeError
from tests.support.asgi import Client, meta
from tests.support.servers import FORM, Clock, Recorder, accept, anybody, ask_form, ring

FRAMEWORK = RequestStateMode.FRAMEWORK_PROTECTED
FIXED_BYTES = 198
"""Bytes of a payload without state whose ask asks nothing (docs/formats.md)."""
ABSENT = object()

KINDS = ("tool", "prompt", "resource", "template")
NAMES = {"tool": "op", "prompt": "op", "resource": "demo://op", "template": "demo://op/{number}"}


class Service:
    """A server with one operation of each kind, whose handler is ``handler``."""

    def __init__(self, handler: Any, *, protection: Any = None, own: Any = None, by: str = "decorator", **more: Any):
        self.clock = Clock()
        self.recorder = Recorder()
        self.contexts: list[RequestContext] = []
        if protection is None:
            protection = ProtectionConfig(keyring=ring(), clock=self.clock, **more)
        self.server = Server("s", version="1", protection=protection, admission=anybody, observers=(self.recorder,))

        def handle(ctx: RequestContext) -> Any:
            self.contexts.append(ctx)
            return handler(ctx)

        def handle_template(ctx: RequestContext, arguments: dict[str, str]) -> Any:
            return handle(ctx)

        options = {"input_requests": [FORM], "request_state": FRAMEWORK, **(own or {})}
        for kind in KINDS:
            register(self.server, by, kind, handle_template if kind == "template" else handle, options)
        self.client = Client(self.server.asgi())

    def call(self, kind: str = "tool", **more: Any) -> Any:
        match kind:
            case "tool":
                return self.client.call_tool("op", **more)
            case "prompt":
                return self.client.get_prompt("op", **more)
            case "resource":
                return self.client.read_resource("demo://op", **more)
        return self.client.read_resource("demo://op/7", **more)


def register(server: Server, by: str, kind: str, handler: Callable[..., Any], options: Any) -> None:
    name = NAMES[kind]
    if by == "decorator":
        decorators: dict[str, Any] = {"tool": server.tool, "prompt": server.prompt}
        decorators.get(kind, server.resource)(name, **options)(handler)
        return
    match kind:
        case "tool":
            server.add(ToolRegistration(name=name, handler=handler, **options))
        case "prompt":
            server.add(PromptRegistration(name=name, handler=handler, **options))
        case _:
            server.add(ResourceRegistration(uri=name, handler=handler, **options))


def ask(ctx: RequestContext) -> Any:
    return input_required({"price": ask_form()}, framework_request_state={"step": 1})


# ---- an operation's own rounds and lifetime ----


@pytest.mark.parametrize("by", ["decorator", "registration"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_operation_counts_by_its_own_rounds_and_lifetime(kind: str, by: str) -> None:
    own = {"maximum_request_state_rounds": 2, "maximum_request_state_lifetime": timedelta(milliseconds=90_500)}
    service = Service(ask, own=own, by=by)
    begun = datetime.fromtimestamp(service.clock.now, UTC)
    first = service.call(kind, id=1).result["requestState"]
    service.clock.now += 90
    second = service.call(kind, id=2, state=first).result["requestState"]
    refused = service.call(kind, id=3, state=second)
    assert refused.error["message"] == "Request state could not be sealed"
    assert service.recorder.outcomes[-1].failure is ProtectionFailure.ROUND
    assert [(ctx.round, ctx.rounds_left) for ctx in service.contexts] == [(0, 2), (1, 1), (2, 0)]
    expiry = begun + timedelta(milliseconds=90_500)
    assert [ctx.expires_at for ctx in service.contexts] == [None, expiry, expiry]
    assert len({ctx.flow_id for ctx in service.contexts}) == 1
    assert [ctx.can_seal() for ctx in service.contexts] == [True, True, False]
    service.clock.now += 0.499
    assert service.call(kind, id=4, state=second).status == 200
    service.clock.now += 0.001
    assert service.call(kind, id=5, state=second).status == 400
    assert service.recorder.rejections[-1].failure is ProtectionFailure.EXPIRED


def test_what_one_operation_lowers_is_as_it_was_for_others() -> None:
    service = Service(ask, own={"maximum_request_state_rounds": 1})

    @service.server.tool("other", input_requests=[FORM], request_state=FRAMEWORK)
    def other(ctx: RequestContext) -> Any:
        service.contexts.append(ctx)
        return ask(ctx)

    token = service.client.call_tool("other").result["requestState"]
    assert "requestState" in service.client.call_tool("other", id=2, state=token).result
    assert [ctx.rounds_left for ctx in service.contexts] == [10, 9]
    assert service.contexts[-1].expires_at == datetime.fromtimestamp(service.clock.now + 900, UTC)


REFUSED_TERMS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "rounds above": ({"maximum_request_state_rounds": 11}, ValueError, "rounds .* is above"),
    "no rounds": ({"maximum_request_state_rounds": 0}, ValueError, "rounds must be from 1"),
    "negative rounds": ({"maximum_request_state_rounds": -1}, ValueError, "rounds must be from 1"),
    "rounds as bool": ({"maximum_request_state_rounds": True}, TypeError, "rounds must be an int"),
    "rounds as float": ({"maximum_request_state_rounds": 2.0}, TypeError, "rounds must be an int"),
    "rounds as str": ({"maximum_request_state_rounds": "2"}, TypeError, "rounds must be an int"),
    "lifetime above": (
        {"maximum_request_state_lifetime": timedelta(milliseconds=900_001)},
        ValueError,
        "lifetime .* is above",
    ),
    "no lifetime": ({"maximum_request_state_lifetime": timedelta(0)}, ValueError, "lifetime must be whole"),
    "negative lifetime": ({"maximum_request_state_lifetime": timedelta(-1)}, ValueError, "lifetime must be whole"),
    "half a millisecond": (
        {"maximum_request_state_lifetime": timedelta(microseconds=1500)},
        ValueError,
        "lifetime must be whole",
    ),
    "lifetime in seconds": ({"maximum_request_state_lifetime": 60}, TypeError, "lifetime must be a timedelta"),
}


@pytest.mark.parametrize("by", ["decorator", "registration"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("terms", "error", "message"), REFUSED_TERMS.values(), ids=REFUSED_TERMS)
def test_terms_that_cannot_be_are_refused_at_registration(
    kind: str, by: str, terms: dict[str, Any], error: type[Exception], message: str
) -> None:
    server = Server("s", version="1", protection=ProtectionConfig.ephemeral())

    def handler(ctx: RequestContext) -> Any:
        raise AssertionError

    def handler_of_template(ctx: RequestContext, arguments: Any) -> Any:
        raise AssertionError

    chosen = handler_of_template if kind == "template" else handler
    with pytest.raises(error, match=message) as caught:
        register(server, by, kind, chosen, {"request_state": FRAMEWORK, **terms})
    assert NAMES[kind] in str(caught.value)
    register(server, by, kind, chosen, {"request_state": FRAMEWORK})  # the name was not taken


@pytest.mark.parametrize("mode", [RequestStateMode.NONE, RequestStateMode.APPLICATION_PROTECTED])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "terms", [{"maximum_request_state_rounds": 1}, {"maximum_request_state_lifetime": timedelta(seconds=1)}], ids=str
)
def test_in_other_modes_nobody_counts(mode: RequestStateMode, kind: str, terms: dict[str, Any]) -> None:
    server = Server("s", version="1", protection=ProtectionConfig.ephemeral())

    def handler(ctx: RequestContext) -> Any:
        raise AssertionError

    with pytest.raises(ValueError, match="FRAMEWORK_PROTECTED") as caught:
        register(server, "registration", kind, handler, {"request_state": mode, **terms})
    assert NAMES[kind] in str(caught.value)


# ---- can_seal and sealed_size against what is sealed ----


class Plain:
    """A protector whose token is the payload in base64, as long as it likes."""

    def __init__(self, padding: int = 0) -> None:
        self.padding = padding

    def seal(self, payload: bytes, context: Any) -> str:
        return base64.urlsafe_b64encode(payload).decode() + "." * self.padding

    def open(self, token: str, context: Any) -> bytes:
        return base64.urlsafe_b64decode(token.rstrip("."))


def asking(state: Any, keys: Any) -> Callable[[RequestContext], Any]:
    requests = {key: ask_form() for key in keys}
    if state is ABSENT:
        return lambda ctx: input_required(requests)
    return lambda ctx: input_required(requests, framework_request_state=state)


def seals(config: ProtectionConfig, state: Any, keys: Any) -> tuple[bool, str | None, ProtectionFailure | None]:
    """What ``can_seal`` said, and what came out: a token, or why there is none."""
    said: list[bool] = []
    answer = asking(state, keys)

    def handler(ctx: RequestContext) -> Any:
        said.append(ctx.can_seal(keys=keys) if state is ABSENT else ctx.can_seal(state, keys=keys))
        return answer(ctx)

    service = Service(handler, protection=config)
    response = service.call()
    failure = service.recorder.outcomes[-1].failure
    return said[0], response.json.get("result", {}).get("requestState"), failure


key_ids = st.sampled_from(["k", "k2", "k-3", "a-rather-long-id-of-a-key.2026", "x" * 64])
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | texts
    | st.decimals(allow_nan=False, allow_infinity=False, places=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
asks = st.one_of(
    st.tuples(values, st.lists(texts, max_size=4, unique=True)),
    st.tuples(st.just(ABSENT), st.lists(texts, min_size=1, max_size=4, unique=True)),
)


def config_of(key_id: str, **limits: Any) -> ProtectionConfig:
    key = ProtectionKey.from_id_and_bytes(key_id, bytes(range(32)))
    return ProtectionConfig(keyring=ProtectionKeyring.with_active_key(key).build(), clock=Clock(), **limits)


@settings(deadline=None, max_examples=60)
@given(key_id=key_ids, asked=asks)
def test_sealed_size_is_exact_and_the_limits_are_the_last_that_fit(key_id: str, asked: tuple[Any, list[str]]) -> None:
    state, keys = asked
    config = config_of(key_id)
    size = config.sealed_size(keys=keys) if state is ABSENT else config.sealed_size(state, keys=keys)
    said, token, _ = seals(config, state, keys)
    assert said
    assert size.fits
    assert token is not None
    assert len(token) == size.encoded_bytes
    wire = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    assert len(wire) - 2 - len(key_id) - 24 - 16 == size.decoded_bytes
    for limits in (
        {"maximum_encoded_bytes": len(token)},
        {"maximum_encoded_bytes": len(token), "maximum_decoded_bytes": size.decoded_bytes},
        {"maximum_encoded_bytes": len(token) - 1},
        {"maximum_decoded_bytes": size.decoded_bytes - 1},
    ):
        limits.setdefault("maximum_decoded_bytes", limits.get("maximum_encoded_bytes", 65_536))
        bounded = config_of(key_id, **limits)
        fits = len(token) <= bounded.maximum_encoded_bytes and size.decoded_bytes <= bounded.maximum_decoded_bytes
        again = bounded.sealed_size(keys=keys) if state is ABSENT else bounded.sealed_size(state, keys=keys)
        assert (again.fits, again.decoded_bytes, again.encoded_bytes) == (fits, size.decoded_bytes, len(token))
        said, sealed, failure = seals(bounded, state, keys)
        assert (said, sealed is not None) == (fits, fits)
        assert failure is (None if fits else ProtectionFailure.TOO_LARGE)


@settings(deadline=None, max_examples=30)
@given(asked=asks, off=st.integers(-2, 2))
def test_under_a_custom_protector_what_goes_into_the_token_is_judged(asked: tuple[Any, list[str]], off: int) -> None:
    state, keys = asked
    measured = ProtectionConfig(protector=Plain(), clock=Clock())
    size = measured.sealed_size(keys=keys) if state is ABSENT else measured.sealed_size(state, keys=keys)
    assert size.encoded_bytes is None
    config = ProtectionConfig(protector=Plain(), clock=Clock(), maximum_decoded_bytes=size.decoded_bytes + off)
    said, token, failure = seals(config, state, keys)
    assert (said, token is not None) == (off >= 0, off >= 0)
    assert failure is (None if off >= 0 else ProtectionFailure.TOO_LARGE)


def test_how_long_a_custom_protector_makes_its_token_shows_when_it_is_made() -> None:
    config = ProtectionConfig(protector=Plain(70_000), clock=Clock())
    assert seals(config, 1, []) == (True, None, ProtectionFailure.TOO_LARGE)


def test_can_seal_follows_the_ring_of_the_moment() -> None:
    """A longer key id makes a longer token, so that what fitted fits no more."""
    small = config_of("k").sealed_size(1).encoded_bytes
    assert small is not None
    said: list[bool] = []

    def handler(ctx: RequestContext) -> Any:
        said.append(ctx.can_seal(1))
        return input_required(framework_request_state=1)

    service = Service(
        handler, protection=config_of("k", maximum_encoded_bytes=small, maximum_decoded_bytes=FIXED_BYTES + 1)
    )
    assert service.call().status == 200
    service.server.protection_keyring_manager.rotate_active_key(
        ProtectionKey.from_id_and_bytes("k2345", bytes(range(1, 33)))
    )
    assert "error" in service.call().json
    assert said == [True, False]


@pytest.mark.parametrize(("wait", "seals_then"), [(899.999, True), (900, False), (10_000, False)])
def test_a_flow_that_expires_while_its_handler_runs_cannot_be_sealed(wait: float, seals_then: bool) -> None:
    said: list[bool] = []

    def handler(ctx: RequestContext) -> Any:
        if ctx.round:
            said.append(ctx.can_seal(1))
            service.clock.now += wait
            said.append(ctx.can_seal(1))
        return input_required(framework_request_state=1)

    service = Service(handler)
    token = service.call(id=1).result["requestState"]
    assert ("result" in service.call(id=2, state=token).json) is seals_then
    assert said == [True, seals_then]
    assert service.recorder.outcomes[-1].failure is (None if seals_then else ProtectionFailure.EXPIRED)


@pytest.mark.parametrize("mode", [RequestStateMode.NONE, RequestStateMode.APPLICATION_PROTECTED])
def test_modes_that_seal_nothing_cannot(mode: RequestStateMode) -> None:
    service = Service(lambda ctx: "x")
    said: list[bool] = []

    @service.server.tool("other", request_state=mode)
    def other(ctx: RequestContext) -> str:
        said.extend([ctx.can_seal(), ctx.can_seal(1, keys=["a"])])
        return "x"

    service.client.call_tool("other")
    assert said == [False, False]


def cycle() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


def deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


NOT_STATE: dict[str, Any] = {
    "float": 0.5,
    "a float inside": {"a": [1, {"b": 2.0}]},
    "nan": float("nan"),
    "Decimal nan": Decimal("NaN"),
    "Decimal infinity": Decimal("Infinity"),
    "bytes": b"x",
    "set": {1},
    "object": object(),
    "int as key": {1: 2},
    "None as key": {None: 2},
    "lone surrogate": "\ud800",
    "lone surrogate as key": {"\udfff": 1},
    "cycle": cycle(),
    "deep": deep(257),
    "digits": Decimal("1" * 1025),
    "exponent": Decimal("1e10001"),
}


@pytest.mark.parametrize("state", NOT_STATE.values(), ids=NOT_STATE)
def test_what_is_no_state_is_told_and_not_sealed(state: Any) -> None:
    config = ProtectionConfig(keyring=ring(), clock=Clock())
    with pytest.raises(JsonError):
        config.sealed_size(state)
    raised: list[BaseException] = []

    def handler(ctx: RequestContext) -> Any:
        try:
            ctx.can_seal(state)
        except JsonError as error:
            raised.append(error)
        return input_required(framework_request_state=state)

    service = Service(handler)
    assert service.call().error["code"] == -32603
    assert len(raised) == 1
    assert set(service.server.protection_keyring_manager.snapshot().sealing_reservations.values()) == {0}


def test_state_of_over_16_mib_is_measured_as_16_mib_and_does_not_fit() -> None:
    mib = 1024 * 1024
    config = ProtectionConfig(
        keyring=ring(), maximum_encoded_bytes=64 * mib, maximum_decoded_bytes=48 * mib, clock=Clock()
    )
    part = "x" * (4 * mib - 3)  # with its quotes and a comma, 4 MiB
    largest = [part, part, part, part[:-1]]  # two brackets, and one comma less
    size = config.sealed_size(largest)
    assert (size.decoded_bytes, size.fits) == (FIXED_BYTES + 16 * mib, True)
    beyond = [part, part, part, part]
    size = config.sealed_size(beyond)
    assert (size.decoded_bytes, size.fits) == (FIXED_BYTES + 16 * mib, False)
    said: list[bool] = []

    def handler(ctx: RequestContext) -> Any:
        said.extend(ctx.can_seal(state) for state in (largest, beyond))
        return "done"

    Service(handler, protection=config).call()
    assert said == [True, False]


@pytest.mark.parametrize("keys", ["price", b"price", ["a", 1], [None], 7, None, [["a"]]], ids=repr)
def test_keys_are_a_collection_of_str(keys: Any) -> None:
    with pytest.raises(TypeError):
        ProtectionConfig.ephemeral().sealed_size(keys=keys)
    raised: list[BaseException] = []

    def handler(ctx: RequestContext) -> Any:
        try:
            ctx.can_seal(keys=keys)
        except TypeError as error:
            raised.append(error)
        return "x"

    Service(handler).call()
    assert len(raised) == 1


def test_more_keys_than_an_ask_can_have_do_not_fit() -> None:
    config = ProtectionConfig.ephemeral(maximum_encoded_bytes=2**23, maximum_decoded_bytes=2**22)
    keys = [str(number) for number in range(0x10000)]
    assert config.sealed_size(keys=keys[:-1]).fits
    assert not config.sealed_size(keys=keys).fits
    assert config.sealed_size(keys=iter(["a", "a"])) == config.sealed_size(keys=["a"])


def test_with_a_key_file_the_longest_id_is_taken() -> None:
    file = ProtectionConfig(key_file=KeyFile("/nowhere/keys.json"))
    assert file.sealed_size(1) == config_of("x" * 64).sealed_size(1)


# ---- the idempotency key ----


class Keys:
    """An operation that answers its idempotency key, and can be asked for it in any spelling."""

    def __init__(self, *, names: tuple[str, ...] = ("refund",), protection: Any = None) -> None:
        def handler(ctx: RequestContext) -> Any:
            keys = ",".join(ctx.idempotency_key(name) for name in names)
            if not ctx.round or "again" in ctx.input_responses:
                return input_required({"price": ask_form(), "note": ask_form("Anything else?")}, metadata={"k": keys})
            return keys

        self.service = Service(handler, protection=protection)

    def ask(self, **more: Any) -> tuple[str, str]:
        result = self.service.call(**more).result
        return result["requestState"], result["_meta"]["k"]

    def key(self, token: str, answers: bytes, *, id: Any = 2) -> str:
        params = b'{"name":"op","requestState":"%b","inputResponses":%b,"_meta":%b}' % (
            token.encode(),
            answers,
            json.dumps(meta()).encode(),
        )
        response = self.service.client.request("tools/call", {"name": "op"}, id=id, raw_params=params)
        text: str = response.result["content"][0]["text"]
        return text


def priced(price: bytes, *, note: bytes = b"") -> bytes:
    return b'{"price":{"action":"accept","content":{"price":%b}}%b}' % (price, note)


def test_identical_retries_have_one_key_on_every_instance() -> None:
    one, other = Keys(), Keys()
    token, _ = one.ask()
    keys = {keys.key(token, priced(b"3.50"), id=id) for keys in (one, other) for id in (2, 3, "x", 10**30)}
    assert len(keys) == 1
    key = keys.pop()
    assert len(key) == 64
    assert set(key) <= set("0123456789abcdef")


@pytest.mark.parametrize("spelling", [b"3.5", b"3.500", b"35e-1", b"0.35E+1", b"350e-2"])
def test_numbers_count_by_value(spelling: bytes) -> None:
    keys = Keys()
    token, _ = keys.ask()
    assert keys.key(token, priced(spelling)) == keys.key(token, priced(b"3.50"))


def test_members_count_in_any_order_and_strings_in_any_spelling() -> None:
    keys = Keys()
    token, _ = keys.ask()
    first = b'{"price":{"action":"accept","content":{"a":"\\u00e9","b":1}},"note":{"action":"decline"}}'
    second = '{"note":{"action":"decline"},"price":{"content":{"b":1,"a":"é"},"action":"accept"}}'.encode()
    assert keys.key(token, first) == keys.key(token, second)


def test_another_answer_name_flow_or_round_has_another_key() -> None:
    keys = Keys()
    token, _ = keys.ask()
    other, _ = keys.ask()
    found = [
        keys.key(token, priced(b"3.50")),
        keys.key(token, priced(b"3.51")),
        keys.key(token, priced(b'"3.50"')),
        keys.key(token, b'{"price":{"action":"decline"}}'),
        keys.key(token, b'{"price":{"action":"cancel"}}'),
        keys.key(token, b"{}"),
        keys.key(token, b'{"note":{"action":"accept","content":{"price":3.50}}}'),
        keys.key(token, priced(b"3.50", note=b',"note":{"action":"decline"}')),
        keys.key(other, priced(b"3.50")),
        *Keys(names=("refund", "refunds", "", "réfund", "re", "fund")).key(token, priced(b"3.50")).split(",")[1:],
    ]
    assert len(set(found)) == len(found)


def test_another_round_has_another_key() -> None:
    keys: list[str] = []

    def handler(ctx: RequestContext) -> Any:
        keys.append(ctx.idempotency_key("refund"))
        return ask(ctx)

    service = Service(handler)
    token = service.call(id=1).result["requestState"]
    for number in range(2, 8):
        token = service.call(id=number, state=token, answers=accept(price=1)).result["requestState"]
    assert len(set(keys)) == 7


def test_what_was_not_asked_does_not_count() -> None:
    keys = Keys()
    token, _ = keys.ask()
    expected = keys.key(token, priced(b"1"))
    for more in (b',"other":{"action":"decline"}', b',"other":{"roots":[]}', b',"":{"action":"cancel"}', b',"x":7'):
        assert keys.key(token, priced(b"1", note=more)) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_operation_has_keys_on_first_requests_too(kind: str) -> None:
    keys: list[tuple[str, str]] = []

    def handler(ctx: RequestContext) -> Any:
        keys.append((ctx.idempotency_key("refund"), ctx.idempotency_key("refund")))
        return ask(ctx)

    service = Service(handler)
    token = service.call(kind, id=1).result["requestState"]
    for number in (2, 3):
        service.call(kind, id=number, state=token, answers=accept(price=1))
    service.call(kind, id=1)
    assert all(one == again for one, again in keys)
    assert keys[1] == keys[2]
    assert len(set(keys)) == 3


def test_without_sealed_state_each_request_has_its_own() -> None:
    keys: list[str] = []
    service = Service(ask)

    @service.server.tool("plain")
    def plain(ctx: RequestContext) -> str:
        keys.extend(ctx.idempotency_key("refund") for _ in range(2))
        return "x"

    for _ in range(2):
        service.client.call_tool("plain", answers={"price": {"action": "decline"}})
    assert keys[0] == keys[1]
    assert keys[2] == keys[3]
    assert keys[0] != keys[2]


@pytest.mark.parametrize(
    ("name", "error"),
    [(None, TypeError), (b"refund", TypeError), (7, TypeError), (["a"], TypeError), ("\ud800", EnvelopeError)],
    ids=repr,
)
def test_a_name_is_text(name: Any, error: type[Exception]) -> None:
    raised: list[type[BaseException]] = []

    def handler(ctx: RequestContext) -> Any:
        try:
            ctx.idempotency_key(name)
        except Exception as failure:
            raised.append(type(failure))
        return "x"

    Service(handler).call()
    assert raised == [error]
