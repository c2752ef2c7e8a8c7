"""The demo: the official Python client calls the demo's server, and a person (or nobody) answers what the tools ask.

The server and the client run on an event loop in a thread of their own. The main thread only waits for them and for the
keyboard, so that Ctrl-C is heard at once and ends everything in order.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from anyio.from_thread import start_blocking_portal
from mcp import Client
from mcp.types import CallToolResult, ElicitResult, ErrorData, InputRequiredResult

from mcpinput import _serving
from mcpinput._demo import demo_server
from mcpinput.binding import integral
from mcpinput.errors import JsonParseError
from mcpinput.json import dump, parse

if TYPE_CHECKING:
    import socket

    from anyio.from_thread import BlockingPortal

Answer: TypeAlias = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Takes the params of a form, gives the answer to it."""

ANSWERS: Final[Mapping[str, Any]] = {"name": "Blue teapot", "price": 3.5}
"""What ``--yes`` fills in."""
LONGEST_STRING: Final = 48
_BOUNDS: Final = (
    ("minLength", "characters: at least {}"),
    ("maxLength", "characters: at most {}"),
    ("minimum", "at least {}"),
    ("maximum", "at most {}"),
)
TIMEOUT_SECONDS: Final = 30.0


def walk(listener: socket.socket, answers: Mapping[str, Any] | None) -> None:
    """Serves on a listening socket and calls both tools of the demo.

    Args:
        listener: Where the server listens; closed at the end.
        answers: What to fill into forms; the results are then checked. None asks the person at the terminal.

    Raises:
        EOFError: The person's input ended.
        Exception: What went wrong. An AssertionError where a result is not what it must be.
    """
    wire = _Wire(demo_server().asgi())
    url = _serving.url_of(listener, "127.0.0.1", wire.app.endpoint_path)
    uvloop = importlib.util.find_spec("uvloop") is not None
    # The callback only declares that forms can be shown: every round is taken by hand here.
    client = Client(url, elicitation_callback=_never_called, read_timeout_seconds=TIMEOUT_SECONDS)
    failure: BaseException | None = None
    with (
        start_blocking_portal(backend_options={"use_uvloop": uvloop}) as portal,
        portal.wrap_async_context_manager(_serving.serving(wire, listener)),
        portal.wrap_async_context_manager(client),
    ):
        _show(f"Serving at {url}")
        try:
            _call_both(portal, client, wire, answers)
        except BaseException as error:  # Ctrl-C too: client and server are to end as always, not by what is raised here
            failure = error
    if failure is not None:
        raise failure


def _call_both(portal: BlockingPortal, client: Client, wire: _Wire, answers: Mapping[str, Any] | None) -> None:
    answer = _ask_person if answers is None else partial(_fill_in, answers)
    item, item_rounds = _call(portal, client, wire, "catalog.add_item", answer)
    approval, approval_rounds = _call(portal, client, wire, "catalog.continue", answer)
    if answers is not None:
        _check("the result of catalog.add_item", item.structured_content, dict(answers))
        _check("the result of catalog.continue", _text(approval), "approved")
        _check("the number of rounds of each", (item_rounds, approval_rounds), (1, 1))
        _show("\nBoth results are what they must be.")


def _call(portal: BlockingPortal, client: Client, wire: _Wire, tool: str, answer: Answer) -> tuple[CallToolResult, int]:
    """The tool's complete result, and the number of rounds that it took."""
    _show(f"\n{tool}")
    responses = state = None
    rounds = 0
    while True:
        call = partial(
            client.session.call_tool,
            tool,
            {},
            input_responses=responses,
            request_state=state,
            allow_input_required=True,
        )
        try:
            result = portal.call(call)
        finally:
            wire.show("tools/call")
        if not isinstance(result, InputRequiredResult):
            if result.is_error:
                raise RuntimeError(f"{tool} failed: {_text(result)}")
            _show(f"  = {_text(result)}")
            return result, rounds
        rounds += 1
        state = result.request_state
        responses = {}
        for key, request in (result.input_requests or {}).items():
            params = request.model_dump(by_alias=True, mode="json", exclude_none=True)["params"]
            responses[key] = ElicitResult(**answer(params))


async def _never_called(context: object, params: object) -> ErrorData:
    return ErrorData(code=-32603, message="The demo answers by itself")


def _text(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


def _check(what: str, got: object, expected: object) -> None:
    if got != expected:
        raise AssertionError(f"{what} must be {expected!r}, but is {got!r}")


# ---- what is shown ----


def _show(text: str) -> None:
    print(text, flush=True)


class _Wire:
    """An ASGI application around the server's, which notes the bodies that go in and out."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self._exchanges: list[tuple[bytes, int, bytes]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request, status, response = b"", 0, b""

        async def noting_receive() -> Any:
            nonlocal request
            message = await receive()
            request += message.get("body", b"")
            return message

        async def noting_send(message: Any) -> None:
            nonlocal status, response
            status = message.get("status", status)
            response += message.get("body", b"")
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                self._exchanges.append((request, status, response))  # before the client has it, and goes on
            await send(message)

        await self.app(scope, noting_receive, noting_send)

    def show(self, method: str) -> None:
        """Prints what was noted of a method since the last time, one line for each direction."""
        exchanges, self._exchanges = self._exchanges, []
        for request, status, response in exchanges:
            message = _parsed(request)
            if isinstance(message, dict) and message.get("method") == method:
                _show(f"  -> {_short(message)}")
                _show(f"  <- {status} {_short(_parsed(response))}")


def _parsed(body: bytes) -> Any:
    try:
        return parse(body)
    except JsonParseError:
        return body.decode(errors="replace")


def _short(value: Any) -> str:
    return dump(_cut(value)).decode()


def _cut(value: Any) -> Any:
    """A tree with long strings cut, and without ``_meta``, which says the same in every message."""
    if isinstance(value, dict):
        return {key: _cut(part) for key, part in value.items() if key != "_meta"}
    if isinstance(value, list):
        return [_cut(part) for part in value]
    if isinstance(value, str) and len(value) > LONGEST_STRING:
        return f"{value[:16]}... ({len(value)} characters)"
    return value


# ---- answers ----


def _fill_in(answers: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    fields = params["requestedSchema"]["properties"]
    return {"action": "accept", "content": {name: answers[name] for name in fields}}


def _ask_person(params: Mapping[str, Any]) -> dict[str, Any]:
    _show(f"\n  {params['message']}")
    while True:
        choice = _read("  [a]ccept, [d]ecline or [c]ancel? ").strip().lower()
        if choice in ("d", "decline"):
            return {"action": "decline"}
        if choice in ("c", "cancel"):
            return {"action": "cancel"}
        if choice in ("a", "accept"):
            break
        _show("    Type a, d or c.")
    schema = params["requestedSchema"]
    content = {}
    for name, field in schema["properties"].items():
        value = _ask_field(name, field, required=name in schema.get("required", ()))
        if value is not None:
            content[name] = value
    return {"action": "accept", "content": content}


def _read(prompt: str) -> str:
    text = input(prompt)
    if not sys.stdin.isatty():
        _show(text)  # a terminal shows what is typed, and the end of the line
    return text


def _ask_field(name: str, field: Mapping[str, Any], *, required: bool) -> Any:
    """The value of one field, asked for until it fits; None where an optional one is left empty."""
    while True:
        text = _read(f"  {field.get('title', name)} ({_hint(field)}{'' if required else ', may be empty'}): ")
        if not text:
            if not required:
                return None
            _show("    This field is needed.")
            continue
        try:
            return _field_value(text, field)
        except ValueError as error:
            _show(f"    {error}")


def _hint(field: Mapping[str, Any]) -> str:
    if "enum" in field:
        return f"one of {', '.join(field['enum'])}"
    kind = {"string": "text", "boolean": "yes or no"}.get(field["type"], field["type"])
    return ", ".join([kind, *(words.format(field[bound]) for bound, words in _BOUNDS if bound in field)])


def _field_value(text: str, field: Mapping[str, Any]) -> Any:
    """What a person typed, as the value of a field.

    Raises:
        ValueError: It does not fit the field; says why.
    """
    match field["type"]:
        case "string":
            return _string(text, field)
        case "boolean":
            if text.strip().lower() in ("y", "yes", "true"):
                return True
            if text.strip().lower() in ("n", "no", "false"):
                return False
            raise ValueError("Answer yes or no.")
        case "number" | "integer":
            return _number(text.strip(), field)
        case other:
            raise RuntimeError(f"the demo cannot ask for a field of type {other}")


def _string(text: str, field: Mapping[str, Any]) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("That is no text that can be sent.") from None
    if "enum" in field and text not in field["enum"]:
        raise ValueError(f"Choose one of {', '.join(field['enum'])}.")
    if len(text) < field.get("minLength", 0):
        raise ValueError(f"Too few characters: at least {field['minLength']}.")
    if len(text) > field.get("maxLength", len(text)):
        raise ValueError(f"Too many characters: at most {field['maxLength']}.")
    return text


def _number(text: str, field: Mapping[str, Any]) -> int | float:
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError("That is no number.") from None
    if not number.is_finite():
        raise ValueError("That is no number.")
    if "minimum" in field and number < Decimal(str(field["minimum"])):
        raise ValueError(f"It must be at least {field['minimum']}.")
    if "maximum" in field and number > Decimal(str(field["maximum"])):
        raise ValueError(f"It must be at most {field['maximum']}.")
    whole = integral(number)
    if whole is not None:
        return whole
    if field["type"] == "integer":
        raise ValueError("A whole number is needed.")
    # The official client has floats. What would arrive as another number is better refused than sent.
    nearest = float(number)
    if Decimal(repr(nearest)) != number:
        raise ValueError("This client cannot send that number exactly; give fewer digits.")
    return nearest
