"""Small parts of the server: URI templates, schemas, registration."""

from __future__ import annotations

import functools
import sys
import threading
import tracemalloc
from decimal import Decimal
from typing import Any

import pytest

from mcpinput import (
    InputRequestDeclaration,
    PromptArgument,
    PromptRegistration,
    Requirement,
    ResourceRegistration,
    Server,
    ToolRegistration,
    may_request_input,
)
from mcpinput.server.schemas import CompiledSchema
from mcpinput.server.uris import UriTemplate
from tests.support.asgi import Client
from tests.support.servers import FORM

# ---- URI templates ----


@pytest.mark.parametrize(
    ("template", "uri", "variables"),
    [
        ("a://{x}", "a://1", {"x": "1"}),
        ("a://{x}/b/{y}", "a://1/b/2", {"x": "1", "y": "2"}),
        ("a://{+path}", "a://1/2/3?q#f", {"path": "1/2/3?q#f"}),
        ("a://{x}.{y}", "a://1.2.3", {"x": "1", "y": "2.3"}),
        ("a://{owner}/{+path}/{file}", "a://o/1/2/3", {"owner": "o", "path": "1/2", "file": "3"}),
        ("a://{owner}/{+path}/{file}", "a://o/1", None),
        ("a://{+path}.{ext}", "a://x/y.tar.gz", {"path": "x/y.tar", "ext": "gz"}),
        ("a://{x}--{y}", "a://--", None),
        ("a://{x}--{y}", "a://1---", {"x": "1", "y": "-"}),
        ("a://{x}-end", "a://1-end-end", {"x": "1-end"}),
        ("a://{x}", "a://%C3%A9%20", {"x": "é "}),
        ("a://{+x}", "a://..%2F..%2Fx", {"x": "../../x"}),
        *(("a://{x}", f"a://{text}", None) for text in ("%2F", "a%2fb", "a%5Cb", "a%00", ".", "..", "%2E%2e")),
        ("a://{x}", "a://...", {"x": "..."}),
        ("a.b://{x}", "a.b://1", {"x": "1"}),
        ("a://{x}", "a://", None),
        ("a://{x}", "a://1/2", None),
        ("a://{x}", "b://1", None),
        ("a.b://{x}", "aXb://1", None),
        ("a://{x}", "a://%ff", None),
        ("a://{x}/b", "a://1/b\n", None),
    ],
)
def test_templates_match(template: str, uri: str, variables: dict[str, str] | None) -> None:
    assert UriTemplate(template).match(uri) == variables


@pytest.mark.parametrize(
    "text",
    [
        "a://{x}{y}",
        "a://{+x}/{+y}",
        "a://{?q}",
        "a://{x*}",
        "a://{x:3}",
        "a://{x}/{x}",
        "a://{",
        "a://}",
        "a://{}",
        "a://x",
    ],
)
def test_templates_that_cannot_be(text: str) -> None:
    with pytest.raises(ValueError, match="URI template"):
        UriTemplate(text)


def test_hostile_uris_are_matched_in_linear_time() -> None:
    """With backtracking this would take longer than anybody waits."""
    template = UriTemplate("a://{a}-{b}-{c}-{d}-{e}x")
    assert template.match("a://" + "-" * 1_000_000) is None
    assert template.match("a://" + "-" * 1_000_000 + "x") is not None


# ---- schemas ----


def _chain_of_not(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"not": schema}
    return {"type": "object", "properties": {"a": schema}}


def problems(schema: dict[str, Any], value: Any) -> list[str]:
    return CompiledSchema({"type": "object", "properties": {"v": schema}}, "s").problems({"v": value})


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "integer"}, [5, Decimal("5.0"), Decimal("5E+2"), Decimal("0.0")], [Decimal("5.5"), True, "5", None]),
        ({"type": "number"}, [5, Decimal("5.5")], [True, "5", None]),
        ({"type": "boolean"}, [True, False], [0, 1]),
        ({"type": "integer"}, [Decimal("1E+10000"), 10**1000], [Decimal("1E-10000")]),
        ({"maximum": 0.1}, [Decimal("0.1"), 0], [Decimal("0.10000000000000000001")]),
        ({"minimum": 9007199254740992}, [9007199254740992], [9007199254740991, Decimal("9007199254740991.9")]),
        ({"multipleOf": 0.01}, [Decimal("0.07"), 3, Decimal("1E+10000"), 0], [Decimal("0.075"), Decimal("1E-10000")]),
        ({"multipleOf": 3}, [9, Decimal("9.0"), Decimal("3E+5")], [10, Decimal("9.5"), Decimal("1E+5")]),
        ({"const": 1}, [1, Decimal("1.0")], [True, "1"]),
        ({"enum": [1, "a"]}, [Decimal("1.00"), "a"], [True, 2]),
        ({"$ref": "#/$defs/x", "$defs": {"x": {}}}, [], []),
        ({"uniqueItems": True}, [[1, True, "1", None, [1]], [{"a": 1}, {"a": 2}], []], [[1, Decimal("1.0")]]),
        ({"uniqueItems": True}, [7, {"a": 1}], [[{"a": 1, "b": 2}, {"b": Decimal("2.0"), "a": 1}]]),
        ({"uniqueItems": False}, [[1, 1]], []),
    ],
)
def test_schemas_are_exact(schema: dict[str, Any], good: list[Any], bad: list[Any]) -> None:
    if "$ref" in schema:
        schema = {"type": "object", "properties": {"v": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "integer"}}}
        compiled = CompiledSchema(schema, "s")
        assert compiled.problems({"v": 1}) == []
        assert compiled.problems({"v": "1"})
        return
    for value in good:
        assert problems(schema, value) == []
    for value in bad:
        assert problems(schema, value)


@pytest.mark.parametrize(
    ("schema", "named"),
    [
        ({"type": "object", "properties": {"a": {"$ref": "https://example.com/x"}}}, "must point into the schema"),
        ({"type": "object", "properties": {"a": {"$ref": "other.json#/x"}}}, "must point into the schema"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/nothing"}}}, "points to no schema"),
        ({"type": "object", "properties": {"a": {"type": "text"}}}, "not a valid JSON Schema"),
        ({"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"}, "2020-12"),
        ({"type": "object", "properties": {"a": {"$id": "https://example.com/a", "$ref": "#/x"}}}, "only the whole"),
        ({"type": "object", "$schema": 7}, "2020-12"),
        (
            {"type": "object", "patternProperties": {"x": {}, "(?i)y": {}}, "additionalProperties": False},
            "cannot stand together",
        ),
        ({"type": "object", "properties": {"a": {"pattern": "a{99999999999}"}}}, "too large"),
        (_chain_of_not(200), "nested too deeply"),
        (
            {"type": "object", "properties": {"a": {"$schema": "https://json-schema.org/draft/2020-12/schema"}}},
            "only the whole",
        ),
        ({"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#/required"}}}, "points to no schema"),
        ({"type": "object", "title": "T", "properties": {"a": {"$ref": "#/title"}}}, "points to no schema"),
        ({"type": "object", "properties": {"a": {"$ref": "#/properties"}}}, "points to no schema"),
        *(
            (
                {
                    "type": "object",
                    "properties": {"p": {"$ref": reference}},
                    "allOf": [{"minProperties": 0}, True],
                    "additionalProperties": True,
                    "uniqueItems": True,
                    "maxProperties": 3,
                },
                "points to no schema",
            )
            for reference in (
                "#/additionalProperties/x",
                "#/maxProperties/x",
                "#/allOf/foo",
                "#/allOf/-1",
                "#/allOf/00",
                "#/allOf/2",
                "#/uniqueItems",
                "#anchor",
                "#/",
            )
        ),
        (
            {
                "type": "object",
                "default": {"x": {"$ref": "https://example.com/x"}},
                "properties": {"a": {"$ref": "#/default/x"}},
            },
            "points to no schema",
        ),
        (
            {
                "type": "object",
                "x": {"properties": {"$ref": "https://example.com/x"}},
                "properties": {"a": {"$ref": "#/x/properties"}},
            },
            "points to no schema",
        ),
        ({"type": "string"}, '"type": "object"'),
        ({}, '"type": "object"'),
    ],
)
def test_schemas_that_cannot_be_are_refused_at_registration(schema: dict[str, Any], named: str) -> None:
    server = Server("s", version="1")
    with pytest.raises(ValueError, match=named.replace("$", r"\$")) as caught:
        server.tool("mine", input_schema=schema)(lambda ctx: "x")
    assert "mine" in str(caught.value)
    assert Client(server.asgi()).request("tools/list").result["tools"] == []


def test_a_property_that_is_called_ref_is_a_property() -> None:
    names = {"$ref": {"type": "string"}, "$id": {"type": "string"}}
    CompiledSchema({"type": "object", "properties": names, "dependentRequired": {"$ref": ["$id"]}}, "s")


def test_a_schema_with_an_id_of_its_own_is_taken() -> None:
    schema = {
        "$id": "https://example.com/tool",
        "type": "object",
        "properties": {"v": {"$ref": "#/$defs/x"}},
        "$defs": {"x": {"type": "integer"}},
    }
    compiled = CompiledSchema(schema, "s")
    assert compiled.problems({"v": 1}) == []
    assert compiled.problems({"v": "1"}) == ["$.v: must be of type integer"]


def test_a_schema_that_names_its_dialect_is_exact_at_every_level() -> None:
    """The library's own validator would take over where a reference leads back to such a schema."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://example.com/tool#",
        "type": "object",
        "properties": {
            "quantity": {"type": "integer", "minimum": 0.0, "maximum": 9.0},
            "price": {"multipleOf": 0.01},
            "tags": {"uniqueItems": True, "maxItems": 99_999.0},
            "sub": {"type": "array", "items": {"$ref": "#"}},
        },
    }
    compiled = CompiledSchema(schema, "s")
    assert {key: compiled.schema[key] for key in ("$schema", "$id")} == {key: schema[key] for key in ("$schema", "$id")}
    good = {"quantity": Decimal("5.0"), "price": Decimal("123456789012345678901234567890.01"), "tags": [1, True]}
    assert compiled.problems({"sub": [good, {"sub": [good]}], **good}) == []
    bad = {"sub": [{"sub": [{"quantity": Decimal("5.5"), "price": Decimal("0.015"), "tags": [1, Decimal("1.0")]}]}]}
    assert sorted(compiled.problems(bad)) == [
        "$.sub[0].sub[0].price: must satisfy multipleOf: 0.01",
        "$.sub[0].sub[0].quantity: must be of type integer",
        "$.sub[0].sub[0].tags: must satisfy uniqueItems: true",
    ]


def test_a_schema_that_takes_exponential_time_is_given_up() -> None:
    """Depth 100 would take longer than there is time; here it takes a bounded number of steps."""
    branch = {"type": "object", "properties": {"c": {"$ref": "#/$defs/node"}}}
    schema = {
        "type": "object",
        "properties": {"e": {"$ref": "#/$defs/node"}},
        "$defs": {"branch": branch, "node": {"allOf": [{"$ref": "#/$defs/branch"}], "unevaluatedProperties": False}},
    }
    compiled = CompiledSchema(schema, "s")
    value: Any = {}
    for _ in range(5):
        value = {"c": value}
    assert compiled.problems({"e": value}) == []
    for _ in range(20):
        value = {"c": value}
    assert compiled.problems({"e": value}) == ["$: too complex to be checked"]
    # What one check used up is not missing from the next.
    assert compiled.problems({"e": {}}) == []


def test_references_of_every_kind_are_followed() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"$ref": "#/$defs/x~1y"},
            "b": {"$ref": "#named"},
            "c": {"$ref": "#/%24defs/n"},
            "d": {"$ref": "#/properties/e/items"},
            "e": {"type": "array", "items": {"type": "integer"}},
            "f": {"$ref": "#/allOf/1"},
            "g": {"$dynamicRef": "#named"},
        },
        "$defs": {"x/y": {"type": "integer"}, "n": {"$anchor": "named", "type": "integer"}},
        "allOf": [{"minProperties": 0}, True],
    }
    compiled = CompiledSchema(schema, "s")
    assert compiled.problems({"a": 1, "b": 1, "c": 1, "d": 1, "e": [1], "f": "x", "g": 1}) == []
    assert len(compiled.problems({"a": "1", "b": "1", "c": "1", "d": "1", "g": "1"})) == 5


def _chain(length: int, link: Any, end: Any) -> dict[str, Any]:
    """Definitions of which each leads to the next by ``link``."""
    chain = {f"d{i}": link(f"#/$defs/d{i + 1}") for i in range(length)}
    return {**chain, f"d{length}": end}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (
            {
                "type": "object",
                "properties": {"x": {"$ref": "#/$defs/d0"}},
                "$defs": _chain(20, lambda ref: {"allOf": [{"$ref": ref}] * 2}, {"items": {}}),
            },
            {"x": list(range(2000))},
        ),
        (
            {
                "type": "object",
                "properties": {"x": {"$ref": "#/$defs/d0"}},
                "$defs": _chain(20, lambda ref: {"allOf": [{"$ref": ref}] * 2}, {"uniqueItems": True}),
            },
            {"x": list(range(2000))},
        ),
        (
            {
                "type": "object",
                "unevaluatedProperties": False,
                "$ref": "#/$defs/d0",
                "$defs": _chain(
                    30,
                    lambda ref: {"dependentSchemas": {"a": {"$ref": ref}, "b": {"$ref": ref}}},
                    {"properties": {"a": True, "b": True}},
                ),
            },
            {"a": 1, "b": 2},
        ),
        (
            {"type": "object", "properties": {"q": {"type": "string"}}, "unevaluatedProperties": {"type": "integer"}},
            {f"k{number}": number for number in range(100_000)},
        ),
        (
            {"type": "object", "properties": {"x": {"type": "array", "unevaluatedItems": {"type": "integer"}}}},
            {"x": list(range(100_000))},
        ),
        *(
            (
                {
                    "type": "object",
                    "properties": {"x": {"$ref": "#/$defs/d0"}},
                    "$defs": _chain(3, lambda ref: {"allOf": [{"$ref": ref}] * 30}, leaf),
                },
                {"x": [[1] * 49_000]},
            )
            for leaf in ({"uniqueItems": True}, {"const": [[1] * 49_000]})
        ),
    ],
    ids=["items", "uniqueItems", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems", "inner", "const"],
)
def test_schemas_that_take_the_library_too_long_are_given_up(schema: dict[str, Any], value: Any) -> None:
    """Without a bound each of these takes from half a minute to days."""
    assert CompiledSchema(schema, "s").problems(value) == ["$: too complex to be checked"]


def test_an_anchor_is_not_looked_for_again_and_again() -> None:
    """Where each look goes through the whole schema, this takes minutes."""
    others = {f"p{number}": {"type": "string"} for number in range(1500)}
    schema = {
        "type": "object",
        "properties": {"x": {"type": "array", "items": {"$ref": "#named"}}},
        "$defs": {"a": {"$anchor": "named", "type": "integer"}, **others},
    }
    compiled = CompiledSchema(schema, "s")
    assert compiled.problems({"x": [1] * 20_000}) == []
    assert compiled.problems({"x": ["1"]}) == ["$.x[0]: must be of type integer"]


def test_unevaluated_members_are_judged_where_there_are_not_too_many() -> None:
    schema = {"type": "object", "properties": {"q": {}}, "unevaluatedProperties": {"type": "integer"}}
    compiled = CompiledSchema(schema, "s")
    assert compiled.problems({f"k{number}": number for number in range(2_000)}) == []
    assert compiled.problems({"q": "x", "r": "x"}) != []


def test_many_alternatives_are_not_too_complex() -> None:
    variants = [
        {"type": "object", "properties": {"kind": {"const": n}, "v": {}}, "required": ["kind"]} for n in range(40)
    ]
    items = {"oneOf": variants}
    words = {"anyOf": [{"const": f"w{n}"} for n in range(300)]}
    schema = {
        "type": "object",
        "properties": {"v": {"type": "array", "items": items}, "w": {"type": "array", "items": words}},
    }
    value = {"v": [{"kind": n % 40, "v": n} for n in range(400)], "w": ["w299"] * 100}
    assert CompiledSchema(schema, "s").problems(value) == []


def test_large_plain_arguments_are_not_too_complex() -> None:
    item = {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 0}, "kind": {"enum": ["a", "b"]}},
        "required": ["n"],
        "additionalProperties": False,
    }
    schema = {"type": "object", "properties": {"v": {"type": "array", "items": {"anyOf": [item, {"type": "null"}]}}}}
    assert CompiledSchema(schema, "s").problems({"v": [{"n": n, "kind": "b"} for n in range(20_000)]}) == []


def test_long_names_are_cut_where_they_are_told() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "string"}}
    (problem,) = CompiledSchema(schema, "s").problems({"x" * 1_000_000: 1})
    assert len(problem) < 500


def test_a_property_that_must_not_be_is_told() -> None:
    problems = CompiledSchema({"type": "object", "properties": {"a": False}}, "s").problems({"a": 1})
    assert problems == ["$: has a value that is not allowed"]


RECURSIVE: dict[str, Any] = {
    "type": "object",
    "properties": {"c": {"anyOf": [{"$ref": "#"}, {"type": "integer"}]}, "t": {"type": "string"}},
}


def test_problems_name_path_and_keyword_and_show_no_value() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": ["integer", "null"]},
            "b": {"minimum": 3.5},
            "c": {"enum": ["x"]},
            "d": {"type": "array", "uniqueItems": True},
        },
        "required": ["e"],
        "additionalProperties": False,
    }
    value = {"a": "secret", "b": Decimal("1.50"), "c": "secret", "d": ["secret", "secret"], "f": "secret"}
    assert sorted(CompiledSchema(schema, "s").problems(value, limit=9)) == [
        "$.a: must be of type integer or null",
        "$.b: must satisfy minimum: 3.5",
        '$.c: must satisfy enum: ["x"]',
        "$.d: must satisfy uniqueItems: true",
        "$: 'e' is a required property",
        "$: Additional properties are not allowed ('f' was unexpected)",
    ]


def test_deep_arguments_to_a_recursive_schema_are_refused_and_the_next_call_is_served() -> None:
    server = Server("s", version="1")
    server.tool("t", input_schema=RECURSIVE)(lambda ctx: "fine")
    client = Client(server.asgi())
    deep: Any = {"t": "x"}
    for _ in range(248):
        deep = {"c": deep}
    refused = client.call_tool("t", deep).result
    assert refused["isError"] is True
    assert "too deeply" in refused["content"][0]["text"]
    assert client.call_tool("t", {"c": {"c": 7}}).result["content"][0]["text"] == "fine"


def test_many_items_are_told_apart_in_linear_time() -> None:
    """Compared with each other, as many objects as this would take hours."""
    schema = {"type": "object", "properties": {"v": {"type": "array", "uniqueItems": True}}}
    compiled = CompiledSchema(schema, "s")
    items: list[Any] = [{"n": number} for number in range(50_000)]
    assert compiled.problems({"v": items}) == []
    assert compiled.problems({"v": [*items, {"n": Decimal("7.0")}]}) == ["$.v: must satisfy uniqueItems: true"]


def test_large_values_deep_in_a_recursive_schema_are_not_spelled_out_again_and_again() -> None:
    """A library that writes the value into each of its messages would write gigabytes here."""
    deep: Any = {"t": 5, "c": 1, "big": "x" * 4_000_000}
    for _ in range(60):
        deep = {"c": deep}
    tracemalloc.start()
    try:
        assert CompiledSchema(RECURSIVE, "s").problems(deep)
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()


def test_jsonschema_is_imported_only_when_a_schema_is_registered() -> None:
    import subprocess
    import sys

    code = (
        "import sys, mcpinput\n"
        "s = mcpinput.Server('s', version='1')\n"
        "s.tool('a')(lambda ctx: 1)\n"
        "assert 'jsonschema' not in sys.modules\n"
        "s.tool('b', input_schema={'type': 'object'})(lambda ctx: 1)\n"
        "assert 'jsonschema' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd="/")


# ---- registration ----


class Callable_:
    async def __call__(self, ctx: Any, arguments: Any) -> str:
        return "object"


@pytest.mark.parametrize(
    "handler",
    [
        lambda ctx: "x",
        lambda ctx, arguments: "x",
        functools.partial(lambda more, ctx: "x", 1),
        Callable_(),
    ],
)
def test_handlers_of_every_shape(handler: Any) -> None:
    server = Server("s", version="1")
    server.add(ToolRegistration(name="t", handler=handler))
    assert Client(server.asgi()).call_tool("t").result["content"][0]["text"] in ("x", "object")


@pytest.mark.parametrize(
    "handler",
    [
        None,
        7,
        lambda: "x",
        lambda ctx, n: "x",
        lambda arguments: "x",
        lambda ctx, a, b: "x",
        lambda ctx, arguments, more=1: "x",
        lambda *parts: "x",
        lambda *, ctx: "x",
    ],
)
def test_handlers_that_cannot_be(handler: Any) -> None:
    with pytest.raises(TypeError, match="'t'"):
        Server("s", version="1").add(ToolRegistration(name="t", handler=handler))


@pytest.mark.parametrize(
    ("registration", "error"),
    [
        (lambda: ToolRegistration(name="", handler=lambda ctx: 1), ValueError),
        (lambda: ToolRegistration(name=7, handler=lambda ctx: 1), TypeError),  # type: ignore[arg-type]
        (lambda: ToolRegistration(name="\ud800", handler=lambda ctx: 1), ValueError),
        (lambda: ToolRegistration(name="t", handler=lambda ctx: 1, request_state="none"), TypeError),  # type: ignore[arg-type]
        (lambda: ToolRegistration(name="t", handler=lambda ctx: 1, input_requests=["form"]), TypeError),  # type: ignore[list-item]
        (lambda: ToolRegistration(name="t", handler=lambda ctx: 1, metadata={"a": object()}), TypeError),
        (lambda: ToolRegistration(name="t", handler=lambda ctx: 1, metadata={"io.mcp/a": 1}), ValueError),
        (lambda: ToolRegistration(name="t", handler=lambda ctx: 1, title=7), TypeError),  # type: ignore[arg-type]
        (lambda: ToolRegistration(name="t", handler=lambda ctx: 1, input_requests=FORM), TypeError),  # type: ignore[arg-type]
        (lambda: PromptRegistration(name="p", handler=lambda ctx: 1, arguments=["a"]), TypeError),  # type: ignore[list-item]
        (
            lambda: PromptRegistration(
                name="p", handler=lambda ctx: 1, arguments=[PromptArgument("a"), PromptArgument("a")]
            ),
            ValueError,
        ),
        (lambda: ToolRegistration(name="t", handler=lambda ctx: 1, metadata=[("a", 1)]), TypeError),  # type: ignore[arg-type]
        (lambda: ToolRegistration(name="t", handler=lambda ctx: 1, input_schema=True), TypeError),  # type: ignore[arg-type]
        (lambda: ToolRegistration(name="t", handler=lambda ctx: 1, output_schema=[]), TypeError),  # type: ignore[arg-type]
        (lambda: ResourceRegistration(uri="a://x", handler=lambda ctx: 1, name=5), TypeError),  # type: ignore[arg-type]
        (lambda: ResourceRegistration(uri="a://x", handler=lambda ctx: 1, mime_type=5), TypeError),  # type: ignore[arg-type]
        (lambda: ResourceRegistration(uri="no-scheme", handler=lambda ctx: 1), ValueError),
        (lambda: ResourceRegistration(uri="a://{", handler=lambda ctx: 1), ValueError),
    ],
)
def test_registrations_that_cannot_be(registration: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        Server("s", version="1").add(registration())


def test_a_registration_that_raises_its_warning_leaves_no_trace() -> None:
    roots = InputRequestDeclaration.from_roots(Requirement.CONDITIONAL)

    def decorate(server: Server) -> None:
        server.tool("t", input_requests=[roots])(lambda ctx: "x")

    def add(server: Server) -> None:
        server.add(ToolRegistration(name="t", handler=lambda ctx: "x", input_requests=[roots]))

    for register in (decorate, add):
        server = Server("s", version="1")
        with pytest.raises(DeprecationWarning, match="roots/list"):  # this suite makes errors of warnings
            register(server)
        with pytest.warns(DeprecationWarning, match="roots/list") as warned:
            register(server)
        assert warned[0].filename == __file__


def test_operations_may_be_added_while_others_are_served() -> None:
    server = Server("s", version="1")
    server.resource("a://{x}")(lambda ctx: "x")
    client = Client(server.asgi())
    stop = threading.Event()

    def add() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            server.resource(f"t{number}://{{x}}")(lambda ctx: "x")

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=add)
    thread.start()
    try:
        for _ in range(100):
            assert client.read_resource("none://x").status == 400
            assert client.request("resources/templates/list").status == 200
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)


@pytest.mark.parametrize("kind", ["tool", "prompt", "resource"])
def test_a_decorator_without_parentheses_is_told(kind: str) -> None:
    with pytest.raises(TypeError, match="parentheses"):

        @getattr(Server("s", version="1"), kind)
        def handler(ctx: Any) -> str:
            return "x"


def test_a_name_is_taken_once() -> None:
    server = Server("s", version="1")
    server.tool("t")(lambda ctx: "first")
    with pytest.raises(ValueError, match="'t' is registered already"):
        server.tool("t")(lambda ctx: "second")
    server.prompt("t")(lambda ctx: "a prompt")
    assert Client(server.asgi()).call_tool("t").result["content"][0]["text"] == "first"


def test_what_is_listed_is_what_was_registered() -> None:
    server = Server("s", version="1", title="S", instructions="Be kind.")

    @server.tool(title="T", annotations={"readOnlyHint": True}, metadata={"example.com/a": 1})
    def my_tool(ctx: Any) -> str:
        """Does it."""
        return "x"

    @server.prompt(arguments=[PromptArgument("style", "How", required=True, title="Style")])
    def my_prompt(ctx: Any) -> str:
        return "x"

    @server.resource("a://x", name="X", mime_type="text/plain", description="An X.")
    def my_resource(ctx: Any) -> bytes:
        return b"\xff"

    client = Client(server.asgi())
    assert client.request("tools/list").result["tools"] == [
        {
            "name": "my_tool",
            "title": "T",
            "description": "Does it.",
            "_meta": {"example.com/a": 1},
            "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": True},
        }
    ]
    assert client.request("prompts/list").result["prompts"] == [
        {
            "name": "my_prompt",
            "arguments": [{"name": "style", "title": "Style", "description": "How", "required": True}],
        }
    ]
    assert client.request("resources/list").result["resources"] == [
        {"name": "X", "description": "An X.", "uri": "a://x", "mimeType": "text/plain"}
    ]
    discovered = client.request("server/discover").result
    assert discovered["instructions"] == "Be kind."
    assert discovered["_meta"]["io.modelcontextprotocol/serverInfo"]["title"] == "S"
    assert client.read_resource("a://x").result["contents"] == [
        {"uri": "a://x", "mimeType": "text/plain", "blob": "/w=="}
    ]


def test_declarations_above_a_handler_count() -> None:
    server = Server("s", version="1")

    @server.tool("t")
    @may_request_input(FORM.input_request_type, FORM.requirement)
    async def t(ctx: Any) -> Any:
        from mcpinput import input_required
        from tests.support.servers import ask_form

        return input_required({"k": ask_form()})

    assert Client(server.asgi()).call_tool("t").result["resultType"] == "input_required"
