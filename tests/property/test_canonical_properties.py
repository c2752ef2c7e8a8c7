"""Canonical form and digests, over random trees and random spellings of them.

The oracle is the plain-Python twin beside this file; texts are spelled here, so that white space, escapes, member order
and the form of numbers vary while the value stays the same.
"""

from __future__ import annotations

import hashlib
from decimal import Context, Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from mcpinput._core import digest
from mcpinput.errors import JsonErrorKind, JsonParseError, JsonWriteError
from mcpinput.json import (
    JsonValue,
    Limits,
    canonical_bytes,
    canonical_number,
    canonical_raw,
    parameter_digest,
    parse,
)
from tests.property import twin_canonical as twin

# Characters on both sides of every border that the form knows: escapes, UTF-8 lengths, surrogates in UTF-16.
characters = st.one_of(
    st.sampled_from('ab"\\/\b\f\n\r\t\0\x1f\x7f\x80\u07ff\u0800\ud7ff\ue000\ufb33\uffff\U00010000\U0001f600\U0010ffff'),
    st.characters(exclude_categories=["Cs"]),
)
strings = st.text(characters, max_size=12)
special_names = st.sampled_from(["_meta", "inputResponses", "requestState", *sorted(twin.TRANSIENT_META)])
names = st.one_of(
    strings, st.text("pq", min_size=7, max_size=20), st.text("p\0", min_size=6, max_size=18), special_names
)
integers = st.one_of(
    st.integers(-20, 20),
    st.integers(),
    st.builds(lambda digits, zeros: digits * 10**zeros, st.integers(-1000, 1000), st.integers(0, 40)),
)
decimals = st.builds(
    lambda digits, exponent: Decimal((digits < 0, tuple(map(int, str(abs(digits)))), exponent)),
    st.one_of(st.integers(-200, 200), st.integers(-(10**30), 10**30)),
    st.one_of(st.integers(-12, 12), st.integers(-9000, 9000)),
)
scalars = st.one_of(st.none(), st.booleans(), integers, decimals, strings)
trees = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=8)),
    max_leaves=20,
)
objects = st.dictionaries(
    names,
    st.one_of(trees, st.dictionaries(special_names, scalars, max_size=3), st.dictionaries(names, scalars, max_size=3)),
    max_size=5,
)


@st.composite
def spellings(draw: st.DrawFn, tree: Any) -> bytes:
    """A JSON text of a tree."""
    random = draw(st.randoms(use_true_random=False))

    def space() -> str:
        return "".join(random.choices(" \t\n\r", k=random.choice([0, 0, 0, 1, 2, 20])))

    def unit(number: int) -> str:
        text = f"{number:04x}"
        return "\\u" + (text.upper() if random.random() < 0.5 else text)

    def string(text: str) -> str:
        parts = []
        for character in text:
            dice = random.random()
            if dice < 0.2:
                encoded = character.encode("utf-16-be")
                parts += [unit(int.from_bytes(encoded[i : i + 2], "big")) for i in range(0, len(encoded), 2)]
            elif character == "/" and dice < 0.6:
                parts.append("\\/")
            else:
                parts.append(twin.canonical_text(character)[1:-1])
        return f'"{"".join(parts)}"'

    def number(value: int | Decimal) -> str:
        if isinstance(value, int):
            if value == 0 and random.random() < 0.3:
                return "-0"
            return str(value)
        sign, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)
        text = "".join(map(str, digits)).lstrip("0")
        minus = "-" if sign else ""
        dice = random.random()
        if not text:
            return minus + random.choice(["0.0", "0e0", "0.000E+5", "0e-3"])
        if dice < 0.3 and -40 < exponent < 0:
            text = text.rjust(1 - exponent, "0")
            return f"{minus}{text[:exponent]}.{text[exponent:]}" + "0" * random.choice([0, 0, 3])
        letter = random.choice("eE") + (random.choice(["", "+"]) if exponent >= 0 else "")
        return f"{minus}{text}{random.choice(['', '.0', '.000'])}{letter}{exponent}"

    def value(tree: Any) -> str:
        if isinstance(tree, dict):
            members = list(tree.items())
            if random.random() < 0.7:
                random.shuffle(members)
            else:
                members.sort()
            inner = f"{space()},{space()}".join(f"{string(k)}{space()}:{space()}{value(v)}" for k, v in members)
            return f"{{{space()}{inner}{space()}}}"
        if isinstance(tree, list):
            return f"[{space()}{f'{space()},{space()}'.join(map(value, tree))}{space()}]"
        if isinstance(tree, str):
            return string(tree)
        if tree is None or isinstance(tree, bool):
            return twin.canonical_text(tree)
        return number(tree)

    return f"{space()}{value(tree)}{space()}".encode()


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    return draw(spellings(draw(trees)))


@st.composite
def params_texts(draw: st.DrawFn) -> bytes:
    return draw(spellings(draw(objects)))


def same(a: Any, b: Any) -> bool:
    """Numerically equal, where booleans are their own type."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def respelled(tree: Any) -> Any:
    """The same values, in other types and another order where that changes nothing."""
    if isinstance(tree, dict):
        return {name: respelled(tree[name]) for name in reversed(list(tree))}
    if isinstance(tree, list):
        return tuple(map(respelled, tree))
    if isinstance(tree, int) and not isinstance(tree, bool):
        return Decimal(f"{tree}.000")
    if isinstance(tree, Decimal):
        sign, digits, exponent = tree.as_tuple()
        assert isinstance(exponent, int)
        return Decimal((sign if any(digits) else 1, (*digits, 0), exponent - 1))
    return tree


@given(trees)
def test_tree_is_as_the_twin_says(tree: JsonValue) -> None:
    assert canonical_bytes(tree) == twin.canonical(tree)


@given(trees)
def test_equal_trees_have_equal_bytes(tree: JsonValue) -> None:
    assert canonical_bytes(respelled(tree)) == canonical_bytes(tree)


@given(st.one_of(st.tuples(trees, trees), st.tuples(scalars, scalars)))
def test_bytes_are_equal_only_where_trees_are(pair: tuple[JsonValue, JsonValue]) -> None:
    a, b = pair
    assert (canonical_bytes(a) == canonical_bytes(b)) == same(a, b)


@given(st.lists(names, unique=True, max_size=40))
def test_members_stand_in_the_order_of_utf16_units(members: list[str]) -> None:
    written = list(parse(canonical_bytes(dict.fromkeys(members))))  # type: ignore[arg-type]
    units = [name.encode("utf-16-be") for name in written]
    assert sorted(written) == sorted(members)
    assert all(a < b for a, b in pairwise(units))


@given(st.lists(names, unique=True, max_size=100), st.data())
def test_many_members_of_a_text_are_sorted(members: list[str], data: st.DataObject) -> None:
    tree = {name: place for place, name in enumerate(members)}
    assert canonical_raw(data.draw(spellings(tree))) == twin.canonical(tree)


@given(st.one_of(integers, decimals))
def test_number_is_as_the_twin_says_and_keeps_its_value(number: int | Decimal) -> None:
    text = canonical_number(number)
    assert text == twin.canonical_number(number)
    assert Decimal(text) == number


def test_ints_and_decimals_of_every_length_and_with_every_run_of_zeros() -> None:
    digits = "9071250436801234567890123"
    for length in range(1, 26):
        for zeros in range(25):
            number = int(digits[:length]) * 10**zeros
            for value in (number, -number):
                assert canonical_number(value) == twin.canonical_number(value)
                assert canonical_bytes([value]).decode() == f"[{twin.canonical_number(value)}]"
                for point in range(0, length + zeros + 9, 3):
                    exact = Decimal(value).scaleb(-point, context=Context(prec=60))
                    assert canonical_bytes([exact]).decode() == f"[{twin.canonical_number(exact)}]"


@given(texts())
def test_raw_is_as_the_twin_says(text: bytes) -> None:
    assert canonical_raw(text) == twin.canonical(twin.read(text))


@given(texts())
def test_raw_is_canonical_bytes_of_what_parse_makes(text: bytes) -> None:
    assert canonical_raw(text) == canonical_bytes(parse(text))


@given(texts())
def test_raw_of_canonical_text_is_the_same_text(text: bytes) -> None:
    canonical = canonical_raw(text)
    # The numbers drawn here are short, so their canonical texts are within the reading limits.
    assert canonical_raw(canonical) == canonical
    assert canonical_bytes(parse(canonical)) == canonical


# Objects that have, or nearly have, the names of their neighbours: the core compares them with those. Names are shorter
# and longer than its steps of 8 and 16 bytes.
LONG = ["a common beginning, then 2", "a common beginning, then 1", "a common beginning"]
similar_names = st.one_of(
    st.sampled_from([["b", "a"], ["b", "a", "c"], ["a", "b"], ["c", "b", "a"], ["b", "a", "b2"], ["z"], []]),
    st.sampled_from([LONG, LONG[::-1], LONG[:2], ["b", *LONG, "a"], ["fourteen bytes", "fifteen bytes b"]]),
    st.lists(st.sampled_from(["a", "b", "c", "\\u0061", LONG[0]]), max_size=4),
)
similar_values = st.sampled_from(
    [
        *("1", '"a"', '"b"', "10", "[]", "[1]", '{"a":1}', '{"b":1,"a":2}', '{"a":{"b":1,"a":2}}', "{ }", "[ ]"),
        *("1.50", " 1", "1 ", '"\\/"', '"\\u00e9"', '{ "b" : 1e2 , "a" : "\\/" }', '[{"b":1,"a":20},{"b":10,"a":2}]'),
        '"a text that is longer than the steps in which short ones are copied"',
    ]
)


@st.composite
def similar_objects(draw: st.DrawFn) -> bytes:
    rows = draw(st.lists(similar_names, min_size=2, max_size=6))
    spelled = ["{" + ",".join(f'"{name}":{draw(similar_values)}' for name in row) + "}" for row in rows]
    return f"[{','.join(spelled)}]".encode()


@given(similar_objects(), st.integers(1, 70))
@example(b'[{"b":0,"a":0},{"b":0,"a":0},{"b":0,"a":0}]', 1)
@example(b'[{"b":0,"a":0,"c":0},{"b":0,"a":0}]', 3)
@example(b'[{"b":0,"a":0},{"b":0,"a":0,"c":0},{"a":0,"b":0}]', 3)
@example(b'[{"b":0,"a":0,"c":0},{"b":[0],"a":0,"c":0},{"b":{"z":0},"a":0,"c":0}]', 3)
@example(b'[{"b":"a","a":0},{"b":"b","a":0},{"b":["a"],"a":0}]', 3)
@example(b'[{"b":0,"a":0},{"b":0,"a":0,"b":0}]', 3)
@example(b'[{"b":0,"a":0},{"b":0,"a":0,"a":0}]', 3)
@example(b'[{"b":0,"a":0},{"b":0,"b":0}]', 3)
@example(b'[{"b":0,"\\u0061":0},{"b":0,"\\u0061":0},{"b" :0,"a":0}]', 3)
def test_similar_objects_are_told_apart(text: bytes, chunk: int) -> None:
    kind = refusal(parse, text)
    assert refusal(canonical_raw, text) == kind
    if kind is None:
        expected = twin.canonical(twin.read(text))
        assert canonical_raw(text) == expected
        assert digest._in_chunks(text, chunk, False) == expected


# Arrays of numbers: the core looks at several of them at once, at 16 to 64 bytes.
well_formed = st.one_of(
    st.integers(-1000, 1000).map(str),
    st.from_regex(r"-?(0|[1-9][0-9]{0,9})\.[0-9]{1,9}", fullmatch=True),
    st.from_regex(r"-?(0|[1-9][0-9]{0,9})(\.[0-9]{1,9})?[eE][+-]?[0-9]{1,4}", fullmatch=True),
    st.sampled_from(
        [
            *("0", "-0", "0.0", "-0.0", "0e0", "0.000001", "0.0000001", "0.0000010", "-0.00000100", "0.0000000"),
            *("10", "-10", "1.0", "10.0", "-10.50", "1e-6", "1e-7", "1E+2", "1e-0006", "1.50e1", "5e999", "5e-1000"),
            *("9" * 14, "9" * 15, "9" * 16, "9" * 30, "9" * 31, "9" * 32, "9" * 63, "9" * 64, "1" + "0" * 40),
            *(
                "0." + "0" * 12 + "1",
                "0." + "0" * 29 + "1",
                "1." + "0" * 28,
                "1." + "0" * 61 + "1",
                "-" + "9" * 29 + "e1",
            ),
        ]
    ),
)
malformed = st.sampled_from(
    [
        *("01", "-01", "-", "1.", "-.5", "1e", "1e+", "1.2.3", "1.2e3.4", "--1", "1-", "1..2", "+1", "", "1 2"),
        *("1e1e1", "1-2", "00", "0.", "1,", "0e99999", "1" * 1025, "1/2", "1:", '"a":1'),
    ]
)
others = st.sampled_from(['""', "[]", "[1,2]", '{"b":1,"a":2}', "null", " 1", "1 ", "{}"])


@st.composite
def rows_of_numbers(draw: st.DrawFn) -> bytes:
    row = draw(st.lists(well_formed, min_size=1, max_size=50))
    for value in draw(st.lists(st.one_of(others, others, malformed), max_size=2)):
        row.insert(draw(st.integers(0, len(row))), value)
    text = f"[{','.join(row)}]" + " " * draw(st.sampled_from([0, 0, 3, 20, 70]))
    return (text if draw(st.booleans()) else f"[1,{text},2]").encode()


@given(rows_of_numbers(), st.integers(1, 70))
def test_numbers_in_a_row_are_those_that_parse_reads(text: bytes, chunk: int) -> None:
    assert refusal_and_place(canonical_raw, text) == refusal_and_place(parse, text)
    if refusal(parse, text) is None:
        expected = twin.canonical(twin.read(text))
        assert canonical_raw(text) == expected
        assert digest._in_chunks(text, chunk, False) == expected


@given(rows_of_numbers(), st.integers(1, 60))
def test_numbers_in_a_row_are_counted(text: bytes, nodes: int) -> None:
    limits = Limits(nodes=nodes)
    assert refusal_and_place(canonical_raw, text, limits=limits) == refusal_and_place(parse, text, limits=limits)


@given(st.one_of(well_formed, malformed), st.sampled_from(["", ",1", "]", "e", ".", "x"]), st.integers(0, 70))
def test_number_is_read_alike_wherever_the_text_ends(number: str, behind: str, spaces: int) -> None:
    text = f"[{number}{behind}{' ' * spaces}]".encode()
    assert refusal_and_place(canonical_raw, text) == refusal_and_place(parse, text)
    if refusal(parse, text) is None:
        assert canonical_raw(text) == twin.canonical(twin.read(text))


@given(texts(), st.integers(1, 70))
def test_no_chunk_boundary_shows(text: bytes, chunk: int) -> None:
    assert digest._in_chunks(text, chunk, False) == canonical_raw(text)


@given(params_texts(), st.integers(1, 70))
def test_no_chunk_boundary_shows_in_a_digest(text: bytes, chunk: int) -> None:
    assert digest._in_chunks(text, chunk, True) == parameter_digest(text)


@given(params_texts())
def test_digest_of_bytes_and_of_their_tree_are_as_the_twin_says(text: bytes) -> None:
    expected = twin.digest(twin.read(text))
    tree = parse(text)
    assert isinstance(tree, dict)
    assert parameter_digest(text) == expected
    assert parameter_digest(tree) == expected


@given(params_texts(), st.data())
def test_digest_of_a_message_is_that_of_its_params(params: bytes, data: st.DataObject) -> None:
    others = [b'"jsonrpc" : "2.0"', b'"id":[{"params":1}]', b'"param":{}']
    name = data.draw(st.sampled_from([b'"params"', b'"\\u0070arams"', b'"par\\u0061m\\u0073"']))
    members = data.draw(st.permutations([*others, name + b" :" + params]))
    message = b"{" + b",".join(members) + b"}"
    assert digest.message_digest(message) == parameter_digest(params)


@given(objects)
def test_digest_is_of_the_stable_members(params: dict[str, Any]) -> None:
    expected = hashlib.sha256(canonical_bytes(twin.stable(params))).digest()
    assert parameter_digest(params) == expected


# ---- refusals ----

PIECES = [
    *(b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"/", b" ", b"\x00", b"\x1f", b"\xef\xbb\xbf", b"-", b"0", b"1"),
    *(b"e", b"E", b"+", b".", b"t", b"nul", b"true", b"\\u", b"\\ud800", b"\\udc00", b"\xff", b"\xed\xa0\x80", b"\xc3"),
    *(b'"a":1,', b',"a":2', b'{"a":1,"\\u0061":1', b"0e99999", b"1e10000", b"12e10000", b"1" * 1025, b"NaN"),
]


@st.composite
def mutations(draw: st.DrawFn, text: bytes) -> bytes:
    """A text with a few places cut out, doubled, or replaced."""
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        until = draw(st.integers(at, min(len(text), at + 8)))
        middle = draw(st.one_of(st.sampled_from(PIECES), st.just(b""), st.just(text[at:until] * 2)))
        text = text[:at] + middle + text[until:]
    return text[: draw(st.integers(0, len(text)))] if draw(st.booleans()) else text


def refusal(function: Any, *arguments: Any, **keywords: Any) -> JsonErrorKind | None:
    try:
        function(*arguments, **keywords)
    except JsonParseError as error:
        return error.kind
    return None


def refusal_and_place(function: Any, *arguments: Any, **keywords: Any) -> tuple[JsonErrorKind, int | None] | None:
    try:
        function(*arguments, **keywords)
    except JsonParseError as error:
        return error.kind, error.offset
    return None


small_limits = st.builds(
    Limits,
    depth=st.integers(1, 6),
    nodes=st.integers(1, 40),
    string_bytes=st.integers(1, 20),
    body_bytes=st.integers(20, 2000),
)


@given(texts(), small_limits, st.data())
def test_raw_refuses_what_parse_refuses(text: bytes, limits: Limits, data: st.DataObject) -> None:
    mutated = data.draw(mutations(text))
    assert refusal(canonical_raw, mutated) == refusal(parse, mutated)
    assert refusal(canonical_raw, mutated, limits=limits) == refusal(parse, mutated, limits=limits)


@given(params_texts(), small_limits, st.data())
def test_digest_refuses_what_parse_refuses(text: bytes, limits: Limits, data: st.DataObject) -> None:
    mutated = data.draw(mutations(text))
    assume(refusal(parse, mutated) is not None or isinstance(parse(mutated), dict))
    assert refusal(parameter_digest, mutated) == refusal(parse, mutated)
    assert refusal(parameter_digest, mutated, limits=limits) == refusal(parse, mutated, limits=limits)


@given(texts(), st.integers(1, 300))
def test_output_ceiling_counts_canonical_bytes(text: bytes, ceiling: int) -> None:
    limits = Limits(canonical_bytes=ceiling)
    tree = parse(text)
    if len(canonical_raw(text)) <= ceiling:
        assert canonical_raw(text, limits=limits) == canonical_bytes(tree, limits=limits)
        return
    with pytest.raises(JsonParseError) as of_text:
        canonical_raw(text, limits=limits)
    with pytest.raises(JsonWriteError) as of_tree:
        canonical_bytes(tree, limits=limits)
    assert of_text.value.kind is of_tree.value.kind is JsonErrorKind.SIZE
    assert of_text.value.limit == of_tree.value.limit == ceiling
