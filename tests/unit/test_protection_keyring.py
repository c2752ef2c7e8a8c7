"""Rings: what may stand in one, and what its fingerprint tells apart."""

import itertools

import pytest

from mcpinput.protection import ProtectionKey, ProtectionKeyring


def key(key_id, seed=None):
    raw = (seed or key_id).encode().ljust(32, b".")
    return ProtectionKey.from_id_and_bytes(key_id, raw)


def ring(active, *verification):
    builder = ProtectionKeyring.with_active_key(active)
    for other in verification:
        builder.verification_key(other)
    return builder.build()


A, B, C = key("a"), key("b"), key("c")


def test_a_ring_finds_its_keys_by_id():
    made = ring(A, C, B)
    assert made.active_key is A
    assert made.active_key_id == "a"
    assert made.verification_key_ids == ("b", "c")
    assert [made.find(key_id) for key_id in ("a", "b", "c", "d")] == [A, B, C, None]


def test_a_builder_can_go_on_without_changing_what_it_built():
    builder = ProtectionKeyring.with_active_key(A)
    first = builder.build()
    assert builder.verification_key(B) is builder
    assert (first.verification_key_ids, builder.build().verification_key_ids) == ((), ("b",))


@pytest.mark.parametrize("what", [None, "a", b"x" * 32, [], ring(A)])
def test_rings_are_made_of_keys(what):
    with pytest.raises(TypeError, match="ProtectionKey"):
        ProtectionKeyring.with_active_key(what)
    with pytest.raises(TypeError, match="ProtectionKey"):
        ring(A, what)
    with pytest.raises(TypeError, match="ProtectionKey"):
        ring(A).staged(what)


def test_the_class_names_its_factory():
    with pytest.raises(TypeError, match="with_active_key"):
        ProtectionKeyring()


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ([A, A], "in the ring already"),
        ([A, B, B], "in the ring already"),
        ([A, key("a", "other")], "with other bytes"),
        ([A, B, key("b", "other")], "with other bytes"),
        ([A, key("b", "a")], "'a' and 'b' have the same bytes"),
        ([A, B, key("c", "b")], "'b' and 'c' have the same bytes"),
    ],
)
def test_no_id_and_no_secret_stands_in_a_ring_twice(keys, message):
    with pytest.raises(ValueError, match=message):
        ring(*keys)


def test_a_refused_key_leaves_the_builder_as_it_was():
    builder = ProtectionKeyring.with_active_key(A).verification_key(B)
    with pytest.raises(ValueError, match="same bytes"):
        builder.verification_key(key("c", "b"))
    assert builder.build().fingerprint == ring(A, B).fingerprint


def test_changes_make_new_rings():
    first = ring(A)
    staged = first.staged(B)
    activated = staged.activated("b")
    removed = activated.removed("a")
    assert (first.active_key_id, first.verification_key_ids) == ("a", ())
    assert (staged.active_key_id, staged.verification_key_ids) == ("a", ("b",))
    assert (activated.active_key_id, activated.verification_key_ids) == ("b", ("a",))
    assert (removed.active_key_id, removed.verification_key_ids) == ("b", ())
    assert staged.staged(B) is staged
    assert staged.staged(key("b")) is staged
    assert staged.staged(A) is staged


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda made: made.staged(key("a", "other")), "with other bytes"),
        (lambda made: made.staged(key("b", "other")), "with other bytes"),
        (lambda made: made.staged(key("c", "a")), "same bytes"),
        (lambda made: made.activated("a"), "active key already"),
        (lambda made: made.activated("c"), "no such key is staged"),
        (lambda made: made.activated(""), "no such key is staged"),
        (lambda made: made.removed("a"), "is the active key; activate another"),
        (lambda made: made.removed("c"), "no such key is in the ring"),
    ],
)
def test_each_refused_change_says_why(change, message):
    with pytest.raises(ValueError, match=message):
        change(ring(A, B))


def test_a_ring_that_replaces_another_keeps_the_objects_of_known_keys():
    former = ring(A, B)
    made = former.replaced(ring(C, key("b"), key("a")))
    assert (made.active_key_id, made.verification_key_ids) == ("c", ("a", "b"))
    assert [made.find(key_id) for key_id in ("a", "b", "c")] == [A, B, C]
    assert made.find("a") is A
    assert made.find("b") is B
    assert made.fingerprint == ring(C, A, B).fingerprint
    assert (former.active_key_id, former.verification_key_ids) == ("a", ("b",))
    assert former.replaced(ring(key("b"))).active_key is B


def test_a_ring_of_the_same_ids_roles_and_bytes_is_no_other_ring():
    former = ring(A, B)
    assert former.replaced(former) is former
    assert former.replaced(ring(key("a"), key("b"))) is former
    for other in (ring(A), ring(B, A), ring(A, B, C), ring(A, C)):
        assert former.replaced(other) is not former
        assert former.replaced(other).fingerprint == other.fingerprint


@pytest.mark.parametrize("other", [ring(key("a", "x")), ring(B, key("a", "x")), ring(A, key("b", "x"))])
def test_a_known_id_keeps_its_bytes(other):
    with pytest.raises(ValueError, match=r"'[ab]' with other bytes; give the new key an id of its own"):
        ring(A, B).replaced(other)


@pytest.mark.parametrize("what", [None, A, [], {}, ProtectionKeyring.with_active_key(A)])
def test_only_a_ring_replaces_a_ring(what):
    with pytest.raises(TypeError, match="must be a ProtectionKeyring"):
        ring(A).replaced(what)


def test_whether_a_ring_is_ephemeral_is_told_by_the_one_that_replaces():
    ephemeral = ProtectionKeyring.ephemeral()
    assert not ephemeral.replaced(ring(A)).is_ephemeral
    assert ring(A).replaced(ephemeral).is_ephemeral


def test_a_ring_lists_its_keys_by_id():
    assert ring(B, C, A).keys == (A, B, C)


def test_what_was_passed_in_place_of_an_id_is_not_repeated():
    for change in (ring(A).activated, ring(A).removed):
        with pytest.raises(ValueError, match="'a'") as caught:
            change("c2VjcmV0")
        assert "c2VjcmV0" not in str(caught.value)


def test_fingerprints_are_equal_only_for_equal_ids_roles_and_bytes():
    rings = [ring(*keys) for size in (1, 2, 3) for keys in itertools.permutations((A, B, C), size)]
    rings += [ring(key("a", "other")), ring(A, key("b", "other")), ring(key("b", "a"))]
    by_fingerprint = {}
    for made in rings:
        by_fingerprint.setdefault(made.fingerprint, set()).add((made.active_key_id, made.verification_key_ids))
    # The two orders in which two verification keys can be added are the one pair that is equal.
    assert len(by_fingerprint) == len(rings) - 3
    assert all(len(members) == 1 for members in by_fingerprint.values())
    assert ring(A, B, C).fingerprint == ring(A, C, B).fingerprint == ring(A).staged(C).staged(B).fingerprint
    assert ring(A, B).staged(C).activated("c").removed("a").fingerprint == ring(C, B).fingerprint


def test_ephemeral_rings_share_neither_id_nor_bytes():
    first, second = ProtectionKeyring.ephemeral(), ProtectionKeyring.ephemeral()
    assert first.is_ephemeral
    assert not ring(A).is_ephemeral
    assert first.active_key_id != second.active_key_id
    assert not first.active_key.same_secret(second.active_key)
