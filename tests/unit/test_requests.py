"""Declarations, input requests, and declarations on handlers."""

from __future__ import annotations

import copy
import functools
import hashlib
import pickle
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import mcp.types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpinput.json import canonical_bytes, dump
from mcpinput.requests import (
    InputRequest,
    InputRequestDeclaration,
    InputRequestType,
    Requirement,
    declared_input_requests,
    may_request_input,
)

FORM = InputRequestDeclaration.from_elicitation_form(Requirement.CONDITIONAL)
URL = InputRequestDeclaration.from_elicitation_url(Requirement.REQUIRED)
SAMPLING = InputRequestDeclaration.from_sampling(Requirement.CONDITIONAL)
SAMPLING_ALL = InputRequestDeclaration.from_sampling(Requirement.CONDITIONAL, tools=True, context=True)
ROOTS = InputRequestDeclaration.from_roots(Requirement.CONDITIONAL)

FORM_PARAMS: dict[str, Any] = {
    "mode": "form",
    "message": "Approve?",
    "requestedSchema": {"type": "object", "properties": {"n": {"type": "number", "minimum": Decimal("0.10")}}},
}
URL_PARAMS: dict[str, Any] = {"mode": "url", "message": "Sign in", "url": "https://example.com/a/b"}
SAMPLING_PARAMS: dict[str, Any] = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}],
    "maxTokens": 10,
}


def without(params: dict[str, Any], *names: str, **changes: Any) -> dict[str, Any]:
    return {**{name: value for name, value in params.items() if name not in names}, **changes}


# ---- declarations ----


@pytest.mark.parametrize(
    ("declaration", "kind", "code", "method", "capabilities", "deprecated"),
    [
        (FORM, "ELICITATION_FORM", 1, "elicitation/create", {"elicitation": {"form": {}}}, False),
        (URL, "ELICITATION_URL", 2, "elicitation/create", {"elicitation": {"url": {}}}, False),
        (SAMPLING, "SAMPLING", 3, "sampling/createMessage", {"sampling": {}}, True),
        (SAMPLING_ALL, "SAMPLING", 3, "sampling/createMessage", {"sampling": {"tools": {}, "context": {}}}, True),
        (ROOTS, "ROOTS", 4, "roots/list", {"roots": {}}, True),
    ],
)
def test_declarations_say_what_they_need(
    declaration: InputRequestDeclaration,
    kind: str,
    code: int,
    method: str,
    capabilities: dict[str, Any],
    deprecated: bool,
) -> None:
    assert declaration.input_request_type is InputRequestType[kind]
    assert declaration.input_request_type.code == code
    assert declaration.json_rpc_method == declaration.input_request_type.json_rpc_method == method
    assert declaration.capabilities == capabilities
    assert declaration.deprecated is deprecated
    assert declaration.requirement is (Requirement.REQUIRED if declaration is URL else Requirement.CONDITIONAL)
    # As the official SDK reads what a client declares.
    read = mcp.types.ClientCapabilities.model_validate(declaration.capabilities)
    assert read.model_dump(by_alias=True, exclude_unset=True) == capabilities


def test_capabilities_are_the_callers_own() -> None:
    FORM.capabilities["elicitation"]["form"]["x"] = 1
    assert FORM.capabilities == {"elicitation": {"form": {}}}


def test_declarations_compare_by_value() -> None:
    assert InputRequestDeclaration.from_elicitation_form(Requirement.CONDITIONAL) == FORM
    assert hash(InputRequestDeclaration.from_elicitation_form(Requirement.CONDITIONAL)) == hash(FORM)
    assert len({FORM, URL, SAMPLING, SAMPLING_ALL, ROOTS}) == 5
    assert InputRequestDeclaration.from_elicitation_form(Requirement.REQUIRED) != FORM
    assert FORM != "form"
    assert repr(SAMPLING_ALL) == "InputRequestDeclaration(SAMPLING, CONDITIONAL, tools, context)"


def test_a_requirement_is_needed() -> None:
    with pytest.raises(TypeError, match="requirement"):
        InputRequestDeclaration.from_elicitation_form("required")  # type: ignore[arg-type]


# ---- values ----


def test_there_are_no_constructors() -> None:
    with pytest.raises(TypeError, match=r"InputRequestDeclaration\.from_elicitation_form"):
        InputRequestDeclaration()
    with pytest.raises(TypeError, match=r"InputRequest\.from_declaration"):
        InputRequest(FORM, FORM_PARAMS)


def test_values_cannot_be_changed_copied_apart_or_pickled() -> None:
    request = InputRequest.from_declaration(FORM, FORM_PARAMS)
    values: tuple[Any, ...] = (FORM, request)
    for value in values:
        with pytest.raises(AttributeError):
            value._requirement = None
        with pytest.raises(AttributeError):
            value.anything = None
        with pytest.raises(AttributeError):
            del value._params
        assert copy.copy(value) is copy.deepcopy(value) is value
        assert not hasattr(value, "__dict__")
        with pytest.raises(TypeError, match="pickled"):
            pickle.dumps(value)


# ---- requests ----


@pytest.mark.parametrize(
    ("declaration", "params", "model"),
    [
        (FORM, FORM_PARAMS, mcp.types.ElicitRequest),
        (FORM, without(FORM_PARAMS, "mode"), mcp.types.ElicitRequest),
        (FORM, without(FORM_PARAMS, requestedSchema={"type": "object", "properties": {}}), mcp.types.ElicitRequest),
        (URL, URL_PARAMS, mcp.types.ElicitRequest),
        (SAMPLING, SAMPLING_PARAMS, mcp.types.CreateMessageRequest),
        (SAMPLING, {**SAMPLING_PARAMS, "includeContext": "none", "temperature": 0.5}, mcp.types.CreateMessageRequest),
        (SAMPLING_ALL, {**SAMPLING_PARAMS, "tools": [], "toolChoice": {}}, mcp.types.CreateMessageRequest),
        (SAMPLING_ALL, {**SAMPLING_PARAMS, "includeContext": "thisServer"}, mcp.types.CreateMessageRequest),
        (ROOTS, {}, mcp.types.ListRootsRequest),
        (ROOTS, {"_meta": {"com.example/a": 1}}, mcp.types.ListRootsRequest),
    ],
)
def test_requests_carry_their_params_as_given(
    declaration: InputRequestDeclaration, params: dict[str, Any], model: Any
) -> None:
    request = InputRequest.from_declaration(declaration, params, unmanaged=declaration is URL)
    assert request.declaration is declaration
    assert request.json_rpc_method == declaration.json_rpc_method
    assert request.params == params
    assert list(request.params) == list(params)
    assert request.to_wire() == {"method": declaration.json_rpc_method, "params": params}
    assert request.unmanaged is (declaration is URL)
    model.model_validate_json(dump(request.to_wire()))


def test_params_are_a_frozen_copy() -> None:
    params = copy.deepcopy(FORM_PARAMS)
    request = InputRequest.from_declaration(FORM, params)
    digest = request.digest
    params["requestedSchema"]["properties"]["n"]["minimum"] = 0
    params["message"] = "Something else"
    assert request.params == FORM_PARAMS
    assert request.digest == digest
    changes: tuple[Callable[[], object], ...] = (
        lambda: request.params.update(message="x"),
        lambda: request.params["requestedSchema"]["properties"].clear(),
        lambda: request.to_wire()["params"].update(message="x"),
    )
    for change in changes:
        with pytest.raises(TypeError):
            change()


def test_the_digest_is_of_the_canonical_form() -> None:
    request = InputRequest.from_declaration(FORM, FORM_PARAMS)
    text = canonical_bytes({"params": FORM_PARAMS, "method": "elicitation/create"})
    assert request.digest == hashlib.sha256(text).digest()[:16]


# Pinned: state that went out before an upgrade must still be recognised after it.
@pytest.mark.parametrize(
    ("declaration", "params", "digest"),
    [
        (
            FORM,
            without(FORM_PARAMS, requestedSchema={"type": "object", "properties": {}}),
            "39c0bfb9604312897511ceefedd15040",
        ),
        (ROOTS, {}, "48c8ea2395e8cef1f405608d4502fb4b"),
    ],
)
def test_digests_are_pinned(declaration: InputRequestDeclaration, params: dict[str, Any], digest: str) -> None:
    assert InputRequest.from_declaration(declaration, params).digest.hex() == digest


def test_requests_compare_by_value() -> None:
    request = InputRequest.from_declaration(FORM, FORM_PARAMS)
    other_order = dict(reversed(FORM_PARAMS.items()))
    assert InputRequest.from_declaration(FORM, other_order) == request
    assert hash(InputRequest.from_declaration(FORM, other_order)) == hash(request)
    assert InputRequest.from_declaration(FORM, without(FORM_PARAMS, message="Approve!")) != request
    assert InputRequest.from_declaration(FORM, without(FORM_PARAMS, "mode")) != request
    required = InputRequestDeclaration.from_elicitation_form(Requirement.REQUIRED)
    assert InputRequest.from_declaration(required, FORM_PARAMS) != request
    one, true = (InputRequest.from_declaration(ROOTS, {"_meta": {"com.example/a": x}}) for x in (1, True))
    assert one != true  # Python says 1 == True; JSON does not
    assert request != FORM_PARAMS


def test_floats_are_taken_by_their_repr() -> None:
    half = InputRequest.from_declaration(SAMPLING, {**SAMPLING_PARAMS, "temperature": 0.1})
    exact = InputRequest.from_declaration(SAMPLING, {**SAMPLING_PARAMS, "temperature": Decimal("0.1")})
    assert half.digest == exact.digest
    assert b'"temperature":0.1' in dump(half.to_wire())


def test_repr_shows_names_only() -> None:
    request = InputRequest.from_declaration(FORM, without(FORM_PARAMS, message="secret"))
    assert repr(request) == "InputRequest(ELICITATION_FORM, {'mode': ..., 'message': ..., 'requestedSchema': ...})"
    assert "secret" not in repr(request)


@pytest.mark.parametrize(
    ("declaration", "params", "answer", "fits"),
    [
        (FORM, FORM_PARAMS, {"action": "accept", "content": {"n": "no number"}}, True),  # the union, not the form
        (FORM, FORM_PARAMS, {"action": "accept", "content": {"n": None}}, False),
        (URL, URL_PARAMS, {"action": "accept", "content": {"n": None}}, True),
        (FORM, FORM_PARAMS, {"roots": []}, False),
        (ROOTS, {}, {"roots": []}, True),
        (SAMPLING, SAMPLING_PARAMS, {"role": "user", "content": {}, "model": "m"}, True),
        (SAMPLING, SAMPLING_PARAMS, {"action": "accept"}, False),
    ],
)
def test_matching_checks_the_union_of_its_kind(
    declaration: InputRequestDeclaration, params: dict[str, Any], answer: object, fits: bool
) -> None:
    request = InputRequest.from_declaration(declaration, params, unmanaged=declaration is URL)
    assert request.matches_input_response(answer) is fits


def schema(**changes: Any) -> dict[str, Any]:
    return without(FORM_PARAMS, requestedSchema={"type": "object", "properties": {}, **changes})


@pytest.mark.parametrize(
    ("declaration", "params", "member", "error"),
    [
        (FORM, without(FORM_PARAMS, mode="url"), "params.mode", ValueError),
        (FORM, without(FORM_PARAMS, mode="oauth"), "params.mode", ValueError),
        (FORM, without(FORM_PARAMS, mode=None), "params.mode", ValueError),
        (FORM, without(FORM_PARAMS, "message"), "params.message", ValueError),
        (FORM, without(FORM_PARAMS, message=None), "params.message", TypeError),
        (FORM, without(FORM_PARAMS, "requestedSchema"), "params.requestedSchema", ValueError),
        (FORM, without(FORM_PARAMS, requestedSchema=[]), "params.requestedSchema", TypeError),
        (FORM, without(FORM_PARAMS, requestedSchema={"type": "object"}), "properties", ValueError),
        (FORM, schema(type="string"), "params.requestedSchema.type", ValueError),
        (FORM, schema(properties=[]), "params.requestedSchema.properties", TypeError),
        (FORM, schema(properties={"n": "number"}), "params.requestedSchema.properties['n']", TypeError),
        (URL, without(URL_PARAMS, "mode"), "params.mode", ValueError),
        (URL, without(URL_PARAMS, mode="form"), "params.mode", ValueError),
        (URL, without(URL_PARAMS, "message"), "params.message", ValueError),
        (URL, without(URL_PARAMS, "url"), "params.url", ValueError),
        (URL, without(URL_PARAMS, url=None), "params.url", TypeError),
        (URL, {**URL_PARAMS, "elicitationId": "1"}, "params['elicitationId']", ValueError),
        (SAMPLING, without(SAMPLING_PARAMS, "messages"), "params.messages", ValueError),
        (SAMPLING, without(SAMPLING_PARAMS, messages={}), "params.messages", TypeError),
        (SAMPLING, without(SAMPLING_PARAMS, messages=["hi"]), "params.messages[0]", TypeError),
        (SAMPLING, without(SAMPLING_PARAMS, "maxTokens"), "params.maxTokens", ValueError),
        (SAMPLING, without(SAMPLING_PARAMS, maxTokens=True), "params.maxTokens", TypeError),
        (SAMPLING, without(SAMPLING_PARAMS, maxTokens=1.5), "params.maxTokens", TypeError),
        (SAMPLING, {**SAMPLING_PARAMS, "tools": []}, "params.tools", ValueError),
        (SAMPLING, {**SAMPLING_PARAMS, "toolChoice": {}}, "params.toolChoice", ValueError),
        (SAMPLING, {**SAMPLING_PARAMS, "includeContext": "allServers"}, "params.includeContext", ValueError),
        (SAMPLING_ALL, {**SAMPLING_PARAMS, "includeContext": "all"}, "params.includeContext", ValueError),
        (SAMPLING_ALL, {**SAMPLING_PARAMS, "includeContext": None}, "params.includeContext", ValueError),
        (ROOTS, {"a": float("nan")}, "params", ValueError),
        (ROOTS, {"a": object()}, "params", TypeError),
        (ROOTS, {1: 2}, "params", TypeError),
        (ROOTS, {"a": "\ud800"}, "params", ValueError),
        (ROOTS, None, "params", TypeError),
        (ROOTS, [], "params", TypeError),
    ],
)
def test_bad_params_are_refused_by_name(
    declaration: InputRequestDeclaration, params: Any, member: str, error: type[Exception]
) -> None:
    with pytest.raises(error, match=re.escape(member)):
        InputRequest.from_declaration(declaration, params, unmanaged=declaration is URL)


def test_a_cycle_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["a"] = [loop]
    with pytest.raises(ValueError, match="nested"):
        InputRequest.from_declaration(ROOTS, loop)


def test_a_declaration_is_needed() -> None:
    with pytest.raises(TypeError, match="declaration"):
        InputRequest.from_declaration("form", FORM_PARAMS)  # type: ignore[arg-type]


# ---- URLs ----


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com",
        "https://example.com/",
        "HTTPS://Example.COM:8443/h/AZaz09-_",
        "https://example.com/%E2%82%AC/a;b=c",
        "https://192.0.2.1/x",
        "https://[2001:db8::1]:443/x",
        "http://localhost/x",
        "http://LOCALHOST:8000/x",
        "http://127.0.0.1:8000/x",
        "http://127.200.3.4/x",
        "http://[::1]:8000/x",
    ],
)
def test_good_urls(url: str) -> None:
    request = InputRequest.from_declaration(URL, {**URL_PARAMS, "url": url}, unmanaged=True)
    assert request.params["url"] == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com/x",
        "//example.com/x",
        "https:",
        "https://",
        "https:///x",
        "https:/example.com/x",
        "https:example.com",
        "ftp://example.com/x",
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "http://example.com/x",
        "http://127.1/x",
        "http://0x7f000001/x",
        "http://127.0.0.1.example.com/x",
        "http://localhost.example.com/x",
        "http://128.0.0.1/x",
        "http://0.0.0.0/x",
        "http://[::]/x",
        "http://[::ffff:127.0.0.1]/x",
        "https://user@example.com/x",
        "https://user:pass@example.com/x",
        "https://@example.com/x",
        "https://example.com@evil.example/x",
        "https://example.com/x?a=b",
        "https://example.com/x?",
        "https://example.com?",
        "https://example.com/x#a",
        "https://example.com/x#",
        "https://example.com/a b",
        " https://example.com/x",
        "https://example.com/x ",
        "https://example.com/x\n",
        "https://exam\tple.com/x",
        "https://example.com/\x00",
        "https://example.com/\x7f",
        "https://example.com/\x85",
        "https://example.com/\u2028",
        "https://ex\u00e4mple.com/x",
        "https://example.com\\@evil.example/x",
        "https://example.com\\.evil.example/x",
        "https://example.com/%zz",
        "https://example.com/%",
        "https://%65xample.com/x",
        "https://example.com:/x",
        "https://example.com:99999/x",
        "https://example.com:+1/x",
        "https://example.com:80:80/x",
        "https://[::1/x",
        "https://[example.com]/x",
        "https://[fe80::1%25eth0]/x",
        "https://[::1]x/x",
        "https://exa[mple.com/x",
        "https://-/x",
        "https://exa,mple.com/x",
    ],
)
def test_bad_urls_are_refused_and_not_quoted(url: str) -> None:
    with pytest.raises(ValueError, match=r"params\.url") as caught:
        InputRequest.from_declaration(URL, {**URL_PARAMS, "url": url}, unmanaged=True)
    assert not url.strip("htps:/ ") or url not in str(caught.value)


@given(st.text(max_size=8), st.sampled_from(["https://example.com/", "https://", "http://127.0.0.1"]))
def test_an_accepted_url_is_nothing_but_scheme_host_and_path(tail: str, head: str) -> None:
    try:
        request = InputRequest.from_declaration(URL, {**URL_PARAMS, "url": head + tail}, unmanaged=True)
    except ValueError:
        return
    # A path may hold an "@" (RFC 3986, section 3.3); in the host part it would be a user.
    assert re.fullmatch(r"https?://[A-Za-z0-9._\-\[\]:]+(/[!$-;=@A-Z_a-z~]*)?", request.params["url"])
    assert not set(request.params["url"]) & set("?#\\ ")


def test_a_url_of_ones_own_needs_a_word_for_it() -> None:
    with pytest.raises(ValueError, match="unmanaged=True"):
        InputRequest.from_declaration(URL, URL_PARAMS)
    assert not InputRequest._made(URL, URL_PARAMS).unmanaged
    with pytest.raises(ValueError, match="URL-mode"):
        InputRequest.from_declaration(FORM, FORM_PARAMS, unmanaged=True)


# ---- declarations on handlers ----


def test_declarations_stack_from_top_to_bottom() -> None:
    @may_request_input(InputRequestType.ELICITATION_URL, Requirement.REQUIRED)
    @may_request_input(InputRequestType.SAMPLING, Requirement.CONDITIONAL, tools=True, context=True)
    @may_request_input(InputRequestType.ROOTS, Requirement.CONDITIONAL)
    def handler(n: int) -> int:
        return n + 1

    assert declared_input_requests(handler) == (URL, SAMPLING_ALL, ROOTS)
    assert handler(1) == 2

    @functools.wraps(handler)
    def wrapper(n: int) -> int:
        return handler(n)

    # One more on the wrapper leaves the function below as it was.
    may_request_input(InputRequestType.ELICITATION_FORM, Requirement.CONDITIONAL)(wrapper)
    assert declared_input_requests(wrapper) == (FORM, URL, SAMPLING_ALL, ROOTS)
    assert declared_input_requests(handler) == (URL, SAMPLING_ALL, ROOTS)
    assert declared_input_requests(len) == ()


def test_methods_carry_their_declarations() -> None:
    class Tools:
        @may_request_input(InputRequestType.ELICITATION_FORM, Requirement.CONDITIONAL)
        async def run(self) -> None: ...

    assert declared_input_requests(Tools().run) == (FORM,)


def test_bad_declarations_on_handlers_are_refused() -> None:
    with pytest.raises(TypeError, match="type"):
        may_request_input("form", Requirement.REQUIRED)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="requirement"):
        may_request_input(InputRequestType.ROOTS, "required")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="SAMPLING"):
        may_request_input(InputRequestType.ROOTS, Requirement.REQUIRED, tools=True)
