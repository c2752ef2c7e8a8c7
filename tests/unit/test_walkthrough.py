"""The demo's questions in the terminal: what a person may type into a form's fields, and what they are told."""

from __future__ import annotations

from typing import Any

import pytest

from mcpinput._walkthrough import _ask_person

ACCEPT = "a"


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Shows a form of one field to a person who types these lines; the answer, and what was printed."""

    def call(field: dict[str, Any], *typed: str, required: bool = True) -> tuple[Any, list[str]]:
        lines = iter(typed)
        monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
        monkeypatch.setattr("builtins.input", lambda prompt: (print(prompt), next(lines))[1])
        schema: dict[str, Any] = {"type": "object", "properties": {"field": field}}
        if required:
            schema["required"] = ["field"]
        answer = _ask_person({"message": "Well?", "requestedSchema": schema})
        assert list(lines) == []
        return answer, [line.strip() for line in capsys.readouterr().out.splitlines()]

    return call


def accepted(value: object) -> dict[str, Any]:
    return {"action": "accept", "content": {"field": value}}


@pytest.mark.parametrize(
    ("field", "typed", "value"),
    [
        ({"type": "string"}, "  as typed ", "  as typed "),
        ({"type": "string", "maxLength": 2}, "äö", "äö"),
        ({"type": "string", "enum": ["red", "blue"]}, "blue", "blue"),
        ({"type": "boolean"}, "Yes", True),
        ({"type": "boolean"}, "n", False),
        ({"type": "integer", "minimum": 1, "maximum": 7}, "7", 7),
        ({"type": "integer"}, "5.0", 5),
        ({"type": "number"}, "3.50", 3.5),
        ({"type": "number"}, "-0.125", -0.125),
        ({"type": "number"}, "1e3", 1000),
        ({"type": "number"}, "9007199254740993", 2**53 + 1),
        ({"type": "number", "minimum": 0.1}, "0.1", 0.1),
    ],
)
def test_value(ask: Any, field: dict[str, Any], typed: str, value: object) -> None:
    answer, _ = ask(field, ACCEPT, typed)
    assert answer == accepted(value)
    assert type(answer["content"]["field"]) is type(value)


@pytest.mark.parametrize(
    ("field", "typed", "told", "then"),
    [
        ({"type": "string"}, "", "This field is needed.", "x"),
        ({"type": "string"}, "\udc80", "That is no text that can be sent.", "x"),
        ({"type": "string", "minLength": 2}, "x", "Too few characters: at least 2.", "xy"),
        ({"type": "string", "maxLength": 2}, "xyz", "Too many characters: at most 2.", "xy"),
        ({"type": "string", "enum": ["red", "blue"]}, "green", "Choose one of red, blue.", "red"),
        ({"type": "boolean"}, "maybe", "Answer yes or no.", "yes"),
        ({"type": "number"}, "3,50", "That is no number.", "3.5"),
        ({"type": "number"}, "inf", "That is no number.", "3.5"),
        ({"type": "number", "minimum": 0.1}, "0.09999999999999999999999", "It must be at least 0.1.", "0.1"),
        ({"type": "number", "maximum": 7}, "7.000000000000000000001", "It must be at most 7.", "7"),
        ({"type": "number"}, "1e2000", "This client cannot send that number exactly; give fewer digits.", "1"),
        (
            {"type": "number"},
            "0.1234567890123456789",
            "This client cannot send that number exactly; give fewer digits.",
            "1",
        ),
        ({"type": "integer"}, "5.5", "A whole number is needed.", "5"),
    ],
)
def test_reason_and_second_try(ask: Any, field: dict[str, Any], typed: str, told: str, then: str) -> None:
    answer, printed = ask(field, ACCEPT, typed, then)
    assert answer["action"] == "accept"
    assert printed.count(told) == 1
    assert str(answer["content"]["field"]).startswith(then[:1]) or answer["content"]["field"] is True


def test_optional_field_may_be_empty(ask: Any) -> None:
    answer, printed = ask({"type": "number", "title": "Price", "minimum": 0}, "a", "", required=False)
    assert answer == {"action": "accept", "content": {}}
    assert printed[-1] == "Price (number, at least 0, may be empty):"


@pytest.mark.parametrize(("typed", "action"), [("d", "decline"), (" Decline", "decline"), ("c", "cancel")])
def test_no_asks_for_no_field(ask: Any, typed: str, action: str) -> None:
    answer, printed = ask({"type": "string"}, "?", typed)
    assert answer == {"action": action}
    assert printed.count("[a]ccept, [d]ecline or [c]ancel?") == 2
    assert printed.count("Type a, d or c.") == 1


def test_an_empty_line_is_no_consent(ask: Any) -> None:
    answer, printed = ask({"type": "string"}, "", "y", "d")
    assert answer == {"action": "decline"}
    assert printed.count("Type a, d or c.") == 2
