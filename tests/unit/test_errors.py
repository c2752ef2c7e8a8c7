"""Exceptions: what they refuse, what they carry, and what they keep to themselves."""

from __future__ import annotations

import pickle

import pytest

from mcpinput import errors
from mcpinput.errors import (
    EnvelopeError,
    InputConversionError,
    InputError,
    JsonError,
    JsonErrorKind,
    JsonParseError,
    JsonTypeError,
    JsonWriteError,
    McpError,
    ProtectionFailure,
    ProtectionKeyInUseError,
    RequestStateProtectionError,
    ToolError,
)


@pytest.mark.parametrize("name", errors.__all__)
def test_every_exception_has_the_one_base(name: str) -> None:
    found = getattr(errors, name)
    assert not issubclass(found, Exception) or issubclass(found, InputError)


def test_json_errors_are_what_python_calls_such_errors() -> None:
    assert issubclass(JsonParseError, ValueError)
    assert issubclass(JsonWriteError, ValueError)
    assert issubclass(JsonTypeError, TypeError)
    assert issubclass(JsonTypeError, JsonWriteError)
    assert issubclass(EnvelopeError, ValueError)
    assert not issubclass(ProtectionKeyInUseError, ValueError)


def test_json_error_says_what_where_and_which_limit() -> None:
    error = JsonParseError(JsonErrorKind.DEPTH, "nested deeper than 256 at byte 257", 257, 256)
    assert (error.kind, error.offset, error.limit) == (JsonErrorKind.DEPTH, 257, 256)
    assert str(error) == "nested deeper than 256 at byte 257"
    assert isinstance(error, JsonError)
    plain = JsonWriteError(JsonErrorKind.NOT_FINITE, "NaN has no JSON form")
    assert (plain.offset, plain.limit) == (None, None)


@pytest.mark.parametrize("code", [-32002, -32042, -32020, -32021, -32022, -32050, -32099])
def test_codes_of_the_specification_are_refused(code: int) -> None:
    with pytest.raises(ValueError, match=f"{code} is reserved"):
        McpError(code, "mine")


@pytest.mark.parametrize("code", [-32000, -32001, -32003, -32019, -32100, -32602, -32603, 0, 1, 10**12])
def test_other_codes_are_taken(code: int) -> None:
    error = McpError(code, "mine", {"a": [1]})
    assert (error.code, error.message, error.data, str(error)) == (code, "mine", {"a": [1]}, "mine")


@pytest.mark.parametrize(("code", "message"), [("1", "m"), (True, "m"), (1.0, "m"), (1, None), (1, b"m")])
def test_mcp_error_refuses_other_types(code: object, message: object) -> None:
    with pytest.raises(TypeError):
        McpError(code, message)  # type: ignore[arg-type]


def test_tool_error_keeps_its_content() -> None:
    assert ToolError("no such order").content == "no such order"
    assert str(ToolError("no such order")) == "no such order"
    blocks = [{"type": "text", "text": "card 4111 1111 1111 1111"}]
    error = ToolError(blocks)
    assert error.content == blocks
    assert "4111" not in str(error)


def test_refused_state_says_its_reason_and_what_is_known() -> None:
    error = RequestStateProtectionError(ProtectionFailure.EXPIRED, key_id="k1", age_ms=900_001, round=2)
    assert (error.reason, error.key_id, error.age_ms, error.round) == (ProtectionFailure.EXPIRED, "k1", 900_001, 2)
    assert str(error) == "request state: expired"
    bare = RequestStateProtectionError(ProtectionFailure.MALFORMED)
    assert (bare.key_id, bare.age_ms, bare.round) == (None, None, None)


def test_reasons_are_told_apart_by_their_text() -> None:
    texts = [str(failure) for failure in ProtectionFailure]
    assert len(set(texts)) == len(texts)
    assert all(text == text.strip() and text for text in texts)


@pytest.mark.parametrize(
    "error",
    [
        JsonParseError(JsonErrorKind.DEPTH, "over the depth limit at byte 3", 3, 256),
        JsonTypeError(JsonErrorKind.KEY, "a member name"),
        InputConversionError("$.a", "expected `int`"),
        RequestStateProtectionError(ProtectionFailure.ROUND, key_id="k", age_ms=7, round=11),
        ProtectionKeyInUseError("key 'k'"),
        McpError(7, "busy", {"after": 1}),
        ToolError([{"type": "text", "text": "x"}]),
    ],
)
def test_errors_cross_processes_whole(error: Exception) -> None:
    """A pool of processes pickles what its workers raise."""
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)
