"""Pre-fork servers: a child has the ring of its parent, and neither its locks nor its reservations."""

import contextlib
import gc
import json
import os
import signal
import sys
import threading
import traceback
import warnings

import pytest

from mcpinput._core.envelope import decode_token
from mcpinput.errors import ProtectionKeyInUseError
from mcpinput.protection import ProtectionKey, ProtectionKeyring, ProtectionKeyringManager
from mcpinput.protection.protector import open_token, seal_token
from tests.support.opening import open_with

SECONDS = 30
"""How long a child may take before it counts as dead; what it does takes milliseconds."""

TOKENS = 300


def key(key_id, seed=None):
    return ProtectionKey.from_id_and_bytes(key_id, (seed or key_id).encode().ljust(32, b"."))


def ring(active, *verification):
    builder = ProtectionKeyring.with_active_key(active)
    for other in verification:
        builder.verification_key(other)
    return builder.build()


A, B, C = key("a"), key("b"), key("c")


def in_child(work):
    """What a function returns in a forked child, by way of JSON; a child that hangs is ended by a signal."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads run: that is what is tested
        child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(SECONDS)
            answer = json.dumps(work())
            status = 0
        except BaseException:
            answer = traceback.format_exc()
        finally:
            with open(writing, "w") as pipe:
                pipe.write(answer)
            os._exit(status)
    os.close(writing)
    with open(reading) as pipe:
        told = pipe.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child ended with status {status}: {told or 'it hung'}"
    return json.loads(told)


def seal(manager, payload=b"state"):
    reservation = manager.sealing()
    try:
        return seal_token(reservation.key, os.urandom(24), payload)
    finally:
        reservation.release()


def use_everything(manager):
    """Seals, opens, rotates, removes, revokes and replaces; what a lock that nobody releases would stop."""
    token = seal(manager)
    key_id, payload = open_token(manager.keyring, token)
    assert payload == b"state"
    open_with(manager, manager.keyring.find(key_id))
    former = manager.keyring.active_key_id
    manager.rotate_active_key(key("child-1"))
    manager.remove_verification_key(former, revoke=True)
    manager.stage_verification_key(key("child-2"))
    manager.activate_staged_key("child-2")
    manager.remove_verification_key("child-1")
    manager.replace_keyring(ring(key("child-3")))
    assert open_token(manager.keyring, seal(manager)) == ("child-3", b"state")
    return "all went through"


@pytest.fixture
def background():
    """Runs functions in threads, again and again, until the test ends."""
    end, threads, failures = threading.Event(), [], []

    def again(work):
        try:
            while not end.is_set():
                work()
        except BaseException as error:
            failures.append(error)

    def start(*works):
        threads.extend(threading.Thread(target=again, args=(work,)) for work in works)
        for thread in threads:
            thread.start()

    before = sys.getswitchinterval()
    sys.setswitchinterval(0.0002)
    yield start
    end.set()
    for thread in threads:
        thread.join(SECONDS)
    sys.setswitchinterval(before)
    assert failures == []


def test_a_child_works_whatever_the_threads_of_its_parent_were_doing(background):
    manager = ProtectionKeyringManager(ring(A), on_change=lambda after: None)
    numbers = iter(range(1_000_000))

    def rotate():
        former = manager.keyring.active_key_id
        manager.rotate_active_key(key(f"k{next(numbers)}"))
        try:
            manager.remove_verification_key(former)
        except ProtectionKeyInUseError:
            manager.remove_verification_key(former, revoke=True)

    def replace():
        manager.replace_keyring(ring(key(f"k{next(numbers)}")), revoke=manager.keyring.verification_key_ids)

    def seal_and_open():
        reservation = manager.sealing()
        token = seal_token(reservation.key, os.urandom(24), b"state")
        if (found := manager.keyring).find(reservation.key.id) is not None:
            assert open_token(found, token)[1] == b"state"
        reservation.release()

    def in_use(work):
        def guarded():
            with contextlib.suppress(ProtectionKeyInUseError, ValueError):  # another thread was faster, or seals
                work()

        return guarded

    background(in_use(rotate), in_use(replace), seal_and_open, seal_and_open, lambda: seal(manager), manager.snapshot)

    def child():
        snapshot = manager.snapshot()
        assert set(snapshot.sealing_reservations.values()) == {0}
        assert snapshot.fingerprint == manager.keyring.fingerprint
        return use_everything(manager)

    for _ in range(40):
        assert in_child(child) == "all went through"


class SlowKey(ProtectionKey):
    """Waits where its id is read, once it is armed: so that a thread stays in the middle of a change."""

    __slots__ = ("armed", "go_on", "reached")

    @property
    def id(self):
        if self.armed():
            self.reached.set()
            assert self.go_on.wait(SECONDS)
        return self._id


@pytest.fixture
def slow():
    made = SlowKey.from_id_and_bytes("slow", b"slow".ljust(32, b"."))
    made.reached, made.go_on, made.armed = threading.Event(), threading.Event(), lambda: False
    return made


def test_a_change_that_another_thread_is_making_does_not_stop_the_child(slow):
    manager = ProtectionKeyringManager(ring(A))
    parent = os.getpid()
    slow.armed = lambda: os.getpid() == parent
    thread = threading.Thread(target=manager.stage_verification_key, args=(slow,))
    thread.start()
    assert slow.reached.wait(SECONDS)
    assert in_child(lambda: use_everything(manager)) == "all went through"
    slow.go_on.set()
    thread.join(SECONDS)
    assert manager.snapshot().verification_key_ids == ("slow",)


def test_a_ring_that_is_being_replaced_by_another_thread_seals_in_the_child(slow):
    manager = ProtectionKeyringManager(ring(slow))
    parent = os.getpid()
    slow.armed = lambda: os.getpid() == parent and manager._now.sealing is None
    thread = threading.Thread(target=manager.replace_keyring, args=(ring(A),))
    thread.start()
    assert slow.reached.wait(SECONDS)

    def child():
        assert manager.sealing().key is slow
        return [manager.snapshot().active_key_id, use_everything(manager)]

    assert in_child(child) == ["slow", "all went through"]
    slow.go_on.set()
    thread.join(SECONDS)
    assert manager.sealing().key is A


def test_a_child_tells_of_its_own_changes_while_the_parent_is_telling():
    told, reached, go_on = [], threading.Event(), threading.Event()
    parent = os.getpid()

    def on_change(after):
        told.append(after.active_key_id)
        if os.getpid() == parent:
            reached.set()
            assert go_on.wait(SECONDS)

    manager = ProtectionKeyringManager(ring(A), on_change=on_change)
    thread = threading.Thread(target=manager.rotate_active_key, args=(B,))
    thread.start()
    assert reached.wait(SECONDS)
    manager.rotate_active_key(C)  # untold so far: the parent will tell it, not the child

    def child():
        told.clear()
        manager.rotate_active_key(key("d"))
        return told

    assert in_child(child) == ["d"]
    go_on.set()
    thread.join(SECONDS)
    assert told == ["b", "c"]


def test_reservations_of_the_parent_are_not_the_childs():
    manager = ProtectionKeyringManager(ring(A, B))
    open_with(manager, B)
    inherited = manager.sealing()

    def child():
        before = manager.snapshot()
        own = manager.sealing()
        inherited.release()
        during = dict(manager.snapshot().sealing_reservations)
        manager.rotate_active_key(C)
        with pytest.raises(ProtectionKeyInUseError):
            manager.remove_verification_key("a")
        own.release()
        manager.remove_verification_key("a")
        return [dict(before.sealing_reservations), dict(before.last_used), during]

    assert in_child(child) == [{"a": 0, "b": 0}, {"a": None, "b": None}, {"a": 1, "b": 0}]
    assert manager.snapshot().sealing_reservations == {"a": 1, "b": 0}
    manager.activate_staged_key("b")
    with pytest.raises(ProtectionKeyInUseError):
        manager.remove_verification_key("a")
    inherited.release()
    manager.remove_verification_key("a")


def test_changes_of_parent_and_child_are_their_own_and_revoked_keys_stay_revoked():
    manager = ProtectionKeyringManager(ring(A, B, C))
    manager.remove_verification_key("c", revoke=True)

    def child():
        assert manager.snapshot().revoked_key_ids == ("c",)
        with pytest.raises(ValueError, match="'c' is revoked"):
            manager.stage_verification_key(C)
        manager.activate_staged_key("b")
        grandchild = in_child(lambda: [manager.snapshot().active_key_id, use_everything(manager)])
        return [*grandchild, manager.snapshot().active_key_id]

    assert in_child(child) == ["b", "all went through", "b"]
    assert manager.snapshot().active_key_id == "a"


def test_every_manager_of_the_process_works_in_the_child_and_dropped_ones_leave_nothing():
    managers = [ProtectionKeyringManager(ring(A)) for _ in range(5)]
    held = [manager.sealing() for manager in managers]
    dropped = ProtectionKeyringManager(ring(B))
    dropped_reservation = dropped.sealing()
    del dropped
    gc.collect()

    def child():
        dropped_reservation.release()
        counts = [manager.snapshot().sealing_reservations["a"] for manager in managers]
        return [counts, [use_everything(manager) for manager in managers]]

    assert in_child(child) == [[0] * 5, ["all went through"] * 5]
    assert [reservation.key for reservation in held] == [A] * 5


def test_parent_and_child_open_each_others_tokens_and_never_draw_the_same_nonce(background):
    """Cipher contexts of a thread are copied by the fork; nonces come from the operating system at each call."""
    manager = ProtectionKeyringManager(ring(A, B))
    payload = bytes(range(256)) * 8
    before = [seal(manager, payload) for _ in range(3)]  # now this thread has its cipher context
    background(*[lambda: open_token(manager.keyring, seal(manager, payload))] * 3)

    def tokens():
        made = [seal(manager, payload) for _ in range(TOKENS)]
        assert all(open_token(manager.keyring, token) == ("a", payload) for token in (*before, *made))
        return made

    def child():
        mine, theirs = tokens(), []
        thread = threading.Thread(target=lambda: theirs.extend(tokens()))  # a thread of its own context
        thread.start()
        thread.join(SECONDS)
        return mine + theirs

    children = [in_child(child) for _ in range(4)]
    everything = [*before, *tokens(), *(token for made in children for token in made)]
    assert len(everything) == 3 + TOKENS * 9
    for token in everything:
        assert open_token(manager.keyring, token) == ("a", payload)
    assert len({nonce(token) for token in everything}) == len(everything)


def nonce(token):
    return decode_token(token)[2]
