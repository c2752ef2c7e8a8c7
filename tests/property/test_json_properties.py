"""What holds of parse and dump on every input: round trips, and agreement with the standard library and a slow twin."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcpinput._core.dump import dump
from mcpinput._core.parse import parse, parse_state
from mcpinput.errors import JsonParseError, JsonWriteError
from mcpinput.json import Limits
from tests.property import twin_json

LIMITS = Limits(body_bytes=16 << 20, response_bytes=16 << 20)
TIGHT = Limits(3, 12, 6, 60)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
decimals = st.builds(
    lambda sign, digits, exponent: Decimal((sign, tuple(digits), exponent)),
    st.integers(0, 1),
    st.lists(st.integers(0, 9), min_size=1, max_size=40),
    st.one_of(st.integers(-12, 12), st.integers(-9_900, 9_900)),
)
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.integers(-(10**1000), 10**1000), decimals, texts)
trees = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5), max_leaves=25
)

number_texts = st.text("-+.eE0123456789", min_size=1, max_size=12)
short_numbers = st.from_regex(r"-?(0|[1-9]\d{0,18})(\.\d{0,11})?([eE]\d)?", fullmatch=True)

SAMPLES = [
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":[1,-2.50,3e+1],"_meta":{}}}',
    b'{"a":1,"\\u0061b":[true,false,null,"\\ud83d\\ude00 \\n\\/"],"\xc3\xa9":{"a":{}}}',
    b' [ 0 , -0 , 0.0 , -0.0e-3 , 1E5 , [[[]]] , "" , "\xf0\x9f\x98\x80\xef\xbf\xbf" ] ',
    b"1" * 1024,
    b"-0." + b"0" * 1020 + b"1",
    b"1e10000",
    b"[12345678901234567890,1234567890123456789012345678901234567890,0.1e-9999]",
]
PIECES = [
    *(bytes([byte]) for byte in b' \t\r\n{}[]:,"\\/-+.eE0123456789abfnrtu\x00\x1f\x7f\x80\xc3\xa9\xed\xa0\xff'),
    b"true", b"null", b'""', b'"a":', b'"\\u0061":1,', b"\\u", b"\\ud83d", b"\\udE00", b"\xef\xbb\xbf", b"\xed\xa0\x80",
    b"\xf0\x9f\x98\x80", b"1e10001", b"0e-10000", b"9" * 1000, b"[[", b"]]", b"{}", b"0000",
]  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A sample with a few bytes cut out, or pieces put in or over it."""
    text = draw(st.sampled_from(SAMPLES))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(text)))
        end = draw(st.integers(at, min(len(text), at + 3)))
        text = text[:at] + draw(st.sampled_from([b"", *PIECES])) + text[end:]
    return text


def shape(value: Any) -> Any:
    """A value such that two are equal only if types, scale and the order of members are."""
    if isinstance(value, dict):
        return [(name, shape(member)) for name, member in value.items()]
    if isinstance(value, list):
        return ("array", [shape(item) for item in value])
    return (type(value), value.as_tuple() if isinstance(value, Decimal) else value)


def read_back(value: Any) -> Any:
    """What a tree is once written and read: no sign of zero, and a Decimal without point and exponent is an int."""
    if isinstance(value, dict):
        return {name: read_back(member) for name, member in value.items()}
    if isinstance(value, list):
        return [read_back(item) for item in value]
    if isinstance(value, Decimal):
        value = value if value else abs(value)
        return int(value) if value.as_tuple().exponent == 0 else value
    return value


def outcome(function: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        return shape(function(*args, **kwargs))
    except (JsonParseError, twin_json.Refused):
        return "refused"


@given(trees)
def test_what_is_written_reads_back_with_type_scale_and_order(tree: Any) -> None:
    assert shape(parse(dump(tree, limits=LIMITS), limits=LIMITS)) == shape(read_back(tree))


@given(trees)
def test_state_keeps_values_but_not_scale(tree: Any) -> None:
    text = dump(tree, limits=LIMITS)
    state = parse_state(text, limits=LIMITS)
    assert state == tree
    assert parse_state(dump(state, limits=LIMITS), limits=LIMITS) == tree
    assert shape(state) == shape(twin_json.parse(text, limits=LIMITS, state=True))


@given(trees)
def test_dump_writes_what_the_standard_library_reads(tree: Any) -> None:
    text = dump(tree, limits=LIMITS)
    assert json.loads(text, parse_float=Decimal) == read_back(tree)
    assert b"\n" not in text


@given(trees, st.booleans(), st.sampled_from([None, 2, "\r\n\t "]))
def test_parse_reads_what_the_standard_library_writes(tree: Any, escaped: bool, indent: Any) -> None:
    plain = json.loads(dump(tree, limits=LIMITS), parse_float=str)
    text = json.dumps(plain, ensure_ascii=escaped, indent=indent)
    assert shape(parse(text.encode(), limits=LIMITS)) == shape(plain)


@given(mutated())
@example(b"")
@example(b"\xef\xbb\xbf{}")
@example(b'{"a":1,"\\u0061":2}')
def test_parse_agrees_with_the_twin(text: bytes) -> None:
    assert outcome(parse, text, limits=LIMITS) == outcome(twin_json.parse, text, limits=LIMITS)
    assert outcome(parse_state, text, limits=LIMITS) == outcome(twin_json.parse, text, limits=LIMITS, state=True)


@given(mutated())
@example(b"[[[]]]")
@example(b"[[[[]]]]")
@example(b'["123456"]')
@example(b'["1234567"]')
@example(b'["\\u00e9\\u00e9\\u00e9"]')
@example(b'["\xc3\xa9\xc3\xa9\xc3\xa9a"]')
@example(b"[1,1,1,1,1,1,1,1,1,1,1]")
@example(b"[1,1,1,1,1,1,1,1,1,1,1,1]")
def test_parse_agrees_with_the_twin_on_limits(text: bytes) -> None:
    assert outcome(parse, text, limits=TIGHT) == outcome(twin_json.parse, text, limits=TIGHT)


@given(number_texts | short_numbers, st.sampled_from([b"", b" " * 32]))
def test_numbers_agree_with_the_twin(text: str, after: bytes) -> None:
    data = text.encode() + after
    assert outcome(parse, data, limits=LIMITS) == outcome(twin_json.parse, data, limits=LIMITS)
    assert outcome(parse_state, data, limits=LIMITS) == outcome(twin_json.parse, data, limits=LIMITS, state=True)


@given(st.sampled_from(["", "-"]), st.integers(1018, 1030), st.integers(0, 1030), st.integers(-10_030, 10_030))
@example("", 1024, 0, 10_000 - 1023)
@example("-", 1024, 1, -10_000)
def test_long_numbers_agree_with_the_twin(sign: str, digits: int, point: int, exponent: int) -> None:
    coefficient = "7" * digits
    for text in (
        f"{sign}{coefficient}",
        f"{sign}{coefficient[: -point or None]}e{exponent}",
        f"{sign}{coefficient[:point] or '0'}.{coefficient[point:] or '0'}E{exponent}",
        f"{sign}1{'0' * (digits - 1)}",
        f"{sign}0.{'0' * digits}e{exponent}",
    ):
        data = text.encode()
        assert outcome(parse, data, limits=LIMITS) == outcome(twin_json.parse, data, limits=LIMITS)
        assert outcome(parse_state, data, limits=LIMITS) == outcome(twin_json.parse, data, limits=LIMITS, state=True)


@given(st.floats())
def test_floats_are_written_as_the_decimal_of_their_repr(number: float) -> None:
    if number != number or number in (float("inf"), float("-inf")):
        with pytest.raises(JsonWriteError, match="NaN"):
            dump(number, limits=LIMITS)
        return
    expected = Decimal(repr(number))
    assert dump(number, limits=LIMITS) == str(expected if expected else abs(expected)).encode()


@given(texts)
def test_strings_have_the_escapes_of_rfc_8785(text: str) -> None:
    short = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
    expected = "".join(short.get(c) or (f"\\u{ord(c):04x}" if c < " " else c) for c in text)
    assert dump(text, limits=LIMITS) == f'"{expected}"'.encode()


# Text that CPython keeps in one, two and four bytes a character, long enough for every step of the writer.
marks = st.sampled_from('"\\\n\0\x1f\x7f abc')
kept_texts = st.one_of(
    *(
        st.text(st.one_of(marks, st.characters(max_codepoint=most, exclude_categories=["Cs"])), max_size=600)
        for most in (0x7F, 0xFF, 0xFFFF, 0x10FFFF)
    ),
    st.builds(
        lambda filler, length, at, special: (filler * length)[:at] + special + (filler * length)[at:],
        st.sampled_from(["a", "\u00e9", "\u6f22", "\U0001f600"]),
        st.integers(0, 600),
        st.integers(0, 600),
        st.sampled_from(["", '"', "\\", "\n", "\0", "\u00ff", "\u07ff", "\uffff", "\U0010ffff"]),
    ),
)


@given(kept_texts, st.integers(0, 40))
def test_text_of_every_kind_is_what_the_standard_library_writes(text: str, less: int) -> None:
    expected = json.dumps(text, ensure_ascii=False).encode()
    assert dump(text, limits=LIMITS) == expected
    assert dump({text: text}, limits=LIMITS) == b"{" + expected + b":" + expected + b"}"
    size = len(text.encode()) or 1
    assert dump(text, limits=Limits(string_bytes=size, response_bytes=len(expected))) == expected
    for limits, kind in (
        ((size - less, len(expected)), "string limit"),
        ((size, len(expected) - less), "size limit"),
    ):
        if less and min(limits) > 0:
            with pytest.raises(JsonWriteError) as caught:
                dump(text, limits=Limits(string_bytes=limits[0], response_bytes=limits[1]))
            assert caught.value.kind == kind


@given(kept_texts, st.integers(0, 600), st.integers(0xD800, 0xDFFF))
def test_a_surrogate_in_text_of_every_kind_is_found(text: str, at: int, surrogate: int) -> None:
    with pytest.raises(JsonWriteError, match="surrogate"):
        dump([text[:at] + chr(surrogate) + text[at:]], limits=LIMITS)


@given(st.one_of(decimals, st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20)))
def test_a_decimal_is_its_own_text(number: Decimal) -> None:
    assert dump([number], limits=LIMITS) == f"[{number if number else abs(number)}]".encode()


@given(st.integers(-(2**70), 2**70), st.integers(0, 70))
def test_an_int_is_its_own_text(number: int, bits: int) -> None:
    for value in (number, number >> bits, 1 << bits, -1 << bits):
        assert dump([value], limits=LIMITS) == f"[{value}]".encode()


@given(trees, st.integers(1, 200))
def test_the_output_limit_is_exact(tree: Any, less: int) -> None:
    text = dump(tree, limits=LIMITS)
    assert dump(tree, limits=Limits(response_bytes=len(text))) == text
    if less < len(text):
        with pytest.raises(JsonWriteError) as caught:
            dump(tree, limits=Limits(response_bytes=less))
        assert (caught.value.kind, caught.value.limit) == ("size limit", less)
