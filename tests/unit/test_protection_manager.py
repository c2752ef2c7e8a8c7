"""Live rotation: whole rings, reservations, and what is refused."""

import asyncio
import copy
import dataclasses
import gc
import json
import logging
import pickle
import sys
import threading
import weakref

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mcpinput.errors import ProtectionKeyInUseError
from mcpinput.protection import ProtectionKey, ProtectionKeyring, ProtectionKeyringManager
from mcpinput.protection import manager as manager_module
from tests.support.opening import open_with


def key(key_id, seed=None):
    return ProtectionKey.from_id_and_bytes(key_id, (seed or key_id).encode().ljust(32, b"."))


A, B, C = key("a"), key("b"), key("c")


def ring(active, *verification):
    builder = ProtectionKeyring.with_active_key(active)
    for other in verification:
        builder.verification_key(other)
    return builder.build()


@pytest.fixture
def told():
    """What ``on_change`` of the manager was given."""
    return []


@pytest.fixture
def manager(told):
    return ProtectionKeyringManager(ring(A), on_change=told.append)


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
        (lambda m: m.remove_verification_key("a", revoke=True), "is the active key; activate another"),
        (lambda m: m.remove_verification_key("c", revoke=True), "no such key is in the ring"),
        (lambda m: m.replace_keyring(ring(key("a", "x"))), "with other bytes"),
        (lambda m: m.replace_keyring(ring(C, B), revoke=["b"]), "'b' is revoked and cannot be in the ring"),
        (lambda m: m.replace_keyring(m.keyring, revoke=["b"]), "'b' is revoked and cannot be in the ring"),
        (
            lambda m: m.replace_keyring(ring(key("c", "a"), B), revoke=["a"]),
            "'c' has the bytes of 'a', which is revoked",
        ),
        (lambda m: m.stage_verification_key(key("r")), "'r' is revoked .* make a new key under an id of its own"),
        (lambda m: m.stage_verification_key(key("r", "x")), "'r' is revoked .* make a new key under an id of its own"),
        (lambda m: m.stage_verification_key(key("c", "r")), "'c' has the bytes of 'r', which is revoked; make a new"),
        (lambda m: m.rotate_active_key(key("r")), "'r' is revoked .* make a new key under an id of its own"),
        (lambda m: m.rotate_active_key(key("c", "r")), "'c' has the bytes of 'r', which is revoked; make a new"),
        (lambda m: m.replace_keyring(ring(A, key("r"))), "'r' is revoked"),
        (lambda m: m.replace_keyring(ring(key("c", "r"), B)), "'c' has the bytes of 'r'"),
        (lambda m: m.activate_staged_key("r"), "'r' was revoked; stage a new key"),
        (lambda m: m.remove_verification_key("r"), "'r' was revoked already"),
        (lambda m: m.remove_verification_key("r", revoke=True), "'r' was revoked already"),
    ],
)
def test_a_refused_change_leaves_the_ring(manager, told, change, message):
    manager.replace_keyring(ring(A, B, key("r")))
    manager.remove_verification_key("r", revoke=True)
    before = manager.snapshot()
    former = manager.keyring
    told.clear()
    with pytest.raises(ValueError, match=message):
        change(manager)
    assert manager.snapshot() == before
    assert manager.keyring is former
    assert told == []


@pytest.mark.parametrize("what", [None, "b", b"x" * 32, []])
def test_only_keys_are_staged(manager, what):
    for change in (manager.stage_verification_key, manager.rotate_active_key):
        with pytest.raises(TypeError, match="ProtectionKey"):
            change(what)
    assert manager.snapshot().verification_key_ids == ()


@pytest.mark.parametrize("what", [None, [], A, ProtectionKeyring.with_active_key(A)])
def test_a_manager_starts_from_a_ring_and_changes_to_rings(manager, what):
    with pytest.raises(TypeError, match="keyring"):
        ProtectionKeyringManager(what)
    with pytest.raises(TypeError, match="keyring"):
        manager.replace_keyring(what)


# ---- whole other rings ----


def test_a_ring_is_replaced_in_one_step(manager, told):
    open_with(manager, A)
    held = manager.sealing()
    manager.replace_keyring(ring(B, key("a"), C))
    (after,) = told
    assert (after.active_key_id, after.verification_key_ids) == ("b", ("a", "c"))
    assert after.fingerprint == ring(B, A, C).fingerprint
    assert after.sealing_reservations == {"a": 1, "b": 0, "c": 0}
    assert after.last_used == {"a": 1000.5, "b": None, "c": None}
    assert manager.keyring.find("a") is held.key is A
    assert manager.sealing().key is B


def test_a_ring_with_the_same_keys_and_roles_changes_nothing(manager, told):
    manager.stage_verification_key(B)
    former = manager.keyring
    told.clear()
    manager.replace_keyring(ring(key("a"), key("b")))
    manager.replace_keyring(former, revoke=["unknown"])
    assert manager.keyring is former
    assert manager.snapshot().revoked_key_ids == ()
    assert told == []


def test_a_ring_is_not_replaced_while_a_key_that_it_lacks_is_reserved(manager, told):
    manager.replace_keyring(ring(B, A, C))
    told.clear()
    held = manager.sealing()
    with pytest.raises(ProtectionKeyInUseError, match=r"^key 'b' cannot be removed yet: 1 sealed states"):
        manager.replace_keyring(ring(A))
    assert manager.keyring.active_key_id == "b"
    assert told == []
    manager.activate_staged_key("c")
    others = [manager.sealing(), manager.sealing()]
    with pytest.raises(ProtectionKeyInUseError, match=r"^key 'b', 'c' cannot be removed yet: 3 sealed states"):
        manager.replace_keyring(ring(A))
    assert manager.sealing().key is C  # still the one that seals
    for reservation in (held, *others):
        reservation.release()
    with pytest.raises(ProtectionKeyInUseError, match=r"^key 'c' cannot"):
        manager.replace_keyring(ring(A))
    manager.replace_keyring(ring(A), revoke=["c"])
    assert manager.snapshot().sealing_reservations == {"a": 0}
    assert manager.sealing().key is A


class SlowKey(ProtectionKey):
    """Waits where its id is read while it is being decided whether it can be dropped."""

    __slots__ = ("go_on", "manager", "reached")

    @property
    def id(self):
        if self.manager is not None and self.manager._now.sealing is None:
            self.reached.set()
            assert self.go_on.wait(30)
        return self._id


@pytest.fixture
def slow():
    made = SlowKey.from_id_and_bytes("slow", b"slow".ljust(32, b"."))
    made.manager, made.reached, made.go_on = None, threading.Event(), threading.Event()
    return made


@pytest.mark.parametrize("held", [False, True])
def test_who_seals_or_opens_sees_nothing_of_a_change_that_is_being_decided(slow, held):
    manager = ProtectionKeyringManager(ring(slow))
    reservation = manager.sealing()
    if not held:
        reservation.release()
    slow.manager = manager
    refused, chosen = [], []

    def replace():
        try:
            manager.replace_keyring(ring(A))
        except ProtectionKeyInUseError as error:
            refused.append(error)

    deciding = threading.Thread(target=replace)
    sealing = threading.Thread(target=lambda: chosen.append(manager.sealing().key))
    deciding.start()
    assert slow.reached.wait(30)
    assert manager.keyring.find("slow") is slow
    assert manager.keyring.find("a") is None
    sealing.start()
    sealing.join(0.05)
    assert chosen == []
    slow.go_on.set()
    for thread in (deciding, sealing):
        thread.join(30)
    assert chosen == [slow if held else A]
    assert len(refused) == held


@pytest.mark.parametrize("revoke", ["a", None, 1, [b"a"], [None], [A]])
def test_what_is_revoked_is_told_by_ids(manager, revoke):
    with pytest.raises(TypeError, match=r"revoke must be|not iterable"):
        manager.replace_keyring(ring(B), revoke=revoke)
    assert manager.snapshot().active_key_id == "a"


# ---- revoked keys ----


def test_a_revoked_key_is_gone_whatever_holds_it(manager, told):
    first = manager.sealing()
    manager.rotate_active_key(B)
    told.clear()
    manager.remove_verification_key("a", revoke=True)
    assert manager.keyring.find("a") is None
    (after,) = told
    assert after.revoked_key_ids == ("a",)
    assert after.sealing_reservations == {"b": 0}
    first.release()
    assert manager.snapshot() == after


def test_the_key_that_seals_is_revoked_by_a_ring_in_which_another_does(manager):
    held = manager.sealing()
    manager.replace_keyring(ring(B, C), revoke=iter(["a", "elsewhere"]))
    assert manager.sealing().key is B
    assert manager.snapshot().revoked_key_ids == ("a",)
    held.release()
    with pytest.raises(ValueError, match="'a' is revoked"):
        manager.stage_verification_key(A)


def test_revoking_again_by_a_ring_is_no_change(manager, told):
    manager.replace_keyring(ring(B), revoke=["a"])
    told.clear()
    manager.replace_keyring(ring(B), revoke=["a"])
    assert told == []
    manager.replace_keyring(ring(C, B), revoke=["a"])
    manager.remove_verification_key("b", revoke=True)
    assert [after.revoked_key_ids for after in told] == [("a",), ("a", "b")]


def test_a_key_that_was_removed_without_being_revoked_comes_back(manager):
    manager.rotate_active_key(B)
    manager.remove_verification_key("a")
    manager.stage_verification_key(A)
    assert manager.snapshot().verification_key_ids == ("a",)


# ---- telling of changes ----


def test_each_change_is_told_once_after_it_was_made(manager, told):
    manager.stage_verification_key(B)
    manager.activate_staged_key("b")
    manager.rotate_active_key(C)
    manager.remove_verification_key("a")
    manager.replace_keyring(ring(A))
    for _ in range(2):  # nothing changes
        manager.rotate_active_key(A)
        manager.stage_verification_key(A)
        manager.replace_keyring(ring(A))
    roles = [(after.active_key_id, *after.verification_key_ids) for after in told]
    assert roles == [("a", "b"), ("b", "a"), ("c", "a", "b"), ("c", "b"), ("a",)]


def test_what_is_told_is_the_ring_of_the_manager_by_then():
    seen = []
    manager = ProtectionKeyringManager(
        ring(A), on_change=lambda after: seen.append((after.fingerprint, manager.keyring.fingerprint))
    )
    manager.stage_verification_key(B)
    manager.activate_staged_key("b")
    assert [one == other for one, other in seen] == [True, True]


def test_who_is_told_may_change_the_ring_and_is_told_of_that_later():
    order = []

    def on_change(after):
        order.append(("begin", after.active_key_id, after.verification_key_ids))
        if after.active_key_id == "b":
            manager.rotate_active_key(C)
            assert manager.snapshot().active_key_id == "c"
            manager.sealing().release()
        order.append(("end", after.active_key_id))

    manager = ProtectionKeyringManager(ring(A), on_change=on_change)
    manager.rotate_active_key(B)
    assert order == [("begin", "b", ("a",)), ("end", "b"), ("begin", "c", ("a", "b")), ("end", "c")]


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.stage_verification_key(C),
        lambda m: m.activate_staged_key("b"),
        lambda m: m.rotate_active_key(C),
        lambda m: m.remove_verification_key("b"),
        lambda m: m.replace_keyring(ring(C)),
    ],
)
def test_whoever_is_told_waits_for_nothing_in_the_manager(change):
    told = []

    def on_change(after):
        told.append(after)
        if len(told) == 1:
            manager.sealing().release()
            manager.rotate_active_key(key("d"))

    manager = ProtectionKeyringManager(ring(A, B), on_change=on_change)
    worker = threading.Thread(target=change, args=(manager,), daemon=True)
    worker.start()
    worker.join(30)
    assert not worker.is_alive()
    assert [after.active_key_id == "d" for after in told] == [False, True]


def test_changes_are_told_in_their_order_by_whoever_tells_already():
    inside, go_on, order = threading.Event(), threading.Event(), []

    def on_change(after):
        inside.set()
        assert go_on.wait(30)
        order.append((after.verification_key_ids, threading.current_thread()))

    manager = ProtectionKeyringManager(ring(A), on_change=on_change)
    teller = threading.Thread(target=manager.stage_verification_key, args=(B,))
    teller.start()
    assert inside.wait(30)
    manager.stage_verification_key(C)  # returns, though nobody could be told yet
    assert manager.snapshot().verification_key_ids == ("b", "c")
    go_on.set()
    teller.join(30)
    assert order == [(("b",), teller), (("b", "c"), teller)]


def test_many_threads_are_told_of_in_the_order_of_changes(caplog):
    told = []
    manager = ProtectionKeyringManager(ring(A), on_change=told.append)
    with caplog.at_level(logging.CRITICAL, "mcpinput"):
        in_threads(
            *(
                lambda part=part: [manager.stage_verification_key(key(f"{part}-{n}")) for n in range(60)]
                for part in "xyz"
            )
        )
    assert [len(after.verification_key_ids) for after in told] == list(range(1, 181))


@pytest.mark.parametrize("error", [RuntimeError, SystemExit, asyncio.CancelledError, ProtectionKeyInUseError])
def test_what_a_listener_raises_is_logged_by_type_and_changes_nothing(error, caplog):
    told = []

    def on_change(after):
        told.append(after.active_key_id)
        raise error("text with a secret")

    manager = ProtectionKeyringManager(ring(A), on_change=on_change)
    manager.rotate_active_key(B)
    manager.rotate_active_key(C)
    assert told == ["b", "c"]
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.getMessage() for record in errors] == [
        f"on_change raised {error.__name__} after the keyring had changed"
    ] * 2
    assert not any(record.exc_info for record in errors)
    assert "secret" not in caplog.text


def test_an_interrupt_while_telling_goes_through_and_the_rest_is_told_later():
    told = []

    def on_change(after):
        told.append(after.active_key_id)
        if after.active_key_id == "b":
            raise KeyboardInterrupt

    manager = ProtectionKeyringManager(ring(A), on_change=on_change)
    with pytest.raises(KeyboardInterrupt):
        manager.rotate_active_key(B)
    assert manager.snapshot().active_key_id == "b"
    manager.rotate_active_key(C)
    assert told == ["b", "c"]


@pytest.mark.parametrize("listener", ["text", 1, [].append, object()])
def test_a_listener_is_a_plain_function(listener):
    async def nobody_awaits_this(after):
        raise AssertionError

    if callable(listener):
        ProtectionKeyringManager(ring(A), on_change=listener).rotate_active_key(B)
    else:
        with pytest.raises(TypeError, match="on_change must be a plain function"):
            ProtectionKeyringManager(ring(A), on_change=listener)
    with pytest.raises(TypeError, match="nobody awaits it"):
        ProtectionKeyringManager(ring(A), on_change=nobody_awaits_this)


def test_each_change_is_logged_with_ids_roles_and_fingerprint(manager, caplog):
    caplog.set_level(logging.INFO, "mcpinput")
    manager.stage_verification_key(B)
    manager.stage_verification_key(B)
    manager.replace_keyring(ring(C), revoke=["b"])
    assert [(record.name, record.levelname, record.getMessage()) for record in caplog.records] == [
        (
            "mcpinput",
            "INFO",
            "keyring changed: active a, verification b, revoked none, fingerprint " + ring(A, B).fingerprint.value,
        ),
        (
            "mcpinput",
            "INFO",
            "keyring changed: active c, verification none, revoked b, fingerprint " + ring(C).fingerprint.value,
        ),
    ]


# ---- reservations ----


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
    open_with(manager, B)
    assert manager.snapshot().last_used == {"a": None, "b": 1000.5}
    manager.remove_verification_key("b")
    assert manager.snapshot().last_used == {"a": None}
    manager.stage_verification_key(B)
    assert manager.snapshot().last_used == {"a": None, "b": None}


def test_an_opening_that_ends_after_its_key_was_removed_is_not_noted(manager):
    manager.stage_verification_key(B)
    manager.remove_verification_key("b")
    open_with(manager, B)
    manager.stage_verification_key(B)
    assert manager.snapshot().last_used == {"a": None, "b": None}


def test_a_late_second_release_does_not_touch_a_key_that_left_and_came_back(manager):
    late = manager.sealing()
    manager.rotate_active_key(B)
    late.release()
    manager.remove_verification_key("a")
    manager.rotate_active_key(A)
    held = manager.sealing()
    late.release()
    assert manager.snapshot().sealing_reservations == {"a": 1, "b": 0}
    held.release()


def test_a_collection_in_the_middle_of_a_change_may_release_reservations(manager):
    """A coroutine that is dropped runs its ``finally`` in whichever thread the collector happens to run."""
    held = [manager.sealing() for _ in range(1000)]
    others = held[500:]
    in_a_change = []

    def finalizer(phase, info):
        if held and phase == "start":
            in_a_change.append(manager.keyring.active_key_id)
            held.pop(0).release()
            open_with(manager, A)

    def change():
        keys = [key(f"k{index}") for index in range(20)]
        before = gc.get_threshold()
        gc.callbacks.append(finalizer)
        gc.set_threshold(1, 1000, 1000)
        try:
            for one in keys:
                manager.rotate_active_key(one)
        finally:
            gc.set_threshold(*before)
            gc.callbacks.remove(finalizer)

    worker = threading.Thread(target=change, daemon=True)
    worker.start()
    worker.join(60)
    assert not worker.is_alive()
    assert len(set(in_a_change)) > 1
    for reservation in held + others:
        reservation.release()
    assert set(manager.snapshot().sealing_reservations.values()) == {0}


def test_neither_managers_nor_reservations_are_kept_alive_or_copied(manager):
    reservation = manager.sealing()
    for thing in (manager, reservation):
        for take in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="key material"):
                take(thing)
    dropped = ProtectionKeyringManager(ring(A))
    dropped.sealing()
    gone = weakref.ref(dropped)
    del dropped
    gc.collect()
    assert gone() is None


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


# ---- every interleaving, line by line ----


def before_each_line(work, other):
    """Runs ``work`` as often as it has lines in the manager's module, each time with ``other`` before another line.

    Both get a new manager and its reservations; yields what both returned.
    """
    at, reached = 0, True
    while reached:
        manager = ProtectionKeyringManager(ring(A, B))
        reached, count, answer = False, 0, None

        def trace(frame, event, arg, manager=manager, at=at):
            nonlocal reached, count, answer
            if frame.f_code.co_filename != manager_module.__file__:
                return None
            if event == "line":
                if count == at:
                    reached, answer = True, other(manager)
                count += 1
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            done = work(manager)
        finally:
            sys.settrace(before)
        yield manager, done, answer
        at += 1


def attempt(change):
    """A change as a function of the manager, which tells whether it was made."""

    def attempted(manager):
        try:
            change(manager)
        except ProtectionKeyInUseError:
            return False
        return True

    return attempted


DROPPING_A = {
    "one by one": lambda m: (m.activate_staged_key("b"), m.remove_verification_key("a")),
    "at once": lambda m: m.replace_keyring(ring(C, B)),
    "and another": lambda m: m.replace_keyring(ring(C)),
}
each_way_to_drop = pytest.mark.parametrize("drop", DROPPING_A.values(), ids=DROPPING_A)


@each_way_to_drop
def test_a_key_that_is_dropped_in_the_middle_of_a_choice_is_not_chosen(drop):
    chosen = []
    for manager, reservation, dropped in before_each_line(lambda m: m.sealing(), attempt(drop)):
        key_id = reservation.key.id
        assert manager.keyring.find(key_id) is reservation.key
        assert manager.snapshot().sealing_reservations[key_id] == 1
        assert sum(manager.snapshot().sealing_reservations.values()) == 1
        chosen.append((dropped, key_id))
    assert chosen[0][0]
    assert chosen[0][1] != "a"
    assert chosen[-1] == (None, "a")
    assert len(chosen) > 5


@each_way_to_drop
def test_a_key_that_is_chosen_in_the_middle_of_a_change_is_not_dropped(drop):
    def seal(manager):
        # While it is being decided, who seals waits; that is seen with a second thread, above.
        return None if manager._now.sealing is None else manager.sealing()

    outcomes = set()
    for manager, dropped, reservation in before_each_line(attempt(drop), seal):
        if reservation is not None:
            key_id = reservation.key.id
            assert manager.keyring.find(key_id) is reservation.key
            assert manager.snapshot().sealing_reservations[key_id] == 1
            outcomes.add((dropped, key_id))
        assert (manager.keyring.find("a") is None) == dropped
        manager.sealing().release()
    assert (False, "a") in outcomes
    assert any(dropped and key_id != "a" for dropped, key_id in outcomes)


@each_way_to_drop
def test_who_looks_in_the_middle_of_a_change_sees_the_ring_before_or_after(drop):
    rings = []
    for manager, _, seen in before_each_line(attempt(drop), lambda m: (m.keyring, m.snapshot(), len(m._untold))):
        if seen is not None:
            keyring, snapshot, untold = seen
            assert snapshot.fingerprint == keyring.fingerprint
            assert snapshot.sealing_reservations.keys() == {one.id for one in keyring.keys}
            assert not (untold and keyring.find("a") is keyring.active_key), "it would be told before it was made"
            if keyring.fingerprint not in rings:
                rings.append(keyring.fingerprint)
            if keyring.fingerprint == manager.keyring.fingerprint:
                assert snapshot == manager.snapshot()
    assert len(rings) == (3 if rings[1] == ring(B, A).fingerprint else 2)


# ---- against a simple model ----

KEYS = [key(f"k{index}") for index in range(4)] + [key("k0", "other bytes"), key("k4", "k1")]
keys = st.sampled_from(KEYS)
ids = st.sampled_from(["k0", "k1", "k2", "k3", "k4"])


class ManagerMachine(RuleBasedStateMachine):
    """The manager against what a page of plain Python says of it: a dict of keys, the active id, lists of seals."""

    @initialize(first=keys)
    def begin(self, first):
        self.told = []
        self.active = first.id
        self.keys = {first.id: first}
        self.revoked = {}
        self.seals = []
        self.used = {}
        self.time = 0.0
        self.manager = ProtectionKeyringManager(ring(first), on_change=self.told.append)

    def change(self, method, *args, allowed, active=None, keys=None, revoked=(), **options):
        """Makes a change that the model allows or not, and holds the manager to it."""
        former, times = self.manager.keyring, len(self.told)
        if not allowed:
            with pytest.raises((ValueError, ProtectionKeyInUseError)):
                method(*args, **options)
            assert self.manager.keyring is former
            assert len(self.told) == times
            return
        method(*args, **options)
        after = (active or self.active, self.keys if keys is None else keys)
        assert len(self.told) - times == (after != (self.active, self.keys))
        self.revoked |= {key_id: self.keys[key_id] for key_id in revoked}
        self.active, self.keys = after
        self.used = {key_id: when for key_id, when in self.used.items() if key_id in self.keys}
        self.seals = [seal for seal in self.seals if seal.key.id in self.keys]

    def can_join(self, key):
        others = [*self.keys.values(), *self.revoked.values()]
        return key in self.keys.values() or not any(key.id == other.id or key.same_secret(other) for other in others)

    @rule(key=keys)
    def stage(self, key):
        joined = {**self.keys, key.id: key}
        self.change(self.manager.stage_verification_key, key, allowed=self.can_join(key), keys=joined)

    @rule(key=keys)
    def rotate(self, key):
        joined = {**self.keys, key.id: key}
        self.change(self.manager.rotate_active_key, key, allowed=self.can_join(key), active=key.id, keys=joined)

    @rule(key_id=ids)
    def activate(self, key_id):
        allowed = key_id in self.keys and key_id != self.active
        self.change(self.manager.activate_staged_key, key_id, allowed=allowed, active=key_id)

    @rule(key_id=ids, revoke=st.booleans())
    def remove(self, key_id, revoke):
        held = any(seal.key.id == key_id for seal in self.seals)
        allowed = key_id in self.keys and key_id != self.active and (revoke or not held)
        rest = {known: key for known, key in self.keys.items() if known != key_id}
        method = self.manager.remove_verification_key
        self.change(method, key_id, allowed=allowed, keys=rest, revoked=[key_id] if revoke else [], revoke=revoke)

    @rule(chosen=st.lists(keys, min_size=1, unique_by=lambda key: key.id), revoke=st.sets(ids))
    def replace(self, chosen, revoke):
        if len(chosen) > len({key.output("fingerprint") for key in chosen}):
            return  # no ring has one secret twice
        keys = {key.id: key for key in chosen}
        revoked = {key_id: self.keys[key_id] for key_id in revoke & self.keys.keys()}
        dead = {**self.revoked, **revoked}
        waits = self.keys.keys() - keys.keys() - revoked.keys()
        allowed = (
            not any(key.id in dead or any(key.same_secret(other) for other in dead.values()) for key in chosen)
            and all(self.keys.get(key.id, key) == key for key in chosen)
            and not any(seal.key.id in waits for seal in self.seals)
        )
        method = self.manager.replace_keyring
        new = ring(*chosen)
        self.change(method, new, allowed=allowed, active=new.active_key_id, keys=keys, revoked=revoked, revoke=revoke)

    @rule()
    def seal(self):
        reservation = self.manager.sealing()
        assert reservation.key.id == self.active
        self.seals.append(reservation)

    @rule(data=st.data())
    def release(self, data):
        if self.seals:
            seal = self.seals.pop(data.draw(st.integers(0, len(self.seals) - 1)))
            seal.release()
            seal.release()

    @rule(key_id=ids)
    def open(self, key_id):
        self.time += 1.5
        open_with(self.manager, self.keys.get(key_id, key("stranger")), self.time)
        if key_id in self.keys:
            self.used[key_id] = self.time

    @invariant()
    def tells_the_truth(self):
        snapshot = self.manager.snapshot()
        seals = [seal.key.id for seal in self.seals]
        assert snapshot.active_key_id == self.manager.keyring.active_key_id == self.active
        assert snapshot.verification_key_ids == tuple(sorted(self.keys.keys() - {self.active}))
        assert snapshot.sealing_reservations == {key_id: seals.count(key_id) for key_id in self.keys}
        assert snapshot.last_used == {key_id: self.used.get(key_id) for key_id in self.keys}
        assert snapshot.revoked_key_ids == tuple(sorted(self.revoked))
        others = [key for key_id, key in self.keys.items() if key_id != self.active]
        assert snapshot.fingerprint == ring(self.keys[self.active], *others).fingerprint
        assert {key_id: self.manager.keyring.find(key_id) for key_id in self.keys} == self.keys
        if self.told:
            assert self.told[-1].fingerprint == snapshot.fingerprint


TestManagerAgainstModel = ManagerMachine.TestCase
TestManagerAgainstModel.settings = settings(deadline=None, max_examples=60, stateful_step_count=40)
