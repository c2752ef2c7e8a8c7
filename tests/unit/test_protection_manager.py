"""Live rotation: whole rings, reservations, and what is refused."""

import dataclasses
import json
import threading

import pytest

from mcpinput.errors import ProtectionKeyInUseError
from mcpinput.protection import ProtectionKey, ProtectionKeyring, ProtectionKeyringManager


def key(key_id, seed=None):
    return ProtectionKey.from_id_and_bytes(key_id, (seed or key_id).encode().ljust(32, b"."))


A, B, C = key("a"), key("b"), key("c")


@pytest.fixture
def manager():
    return ProtectionKeyringManager(ProtectionKeyring.with_active_key(A).build(), clock=lambda: 1000.5)


def test_the_way_to_rotate(manager):
    manager.stage_verification_key(B)
    assert manager.snapshot().active_key_id == "a"
    assert manager.snapshot().verification_key_ids == ("b",)
    manager.activate_staged_key("b")
    assert manager.snapshot().active_key_id == "b"
    assert manager.snapshot().verification_key_ids == ("a",)
    manager.remove_verification_key("a")
    assert manager.snapshot().verification_key_ids == ()


def test_managers_do_not_share_changes():
    ring = ProtectionKeyring.with_active_key(A).build()
    first, second = ProtectionKeyringManager(ring), ProtectionKeyringManager(ring)
    first.rotate_active_key(B)
    assert second.snapshot().active_key_id == "a"
    assert ring.verification_key_ids == ()


def test_staging_and_rotating_again_change_nothing(manager):
    for _ in range(2):
        manager.stage_verification_key(B)
    before = manager.snapshot()
    for _ in range(2):
        manager.rotate_active_key(key("b"))
    assert manager.snapshot().verification_key_ids == ("a",)
    manager.stage_verification_key(key("b"))
    assert manager.snapshot().active_key_id == "b"
    assert manager.snapshot().fingerprint != before.fingerprint


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.stage_verification_key(key("a", "x")), "with other bytes"),
        (lambda m: m.stage_verification_key(key("c", "b")), "same bytes"),
        (lambda m: m.rotate_active_key(key("b", "x")), "with other bytes"),
        (lambda m: m.rotate_active_key(key("c", "a")), "same bytes"),
        (lambda m: m.activate_staged_key("a"), "active key already"),
        (lambda m: m.activate_staged_key("c"), "no such key is staged"),
        (lambda m: m.remove_verification_key("a"), "is the active key"),
        (lambda m: m.remove_verification_key("c"), "no such key is in the ring"),
    ],
)
def test_a_refused_change_leaves_the_ring(manager, change, message):
    manager.stage_verification_key(B)
    before = manager.snapshot()
    with pytest.raises(ValueError, match=message):
        change(manager)
    assert manager.snapshot() == before


@pytest.mark.parametrize("what", [None, "b", b"x" * 32, []])
def test_only_keys_are_staged(manager, what):
    for change in (manager.stage_verification_key, manager.rotate_active_key):
        with pytest.raises(TypeError, match="ProtectionKey"):
            change(what)
    assert manager.snapshot().verification_key_ids == ()


@pytest.mark.parametrize("what", [None, [], A, ProtectionKeyring.with_active_key(A)])
def test_a_manager_starts_from_a_ring(what):
    with pytest.raises(TypeError, match="keyring"):
        ProtectionKeyringManager(what)


def test_a_key_with_reservations_cannot_be_removed(manager):
    first, second = manager.sealing(), manager.sealing()
    assert first.key is second.key is A
    assert manager.snapshot().sealing_reservations == {"a": 2}
    manager.rotate_active_key(B)
    third = manager.sealing()
    assert third.key is B
    assert manager.snapshot().sealing_reservations == {"a": 2, "b": 1}
    for reservation in (first, second):
        with pytest.raises(ProtectionKeyInUseError, match="'a'"):
            manager.remove_verification_key("a")
        assert manager.snapshot().verification_key_ids == ("a",)
        reservation.release()
        reservation.release()
    assert manager.snapshot().sealing_reservations == {"a": 0, "b": 1}
    manager.remove_verification_key("a")
    assert manager.snapshot().sealing_reservations == {"b": 1}


def test_last_used_tells_when_a_key_opened_something(manager):
    manager.stage_verification_key(B)
    assert manager.snapshot().last_used == {"a": None, "b": None}
    manager.note_opened("b")
    assert manager.snapshot().last_used == {"a": None, "b": 1000.5}
    manager.remove_verification_key("b")
    assert manager.snapshot().last_used == {"a": None}
    manager.stage_verification_key(B)
    assert manager.snapshot().last_used == {"a": None, "b": None}


def test_snapshots_stay_as_they_were_and_can_be_exported(manager):
    before = manager.snapshot()
    manager.rotate_active_key(B)
    reservation = manager.sealing()
    assert before.sealing_reservations == {"a": 0}
    assert before == ProtectionKeyringManager(ProtectionKeyring.with_active_key(A).build()).snapshot()
    reservation.release()
    with pytest.raises(TypeError):
        before.sealing_reservations["a"] = 7
    with pytest.raises(dataclasses.FrozenInstanceError):
        before.active_key_id = "b"
    assert json.loads(json.dumps(dataclasses.asdict(before)))["fingerprint"]["version"] == 2


def test_fingerprints_of_other_versions_are_never_equal(manager):
    fingerprint = manager.snapshot().fingerprint
    assert fingerprint == dataclasses.replace(fingerprint)
    for change in ({"version": 1}, {"profile": "other"}, {"value": "00"}):
        assert fingerprint != dataclasses.replace(fingerprint, **change)


def in_threads(*works):
    failures = []

    def guarded(work):
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_two_who_stage_at_once_both_get_their_key(manager):
    keys = [key(f"k{index}") for index in range(40)]

    def stage(share):
        return lambda: [manager.stage_verification_key(one) for one in share]

    in_threads(*(stage(keys[start::4]) for start in range(4)))
    assert manager.snapshot().verification_key_ids == tuple(sorted(one.id for one in keys))


def test_a_reservation_released_by_many_threads_counts_once(manager):
    held = manager.sealing()
    for _ in range(50):
        reservation = manager.sealing()
        in_threads(*[reservation.release] * 4)
    assert manager.snapshot().sealing_reservations == {"a": 1}
    held.release()


def test_no_key_is_removed_between_choice_and_count(manager):
    stop = threading.Event()

    def seal():
        while not stop.is_set():
            reservation = manager.sealing()
            assert manager.keyring.find(reservation.key.id) is reservation.key
            reservation.release()

    def swap():
        try:
            for index in range(300):
                former = manager.snapshot().active_key_id
                manager.rotate_active_key(key(f"k{index}"))
                removed = False
                while not removed:
                    try:
                        manager.remove_verification_key(former)
                        removed = True
                    except ProtectionKeyInUseError:
                        continue
        finally:
            stop.set()

    in_threads(swap, seal, seal, seal)
    assert manager.snapshot().sealing_reservations == {"k299": 0}
