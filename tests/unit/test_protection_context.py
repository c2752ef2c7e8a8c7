"""What a custom protector is told."""

import dataclasses
import hashlib
import itertools

import pytest

from mcpinput.errors import EnvelopeError
from mcpinput.protection import ProtectionContext
from mcpinput.protection.context import Bindings

BOUND = {
    "audience": "aud",
    "path": "/mcp",
    "protocol_version": "2026-07-28",
    "method": "tools/call",
    "partition": "part",
    "tenant": "ten",
    "principal": "alice",
}


def test_bindings_differ_where_one_text_differs():
    base = Bindings(**BOUND).digests()
    assert len(base) == 7 * 16
    for index, name in enumerate(BOUND):
        other = Bindings(**{**BOUND, name: "other"}).digests()
        differing = [at for at in range(7) if base[at * 16 :][:16] != other[at * 16 :][:16]]
        assert differing == [index]


@pytest.mark.parametrize("name", ["partition", "tenant", "principal"])
def test_absent_equals_only_absent(name):
    values = [None, "", "None", "\0"]
    digests = [Bindings(**{**BOUND, name: value}).digests() for value in values]
    assert len(set(digests)) == len(values)


@pytest.mark.parametrize("name", BOUND)
def test_text_that_cannot_be_encoded_is_refused(name):
    with pytest.raises(EnvelopeError):
        Bindings(**{**BOUND, name: "\ud800"}).digests()


def test_a_context_shows_its_bindings():
    context = ProtectionContext(Bindings(**BOUND), lambda: b"d" * 32)
    assert {name: getattr(context, name) for name in BOUND} == BOUND
    assert context.purpose == "state"
    assert context.associated_data_digest == hashlib.sha256(context.associated_data).digest()
    with pytest.raises(AttributeError):
        context.principal = "bob"


def test_associated_data_is_computed_when_first_read_and_once():
    calls = itertools.count()

    def digest():
        next(calls)
        return b"d" * 32

    context = ProtectionContext(Bindings(**BOUND), digest)
    assert context.principal == "alice"
    assert next(calls) == 0
    assert context.associated_data == context.associated_data
    assert context.associated_data.endswith(b"d" * 32)
    assert context.associated_data_digest
    assert next(calls) == 2


def test_associated_data_differs_wherever_a_binding_or_the_parameters_differ():
    variants = [Bindings(**BOUND)]
    variants += [Bindings(**{**BOUND, name: value}) for name in BOUND for value in ("", "x")]
    variants += [Bindings(**{**BOUND, name: None}) for name in ("partition", "tenant", "principal")]
    variants.append(dataclasses.replace(variants[0], partition="ten", tenant="part"))
    data = {ProtectionContext(one, lambda: b"d" * 32).associated_data for one in variants}
    assert len(data) == len(variants)
    other = ProtectionContext(variants[0], lambda: b"e" * 32).associated_data
    assert other not in data


def test_who_is_bound_is_not_shown():
    shown = repr(Bindings(**BOUND)) + repr(ProtectionContext(Bindings(**BOUND), lambda: b"d" * 32))
    for secret in ("alice", "part", "'ten'"):
        assert secret not in shown
