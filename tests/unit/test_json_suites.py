"""Parser and canonical form against the vectors of others: JSONTestSuite, and the test data of RFC 8785.

They are not part of this project. They are looked for in the folder that ``MCPINPUT_VECTORS`` names, else beside the
checkout in ``../shared/vectors``; where neither is there, this file says so and is skipped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest

from mcpinput._core import digest
from mcpinput.errors import JsonErrorKind as Kind
from mcpinput.errors import JsonParseError
from mcpinput.json import Limits, canonical_bytes, canonical_number, canonical_raw, dump, parameter_digest, parse

VECTORS: Final = Path(os.environ.get("MCPINPUT_VECTORS") or Path(__file__).parents[3] / "shared" / "vectors")
if not VECTORS.is_dir():
    pytest.skip(f"the vectors of others are not at {VECTORS}", allow_module_level=True)

SUITE: Final = {path.stem: path.read_bytes() for path in sorted((VECTORS / "JSONTestSuite").glob("*.json"))}
LIMITS: Final = Limits(body_bytes=16 << 20)

# JSON by the grammar, but one object has two members of one name.
DUPLICATES: Final = {"y_object_duplicated_key", "y_object_duplicated_key_and_value"}

# What the suite leaves to the implementation: the value, or why it is refused.
CHOICES: Final[dict[str, Any]] = {
    # Exponents beyond 10,000.
    "i_number_huge_exp": Kind.EXPONENT,
    "i_number_real_neg_overflow": Kind.EXPONENT,
    "i_number_real_pos_overflow": Kind.EXPONENT,
    "i_number_real_underflow": Kind.EXPONENT,
    # Beyond a double or 64 bits, and exact here.
    "i_number_double_huge_neg_exp": [Decimal("123.456E-789")],
    "i_number_neg_int_huge_exp": [Decimal("-1E+9999")],
    "i_number_pos_double_huge_exp": [Decimal("1.5E+9999")],
    "i_number_too_big_neg_int": [-123123123123123123123123123123],
    "i_number_too_big_pos_int": [100000000000000000000],
    "i_number_very_big_negative_int": [-237462374673276894279832749832423479823246327846],
    # Half of a surrogate pair alone, escaped.
    "i_object_key_lone_2nd_surrogate": Kind.SURROGATE,
    "i_string_1st_surrogate_but_2nd_missing": Kind.SURROGATE,
    "i_string_1st_valid_surrogate_2nd_invalid": Kind.SURROGATE,
    "i_string_incomplete_surrogate_and_escape_valid": Kind.SURROGATE,
    "i_string_incomplete_surrogate_pair": Kind.SURROGATE,
    "i_string_incomplete_surrogates_escape_valid": Kind.SURROGATE,
    "i_string_invalid_lonely_surrogate": Kind.SURROGATE,
    "i_string_invalid_surrogate": Kind.SURROGATE,
    "i_string_inverted_surrogates_U+1D11E": Kind.SURROGATE,
    "i_string_lone_second_surrogate": Kind.SURROGATE,
    # No UTF-8 in a string.
    "i_string_UTF-8_invalid_sequence": Kind.ENCODING,
    "i_string_UTF8_surrogate_U+D800": Kind.ENCODING,
    "i_string_invalid_utf-8": Kind.ENCODING,
    "i_string_iso_latin_1": Kind.ENCODING,
    "i_string_lone_utf8_continuation_byte": Kind.ENCODING,
    "i_string_not_in_unicode_range": Kind.ENCODING,
    "i_string_overlong_sequence_2_bytes": Kind.ENCODING,
    "i_string_overlong_sequence_6_bytes": Kind.ENCODING,
    "i_string_overlong_sequence_6_bytes_null": Kind.ENCODING,
    "i_string_truncated-utf-8": Kind.ENCODING,
    # Other encodings, and a byte order mark: no value begins so.
    "i_string_UTF-16LE_with_BOM": Kind.SYNTAX,
    "i_string_utf16BE_no_BOM": Kind.SYNTAX,
    "i_string_utf16LE_no_BOM": Kind.SYNTAX,
    "i_structure_UTF-8_BOM_empty_object": Kind.SYNTAX,
    "i_structure_500_nested_arrays": Kind.DEPTH,
}


def names(prefix: str) -> list[str]:
    return [name for name in SUITE if name.startswith(prefix)]


def refused_by_all(text: bytes) -> Kind:
    """Why every reader refuses a text: by itself, as a member of params, and in a message."""
    params = b'{"v":' + text + b"}"
    message = b'{"params":' + params + b"}"
    assert refusal(parameter_digest, params) is refusal(parse, params)
    assert refusal(lambda data: digest.message_digest(data, limits=LIMITS), message) is refusal(parse, message)
    assert refusal(canonical_raw, text) is refusal(parse, text)
    return refusal(parse, text)


def refusal(read: Callable[[bytes], object], text: bytes) -> Kind:
    with pytest.raises(JsonParseError) as caught:
        read(text)
    return caught.value.kind


def accepted_by_all(text: bytes) -> Any:
    """The value that every reader agrees upon."""
    value = parse(text)
    canonical = canonical_raw(text)
    assert canonical == canonical_bytes(value)
    assert parse(dump(value)) == value
    assert canonical_raw(dump(value)) == canonical
    params = b'{"v":' + text + b"}"
    assert parameter_digest(params) == parameter_digest({"v": value})
    assert digest.message_digest(b'{"params":' + params + b"}", limits=LIMITS) == parameter_digest(params)
    return value


def test_the_suite_is_all_there() -> None:
    assert {prefix: len(names(prefix)) for prefix in ("y_", "n_", "i_")} == {"y_": 95, "n_": 188, "i_": 35}
    assert set(names("i_")) == set(CHOICES)
    assert set(names("y_")) >= DUPLICATES


@pytest.mark.parametrize("name", sorted(set(names("y_")) - DUPLICATES))
def test_what_is_json_is_accepted(name: str) -> None:
    value = accepted_by_all(SUITE[name])
    assert value == json.loads(SUITE[name], parse_float=Decimal)


@pytest.mark.parametrize("name", sorted(DUPLICATES))
def test_names_that_stand_twice_are_refused(name: str) -> None:
    assert refused_by_all(SUITE[name]) is Kind.DUPLICATE


@pytest.mark.parametrize("name", names("n_"))
def test_what_is_no_json_is_refused(name: str) -> None:
    kind = refused_by_all(SUITE[name])
    assert kind in (Kind.SYNTAX, Kind.TRUNCATED, Kind.ENCODING, Kind.ESCAPE, Kind.SURROGATE, Kind.DEPTH)


@pytest.mark.parametrize("name", names("i_"))
def test_what_is_left_to_us(name: str) -> None:
    expected = CHOICES[name]
    if isinstance(expected, Kind):
        assert refused_by_all(SUITE[name]) is expected
    else:
        assert accepted_by_all(SUITE[name]) == expected


# ---- RFC 8785 ----

JCS_NAMES: Final = sorted(path.stem for path in (VECTORS / "jcs" / "input").glob("*.json"))


def test_the_data_of_rfc_8785_are_all_there() -> None:
    assert JCS_NAMES == ["arrays", "french", "structures", "unicode", "values", "weird"]


@pytest.mark.parametrize("name", sorted(set(JCS_NAMES) - {"values"}))
def test_without_numbers_that_differ_the_form_is_that_of_rfc_8785(name: str) -> None:
    text = (VECTORS / "jcs" / "input" / f"{name}.json").read_bytes()
    assert canonical_raw(text) == (VECTORS / "jcs" / "output" / f"{name}.json").read_bytes()
    assert canonical_raw(text) == canonical_bytes(accepted_by_all(text))


def test_where_numbers_differ_nothing_else_does() -> None:
    """Ours are exact; JCS rounds to a double, and writes that as ECMAScript does."""
    text = (VECTORS / "jcs" / "input" / "values.json").read_bytes()
    theirs = (VECTORS / "jcs" / "output" / "values.json").read_bytes()
    spellings = {
        b"333333333.3333333": b"333333333.33333329",
        b"1e+30": b"1E+30",
        b"1e-27": b"1E-27",
    }
    ours = theirs
    for spelled, exact in spellings.items():
        assert ours.count(spelled) == 1
        ours = ours.replace(spelled, exact)
    assert canonical_raw(text) == ours
    for spelled, exact in spellings.items():
        assert float(spelled) == float(exact)
        assert canonical_number(Decimal(exact.decode())) == exact.decode()
