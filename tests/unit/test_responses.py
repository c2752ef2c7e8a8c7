"""Answers: the protocol's union, four states, and what was asked."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpinput.errors import InputConversionError
from mcpinput.json import parse
from mcpinput.requests import InputRequest, InputRequestDeclaration, InputRequestType, Requirement
from mcpinput.responses import (
    Absent,
    Accepted,
    Cancelled,
    Declined,
    InputResponses,
    Rooted,
    Sampled,
    fits_kind,
    fits_union,
)

FORM = InputRequestType.ELICITATION_FORM
URL = InputRequestType.ELICITATION_URL
SAMPLING = InputRequestType.SAMPLING
ROOTS = InputRequestType.ROOTS

SAMPLED: dict[str, Any] = {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"}


def form(message: str) -> InputRequest:
    return InputRequest.from_declaration(
        InputRequestDeclaration.from_elicitation_form(Requirement.CONDITIONAL),
        {"message": message, "requestedSchema": {"type": "object", "properties": {}}},
    )


def asked(**requests: InputRequest) -> dict[str, tuple[int, bytes]]:
    return {key: (r.declaration.input_request_type.code, r.digest) for key, r in requests.items()}


# ---- the union ----

GOOD = [
    ('{"action":"accept"}', {FORM, URL}),
    ('{"action":"decline"}', {FORM, URL}),
    ('{"action":"cancel"}', {FORM, URL}),
    ('{"action":"accept","content":null}', {FORM, URL}),
    ('{"action":"accept","content":{}}', {FORM, URL}),
    (
        '{"action":"accept","content":{"s":"","i":5,"d":19.99,"e":1e-7,"n":-0.5,"b":true,"l":["a","b"],"m":[]}}',
        {FORM, URL},
    ),
    ('{"action":"accept","resultType":"complete","x":null}', {FORM, URL}),
    # Judged on an accept to a form only.
    ('{"action":"decline","content":{"age":null}}', {FORM, URL}),
    ('{"action":"cancel","content":{"age":{"x":1}}}', {FORM, URL}),
    ('{"action":"cancel","content":7}', {FORM, URL}),
    ('{"action":"accept","content":{"x":null}}', {URL}),
    ('{"action":"accept","content":{"x":{"y":1}}}', {URL}),
    ('{"action":"accept","content":{"x":["a",1]}}', {URL}),
    ('{"action":"accept","content":{"x":[["a"]]}}', {URL}),
    ('{"action":"accept","content":{"x":[null]}}', {URL}),
    ('{"action":"accept","content":[]}', {URL}),
    ('{"action":"accept","content":"x"}', {URL}),
    ('{"action":"accept","content":false}', {URL}),
    ('{"role":"user","content":{},"model":"m"}', {SAMPLING}),
    ('{"role":"assistant","content":[],"model":""}', {SAMPLING}),
    (
        '{"role":"assistant","content":[{"type":"text","text":"x"}],"model":"m","stopReason":"endTurn","z":1}',
        {SAMPLING},
    ),
    ('{"roots":[]}', {ROOTS}),
    ('{"roots":[{"uri":"file:///a","name":"a"},{"uri":"file:/b","x":null}],"_meta":{}}', {ROOTS}),
    ('{"roots":[],"action":"accept"}', {ROOTS, FORM, URL}),
]

BAD = [
    "null", "true", "7", '"x"', "[]", "{}", '[{"action":"accept"}]',
    '{"action":"reject"}', '{"action":"ACCEPT"}', '{"action":"Accept "}', '{"action":" accept"}', '{"action":""}',
    '{"action":1}', '{"action":null}', '{"action":["accept"]}', '{"action":{}}', '{"Action":"accept"}',
    '{"content":{}}', '{"error":{"code":-32603,"message":"x"}}', '{"code":-1,"message":"x"}',
    '{"role":"system","content":{},"model":"m"}', '{"role":"user","content":"x","model":"m"}',
    '{"role":"user","content":null,"model":"m"}', '{"role":"user","content":["x"],"model":"m"}',
    '{"role":"user","content":{},"model":null}', '{"role":"user","content":{}}', '{"role":"user","model":"m"}',
    '{"content":{},"model":"m"}', '{"role":["user"],"content":{},"model":"m"}',
    '{"roots":null}', '{"roots":{}}', '{"roots":[7]}', '{"roots":[{}]}', '{"roots":[{"uri":"http://x"}]}',
    '{"roots":[{"uri":7}]}', '{"roots":[{"uri":"file:///a"},{"uri":"x"}]}', '{"roots":[{"name":"a"}]}',
]  # fmt: skip


@pytest.mark.parametrize(("text", "kinds"), GOOD)
def test_well_formed_answers_fit_their_kinds_and_no_others(text: str, kinds: set[InputRequestType]) -> None:
    value = parse(text.encode())
    assert {kind for kind in InputRequestType if fits_kind(value, kind)} == kinds
    assert fits_union(value) == bool(kinds - {URL})  # where the kind is not known, content is judged as a form's


@pytest.mark.parametrize("text", BAD)
def test_malformed_answers_fit_nothing(text: str) -> None:
    value = parse(text.encode())
    assert not any(fits_kind(value, kind) for kind in InputRequestType)
    assert not fits_union(value)


@pytest.mark.parametrize("number", [0.5, float("nan"), Decimal("NaN"), Decimal("Infinity")])
def test_what_parse_never_makes_is_no_answer(number: object) -> None:
    assert not fits_union({"action": "accept", "content": {"n": number}})


# ---- four states ----


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ({"action": "accept", "content": {"city": "Paris"}}, Accepted({"city": "Paris"})),
        ({"action": "accept"}, Accepted({})),
        ({"action": "accept", "content": None}, Accepted({})),
        ({"action": "decline", "content": {"city": "Paris"}}, Declined()),
        ({"action": "decline"}, Declined()),
        ({"action": "cancel", "content": {"age": "x"}}, Cancelled()),
        (SAMPLED, Absent()),
        ({"roots": []}, Absent()),
    ],
)
def test_elicitation_has_four_states(response: dict[str, Any], answer: object) -> None:
    responses = InputResponses.from_responses({"k": response})
    assert responses.elicitation("k") == answer
    assert responses.elicitation("other") == Absent()
    assert responses.elicitation("K") == Absent()


def test_the_four_states_differ_and_match() -> None:
    states = [Absent(), Accepted({}), Declined(), Cancelled()]
    assert all(a != b for a, b in itertools.combinations(states, 2))
    match InputResponses.from_responses({"k": {"action": "accept", "content": {"n": 3.50}}}).elicitation("k"):
        case Accepted(content):
            assert content == {"n": Decimal("3.5")}
            assert type(content["n"]) is Decimal
        case _:
            pytest.fail("not accepted")


def test_sampling_and_roots() -> None:
    roots = [{"uri": "file:///a", "name": "A"}]
    responses = InputResponses.from_responses(
        {"s": {**SAMPLED, "stopReason": "endTurn"}, "r": {"roots": roots}, "odd": {**SAMPLED, "stopReason": 7}}
    )
    assert responses.sampling("s") == Sampled("assistant", {"type": "text", "text": "hi"}, "m", "endTurn")
    assert responses.sampling("odd") == Sampled("assistant", {"type": "text", "text": "hi"}, "m", None)
    assert responses.roots("r") == Rooted([{"uri": "file:///a", "name": "A"}])
    assert responses.sampling("r") == responses.sampling("x") == Absent()
    assert responses.roots("s") == responses.roots("x") == Absent()


def test_answers_are_frozen_and_their_repr_shows_no_value() -> None:
    content: dict[str, Any] = {"name": "Ada Lovelace", "tags": ["secret"]}
    accepted = Accepted(content)
    content["tags"].append("more")
    assert accepted.content == {"name": "Ada Lovelace", "tags": ["secret"]}
    with pytest.raises(TypeError):
        accepted.content["tags"].append("x")  # type: ignore[union-attr]
    assert repr(accepted) == "Accepted({'name': ..., 'tags': ...})"
    assert "secret" not in repr(Sampled("user", {"text": "secret"}, "m"))
    assert "secret" not in repr(Rooted([{"uri": "file:///secret"}]))


# ---- what was asked ----


def test_only_what_was_asked_counts() -> None:
    accept = {"action": "accept", "content": {"x": 1}}
    responses = InputResponses._for_asked(
        {"k": accept, "unasked": accept, "roots": accept, "r": {"roots": []}},
        asked(k=form("Delete 3 files?"), gone=form("?")) | {"roots": (4, b"")} | {"r": (4, b"")},
    )
    assert responses.elicitation("k") == Accepted({"x": 1})
    assert responses.elicitation("unasked") == Absent()
    assert responses.elicitation("roots") == Absent()  # asked in another kind
    assert responses.roots("roots") == Absent()  # not an answer of that kind
    assert responses.elicitation("gone") == Absent()
    assert responses.roots("r") == Rooted([])
    assert responses.find("unasked") == accept
    assert set(responses.as_map()) == {"k", "unasked", "roots", "r"}


def test_an_answer_to_other_words_does_not_count() -> None:
    was, now = form("Delete 3 files?"), form("Delete ALL files?")
    responses = InputResponses._for_asked({"k": {"action": "accept"}}, asked(k=was))
    assert responses.elicitation("k", was) == responses.elicitation("k") == Accepted({})
    assert responses.elicitation("k", request=now) == Absent()
    # Where nothing is known of what was asked, neither is which words.
    assert InputResponses.from_responses({"k": {"action": "accept"}}).elicitation("k", now) == Accepted({})


def test_content_of_a_url_accept_is_ignored() -> None:
    responses = InputResponses._for_asked({"k": {"action": "accept", "content": {"x": None}}}, {"k": (2, b"")})
    assert responses.elicitation("k") == Accepted({})


def test_an_accessor_refuses_a_request_of_another_kind() -> None:
    roots = InputRequest.from_declaration(InputRequestDeclaration.from_roots(Requirement.CONDITIONAL), {})
    with pytest.raises(ValueError, match="ROOTS"):
        InputResponses.empty().elicitation("k", roots)
    with pytest.raises(ValueError, match="ELICITATION_FORM"):
        InputResponses.empty().sampling("k", form("?"))
    with pytest.raises(ValueError, match="ELICITATION_FORM"):
        InputResponses.empty().roots("k", form("?"))


# ---- the collection ----


def test_it_is_a_read_only_mapping() -> None:
    source: dict[str, Any] = {"": {"action": "accept", "content": {"l": ["a"]}}, " ": {"roots": []}}
    responses = InputResponses.from_responses(source)
    source[""]["content"]["l"].append("b")
    assert isinstance(responses, Mapping)
    assert list(responses) == ["", " "]
    assert len(responses) == 2
    assert responses == {"": {"action": "accept", "content": {"l": ["a"]}}, " ": {"roots": []}}
    assert responses[""] == responses.find("") == responses.as_map()[""]
    assert "missing" not in responses
    with pytest.raises(KeyError):
        responses["missing"]
    with pytest.raises(TypeError):
        responses[""]["content"]["l"].append("b")
    with pytest.raises(TypeError):
        responses.as_map()["x"] = {}  # type: ignore[index]
    with pytest.raises(AttributeError):
        responses._responses = {}  # type: ignore[assignment]
    assert copy.deepcopy(responses) is responses
    assert InputResponses.empty() == {} == InputResponses.builder().build()


def test_repr_shows_keys_only() -> None:
    responses = InputResponses.from_responses({"k": {"action": "accept", "content": {"n": "secret"}}})
    assert repr(responses) == "InputResponses({'k': ...})"


def test_there_is_no_constructor() -> None:
    with pytest.raises(TypeError, match=r"InputResponses\.from_responses"):
        InputResponses({})


def test_find_without_a_type_gives_the_whole_object() -> None:
    response = {"action": "decline", "note": Decimal("3.50")}
    found = InputResponses.from_responses({"k": response}).find("k")
    assert found == response
    assert str(found["note"]) == "3.50"
    assert InputResponses.empty().find("k") is None
    assert InputResponses.empty().find("k", dict) is None


class Order(msgspec.Struct):
    count: int
    price: Decimal


class Reply(msgspec.Struct):
    action: str
    content: Order


def test_find_with_a_type_converts_exactly() -> None:
    responses = InputResponses._for_asked(
        parse(
            b'{"k":{"action":"decline","content":{"count":5.0,"price":3.50}},"bad":{"action":"x","content":{"count":5.5,"price":1}}}'
        ),  # type: ignore[arg-type]
        None,
    )
    reply = responses.find("k", Reply)
    assert reply == Reply("decline", Order(5, Decimal("3.50")))
    assert type(reply.content.count) is int
    with pytest.raises(InputConversionError) as caught:
        responses.find("bad", Reply)
    assert caught.value.path == "$.content.count"
    assert "5.5" not in str(caught.value)


def test_responses_for_tests_arrive_as_from_a_client() -> None:
    built = (
        InputResponses.builder().add("a", {"action": "accept", "content": {"n": 0.1}}).add("b", {"roots": ()}).build()
    )
    assert built == {"a": {"action": "accept", "content": {"n": Decimal("0.1")}}, "b": {"roots": []}}


def test_building_refuses_what_no_client_can_send() -> None:
    builder = InputResponses.builder().add("k", {"action": "accept"})
    with pytest.raises(ValueError, match="'k'"):
        builder.add("k", {"action": "decline"})
    with pytest.raises(TypeError):
        builder.add(1, {"action": "accept"})  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        builder.add("x", {"action": "accept", "content": {"a": object()}})
    with pytest.raises(ValueError, match="'x'"):
        builder.add("x", {"action": "maybe"})
    with pytest.raises(ValueError, match="surrogate"):
        builder.add("\ud800", {"action": "accept"})
    with pytest.raises(TypeError):
        InputResponses.from_responses([("k", {"action": "accept"})])  # type: ignore[arg-type]
    assert builder.build() == {"k": {"action": "accept"}}


SCALARS = st.none() | st.booleans() | st.integers() | st.sampled_from(["", "accept", "decline", "user", "file:///a"])
TREES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["action", "content", "role", "model", "roots", "uri", "x"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=2), TREES, max_size=3), st.sampled_from(InputRequestType))
def test_every_accessor_takes_every_tree(responses: dict[str, Any], kind: InputRequestType) -> None:
    for known in (None, dict.fromkeys(responses, (kind.code, b""))):
        made = InputResponses._for_asked(responses, known)
        for key, value in responses.items():
            states = (made.elicitation(key), made.sampling(key), made.roots(key))
            fits = [c for c in InputRequestType if fits_kind(value, c) and (known is None or c is kind)]
            if known is None:
                fits = [c for c in fits if c is not URL]
            assert sum(state != Absent() for state in states) == len({c.json_rpc_method for c in fits})
