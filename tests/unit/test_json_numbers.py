"""The limits of numbers, both ways, and that the readers and writers draw them in the same place.

Reading counts the characters of a token and looks at its exponent; writing counts significant digits. So whatever is
read can be written, and whatever is sealed opens and can be sealed again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

import pytest

from mcpinput import protocol
from mcpinput._core import digest
from mcpinput._core.parse import parse_state
from mcpinput.errors import JsonError, JsonErrorKind, JsonParseError
from mcpinput.json import Limits, canonical_bytes, canonical_number, canonical_raw, dump, parameter_digest, parse

LIMITS: Final = Limits(body_bytes=16 << 20)
SIZE: Final = JsonErrorKind.NUMBER_SIZE
EXPONENT: Final = JsonErrorKind.EXPONENT
NINES: Final = "9" * 1024


@pytest.fixture(params=[0, 640, 4300])
def int_digits(request: pytest.FixtureRequest) -> Iterator[None]:
    """The process converts so many digits between int and str; 0 is without limit."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(request.param)
    yield
    sys.set_int_max_str_digits(before)


def state(text: bytes) -> Any:
    return parse_state(text, limits=LIMITS)


def exactly(value: Any) -> Any:
    """What two numbers share only if type, digits and scale are the same."""
    return (type(value), value.as_tuple() if isinstance(value, Decimal) else value)


def short(value: Any) -> str | None:
    """An id for pytest that does not spell a thousand digits."""
    if isinstance(value, str):
        return f"{value[:20]}...{value[-9:]}" if len(value) > 40 else value
    return type(value).__name__


# Tokens, with what is written of what is read, and the canonical text.
ACCEPTED: Final = [
    ("0", "0", "0"),
    ("-0", "0", "0"),
    ("0.0", "0.0", "0"),
    ("-0.0", "0.0", "0"),
    ("0e0", "0", "0"),
    ("0E+5", "0E+5", "0"),
    ("-0.00e-2", "0.0000", "0"),
    ("3.50", "3.50", "3.5"),
    ("1.0", "1.0", "1"),
    ("100", "100", "1E+2"),
    ("1e2", "1E+2", "1E+2"),
    ("1.50", "1.50", "1.5"),
    ("0.000001", "0.000001", "0.000001"),
    ("0.0000001", "1E-7", "1E-7"),
    ("0.00001", "0.00001", "0.00001"),
    ("1e-5", "0.00001", "0.00001"),
    ("1e20", "1E+20", "1E+20"),
    ("100000000000000000000", "100000000000000000000", "1E+20"),
    ("9007199254740992", "9007199254740992", "9007199254740992"),
    ("9007199254740993", "9007199254740993", "9007199254740993"),
    ("18446744073709551615", "18446744073709551615", "18446744073709551615"),
    ("18446744073709551616", "18446744073709551616", "18446744073709551616"),
    ("18446744073709551617", "18446744073709551617", "18446744073709551617"),
    ("19000000000000000001", "19000000000000000001", "19000000000000000001"),
    ("19933688932870350000", "19933688932870350000", "1.993368893287035E+19"),
    ("19999999999999999999", "19999999999999999999", "19999999999999999999"),
    ("-9223372036854775808", "-9223372036854775808", "-9223372036854775808"),
    ("-9223372036854775809", "-9223372036854775809", "-9223372036854775809"),
    ("1e400", "1E+400", "1E+400"),
    # The written exponent, and the adjusted one, at their ends.
    ("1e10000", "1E+10000", "1E+10000"),
    ("1e-10000", "1E-10000", "1E-10000"),
    ("1.5e-10000", "1.5E-10000", "1.5E-10000"),
    ("12.5e9999", "1.25E+10000", "1.25E+10000"),
    ("12e9999", "1.2E+10000", "1.2E+10000"),
    ("0.1e10000", "1E+9999", "1E+9999"),
    ("12e-10000", "1.2E-9999", "1.2E-9999"),
    ("0e10000", "0E+10000", "0"),
    ("0e-10000", "0E-10000", "0"),
    ("0.000e-9997", "0E-10000", "0"),
    ("1e" + "0" * 1021 + "9", "1E+9", "1E+9"),
    # 1,024 characters, sign included.
    (NINES, NINES, NINES),
    ("-" + "9" * 1023, "-" + "9" * 1023, "-" + "9" * 1023),
    ("1" + "0" * 1023, "1" + "0" * 1023, "1E+1023"),
    ("0." + "9" * 1022, "0." + "9" * 1022, "0." + "9" * 1022),
    ("-0." + "9" * 1021, "-0." + "9" * 1021, "-0." + "9" * 1021),
    ("0." + "0" * 1021 + "1", "1E-1022", "1E-1022"),
    ("9" * 1020 + "e+99", f"9.{'9' * 1019}E+1118", f"9.{'9' * 1019}E+1118"),
    ("1." + "0" * 1022, "1." + "0" * 1022, "1"),
]

REFUSED: Final = [
    ("9" * 1025, SIZE),
    ("-" + NINES, SIZE),
    ("1" * 5000, SIZE),
    ("0." + "9" * 1023, SIZE),
    ("-0." + "0" * 1022, SIZE),
    ("1e" + "0" * 1023, SIZE),
    ("9" * 1022 + "e10", SIZE),
    ("1e10001", EXPONENT),
    ("1e-10001", EXPONENT),
    ("12e10000", EXPONENT),
    ("1.5e10001", EXPONENT),
    ("0.1e10001", EXPONENT),
    ("0.1e-10000", EXPONENT),
    ("0e99999", EXPONENT),
    ("0e10001", EXPONENT),
    ("0.000e-10000", EXPONENT),
    ("-0.0e-10000", EXPONENT),
    ("9.223372E+1010671858", EXPONENT),
    ("1e-99999999999999999999", EXPONENT),
    ("1e" + "9" * 1000, EXPONENT),
]


@pytest.mark.parametrize(("token", "written", "canonical"), ACCEPTED, ids=short)
@pytest.mark.usefixtures("int_digits")
def test_what_is_read_is_written_and_sealed(token: str, written: str, canonical: str) -> None:
    value = parse(token.encode())
    assert type(value) is (int if token.lstrip("-").isdecimal() else Decimal)
    assert dump(value) == written.encode()
    assert canonical_raw(token.encode()) == canonical_bytes(value) == canonical.encode()
    assert isinstance(value, (int, Decimal))
    assert canonical_number(value) == canonical

    opened = state(canonical.encode())
    assert opened == value
    assert hash(opened) == hash(value)
    assert canonical_bytes(opened) == canonical.encode()
    assert exactly(state(written.encode())) == exactly(opened)
    assert exactly(state(dump(opened))) == exactly(opened)


@pytest.mark.parametrize(("token", "kind"), REFUSED, ids=short)
@pytest.mark.usefixtures("int_digits")
def test_every_reader_refuses_the_same(token: str, kind: JsonErrorKind) -> None:
    params = f'{{"v":{token}}}'.encode()
    message = b'{"params":' + params + b"}"
    for read in (
        lambda: parse(params),
        lambda: canonical_raw(params),
        lambda: parameter_digest(params),
        lambda: digest.message_digest(message, limits=LIMITS),
    ):
        with pytest.raises(JsonParseError) as caught:
            read()
        assert caught.value.kind is kind
        assert caught.value.limit == (1024 if kind is SIZE else 10_000)
        assert len(str(caught.value)) < 200  # the digits are not in it


# ---- writing ----

# Values with their plain and their canonical text.
WRITTEN: Final[list[tuple[Any, str, str]]] = [
    (10**1024 - 1, NINES, NINES),
    (-(10**1024 - 1), "-" + NINES, "-" + NINES),
    (10**1023, "1" + "0" * 1023, "1E+1023"),
    (Decimal(NINES), NINES, NINES),
    (Decimal("-" + NINES), "-" + NINES, "-" + NINES),
    (Decimal("1" + "0" * 1023), "1" + "0" * 1023, "1E+1023"),
    (Decimal("0." + NINES), "0." + NINES, "0." + NINES),
    (Decimal("0.00000" + NINES), "0.00000" + NINES, "0.00000" + NINES),
    (Decimal("0.000000" + NINES), f"9.{NINES[1:]}E-7", f"9.{NINES[1:]}E-7"),
    (Decimal(f"9.{NINES[1:]}E+10000"), f"9.{NINES[1:]}E+10000", f"9.{NINES[1:]}E+10000"),
    (Decimal(f"-9.{NINES[1:]}E-10000"), f"-9.{NINES[1:]}E-10000", f"-9.{NINES[1:]}E-10000"),
    (Decimal("1E+10000"), "1E+10000", "1E+10000"),
    (Decimal("1E-10000"), "1E-10000", "1E-10000"),
    (Decimal("0E+10000"), "0E+10000", "0"),
    (Decimal("0E-10000"), "0E-10000", "0"),
    (Decimal("-0"), "0", "0"),
]

UNWRITTEN: Final[list[tuple[Any, JsonErrorKind]]] = [
    (10**1024, SIZE),
    (-(10**1024), SIZE),
    (10**5000, SIZE),
    (Decimal("1" + "0" * 1024), SIZE),
    (Decimal("1." + "0" * 1024), SIZE),
    (Decimal("0." + "9" * 1025), SIZE),
    (Decimal("1E+10001"), EXPONENT),
    (Decimal("12E+10000"), EXPONENT),
    (Decimal("1E-10001"), EXPONENT),
    (Decimal("0E+10001"), EXPONENT),
    (Decimal("0E-10001"), EXPONENT),
    (Decimal("9.223372E+1010671858"), EXPONENT),
    (Decimal("1E+5000000"), EXPONENT),
    (Decimal("1E-5000000"), EXPONENT),
    (Decimal("NaN"), JsonErrorKind.NOT_FINITE),
    (Decimal("sNaN"), JsonErrorKind.NOT_FINITE),
    (Decimal("-Infinity"), JsonErrorKind.NOT_FINITE),
]


@pytest.mark.parametrize(("value", "written", "canonical"), WRITTEN, ids=short)
@pytest.mark.usefixtures("int_digits")
def test_what_is_written_is_within_the_limits_of_state(value: Any, written: str, canonical: str) -> None:
    assert dump(value) == written.encode()
    assert canonical_bytes(value) == canonical.encode()
    assert canonical_number(value) == canonical
    opened = state(canonical.encode())
    assert opened == value
    assert canonical_bytes(opened) == canonical.encode()
    integral_and_short = "." not in written and "E" not in written and len(written) <= 1024
    if integral_and_short:
        assert type(opened) is int


@pytest.mark.parametrize(("value", "kind"), UNWRITTEN, ids=short)
@pytest.mark.usefixtures("int_digits")
def test_every_writer_refuses_the_same(value: Any, kind: JsonErrorKind) -> None:
    for write in (
        lambda: dump([value]),
        lambda: canonical_bytes([value]),
        lambda: canonical_number(value),
        lambda: parameter_digest({"v": value}),
    ):
        with pytest.raises(JsonError) as caught:
            write()
        assert caught.value.kind is kind
        assert len(str(caught.value)) < 200


def test_a_short_spelling_is_never_written_out() -> None:
    """What takes a few characters to say takes a few to write: exponents are not expanded."""
    for sign in ("", "-"):
        for exponent in (*range(-10_000, 10_001, 250), -9_999, 9_999):
            value = parse(f"{sign}1.5e{exponent}".encode()) if exponent < 10_000 else parse(f"{sign}1e10000".encode())
            assert len(dump(value)) <= 12
            assert len(canonical_bytes(value)) <= 12


# ---- one value, one digest ----


@pytest.mark.parametrize(
    "spellings",
    [
        ["1", "1.0", "1e0", "10e-1", "0.1E1", "1.000"],
        ["100", "1e2", "100.0", "1E+02", "0.1e3"],
        ["0", "-0", "0.0", "0.0e5", "-0e-5", "0E+10000"],
        ["0.00001", "1e-5", "0.000010", "10e-6"],
        ["100000000000000000000", "1e20", "1.0E20"],
        ['"\\u00e9"', '"\u00e9"'],
        ['"\\/"', '"/"', '"\\u002f"', '"\\u002F"'],
        ['"\\ud83d\\ude00"', '"\U0001f600"', '"\\uD83D\\uDE00"'],
        ['{"a":1,"b":2}', '{ "b" : 2.0, "\\u0061" : 1 }'],
    ],
    ids=lambda spellings: spellings[0],
)
def test_spellings_of_one_value_have_one_digest(spellings: list[str]) -> None:
    texts = [f'{{"v":{spelling}}}'.encode() for spelling in spellings]
    digests = {parameter_digest(text) for text in texts}
    assert len(digests) == 1
    for text in texts:
        tree = parse(text)
        assert isinstance(tree, dict)
        assert parameter_digest(tree) in digests


def test_values_that_are_not_one_have_digests_of_their_own() -> None:
    values = [
        *("1", "true", '"1"', "[1]", '{"1":1}', "null", "false", "0", '"0"', '""', "[]", "{}", '"null"'),
        *("9007199254740992", "9007199254740993", "18446744073709551616", "18446744073709551617"),
        *("0.1", "0.10000000000000001", "0.1000000000000000055511151231257827", "1e400", "1e401", "-1"),
        *('"\u00e9"', '"e\u0301"', '"\ufb33"', '"\u05d3\u05bc"', '"A"', '"a"', '"\u212b"', '"\u00c5"'),
    ]
    texts = [f'{{"v":{value}}}'.encode() for value in values]
    assert len({parameter_digest(text) for text in texts}) == len(values)
    # Python's own equality joins some of them; numbers of the standard library's reader join more.
    assert len({json.dumps(json.loads(text)) for text in texts}) < len(values)


def test_what_is_left_out_of_the_digest_is_read_by_the_same_limits() -> None:
    for name in protocol.RETRY_PARAMS:
        with pytest.raises(JsonParseError) as caught:
            parameter_digest(f'{{"{name}":{"1" * 1025}}}'.encode())
        assert caught.value.kind is SIZE
