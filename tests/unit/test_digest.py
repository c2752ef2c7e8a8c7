"""Canonical form of JSON text, and the parameter digest, straight from the bytes."""

from __future__ import annotations

import hashlib
import json
import random
import sys
import threading
import tracemalloc
from collections import UserDict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mcpinput import protocol
from mcpinput._core import digest
from mcpinput.errors import JsonErrorKind, JsonParseError, JsonWriteError
from mcpinput.json import Limits, canonical_bytes, canonical_raw, dump, freeze, parameter_digest, parse
from tests import vectors

VECTORS = vectors.load("canonical")
EMPTY = hashlib.sha256(b"{}").digest()
LARGE = 300_000  # bytes of text from which on the interpreter lock is given up, and some


def described(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("vector", VECTORS[name], ids=lambda vector: vector["desc"])


def message_digest(message: bytes) -> bytes:
    return digest.message_digest(message)


def refusal(function: Callable[..., object], *arguments: object, **keywords: object) -> JsonParseError:
    with pytest.raises(JsonParseError) as caught:
        function(*arguments, **keywords)
    return caught.value


# ---- vectors ----


@described("canonical")
def test_canonical_text(vector: dict[str, str]) -> None:
    assert canonical_raw(vector["text"].encode()).decode() == vector["canonical"]


@described("numbers")
def test_number(vector: dict[str, str]) -> None:
    assert canonical_raw(vector["text"].encode()).decode() == vector["canonical"]
    assert canonical_raw(f"[{vector['text']} ,1]".encode()).decode() == f"[{vector['canonical']},1]"


@described("digests")
def test_digest(vector: dict[str, str]) -> None:
    text = vector["params"].encode()
    tree = parse(text)
    assert isinstance(tree, dict)
    assert hashlib.sha256(vector["stable"].encode()).hexdigest() == vector["digest"]
    assert parameter_digest(text).hex() == vector["digest"]
    assert parameter_digest(tree).hex() == vector["digest"]
    assert parameter_digest(freeze(tree)).hex() == vector["digest"]
    assert parameter_digest(UserDict(tree)).hex() == vector["digest"]
    assert message_digest(b'{"id":1,"params":' + text + b',"z":0}').hex() == vector["digest"]
    for chunk in range(1, 80):
        assert digest._in_chunks(text, chunk, True).hex() == vector["digest"]


@described("refused")
def test_refused_text(vector: dict[str, str]) -> None:
    text = vector["text"].encode()
    for function in (parse, canonical_raw, parameter_digest, message_digest):
        error = refusal(function, text)
        assert error.kind == vector["kind"]
        assert error.offset is not None
        assert 0 <= error.offset <= len(text)
    # The same behind enough white space for the lock to be given up.
    assert refusal(canonical_raw, b" " * LARGE + text).kind == vector["kind"]


# ---- what is left out ----


@pytest.mark.parametrize("params", [b"[]", b"1", b"null", b'"x"', b"true", b"[{}]"])
def test_params_must_be_an_object(params: bytes) -> None:
    for error in (
        refusal(parameter_digest, params),
        refusal(message_digest, b'{"params":' + params + b"}"),
    ):
        assert error.kind is JsonErrorKind.SYNTAX
        assert "params must be an object" in str(error)


@pytest.mark.parametrize("message", [b"[]", b"1", b"null", b'"params"', b'[{"params":{}}]'])
def test_message_must_be_an_object(message: bytes) -> None:
    error = refusal(message_digest, message)
    assert error.kind is JsonErrorKind.SYNTAX
    assert "message must be an object" in str(error)


@pytest.mark.parametrize(
    "message", [b"{}", b'{"id":1}', b'{"Params":{"a":1}}', b'{"id":{"params":{"a":1}}}', b'{"x":"params","params":{}}']
)
def test_message_without_params_is_one_with_empty_params(message: bytes) -> None:
    assert message_digest(message) == EMPTY


def test_name_of_params_is_compared_unescaped_and_wherever_it_stands() -> None:
    expected = parameter_digest(b'{"a":1}')
    assert message_digest(b'{"\\u0070aram\\u0073":{"a":1},"a":[{},{"params":2}]}') == expected
    assert message_digest(b'{"z":{"y":1,"x":[2]},"\\u0070arams":{"a":1.0}}') == expected
    assert message_digest(b'{"z":{"y":1,"x":[2]},"b":1,"a":2,"params":{"a":10e-1}}') == expected


@pytest.mark.parametrize(
    "params",
    [
        *(b"{}", b"{ }", b'{"_meta":{}}', b'{ "_meta" : { } }', b'{"_meta":{"baggage":[10,{"b":1,"a":2}]}}'),
        b'{ "_meta" : { "progress\\u0054oken" : 1.50 , "tracestate" : "" , "traceparent" : null } }',
        b'{"requestState":"x", "_met\\u0061":{}, "inputResponses":{"b":1,"a":[ ]}}',
    ],
)
def test_params_of_which_nothing_is_left_are_empty_ones(params: bytes) -> None:
    assert parameter_digest(params) == EMPTY
    assert message_digest(b'{"params":' + params + b"}") == EMPTY
    assert message_digest(b' { "z" : [ 1 ] , "params" : ' + params + b' , "a" : { "_meta" : 1 } } ') == EMPTY


@pytest.mark.parametrize(
    ("params", "canonical"),
    [
        (b'{"_meta":[],"a":1}', b'{"_meta":[],"a":1}'),
        (b'{"_meta":[{}],"a":1}', b'{"_meta":[{}],"a":1}'),
        (b'{"_meta":"","a":{"_meta":{}}}', b'{"_meta":"","a":{"_meta":{}}}'),
        (b'{"_meta":{"_meta":{}}}', b'{"_meta":{"_meta":{}}}'),
        (b'{"_meta":{"requestState":10,"baggage":1}}', b'{"_meta":{"requestState":1E+1}}'),
        (b'{"a":{"b":{}, "_meta":{"baggage":1}},"baggage":2}', b'{"a":{"_meta":{"baggage":1},"b":{}},"baggage":2}'),
        (
            b'{"params":{"requestState":1},"_meta":{"k" :{"baggage":1}}}',
            b'{"_meta":{"k":{"baggage":1}},"params":{"requestState":1}}',
        ),
    ],
)
def test_what_looks_like_something_left_out_stays(params: bytes, canonical: bytes) -> None:
    assert parameter_digest(params) == hashlib.sha256(canonical).digest()
    assert message_digest(b'{"params":' + params + b"}") == hashlib.sha256(canonical).digest()


def test_digests_tell_neighbouring_numbers_apart() -> None:
    values = [
        "18446744073709551616",
        "18446744073709551617",
        "9007199254740992",
        "9007199254740993",
        "1",
        "true",
        '"1"',
    ]
    values += ["[1]", "0.1", "0.10000000000000001", "-1"]
    assert len({parameter_digest(f'{{"v":{value}}}'.encode()) for value in values}) == len(values)


def test_what_is_left_out_still_has_to_be_json() -> None:
    assert refusal(parameter_digest, b'{"requestState":01}').kind is JsonErrorKind.SYNTAX
    assert refusal(parameter_digest, b'{"_meta":{"baggage":1,"baggage":2}}').kind is JsonErrorKind.DUPLICATE


def test_mapping_that_cannot_be_written_is_refused() -> None:
    with pytest.raises(JsonWriteError) as caught:
        parameter_digest({"amount": 1.5})
    assert caught.value.kind is JsonErrorKind.TYPE
    with pytest.raises(TypeError):
        parameter_digest({1: 2})  # type: ignore[dict-item]


# ---- order ----


def shuffled_object(count: int, spell: Callable[[str], str] = str, prefix: str = "") -> bytes:
    names = [f"{prefix}{index * 7919 % count:06d}" for index in range(count)]
    return ("{" + ",".join(f'"{spell(name)}":{index}' for index, name in enumerate(names)) + "}").encode()


def escape_some(name: str) -> str:
    return "".join(f"\\u{ord(c):04x}" if int(name[-1]) % 2 and c == "0" else c for c in name)


@pytest.mark.parametrize("count", [2, 3, 16, 17, 33, 100, 1001, 30_000])
@pytest.mark.parametrize(("spell", "prefix"), [(str, ""), (escape_some, ""), (str, "p" * 100), (escape_some, "\ufb33")])
def test_members_of_large_objects_are_sorted(count: int, spell: Callable[[str], str], prefix: str) -> None:
    text = shuffled_object(count, spell, prefix)
    expected = canonical_bytes(parse(text))
    assert canonical_raw(text) == expected
    assert parameter_digest(text) == hashlib.sha256(expected).digest()


@pytest.mark.parametrize("twin", ['"000007"', '"00000\\u0037"'])
@pytest.mark.parametrize("count", [8, 17, 1001, 30_000])
def test_duplicate_name_is_found_wherever_it_stands(count: int, twin: str) -> None:
    text = shuffled_object(count)
    at = len(text) // 2
    at = text.index(b",", at)
    for changed in (
        b"{" + twin.encode() + b":0," + text[1:],
        text[:-1] + b"," + twin.encode() + b":0}",
        text[:at] + b"," + twin.encode() + b":0" + text[at:],
    ):
        error = refusal(canonical_raw, changed)
        assert error.kind is JsonErrorKind.DUPLICATE
        assert error.offset == refusal(parse, changed).offset


@pytest.mark.parametrize("count", [40, 70_000])
@pytest.mark.parametrize("length", [6, 20])
def test_large_objects_that_follow_one_another(count: int, length: int) -> None:
    names = [f"{index * 7919 % count:0{length}d}" for index in range(count)]
    row = "{" + ",".join(f'"{name}":{index % 20}' for index, name in enumerate(names)) + "}"
    text = f'[{row},{row},{row[:-1]},"x":0}}]'.encode()
    assert canonical_raw(text) == canonical_bytes(parse(text))
    again = f'[{row},{row[:-1]},"{names[7]}":0}}]'.encode()
    assert refusal(canonical_raw, again).offset == refusal(parse, again).offset == len(again) - length - 6


@pytest.mark.parametrize("size", [65_532, 65_533, 65_534, 65_600])
def test_long_names_that_follow_one_another(size: int) -> None:
    row = b'{"' + b"n" * size + b'":10,"a":1}'
    assert canonical_raw(b"[" + row + b"," + row + b"]") == canonical_bytes(parse(b"[" + row + b"," + row + b"]"))


def test_names_in_order_may_repeat_nothing_either() -> None:
    assert refusal(canonical_raw, b'{"a":1,"a":2}').kind is JsonErrorKind.DUPLICATE
    assert refusal(canonical_raw, b'{"abcdefgh1":1,"abcdefgh1":2}').kind is JsonErrorKind.DUPLICATE
    assert canonical_raw(b'{"a":1,"a\\u0000":2}') == b'{"a":1,"a\\u0000":2}'


# ---- limits ----


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}"), (b'{"b":0,"a":', b"}")])
def test_depth(opening: bytes, closing: bytes) -> None:
    def nested(depth: int) -> bytes:
        return opening * depth + b"0" + closing * depth

    assert canonical_raw(nested(256)) == canonical_bytes(parse(nested(256)))
    for depth in (257, 1000, 200_000):
        error = refusal(canonical_raw, nested(depth))
        assert error.kind is JsonErrorKind.DEPTH
        assert error.limit == 256
    assert refusal(canonical_raw, opening * 100_000).kind is JsonErrorKind.DEPTH
    assert refusal(canonical_raw, nested(3), limits=Limits(depth=2)).kind is JsonErrorKind.DEPTH
    # The message is one level of its own, as it is for `parse`.
    params = b'{"a":' + nested(254) + b"}"
    assert message_digest(b'{"params":' + params + b"}") == parameter_digest(params)
    params = b'{"a":' + nested(255) + b"}"
    assert parameter_digest(params)
    assert refusal(message_digest, b'{"params":' + params + b"}").kind is JsonErrorKind.DEPTH


def test_nodes_are_values_and_not_names() -> None:
    text = b'{"a":[1,{}],"b":"x"}'
    assert canonical_raw(text, limits=Limits(nodes=5)) == text
    error = refusal(canonical_raw, text, limits=Limits(nodes=4))
    assert error.kind is JsonErrorKind.NODES
    assert error.limit == 4
    # What is left out counts: it was read.
    params = b'{"requestState":[1,2,3]}'
    assert parameter_digest(params, limits=Limits(nodes=5)) == EMPTY
    assert refusal(parameter_digest, params, limits=Limits(nodes=4)).kind is JsonErrorKind.NODES


@pytest.mark.parametrize("values", [b"7", b"1.25", b"10", b"-1.50"])
def test_nodes_of_a_row_of_numbers(values: bytes) -> None:
    text = b"[" + b",".join([values] * 200) + b"]"
    assert canonical_raw(text, limits=Limits(nodes=201)) == canonical_bytes(parse(text))
    for nodes in (200, 199, 150, 2):
        error = refusal(canonical_raw, text, limits=Limits(nodes=nodes))
        assert error.kind is JsonErrorKind.NODES
        assert (
            error.offset
            == refusal(parse, text, limits=Limits(nodes=nodes)).offset
            == 1 + (nodes - 1) * (len(values) + 1)
        )


@pytest.mark.parametrize("spelled", [b"abcdef", b"\\u0061bcde\\u0066", b"\xc3\xa9\\u00e9\xc3\xa9", b"\\ud83d\\ude00ab"])
def test_strings_are_measured_unescaped(spelled: bytes) -> None:
    for text in (b'"' + spelled + b'"', b'{"' + spelled + b'":1}'):
        assert canonical_raw(text, limits=Limits(string_bytes=6))
        error = refusal(canonical_raw, text, limits=Limits(string_bytes=5))
        assert error.kind is JsonErrorKind.STRING
        assert error.limit == 5


def test_text_and_canonical_text_are_measured() -> None:
    text = b'{"a" : 10}'
    assert canonical_raw(text, limits=Limits(body_bytes=10, canonical_bytes=10)) == b'{"a":1E+1}'
    error = refusal(canonical_raw, text, limits=Limits(body_bytes=9))
    assert (error.kind, error.limit) == (JsonErrorKind.SIZE, 9)
    for function in (canonical_raw, parameter_digest):
        error = refusal(function, text, limits=Limits(canonical_bytes=9))
        assert (error.kind, error.limit) == (JsonErrorKind.SIZE, 9)
    # The size of the text comes before everything else.
    assert refusal(canonical_raw, b"x" * 10, limits=Limits(body_bytes=9)).kind is JsonErrorKind.SIZE
    # What is left out is not written.
    assert parameter_digest(b'{"requestState":"long"}', limits=Limits(canonical_bytes=2)) == EMPTY


def test_canonical_allowance_is_counted_over_all_chunks() -> None:
    text = b"[" + b",".join([b"10"] * 400_000) + b"]"  # 1.2 MB, which become 2 MB
    size = 5 * 400_000 + 1
    assert len(canonical_raw(text, limits=Limits(canonical_bytes=size))) == size
    assert refusal(canonical_raw, text, limits=Limits(canonical_bytes=size - 1)).kind is JsonErrorKind.SIZE


@pytest.fixture
def few_int_digits() -> Iterator[None]:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    yield
    sys.set_int_max_str_digits(before)


@pytest.mark.usefixtures("few_int_digits")
def test_number_tokens_are_measured_by_characters() -> None:
    assert canonical_raw(b"9" * 1024) == b"9" * 1024
    assert canonical_raw(b"-" + b"9" * 1023) == b"-" + b"9" * 1023
    assert canonical_raw(b"1" + b"0" * 1023) == b"1E+1023"
    assert canonical_raw(b"0." + b"0" * 1021 + b"1") == b"1E-1022"
    for token in (b"9" * 1025, b"-" + b"9" * 1024, b"0." + b"0" * 1023, b"1e" + b"0" * 1023):
        error = refusal(canonical_raw, token)
        assert (error.kind, error.limit) == (JsonErrorKind.NUMBER_SIZE, 1024)


def test_canonical_text_of_a_number_may_pass_the_reading_limit() -> None:
    token = b"123456789" * 113 + b"e99"  # 1,020 characters; its canonical text has a point and a longer exponent
    canonical = canonical_raw(token)
    assert canonical == canonical_bytes(parse(token))
    assert len(canonical) == 1024
    longer = b"1" * 1021 + b"e99"
    assert len(canonical_raw(longer)) == 1028
    assert refusal(canonical_raw, canonical_raw(longer)).kind is JsonErrorKind.NUMBER_SIZE


# ---- large texts ----


def documents() -> Iterator[Any]:
    rng = random.Random(20260728)
    text = ["plain", "\\", '"quoted"', "\u00e9", "\U0001f600", "\n\t\x01", "/", ""]
    for _ in range(3000):
        names = rng.sample(["id", "b", "a", "\ue000", "\U0001f600"], 4)
        row = {name: rng.choice(text) * rng.randrange(9) for name in names}
        yield {**row, "n": rng.randrange(10**9) * 10 ** rng.randrange(3), "v": [rng.random() < 0.5, None, {}, []]}


def test_large_text_across_chunks() -> None:
    body = ",".join(
        "{" + ", ".join(f"{spelled(name)} : {spelled(value)}" for name, value in row.items()) + "}"
        for row in documents()
    )
    text = f'{{"rows":[{body}],"more":[{body}],"_meta":{{"progressToken":1}}}}'.encode()
    assert len(text) > 1 << 20
    tree = parse(text)
    assert isinstance(tree, dict)
    assert canonical_raw(text) == canonical_bytes(tree)
    assert parameter_digest(text) == parameter_digest(tree)
    for chunk in (4096, 65_537):
        assert digest._in_chunks(text, chunk, True) == parameter_digest(text)


@pytest.mark.parametrize("chunk", [1000, 1024, 4096, 4097, 100_000, 1 << 20])
def test_long_runs_between_edits(chunk: int) -> None:
    sizes = [0, 400, 499, 500, 501, 999, 1001, 2047, 2048, 2049, 4095, 4096, 4097, 50_000, 524_287, 524_288, 1_100_000]
    members = [f'"{index * 7 % len(sizes):02}":["{"x" * size}", 10]' for index, size in enumerate(sizes)]
    text = ("{" + ",".join(members) + "}").encode()
    expected = canonical_bytes(parse(text))
    assert canonical_raw(text) == digest._in_chunks(text, chunk, False) == expected
    assert digest._in_chunks(text, chunk, True) == hashlib.sha256(expected).digest()
    # The whole of it is one run.
    assert canonical_raw(expected) == digest._in_chunks(expected, chunk, False) == expected
    assert digest._in_chunks(expected, chunk, True) == hashlib.sha256(expected).digest()


def spelled(value: Any) -> str:
    if isinstance(value, str):
        return '"' + "".join(f"\\u{ord(c):04X}" if c in '\\"/\n\t\x01e' else c for c in value) + '"'
    if isinstance(value, list):
        return "[ " + ",".join(map(spelled, value)) + "]"
    if isinstance(value, dict):
        return "{ }"
    return json.dumps(value)


@pytest.mark.parametrize(
    ("unit", "tokens"),
    [(b"1e-6", 1), (b"[]", 1), (b'{"a":1}', 3), (b'{"b":1,"a":2}', 5), (b'"\\n"', 1), (b'{"\\u0061":[1,2]}', 5)],
)
def test_extra_memory_is_16_bytes_a_token_and_a_chunk(unit: bytes, tokens: int) -> None:
    count = 100_000
    text = b'{"a":[' + b",".join([unit] * count) + b"]}"
    tracemalloc.start()
    try:
        parameter_digest(text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 16 * tokens * count + (1 << 20) + 65_536


def test_canonical_text_takes_no_extra_memory() -> None:
    row = b'{"active":true,"id":12,"tags":["a",{"b":[]}],"value":1.25}'
    text = b'{"rows":[' + b",".join([row] * 40_000) + b"]}"
    tracemalloc.start()
    try:
        parameter_digest(text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 65_536


# ---- buffers ----


def test_any_buffer_is_taken() -> None:
    text = b'{"b":1,"a":[2, 3]}'
    doubled = bytes(byte for byte in text for _ in range(2))
    for data in (bytearray(text), memoryview(text), memoryview(b"x" + text + b"x")[1:-1], memoryview(doubled)[::2]):
        assert canonical_raw(data) == b'{"a":[2,3],"b":1}'
        assert parameter_digest(data) == parameter_digest(text)
    assert refusal(canonical_raw, bytearray(text), limits=Limits(body_bytes=17)).kind is JsonErrorKind.SIZE


@pytest.mark.parametrize("data", ["{}", None, 1, ["{}"]])
def test_what_has_no_buffer_is_refused(data: Any) -> None:
    with pytest.raises(TypeError):
        canonical_raw(data)


def test_chunks_have_a_size() -> None:
    with pytest.raises(ValueError, match="chunk"):
        digest._in_chunks(b"{}", 0, True)


def test_what_is_left_out_is_what_the_protocol_names() -> None:
    """The names stand in the compiled core as well: these are the same, and no others are left out."""
    stable = {"name": "t", "_meta": {"k": 1}}
    digest = parameter_digest(stable)
    for name in protocol.RETRY_PARAMS:
        params = {**stable, name: {"any": "thing"}}
        assert parameter_digest(params) == parameter_digest(dump(params)) == digest
    for name in protocol.TRANSIENT_META:
        params = {**stable, "_meta": {"k": 1, name: "x"}}
        assert parameter_digest(params) == parameter_digest(dump(params)) == digest
    others = {*protocol.RETRY_PARAMS, *protocol.TRANSIENT_META, "arguments", "cursor"}
    for name in others - {*protocol.RETRY_PARAMS}:
        assert parameter_digest({**stable, name: 1}) != digest
    for name in others - {*protocol.TRANSIENT_META}:
        assert parameter_digest({**stable, "_meta": {"k": 1, name: 1}}) != digest


def test_other_threads_run_while_a_long_text_is_scanned() -> None:
    ticks = 0
    stop = False

    def count() -> None:
        nonlocal ticks
        while not stop:
            ticks += 1

    text = b"[" + b'{"b":1.5,"a":10},' * 600_000 + b"0]"
    thread = threading.Thread(target=count)
    thread.start()
    try:
        ticks = 0
        with pytest.raises(JsonParseError):  # in the scan: hashing, which gives up the lock itself, is not reached
            canonical_raw(text[:-1], limits=Limits(body_bytes=16 << 20))
        assert ticks > 0
    finally:
        stop = True
        thread.join()
