"""An application's own protector behind the server: it works, and whatever it does wrong fails closed."""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import logging
from collections.abc import Callable, Generator
from typing import Any

import pytest
from cryptography.exceptions import InvalidTag

from mcpinput import (
    Admission,
    McpError,
    ProtectionConfig,
    ProtectionContext,
    ProtectionFailure,
    RequestStateProtectionError,
    ToolError,
)
from tests.support.asgi import Client, Response, meta
from tests.support.servers import Clock, Recorder, accept, price_server

F = ProtectionFailure
UNAVAILABLE = RequestStateProtectionError(F.UNAVAILABLE)
Result = Callable[[], Any]


def give(value: Any) -> Result:
    return lambda: value


def throw(error: BaseException) -> Result:
    def throws() -> Any:
        raise error

    return throws


class Vault:
    """Keeps payloads on its own side, with the associated data that must come back with the token.

    Attributes:
        instead: What happens in place of sealing or opening, where it is set.
        ignores_context: Whether it opens under any associated data.
        swapped: Tokens that it takes for others.
    """

    def __init__(self) -> None:
        self.kept: dict[str, tuple[bytes, bytes]] = {}
        self.contexts: list[ProtectionContext] = []
        self.instead: Result | None = None
        self.ignores_context = False
        self.swapped: dict[str, str] = {}

    def seal(self, payload: bytes, context: ProtectionContext) -> Any:
        self.contexts.append(context)
        if self.instead is not None:
            return self.instead()
        token = base64.urlsafe_b64encode(len(self.kept).to_bytes(3, "big")).decode()
        self.kept[token] = (payload, context.associated_data)
        return token

    def open(self, token: str, context: ProtectionContext) -> Any:
        self.contexts.append(context)
        if self.instead is not None:
            return self.instead()
        payload, associated_data = self.kept[self.swapped.get(token, token)]
        if associated_data != context.associated_data and not self.ignores_context:
            raise PermissionError("s3cret detail")
        return payload


class AsyncVault(Vault):
    """The same, by coroutine functions."""

    async def seal(self, payload: bytes, context: ProtectionContext) -> Any:
        await asyncio.sleep(0)
        return super().seal(payload, context)

    async def open(self, token: str, context: ProtectionContext) -> Any:
        await asyncio.sleep(0)
        return super().open(token, context)


class FutureVault(Vault):
    """The same, by plain functions that return a future."""

    def seal(self, payload: bytes, context: ProtectionContext) -> Any:
        return self._later(super().seal, payload, context)

    def open(self, token: str, context: ProtectionContext) -> Any:
        return self._later(super().open, token, context)

    def _later(self, work: Callable[..., Any], *parts: Any) -> Any:
        future = asyncio.get_running_loop().create_future()
        try:
            future.set_result(work(*parts))
        except Exception as error:
            future.set_exception(error)
        return future


class Bench:
    """One server behind a vault, its client, and everything that became known of its requests."""

    def __init__(self, vault: Vault, **options: Any) -> None:
        self.vault = vault
        self.recorder = Recorder()
        settings = options.pop("settings", {})
        server, self.entered = price_server(
            observer=self.recorder, protection=ProtectionConfig(protector=vault, **settings), **options
        )
        self.client = Client(server.asgi())

    def ask(self, arguments: Any = None, id: int = 1) -> Response:
        return self.client.call_tool("set_price", {} if arguments is None else arguments, id=id)

    def token(self, arguments: Any = None, id: int = 1) -> str:
        token: str = self.ask(arguments, id).result["requestState"]
        return token

    def retry(self, token: str, arguments: Any = None, id: int = 2) -> Response:
        self.entered.clear()
        return self.client.call_tool(
            "set_price", {} if arguments is None else arguments, id=id, state=token, answers=accept(price=1)
        )

    def refused(self, response: Response) -> ProtectionFailure:
        """Why, of a response that is the frozen answer to a request whose handler was not entered."""
        body = response.body.replace(b'"id":1', b'"id":2')
        assert (response.status, body, response.headers) == FROZEN
        assert self.entered == []
        failure: ProtectionFailure = self.recorder.rejections[-1].failure
        return failure

    def unsealed(self, response: Response) -> ProtectionFailure:
        """Why, of a response that says that state could not be sealed, and nothing else."""
        assert (response.status, response.error) == (
            200,
            {"code": -32603, "message": "Request state could not be sealed"},
        )
        failure: ProtectionFailure = self.recorder.outcomes[-1].failure
        return failure


def frozen_answer() -> tuple[int, bytes, Any]:
    response = Client(price_server()[0].asgi()).call_tool("set_price", {}, id=2, state="!")
    return response.status, response.body, response.headers


FROZEN = frozen_answer()


@pytest.fixture(params=[Vault, AsyncVault, FutureVault])
def bench(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Any:
    caplog.set_level(logging.DEBUG)
    yield Bench(request.param())
    assert "s3cret" not in caplog.text


# ---- as it should be ----


def test_a_custom_protector_carries_the_flow(bench: Bench) -> None:
    state = bench.token({"a": 1})
    assert bench.retry(state, {"a": 1.0}).status == 200
    assert bench.entered[-1].framework_request_state == {"step": 10}


def test_its_refusals_are_the_frozen_answer(bench: Bench) -> None:
    state = bench.token({"a": 1}, id=7)
    assert bench.refused(bench.retry(state, {"a": 2})) is F.PROTECTOR_FAILED
    assert bench.refused(bench.retry("unknown", {"a": 1})) is F.PROTECTOR_FAILED
    state = bench.token({"a": 1}, id=2)
    assert bench.refused(bench.retry(state, {"a": 1}, id=2)) is F.REQUEST_ID


def test_an_outage_does_not_drop_the_flow(bench: Bench) -> None:
    state = bench.token()
    bench.vault.instead = throw(UNAVAILABLE)
    outage = bench.retry(state)
    assert (outage.status, outage.error["code"], outage.header(b"retry-after")) == (503, -32603, b"1")
    assert bench.entered == []
    assert bench.recorder.rejections[-1].failure is F.UNAVAILABLE
    assert bench.unsealed(bench.ask()) is F.UNAVAILABLE
    bench.vault.instead = None
    assert bench.retry(state).status == 200


# ---- what it returns ----


@pytest.mark.parametrize(
    "value",
    [
        None,
        7,
        True,
        1.5,
        "s3cret",
        "",
        [],
        {},
        object(),
        bytearray(b"s3cret"),
        memoryview(b"s3cret"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_opening_to_something_else_than_bytes(bench: Bench, value: Any) -> None:
    state = bench.token()
    bench.vault.instead = give(value)
    assert bench.refused(bench.retry(state)) is F.PROTECTOR_FAILED


@pytest.mark.parametrize("value", [b"", b"x", b"s3cret" * 100, bytes(200), b"\x01" + bytes(300)])
def test_opening_to_bytes_that_are_no_payload(bench: Bench, value: bytes) -> None:
    state = bench.token()
    bench.vault.instead = give(value)
    assert bench.refused(bench.retry(state)) is F.MALFORMED


@pytest.mark.parametrize("cut", [0, 1, 100, -1])
def test_opening_to_a_payload_that_was_changed_in_length(bench: Bench, cut: int) -> None:
    state = bench.token()
    payload = bench.vault.kept[state][0]
    bench.vault.instead = give(payload[:cut] if cut else payload + b"x")
    assert bench.refused(bench.retry(state)) is F.MALFORMED


def test_opening_to_too_many_bytes(bench: Bench) -> None:
    state = bench.token()
    bench.vault.instead = give(bytes(49_153))
    assert bench.refused(bench.retry(state)) is F.TOO_LARGE


@pytest.mark.parametrize(
    "value",
    [None, 7, True, 1.5, b"s3cret", "", "\n", "s3cret\n", "s3cr\0t", "\x7f", "é", "\ud800", "　", [], {}],
    ids=lambda value: repr(value) if isinstance(value, str) else type(value).__name__,
)
def test_sealing_to_something_else_than_printable_ascii(bench: Bench, value: Any) -> None:
    bench.vault.instead = give(value)
    assert bench.unsealed(bench.ask()) is F.PROTECTOR_FAILED


def test_sealing_to_too_many_characters(bench: Bench) -> None:
    bench.vault.instead = give("x" * 65_536)
    assert bench.ask().result["requestState"] == "x" * 65_536
    bench.vault.instead = give("x" * 65_537)
    assert bench.unsealed(bench.ask()) is F.TOO_LARGE


def test_a_token_that_is_no_printable_ascii_never_reaches_it(bench: Bench) -> None:
    for token in ("é", "a\n", "\0", "x" * 65_537, ""):
        assert bench.refused(bench.retry(token)) in (F.MALFORMED, F.TOO_LARGE)
    assert bench.vault.contexts == []


class LyingBytes(bytes):
    """Bytes that call themselves short."""

    def __len__(self) -> int:
        return 1


class LyingText(str):
    """Text that calls itself ASCII, printable and short."""

    __slots__ = ()

    def __len__(self) -> int:
        return 1

    def __bool__(self) -> bool:
        return True

    def isascii(self) -> bool:
        return True

    def isprintable(self) -> bool:
        return True


class Hostile:
    """An object that has no class to tell, and raises where it is asked for anything else."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("s3cret")


def test_a_subclass_of_bytes_is_not_trusted(bench: Bench) -> None:
    state = bench.token()
    payload = bench.vault.kept[state][0]
    for value in (LyingBytes(payload), LyingBytes(bytes(60_000))):
        bench.vault.instead = give(value)
        assert bench.refused(bench.retry(state)) is F.PROTECTOR_FAILED


@pytest.mark.parametrize("text", ["good", "", "\n", "é", "x" * 70_000])
def test_a_subclass_of_str_is_not_trusted(bench: Bench, text: str) -> None:
    bench.vault.instead = give(LyingText(text))
    assert bench.unsealed(bench.ask()) is F.PROTECTOR_FAILED


def test_an_object_that_answers_nothing_fails_closed(bench: Bench) -> None:
    state = bench.token()
    bench.vault.instead = Hostile
    assert bench.refused(bench.retry(state)) is F.PROTECTOR_FAILED
    assert bench.unsealed(bench.ask()) is F.PROTECTOR_FAILED


# ---- what it raises ----


class Sloppy(RequestStateProtectionError):
    """One that forgot to call its base, and so has no reason."""

    def __init__(self, text: str) -> None:
        Exception.__init__(self, text)


ERRORS: list[BaseException] = [
    Exception("s3cret"),
    RuntimeError("s3cret"),
    KeyError("s3cret"),
    AssertionError("s3cret"),
    OSError(5, "s3cret"),
    TimeoutError("s3cret"),
    RecursionError("s3cret"),
    MemoryError("s3cret"),
    UnicodeDecodeError("utf-8", b"s3cret", 0, 1, "s3cret"),
    InvalidTag("s3cret"),
    McpError(7, "s3cret", {"s3cret": 1}),
    ToolError("s3cret"),
    RequestStateProtectionError(F.EXPIRED, key_id="s3cret"),
    RequestStateProtectionError(F.TOO_LARGE),
    Sloppy("s3cret"),
    asyncio.CancelledError("s3cret"),
    asyncio.InvalidStateError("s3cret"),
    SystemExit("s3cret"),
    StopIteration("s3cret"),
    StopAsyncIteration("s3cret"),
    ExceptionGroup("s3cret", [ValueError("s3cret")]),
    BaseExceptionGroup("s3cret", [SystemExit("s3cret")]),
    type("Odd", (BaseException,), {"__str__": lambda self: self.no_such, "__repr__": lambda self: self.no_such})(
        "s3cret"
    ),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("kind", [Vault, AsyncVault])
def test_whatever_it_raises_fails_closed(
    error: BaseException, kind: type[Vault], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    bench = Bench(kind())
    state = bench.token()
    bench.vault.instead = throw(error)
    assert bench.refused(bench.retry(state)) is F.PROTECTOR_FAILED
    assert bench.unsealed(bench.ask()) is F.PROTECTOR_FAILED
    assert "s3cret" not in caplog.text
    bench.vault.instead = None
    assert bench.retry(state).status == 200


@pytest.mark.parametrize(
    ("instead", "said"),
    [
        (throw(PermissionError("s3cret")), "the protector raised PermissionError"),
        (give(7), "the protector returned int"),
        (LyingText, "the protector returned LyingText"),
    ],
)
def test_the_log_and_the_events_name_the_type_of_what_went_wrong(
    bench: Bench, instead: Result, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    state = bench.token()
    bench.vault.instead = instead
    assert bench.refused(bench.retry(state)) is F.PROTECTOR_FAILED
    assert bench.recorder.rejections[-1].detail == said
    assert (
        f"request state refused: protector failed (method tools/call, operation tool 'set_price'); {said}"
        in caplog.messages
    )
    assert bench.unsealed(bench.ask()) is F.PROTECTOR_FAILED
    assert (
        f"tool 'set_price': its state could not be sealed: protector failed (age 0 ms, round 1); {said}"
        in caplog.messages
    )


def test_the_log_says_what_is_wrong_with_text_that_is_no_token(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.vault.instead = give("s3cret\n")
    assert bench.unsealed(bench.ask()) is F.PROTECTOR_FAILED
    assert "the protector returned text that is empty or no printable ASCII" in caplog.text


@pytest.mark.parametrize("kind", [Vault, AsyncVault])
def test_an_error_that_holds_the_payload_shows_it_nowhere(kind: type[Vault], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    bench = Bench(kind())
    state = bench.token()
    payload = bench.vault.kept[state][0]
    bench.vault.instead = throw(ValueError(payload, state, bench.vault.contexts[0].associated_data))
    answers = [bench.retry(state), bench.ask()]
    shown = caplog.text + repr(bench.recorder) + repr([(answer.body, answer.headers) for answer in answers])
    for part in (repr(payload)[2:40], state, "step", payload.hex()[:40]):
        assert part not in shown


@pytest.mark.parametrize("kind", [Vault, AsyncVault])
@pytest.mark.parametrize("error", [KeyboardInterrupt, GeneratorExit])
def test_what_is_meant_for_the_process_goes_through_and_opens_nothing(
    kind: type[Vault], error: type[BaseException]
) -> None:
    bench = Bench(kind())
    state = bench.token()
    bench.vault.instead = throw(error())
    with pytest.raises(error):
        bench.retry(state)
    assert bench.entered == []
    with pytest.raises(error):
        bench.ask()


# ---- how it is awaited ----


class Odd:
    """An awaitable that yields what no event loop understands."""

    def __init__(self, *yielded: Any) -> None:
        self.yielded = yielded

    def __await__(self) -> Generator[Any, Any, bytes]:
        yield from self.yielded
        return b"s3cret"


class NoIterator:
    """An awaitable whose ``__await__`` gives no iterator."""

    def __await__(self) -> Any:
        return 7


@pytest.mark.parametrize("make", [lambda: Odd(7), lambda: Odd("s3cret"), lambda: Odd(object()), NoIterator])
def test_an_awaitable_that_yields_nonsense_fails_closed(make: Callable[[], Any]) -> None:
    bench = Bench(Vault())
    state = bench.token()
    bench.vault.instead = make
    assert bench.refused(bench.retry(state)) is F.PROTECTOR_FAILED
    assert bench.unsealed(bench.ask()) is F.PROTECTOR_FAILED


def test_a_coroutine_function_that_returns_a_coroutine_fails_closed() -> None:
    async def inner() -> bytes:
        return b"s3cret"

    bench = Bench(AsyncVault())
    state = bench.token()
    made: list[Any] = []

    def make() -> Any:
        made.append(inner())
        return made[-1]

    bench.vault.instead = make
    assert bench.refused(bench.retry(state)) is F.PROTECTOR_FAILED
    assert bench.unsealed(bench.ask()) is F.PROTECTOR_FAILED
    assert {inspect.getcoroutinestate(each) for each in made} == {inspect.CORO_CREATED}
    for each in made:
        each.close()


@pytest.mark.parametrize("work", ["open", "seal"])
def test_one_that_never_answers_is_cancelled_with_its_request(work: str) -> None:
    bench = Bench(Vault())
    state = bench.token()
    steps: list[str] = []

    async def scenario() -> None:
        waits = asyncio.Event()

        async def never() -> Any:
            waits.set()
            try:
                await asyncio.Event().wait()
            finally:
                steps.append("ended")

        bench.vault.instead = never
        bench.entered.clear()
        params: dict[str, Any] = {"name": "set_price", "arguments": {}}
        if work == "open":
            params["requestState"] = state
        request = asyncio.ensure_future(exchange(bench.client, params))
        await waits.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request

    asyncio.run(scenario())
    assert steps == ["ended"]
    assert len(bench.entered) == (1 if work == "seal" else 0)


async def exchange(client: Client, params: dict[str, Any]) -> Response:
    """One tool call on the running loop."""
    params = {**params, "_meta": meta()}
    body = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}).encode()
    return await client.exchange(body, client.headers("tools/call", params))


def test_a_cancellation_of_its_own_is_its_failure(bench: Bench) -> None:
    state = bench.token()

    async def cancels_itself() -> Any:
        inner = asyncio.ensure_future(asyncio.Event().wait())
        await asyncio.sleep(0)
        inner.cancel()
        return await inner

    vault = Vault()
    vault.kept = bench.vault.kept
    vault.instead = cancels_itself
    other = Bench(vault)
    assert other.refused(other.retry(state)) is F.PROTECTOR_FAILED
    assert other.unsealed(other.ask()) is F.PROTECTOR_FAILED


# ---- a protector that lies ----


def test_the_payload_of_another_request_is_caught_by_what_it_is_bound_to(bench: Bench) -> None:
    bench.vault.ignores_context = True
    own, other = bench.token({"a": 1}), bench.token({"a": 2})
    bench.vault.swapped = {own: other}
    assert bench.refused(bench.retry(own, {"a": 1})) is F.PARAMETERS


@pytest.mark.parametrize(
    ("change", "failure"),
    [
        ({"name": "other"}, F.AUDIENCE),
        ({"path": "/other"}, F.ENDPOINT_PATH),
        ({"admission": lambda facts, identity: Admission("other")}, F.PARTITION),
        ({"admission": lambda facts, identity: Admission("everybody", tenant="other")}, F.TENANT),
        ({"admission": lambda facts, identity: Admission("everybody", principal="other")}, F.PRINCIPAL),
    ],
)
@pytest.mark.parametrize("kind", [Vault, AsyncVault])
def test_one_that_ignores_what_it_should_authenticate_is_caught(
    kind: type[Vault], change: dict[str, Any], failure: ProtectionFailure
) -> None:
    vault = kind()
    vault.ignores_context = True
    first, second = Bench(vault), Bench(vault, **change)
    second.client.path = change.get("path", "/mcp")
    assert second.refused(second.retry(first.token())) is failure


def test_one_that_opens_after_the_end_or_under_the_same_id_is_caught(bench: Bench) -> None:
    bench.vault.ignores_context = True
    clock = Clock()
    timed = Bench(bench.vault, settings={"clock": clock})
    state = timed.token()
    assert timed.refused(timed.retry(state, id=1)) is F.REQUEST_ID
    clock.now += 900
    assert timed.refused(timed.retry(state)) is F.EXPIRED
    clock.now -= 961
    assert timed.refused(timed.retry(state)) is F.ISSUED_IN_FUTURE


def test_a_flow_of_the_same_caller_and_request_is_all_that_it_can_mix_up(bench: Bench) -> None:
    bench.vault.ignores_context = True
    own, other = bench.token(), bench.token()
    bench.vault.swapped = {own: other}
    assert bench.retry(own).status == 200
    bench.vault.swapped = {}
    swapped = bench.entered[-1].flow_id
    assert bench.retry(other).status == 200
    assert bench.entered[-1].flow_id == swapped


# ---- what it is told ----


def test_a_context_that_is_kept_still_says_the_same_and_cannot_be_changed(bench: Bench) -> None:
    bench.token({"a": 1})
    sealing = bench.vault.contexts[0]
    before = sealing.associated_data
    bench.token({"a": 2})
    assert sealing.associated_data == before != bench.vault.contexts[1].associated_data
    assert (sealing.method, sealing.path, sealing.partition) == ("tools/call", "/mcp", "everybody")
    for name in ("method", "associated_data", "principal", "new"):
        with pytest.raises(AttributeError):
            setattr(sealing, name, "x")


def test_a_context_that_is_read_only_after_its_request_says_what_that_was(bench: Bench) -> None:
    state = bench.token({"a": 1})
    _, associated_data = bench.vault.kept[state]
    bench.vault.instead = give(bench.vault.kept[state][0])
    assert bench.retry(state, {"a": 1}).status == 200
    assert bench.vault.contexts[-1].associated_data == associated_data
    bench.vault.instead = give("token")
    assert bench.ask({"a": 1}).status == 200
    assert bench.vault.contexts[-1].associated_data == associated_data
    assert len(bench.vault.contexts[-1].associated_data_digest) == 32
