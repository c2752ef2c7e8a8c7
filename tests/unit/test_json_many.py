"""Texts that are made to be dear: many members, names that look alike, and depth on a small stack.

Nothing here is timed. What is quadratic in one of these sizes does not end.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Final

import pytest

from mcpinput.errors import JsonErrorKind, JsonParseError
from mcpinput.json import Limits, canonical_bytes, canonical_raw, dump, parameter_digest, parse
from mcpinput.server.schemas import CompiledSchema

# Several names each, so that an order of their own, of insertion or of code points would show.
NAMES: Final[dict[str, Callable[[int], str]]] = {
    "counted": lambda i: f"{i:06}",
    "backwards": lambda i: f"{999_999 - i:06}",
    # One length, the same first and last eight bytes and the same middle: what a cache of names looks at.
    "same ends": lambda i: f"aaaaaaaa{i:06}aaaaaaaa",
    "same beginning, as long as a kept name": lambda i: "a" * 26 + f"{i:06}",
    "same beginning, longer": lambda i: "a" * 70 + f"{i:06}",
    "same but for case": lambda i: "".join("aA"[i >> bit & 1] for bit in range(17)),
    "zeros": lambda i: "\0" * (i % 7) + f"{i:06}",
    "two bytes": lambda i: "é" * 3 + f"{i:06}",
    "around the surrogates": lambda i: ("\ufb33" if i % 2 else "\U0001f600") + f"{i:06}",
}


def object_text(names: list[str], *, escaped: bool = False) -> bytes:
    """An object whose members are numbered as they come."""
    spelled = ["".join(f"\\u{ord(c):04x}" for c in name) for name in names] if escaped else names
    quoted = [f'"{name}"' if escaped else dump(name).decode() for name in spelled]
    return ("{" + ",".join(f"{name}:{i}" for i, name in enumerate(quoted)) + "}").encode()


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("count", [10_000, 100_000])
def test_objects_of_many_members(kind: str, count: int) -> None:
    names = [NAMES[kind](i) for i in range(count)]
    text = object_text(names)
    tree = parse(text)
    assert isinstance(tree, dict)
    assert list(tree.items()) == [(name, i) for i, name in enumerate(names)]
    assert dump(tree, limits=Limits(response_bytes=16 << 20)) == text
    canonical = canonical_raw(text)
    assert canonical == canonical_bytes(tree)
    written = parse(canonical)
    assert isinstance(written, dict)
    assert list(written) == sorted(names, key=lambda name: name.encode("utf-16-be"))
    assert parameter_digest(text) == parameter_digest(tree)

    for again in (names[0], names[count // 2], names[-1]):
        twice = text[:-1] + b"," + dump(again) + b":0}"
        for read in (parse, canonical_raw, parameter_digest):
            with pytest.raises(JsonParseError) as caught:
                read(twice)
            assert (caught.value.kind, caught.value.offset) == (JsonErrorKind.DUPLICATE, len(text))


def test_objects_of_many_escaped_members() -> None:
    names = [f"{i * 7919 % 10_007:06}" for i in range(10_000)]
    tree = dict(zip(names, range(10_000), strict=True))
    text = object_text(names, escaped=True)
    assert parse(text) == tree
    assert canonical_raw(text) == canonical_bytes(tree)


def test_many_objects_whose_names_push_one_another_out_of_any_cache() -> None:
    draw = random.Random(1)
    pool = [f"{draw.randrange(16**8):08x}" for _ in range(20_000)]
    rows = [dict.fromkeys(draw.sample(pool, 10), 1) for _ in range(5_000)]
    text = dump(rows)
    assert parse(text) == rows
    assert canonical_raw(text) == canonical_bytes(rows)


def test_many_repetitions_of_a_name_are_kept_apart_by_length() -> None:
    names = ["ab" * i for i in range(1_000)]
    tree = parse(object_text(names))
    assert isinstance(tree, dict)
    assert list(tree) == names


def test_items_of_one_hash_are_told_apart_in_linear_time() -> None:
    """Python hashes ints modulo a prime, so all of these hash to 0: a set of them compares each with each."""
    modulus = sys.hash_info.modulus
    items: list[Any] = [modulus * number for number in range(50_000)]
    assert {hash(item) for item in items} == {0}
    text = dump({"v": items})
    schema = CompiledSchema({"type": "object", "properties": {"v": {"type": "array", "uniqueItems": True}}}, "s")
    assert schema.problems(parse(text)) == []
    assert schema.problems({"v": [*items, modulus]}) == ["$.v: must satisfy uniqueItems: true"]
    assert canonical_raw(text) == canonical_bytes(parse(text))


# ---- depth ----

ON_A_SMALL_STACK: Final = """
import threading
from mcpinput.errors import JsonError
from mcpinput.json import canonical_bytes, canonical_raw, dump, parameter_digest, parse

def run():
    for opening, closing in ((b"[", b"]"), (b'{"a":', b"}"), (b'{"b":0,"a":', b"}")):
        text = b'{"a":' + opening * 255 + b"0" + closing * 255 + b"}"
        tree = parse(text)
        assert len(dump(tree)) == len(text)
        assert canonical_raw(text) == canonical_bytes(tree)
        assert parameter_digest(text) == parameter_digest(tree)
        deeper = [tree]
        for step in (dump, canonical_bytes, parse, canonical_raw):
            try:
                step(deeper if step in (dump, canonical_bytes) else opening * 500_000)
            except JsonError as error:
                assert error.kind == "depth limit", error.kind
            else:
                raise AssertionError(step)
    done.append(True)

done = []
threading.stack_size(256 * 1024)
thread = threading.Thread(target=run)
thread.start()
thread.join()
assert done
"""


def test_the_deepest_text_needs_no_more_than_a_small_stack() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ON_A_SMALL_STACK], cwd="/", capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
