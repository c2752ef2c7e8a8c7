"""Strict parse: what is accepted and as what, what is refused and why, limits to the byte, and no leaks."""

from __future__ import annotations

import array
import decimal
import gc
import json
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from mcpinput._core import parse as core
from mcpinput.errors import JsonErrorKind as Kind
from mcpinput.errors import JsonParseError
from mcpinput.json import Limits

DEPTH, NODES, STRING, SIZE = 256, 1_000_000, 8 << 20, 16 << 20


def parse(data: Any, depth: int = DEPTH, nodes: int = NODES, string: int = STRING, size: int = SIZE) -> Any:
    return core.parse(data, limits=Limits(depth, nodes, string, size))


def parse_state(data: Any) -> Any:
    return core.parse_state(data, limits=Limits(body_bytes=SIZE))


def refusal(data: Any, *limits: int) -> JsonParseError:
    with pytest.raises(JsonParseError) as caught:
        parse(data, *limits)
    return caught.value


@pytest.fixture
def int_digits() -> Iterator[None]:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    yield
    sys.set_int_max_str_digits(before)


# ---- values ----


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"null", None),
        (b"true", True),
        (b"false", False),
        (b"0", 0),
        (b" \t\r\n[ \t\r\n] \t\r\n", []),
        (b"{}", {}),
        (b'""', ""),
        (b'[[],{},"",0,null]', [[], {}, "", 0, None]),
        (b'{"":{"":[]}}', {"": {"": []}}),
        (b'"\\"\\\\\\/\\b\\f\\n\\r\\t"', '"\\/\b\f\n\r\t'),
        (b'"\\u0000\\u001f\\u00e9\\u20AC\\uD83d\\uDe00"', "\0\x1f\u00e9\u20ac\U0001f600"),
        ('"\x7f\u00e9\u20ac\ufffe\uffff\ufeff\U0010ffff"'.encode(), "\x7f\u00e9\u20ac\ufffe\uffff\ufeff\U0010ffff"),
        (b'["0123456789abcdef0123456789abcdef0123456789abcdef"]', ["0123456789abcdef" * 3]),
        (b'"0123456789abcde\\u00e9\xc3\xa9"', "0123456789abcde\u00e9\u00e9"),
    ],
)
def test_values(text: bytes, value: Any) -> None:
    assert parse(text) == value
    assert type(parse(text)) is type(value)


def test_members_keep_their_order() -> None:
    assert list(parse(b'{"b":1,"a":2,"\\u0063":3,"":4}')) == ["b", "a", "c", ""]


def test_names_that_share_length_and_ends_are_told_apart() -> None:
    names = [f"abcdefgh{i:04}stuvwxyz" for i in range(3000)]
    text = "{" + ",".join(f'"{name}":{i}' for i, name in enumerate(names)) + "}"
    for _ in range(2):
        assert list(parse(text.encode()).items()) == [(name, i) for i, name in enumerate(names)]


@pytest.mark.parametrize("length", [1, 2, 7, 8, 13, 14, 15, 16, 29, 30, 31, 32, 45, 46, 47, 48, 60])
def test_a_name_that_differs_from_the_one_expected_is_told_from_it(length: int) -> None:
    name = "n" * length
    text = b'[{"%s":1},{"%s":2}]'
    assert parse(text % (name.encode(), name.encode())) == [{name: 1}, {name: 2}]  # from now on it is expected
    for at in range(length):
        other = name[:at] + "x" + name[at + 1 :]
        assert parse(text % (name.encode(), other.encode())) == [{name: 1}, {other: 2}]
    for other in (name[:-1], name + "n", name + ":", name + "é"):
        assert parse(text % (name.encode(), other.encode())) == [{name: 1}, {other: 2}]
    for spaced in (b'[{"%s" :1},{"%s"\n: 2}]', b'[{ "%s":1 } , {"%s":\t2}]'):
        assert parse(spaced % (name.encode(), name.encode())) == [{name: 1}, {name: 2}]
    for cut in range(len(name) + 2):  # the text ends inside of the name that is expected
        caught = refusal(b'[{"%s":1},{"%s' % (name.encode(), (name + '"')[:cut].encode()))
        assert caught.kind is Kind.TRUNCATED


def test_a_name_that_is_expected_obeys_the_string_limit() -> None:
    text = b'[{"abcdefg":1},{"abcdefg":2}]'
    parse(text)
    assert refusal(text, DEPTH, NODES, 6).kind is Kind.STRING
    assert parse(text, string=7)


def test_names_come_in_any_order() -> None:
    names = [f"{'n' * (i % 11)}{i}" for i in range(700)]  # more than are kept
    for shift in range(0, 700, 53):
        order = names[shift:] + names[:shift]
        text = "[" + ",".join(f'{{"{name}":{{"same":[{{"{name}":1}}]}}}}' for name in order) + "]"
        assert parse(text.encode()) == [{name: {"same": [{name: 1}]}} for name in order]


@pytest.mark.parametrize(
    "widest", ["a", "\x80", "é", "\xff", "Ā", "\u07ff", "ࠀ", "\ud7ff", "\ue000", "\uffff", "😀", "\U0010ffff"]
)
def test_strings_of_every_width(widest: str) -> None:
    for narrow in ("", "a", "aé", "aé€"):
        if narrow and narrow[-1] > widest:
            continue
        for before in range(20):
            value = narrow * 3 + "b" * before + widest + narrow
            for text in (f'["{value}"]', json.dumps([value])):
                (read,) = parse(text.encode())
                assert read == value
                assert read.isascii() == value.isascii()
                assert read.encode("utf-16-le") == value.encode("utf-16-le")
                if len(value) > 1:  # CPython shares the others, with what else it keeps of them
                    assert sys.getsizeof(read) == sys.getsizeof("".join(list(value)))  # as narrow as it can be


def test_objects_of_very_different_sizes_stand_beside_one_another() -> None:
    large = {f"m{i}": i for i in range(1000)}
    tree = [{"a": 1}, large, {}, {"a": 1, "b": 2}, large, {"a": 1}]
    assert parse(json.dumps(tree).encode()) == tree


@pytest.mark.parametrize("length", range(40))
def test_short_names_of_any_length(length: int) -> None:
    for letter in "ab":
        name = letter * length
        assert parse(f'{{"{name}":1}}'.encode()) == {name: 1}


# ---- numbers ----


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-0", 0),
        ("-1", -1),
        ("999999999999999999", 999999999999999999),
        ("1000000000000000000", 1000000000000000000),
        ("9007199254740993", 9007199254740993),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", 2**63),
        ("-9223372036854775808", -(2**63)),
        ("-9223372036854775809", -(2**63) - 1),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", 2**64),
        ("19000000000000000001", 19000000000000000001),
        ("19933688932870350000", 19933688932870350000),
        ("19999999999999999999", 19999999999999999999),
        ("19876543210987654321", 19876543210987654321),
    ],
)
def test_integer_tokens_are_exact_ints(text: str, value: int) -> None:
    assert (type(parse(text.encode())), parse(text.encode())) == (int, value)
    assert parse_state(text.encode()) == value


@pytest.mark.parametrize("digits", [511, 512, 513, 640, 641, 1023, 1024])
@pytest.mark.usefixtures("int_digits")
def test_long_ints_are_exact_whatever_the_process_allows(digits: int) -> None:
    low = "0" * (digits // 2) + "7"
    text = "3" * (digits - len(low)) + low
    value = parse(text.encode())
    assert isinstance(value, int)
    assert value % 10**9 == int(text[-9:])
    assert value // 10 ** (digits - 9) == int(text[:9])
    prime = 10**9 + 7
    assert value % prime == sum(int(digit) * pow(10, i, prime) for i, digit in enumerate(reversed(text))) % prime
    if digits < 1024:
        assert parse(b"-" + text.encode()) == -value


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("0.0", "0.0"),
        ("-0.0", "0.0"),
        ("-0e3", "0E+3"),
        ("-0.00e-2", "0.0000"),
        ("3.50", "3.50"),
        ("-3.50", "-3.50"),
        ("1e0", "1"),
        ("1e2", "1E+2"),
        ("1E+2", "1E+2"),
        ("1e0002", "1E+2"),
        ("12.5e-3", "0.0125"),
        ("0.10000000000000000000000000000000000000001", "0.10000000000000000000000000000000000000001"),
        ("1e400", "1E+400"),
    ],
)
def test_other_numbers_are_decimals_with_their_scale(text: str, shown: str) -> None:
    value = parse(text.encode())
    assert type(value) is Decimal
    assert str(value) == shown


class LyingContext(decimal.Context):
    """Says of itself that it is wide enough."""

    prec = property(lambda self: 28)  # type: ignore[assignment]


@pytest.mark.parametrize(
    "hostile",
    [
        decimal.Context(prec=1, Emin=0, Emax=0, traps=list(decimal.Context().flags)),
        decimal.Context(prec=3),
        decimal.Context(prec=28, Emax=0),
        decimal.Context(prec=28, Emin=0),
        decimal.Context(prec=28, Emin=-1, Emax=1, clamp=1, traps=[decimal.Subnormal, decimal.Clamped]),
        decimal.Context(prec=40, Emin=-20, Emax=20, clamp=1),
        decimal.Context(prec=40, Emin=-20, Emax=20, clamp=1, traps=[decimal.Clamped]),
        decimal.Context(prec=20, Emin=-20, Emax=20, traps=list(decimal.Context().flags)),
        LyingContext(3),
    ],
    ids=["all", "prec", "Emax", "Emin", "clamp", "wide clamp", "trapped clamp", "just wide enough", "subclass"],
)
@pytest.mark.parametrize("after", [b"", b" " * 40], ids=["at the end", "before the end"])
def test_numbers_do_not_depend_on_the_context(hostile: decimal.Context, after: bytes) -> None:
    text = b"[1.23456789012345678901234567890123456789,-9e-9999,0.0,-1234567.25,12.345678,0.00000001,-0.00]" + after
    expected = [str(value) for value in parse(text)]
    assert expected == [
        "1.23456789012345678901234567890123456789", "-9E-9999", "0.0", "-1234567.25", "12.345678", "1E-8", "0.00",
    ]  # fmt: skip
    with decimal.localcontext(hostile):
        ours = decimal.getcontext()
        ours.clear_flags()
        values = parse(text)
        state = parse_state(text)
        assert decimal.getcontext() is ours
        assert not any(ours.flags.values())
    assert [str(value) for value in values] == expected
    assert state == values


def test_the_context_is_given_back_where_a_parse_fails() -> None:
    with decimal.localcontext(decimal.Context(prec=3)):
        ours = decimal.getcontext()
        with pytest.raises(JsonParseError):
            parse(b"[1.2345, 1.2345, nonsense                         ]")
        assert decimal.getcontext() is ours
        assert decimal.Decimal(1) / 3 == decimal.Decimal("0.333")


@pytest.mark.parametrize("whole", range(18))
def test_numbers_of_every_short_length(whole: int) -> None:
    digits = "1234567890123456789"
    for places in range(12):
        number = (digits[:whole] or "0") + ("." + digits[:places] if places else "")
        for token in (number, "-" + number):
            for after in ("", "e0", " " * 32):
                (value,) = parse(f"[{token}{after}]".encode())
                expected = Decimal(token) if places or "e" in after else int(token)
                assert type(value) is type(expected)
                assert str(value) == str(expected if expected else abs(expected))  # zero has no sign


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("9" * 1024, None),
        ("9" * 1025, Kind.NUMBER_SIZE),
        ("-" + "9" * 1023, None),
        ("-" + "9" * 1024, Kind.NUMBER_SIZE),
        ("0." + "9" * 1022, None),
        ("0." + "9" * 1023, Kind.NUMBER_SIZE),
        ("9" * 1021 + "e10", None),
        ("9" * 1022 + "e10", Kind.NUMBER_SIZE),
        ("1e10000", None),
        ("1e10001", Kind.EXPONENT),
        ("12e10000", Kind.EXPONENT),
        ("0.1e10000", None),
        ("0.1e10001", Kind.EXPONENT),
        ("1e-10000", None),
        ("1.5e-10000", None),
        ("1e-10001", Kind.EXPONENT),
        ("0.1e-10000", Kind.EXPONENT),
        ("12e-10000", None),
        ("0e10000", None),
        ("0e-10000", None),
        ("0.000e-10000", Kind.EXPONENT),
        ("0e99999", Kind.EXPONENT),
        ("1e" + "9" * 1000, Kind.EXPONENT),
        ("1e-" + "9" * 1000, Kind.EXPONENT),
        ("1e" + "0" * 1021 + "9", None),
        ("9.223372E+1010671858", Kind.EXPONENT),
    ],
)
def test_number_limits(text: str, kind: Kind | None) -> None:
    if kind is None:
        assert parse(text.encode()) is not None
        return
    error = refusal(b"[" + text.encode() + b"]")
    assert error.kind == kind
    assert error.offset == 1
    assert error.limit == (10_000 if kind is Kind.EXPONENT else 1024)
    assert str(error.limit) in str(error)


# ---- verified state ----


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1E+1", 10),
        ("-1.2E+3", -1200),
        ("0", 0),
        ("-0.00", 0),
        ("0E+9000", 0),
        ("1.50", Decimal("1.5")),
        ("1E-7", Decimal("1E-7")),
        ("0.000001", Decimal("0.000001")),
        ("5.0", 5),
        ("1E+1023", 10**1023),
        ("1E+1024", Decimal("1E+1024")),
        ("-1E+1022", -(10**1022)),
        ("-1E+1023", Decimal("-1E+1023")),
        ("9" * 1024, 10**1024 - 1),
        ("-" + "9" * 1024, Decimal("-" + "9" * 1024)),
        ("-" + "9" * 1023, -(10**1023 - 1)),
        ("12.34E+1", Decimal("123.4")),
        ("-9." + "8" * 1023 + "E-10000", Decimal("-9." + "8" * 1023 + "E-10000")),
    ],
)
@pytest.mark.usefixtures("int_digits")
def test_state_numbers_are_canonical(text: str, value: int | Decimal) -> None:
    got = parse_state(text.encode())
    assert type(got) is type(value)
    assert got == value
    if isinstance(value, Decimal):
        assert isinstance(got, Decimal)
        assert got.as_tuple() == value.as_tuple()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1" * 1025, Kind.NUMBER_SIZE),
        ("1E+10001", Kind.EXPONENT),
        ("0E-10001", Kind.EXPONENT),
        ("1E-10001", Kind.EXPONENT),
    ],
)
def test_state_numbers_obey_the_writing_limits(text: str, kind: Kind) -> None:
    with pytest.raises(JsonParseError) as caught:
        parse_state(text.encode())
    assert caught.value.kind is kind


def test_state_is_parsed_by_the_same_grammar() -> None:
    assert parse_state(b'{"a":[true,null,"\\u00e9"]}') == {"a": [True, None, "\u00e9"]}
    with pytest.raises(JsonParseError):
        parse_state(b'{"a":1,"a":1}')


# ---- refusals ----


@pytest.mark.parametrize(
    ("text", "kind", "offset"),
    [
        (b"", Kind.TRUNCATED, 0),
        (b" \n", Kind.TRUNCATED, 2),
        (b"[", Kind.TRUNCATED, 1),
        (b"[1", Kind.TRUNCATED, 2),
        (b"[1,", Kind.TRUNCATED, 3),
        (b"{", Kind.TRUNCATED, 1),
        (b'{"a"', Kind.TRUNCATED, 4),
        (b'{"a":', Kind.TRUNCATED, 5),
        (b'{"a":1', Kind.TRUNCATED, 6),
        (b'{"a":1,', Kind.TRUNCATED, 7),
        (b'"abc', Kind.TRUNCATED, 4),
        (b'"abc\\', Kind.TRUNCATED, 5),
        (b"-", Kind.TRUNCATED, 1),
        (b"1.", Kind.TRUNCATED, 2),
        (b"1e", Kind.TRUNCATED, 2),
        (b"tru", Kind.TRUNCATED, 3),
        (b"[[]{", Kind.SYNTAX, 3),
        (b"[1 2]", Kind.SYNTAX, 3),
        (b"[1,]", Kind.SYNTAX, 3),
        (b"[,1]", Kind.SYNTAX, 1),
        (b"[1}", Kind.SYNTAX, 2),
        (b'{"a":1]', Kind.SYNTAX, 6),
        (b'{"a":1,}', Kind.SYNTAX, 7),
        (b'{"a",1}', Kind.SYNTAX, 4),
        (b"{a:1}", Kind.SYNTAX, 1),
        (b"{'a':1}", Kind.SYNTAX, 1),
        (b"{1:1}", Kind.SYNTAX, 1),
        (b'{"a"}', Kind.SYNTAX, 4),
        (b"]", Kind.SYNTAX, 0),
        (b"1 2", Kind.SYNTAX, 2),
        (b"{}{}", Kind.SYNTAX, 2),
        (b"{}\x00", Kind.SYNTAX, 2),
        (b"[]x", Kind.SYNTAX, 2),
        (b"tRue", Kind.SYNTAX, 0),
        (b"truex", Kind.SYNTAX, 4),
        (b"nul1", Kind.SYNTAX, 0),
        (b"None", Kind.SYNTAX, 0),
        (b"NaN", Kind.SYNTAX, 0),
        (b"Infinity", Kind.SYNTAX, 0),
        (b"-Infinity", Kind.SYNTAX, 1),
        (b"nan", Kind.SYNTAX, 0),
        (b"01", Kind.SYNTAX, 1),
        (b"-01", Kind.SYNTAX, 2),
        (b"00", Kind.SYNTAX, 1),
        (b"+1", Kind.SYNTAX, 0),
        (b".5", Kind.SYNTAX, 0),
        (b"1.e1", Kind.SYNTAX, 2),
        (b"1ex", Kind.SYNTAX, 2),
        (b"1e+-1", Kind.SYNTAX, 3),
        (b"1.5.5", Kind.SYNTAX, 3),
        (b"0x10", Kind.SYNTAX, 1),
        (b"1_000", Kind.SYNTAX, 1),
        ("\uff11".encode(), Kind.SYNTAX, 0),
        (b"//x\n1", Kind.SYNTAX, 0),
        (b"/**/1", Kind.SYNTAX, 0),
        (b"\x0c1", Kind.SYNTAX, 0),
        (b"\x0b1", Kind.SYNTAX, 0),
        (b"\xc2\xa01", Kind.SYNTAX, 0),
        (b"\xef\xbb\xbf{}", Kind.SYNTAX, 0),
        (b"[\xef\xbb\xbf]", Kind.SYNTAX, 1),
        (b"\xff", Kind.SYNTAX, 0),
        ('{"a":1}'.encode("utf-16-le"), Kind.SYNTAX, 1),
        (b'"\xff"', Kind.ENCODING, 1),
        (b'"a\xc0\x80"', Kind.ENCODING, 2),
        (b'"\xe0\x80\x80"', Kind.ENCODING, 1),
        (b'"\xed\xa0\x80"', Kind.ENCODING, 1),
        (b'"\xf4\x90\x80\x80"', Kind.ENCODING, 1),
        (b'"\xe2\x82"', Kind.ENCODING, 1),
        (b'"\x80"', Kind.ENCODING, 1),
        (b'{"\xfe":1}', Kind.ENCODING, 2),
        (b'"a\nb"', Kind.ENCODING, 2),
        (b'"0123456789abcdef\x1f"', Kind.ENCODING, 17),
        (b'"\x00"', Kind.ENCODING, 1),
        (b'"\\x41"', Kind.ESCAPE, 1),
        (b'"\\\'"', Kind.ESCAPE, 1),
        (b'"\\u12"', Kind.ESCAPE, 1),
        (b'"\\u12g4"', Kind.ESCAPE, 1),
        (b'"\\U0041"', Kind.ESCAPE, 1),
        ('"\\u\uff10\uff10"'.encode(), Kind.ESCAPE, 1),
        (b'"\\ud800"', Kind.SURROGATE, 1),
        (b'"\\udc00"', Kind.SURROGATE, 1),
        (b'"\\udc00\\ud800"', Kind.SURROGATE, 1),
        (b'"\\ud800\\ud800"', Kind.SURROGATE, 1),
        (b'"\\ud83d\xf0\x9f\x98\x80"', Kind.SURROGATE, 1),
        (b'{"\\ud800":1}', Kind.SURROGATE, 2),
        (b'{"a":1,"a":1}', Kind.DUPLICATE, 7),
        (b'{"a":1,"\\u0061":2}', Kind.DUPLICATE, 7),
        (b'[{"b":{"a":1, "a":true}}]', Kind.DUPLICATE, 14),
        ('{"\u00e9":1,"\\u00e9":2}'.encode(), Kind.DUPLICATE, 8),
    ],
)
def test_refusals(text: bytes, kind: Kind, offset: int) -> None:
    error = refusal(text)
    assert (error.kind, error.offset, error.limit) == (kind, offset, None)
    assert str(error).endswith(f" at byte {offset}")


def test_a_byte_order_mark_is_named() -> None:
    assert "byte order mark" in str(refusal(b"\xef\xbb\xbf{}"))


def test_names_that_differ_in_case_or_form_are_different() -> None:
    assert len(parse('{"a":1,"A":2,"\u00e9":3,"e\u0301":4}'.encode())) == 4


def test_messages_hold_nothing_of_the_text() -> None:
    for text in (b'{"secret":1,"secret":2}', b'["secret" secret]', b'"secret\\q"', b"[secret]", b'"secret\xff"'):
        assert "secret" not in str(refusal(text))


# ---- limits ----


@pytest.mark.parametrize("unit", [b"[", b'{"a":', b'[{"a":'])
def test_depth(unit: bytes) -> None:
    containers = unit.count(b"[") + unit.count(b"{")
    ends = unit.translate(bytes.maketrans(b"[{", b"]}"), b'"a:')[::-1]
    allowed = DEPTH // containers
    whole = unit * allowed + b"0" + ends * allowed
    assert parse(whole) is not None
    error = refusal(unit * allowed + unit + b"0" + ends + ends * allowed)
    assert (error.kind, error.limit, error.offset) == (Kind.DEPTH, DEPTH, len(unit) * allowed)
    assert "256" in str(error)
    for times in (1_000, 20_000, 1_000_000):
        assert refusal(unit * times).kind is Kind.DEPTH


def test_depth_counts_what_is_open_not_what_was() -> None:
    assert parse(b"[[],[],{}]", depth=2) == [[], [], {}]
    assert refusal(b"[[],[[]]]", 2).offset == 5


def test_nodes_are_values_and_not_names() -> None:
    text = b'{"a":[1,2],"b":{}}'
    assert parse(text, nodes=5) == {"a": [1, 2], "b": {}}
    error = refusal(text, DEPTH, 4)
    assert (error.kind, error.limit, error.offset) == (Kind.NODES, 4, 15)
    assert refusal(b"[" + b"0," * NODES + b"0]").kind is Kind.NODES


@pytest.mark.parametrize(
    "text", [b"abcd", b"\\u0061bcd", b"\xc3\xa9\xc3\xa9", b"\\u00e9\\u00e9", b"\\ud83d\\ude00", b"\\n123"]
)
def test_strings_are_measured_in_utf8_once_unescaped(text: bytes) -> None:
    assert len(parse(b'"' + text + b'"', string=4).encode()) == 4
    for whole in (b'["' + text + b'"]', b'{"' + text + b'":0}'):
        parse(whole, string=4)
        error = refusal(whole, DEPTH, NODES, 3)
        assert (error.kind, error.limit, error.offset) == (Kind.STRING, 3, 1)


def test_size_is_checked_before_anything_is_read() -> None:
    assert parse(b"[ ]", size=3) == []
    error = refusal(b"\xff\xff\xff\xff", DEPTH, NODES, STRING, 3)
    assert (error.kind, error.limit, error.offset) == (Kind.SIZE, 3, None)
    assert refusal(bytearray(4), DEPTH, NODES, STRING, 3).kind is Kind.SIZE


# ---- what a text may be held in ----


def test_any_buffer() -> None:
    text = b'{"a":[1]}'
    for data in (bytearray(text), memoryview(text), memoryview(b"x" + text)[1:], array.array("B", text)):
        assert parse(data) == {"a": [1]}
    assert parse(memoryview(b"1_2_3")[::2]) == 123


@pytest.mark.parametrize("data", ["{}", None, 1, ["{}"]])
def test_what_is_no_buffer(data: Any) -> None:
    with pytest.raises(TypeError):
        parse(data)


# ---- the process around it ----


def test_the_collector_is_left_as_it_was() -> None:
    assert gc.isenabled()
    parse(b"[1]")
    refusal(b"[1")
    assert gc.isenabled()
    gc.disable()
    try:
        parse(b"[1]")
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_other_threads_run_while_a_long_text_is_parsed() -> None:
    ticks = 0
    stop = False

    def count() -> None:
        nonlocal ticks
        while not stop:
            ticks += 1

    text = b"[" + b'{"a":1.5},' * 400_000 + b"0]"
    thread = threading.Thread(target=count)
    thread.start()
    try:
        before = ticks
        parse(text)
        assert ticks > before
        assert gc.isenabled()
    finally:
        stop = True
        thread.join()


def test_nothing_leaks_where_a_parse_fails() -> None:
    sample = (
        b'{"name one":[1,"\\u00e9\\n",{"k":[2.5,null,[[]]]},"\xc3\xa9"],"n\\u0061me":1234567890123456789,"z":{"":"x"}}'
    )
    assert parse(sample)
    failing = [sample[:end] for end in range(len(sample))]
    failing += [sample[:at] + b"\x01" + sample[at + 1 :] for at in range(len(sample))]
    failing += [sample[:-1] + b',"z":1}', b"[" + b"1.5," * 1000, b"[" + sample + b"," + sample]

    def run(times: int) -> None:
        for _ in range(times):
            for text in failing:
                try:
                    parse(text)
                except JsonParseError:
                    continue
                raise AssertionError("accepted")
            for limits in ((2, NODES, STRING), (DEPTH, 7, STRING), (DEPTH, NODES, 3)):
                refusal(sample, *limits)
            parse(sample)
            parse_state(sample)

    run(2)
    gc.collect()
    tracemalloc.start()
    try:
        run(2)
        gc.collect()
        first = tracemalloc.get_traced_memory()[0]
        blocks = sys.getallocatedblocks()
        run(20)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - first < 2_000
        assert sys.getallocatedblocks() - blocks < 50
    finally:
        tracemalloc.stop()
