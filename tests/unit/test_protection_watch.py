"""A ring that follows a file of keys: which key seals when, what stays for how long, what is told, and the thread."""

from __future__ import annotations

import gc
import json
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpinput import KeyFile, KeyFileError, ProtectionKey, RequestStateProtectionError
from mcpinput.protection import KeyFileWatcher, watch
from mcpinput.protection.protector import open_token, seal_token
from tests.support.keyfiles import IDS, assert_shows_no_key, bytes_of, document, entry, everything_told, put, raised
from tests.unit.test_protection_keyfile import mounted

START = datetime(2026, 12, 1, 12, 0, tzinfo=UTC).timestamp()
LIFETIME = 900.0
RETENTION = LIFETIME + 60
DELAY = 120.0
SECONDS = 30.0
"""How long a thread or process may take before a test fails; it takes much less."""


def at(seconds: float) -> str:
    """A time of the tests' clock, which starts at 0, as files spell it."""
    return datetime.fromtimestamp(START + seconds, UTC).isoformat().replace("+00:00", "Z")


class Following:
    """A watcher, its file, and a clock that stands still."""

    def __init__(self, path: Path, content: dict[str, Any] | bytes, **settings: Any) -> None:
        self.path = path
        self.now = 0.0
        self.problems: list[str] = []
        self.rings: list[str] = []
        self.write(content)
        self.watcher = KeyFile(path, **settings).follow(
            clock=lambda: START + self.now,
            maximum_lifetime_ms=round(LIFETIME * 1000),
            on_change=lambda snapshot: self.rings.append(self.ring),
            on_problem=self.problems.append,
        )

    def write(self, content: dict[str, Any] | bytes) -> None:
        put(self.path, content)

    def poll(self, now: float, content: dict[str, Any] | bytes | None = None) -> str:
        """The ring once it is ``now`` and the file has new content."""
        if content is not None:
            self.write(content)
        self.now = now
        self.watcher.poll_once()
        return self.ring

    @property
    def ring(self) -> str:
        """The key that seals, and the others that open: ``k2 k0 k1``."""
        ring = self.watcher.manager.keyring
        return " ".join((ring.active_key_id, *ring.verification_key_ids))


Follow = Callable[..., Following]


@pytest.fixture
def follow(tmp_path: Path) -> Follow:
    def start(content: dict[str, Any] | bytes, **settings: Any) -> Following:
        return Following(tmp_path / "keys.json", content, **settings)

    return start


# ---- which key seals when ----


def test_a_single_key_seals_at_once(follow: Follow) -> None:
    following = follow(document("k1", "k1"))
    assert following.ring == "k1"
    assert following.poll(1) == "k1"
    assert following.rings == []


def test_a_new_single_key_seals_at_once(follow: Follow) -> None:
    following = follow(document("k1", "k1"))
    assert following.poll(1, document("k2", "k2")) == "k2 k1"
    assert following.poll(2, document("k3", entry("k3", not_before=at(-5)), entry("k2", revoked=True))) == "k3 k1"


def test_a_staged_key_opens_and_does_not_seal(follow: Follow) -> None:
    following = follow(document("k1", "k1"))
    assert following.poll(1, document("k1", "k1", "k2")) == "k1 k2"
    assert following.poll(1000) == "k1 k2"
    assert following.poll(1001, document("k1", "k2", "k1")) == "k1 k2"


def test_an_active_key_without_not_before_waits(follow: Follow) -> None:
    following = follow(document("k1", "k1"))
    following.poll(1000, document("k1", "k1", "k2"))
    assert following.poll(2000, document("k2", "k1", "k2")) == "k1 k2"
    assert following.poll(2000 + DELAY - 0.1) == "k1 k2"
    assert following.poll(2000 + DELAY) == "k2 k1"
    assert following.rings == ["k1 k2", "k2 k1"]


def test_the_delay_is_that_of_the_key_file(follow: Follow) -> None:
    following = follow(document("k1", "k1"), activation_delay=timedelta(seconds=5))
    assert following.poll(10, document("k2", "k1", "k2")) == "k1 k2"
    assert following.poll(14.9) == "k1 k2"
    assert following.poll(15) == "k2 k1"


def test_an_active_key_without_not_before_waits_after_a_start(follow: Follow) -> None:
    following = follow(document("k2", "k1", "k2"))
    assert following.ring == "k1 k2"
    assert following.poll(DELAY - 0.1) == "k1 k2"
    assert following.poll(DELAY) == "k2 k1"


def test_a_key_that_was_staged_by_hand_does_not_seal_after_a_start(follow: Follow) -> None:
    following = follow(document("k1", entry("k1", created=at(-9000)), entry("k2", created=at(-10))))
    assert following.ring == "k1 k2"


def test_previous_seals_until_then(follow: Follow) -> None:
    content = document("k2", "k0", "k1", entry("k2", not_before=at(300)), previous="k1")
    following = follow(content)
    assert following.ring == "k1 k0 k2"
    assert following.poll(299.9) == "k1 k0 k2"
    assert following.poll(300) == "k2 k0 k1"


@pytest.mark.parametrize("seconds", [-9000, 0, 299])
def test_a_restart_changes_nothing_where_the_file_has_the_time(follow: Follow, seconds: float) -> None:
    content = document("k2", "k1", entry("k2", not_before=at(seconds)), previous="k1")
    running = follow(document("k1", "k1", "k2"))
    running.poll(-10_000, document("k1", "k1", "k2"))
    running.poll(-5000, content)
    for now in (-9000.0, -1.0, 0.0, 298.9, 299.0, 5000.0):
        if now < -5000:
            continue
        running.poll(now)
        running.write(content)
        started = Following(running.path, content)
        started.now = now
        restarted = KeyFile(running.path).follow(clock=lambda now=now: START + now, maximum_lifetime_ms=900_000)  # type: ignore[misc]
        assert restarted.manager.keyring.active_key_id == running.ring[:2]


def test_a_key_that_a_running_process_meets_waits_whatever_its_not_before(follow: Follow) -> None:
    following = follow(document("k1", "k1"))
    content = document("k2", "k1", entry("k2", not_before=at(1010)), previous="k1")
    assert following.poll(1000, content) == "k1 k2"
    assert following.poll(1010) == "k1 k2"
    assert following.poll(1000 + DELAY - 0.1) == "k1 k2"
    assert following.poll(1000 + DELAY) == "k2 k1"


def test_a_key_that_was_staged_in_time_seals_at_its_not_before(follow: Follow) -> None:
    following = follow(document("k1", "k1"))
    following.poll(1000, document("k1", "k1", "k2"))
    assert following.poll(1100, document("k2", "k1", entry("k2", not_before=at(1130)), previous="k1")) == "k1 k2"
    assert following.poll(1129.9) == "k1 k2"
    assert following.poll(1130) == "k2 k1"


def test_a_not_before_that_moves_is_followed(follow: Follow) -> None:
    def content(seconds: float) -> dict[str, Any]:
        return document("k2", "k1", entry("k2", not_before=at(seconds)), previous="k1")

    following = follow(content(100))
    assert following.poll(100) == "k2 k1"
    assert following.poll(101, content(500)) == "k1 k2"
    assert following.poll(499.9) == "k1 k2"
    assert following.poll(500) == "k2 k1"


def test_going_back_to_the_former_key_waits_for_nothing(follow: Follow) -> None:
    following = follow(document("k1", "k1"))
    following.poll(1000, document("k2", "k1", "k2"))
    following.poll(1000 + DELAY)
    assert following.ring == "k2 k1"
    assert following.poll(2000, document("k1", "k1", "k2")) == "k1 k2"


def test_times_pass_without_a_file_that_can_be_read(follow: Follow) -> None:
    following = follow(document("k2", "k1", entry("k2", not_before=at(300)), previous="k1"))
    assert following.poll(299, b"") == "k1 k2"
    assert following.poll(300) == "k2 k1"


def test_a_process_that_was_idle_seals_under_no_key_that_is_new(follow: Follow) -> None:
    following = follow(document("k1", "k1"))
    content = document(
        "k2",
        entry("k2", created=at(1000), not_before=at(2000)),
        entry("k3", created=at(9000)),
        entry("k0", revoked=True),
    )
    assert following.poll(9001, content) == "k2 k1 k3"


# ---- revoked ----


def opens(watcher: KeyFileWatcher, token: str) -> bool:
    try:
        open_token(watcher.manager.keyring, token)
    except RequestStateProtectionError:
        return False
    return True


def test_a_revoked_key_opens_nothing_even_while_seals_hold_it(follow: Follow) -> None:
    following = follow(document("k1", "k1", "k2"))
    following.poll(DELAY)
    held = following.watcher.manager.sealing()
    token = seal_token(held.key, bytes(24), b"payload")
    assert opens(following.watcher, token)
    assert following.poll(200, document("k2", entry("k1", revoked=True), "k2")) == "k2"
    assert not opens(following.watcher, token)
    assert following.watcher.manager.snapshot().revoked_key_ids == ("k1",)
    held.release()
    assert following.problems == []


def test_where_the_key_that_seals_is_revoked_another_one_seals_at_once(follow: Follow) -> None:
    following = follow(document("k1", "k1"))
    content = document("k2", entry("k1", revoked=True), entry("k2", not_before=at(0)))
    assert following.poll(1, content) == "k2"


def test_where_previous_is_revoked_another_one_seals_at_once(follow: Follow) -> None:
    following = follow(document("k2", "k0", "k1", entry("k2", not_before=at(300)), previous="k1"))
    assert following.ring == "k1 k0 k2"
    revoked = document("k2", "k0", entry("k1", revoked=True), entry("k2", not_before=at(300)), previous="k1")
    assert following.poll(1, revoked) == "k0 k2"
    assert following.poll(2, document("k2", entry("k0", revoked=True), "k2")) == "k2"


def test_a_key_that_has_left_the_file_can_still_be_revoked(follow: Follow) -> None:
    following = follow(document("k1", "k1", "k2"))
    assert following.poll(1, document("k1", "k1")) == "k1 k2"
    assert following.poll(2, document("k1", "k1", entry("k2", revoked=True))) == "k1"


@pytest.mark.parametrize("change", [{"key": entry("k3")["key"]}, {"id": "other"}])
def test_a_key_is_revoked_by_its_id_or_its_bytes(follow: Follow, change: dict[str, Any]) -> None:
    following = follow(document("k1", "k1", "k2"))
    assert following.poll(1, document("k1", "k1", entry("k2", revoked=True) | change)) == "k1"


def test_a_revoked_key_does_not_come_back(follow: Follow) -> None:
    following = follow(document("k1", "k1", "k2"))
    following.poll(1, document("k1", "k1", entry("k2", revoked=True)))
    assert following.poll(2, document("k1", "k1", "k2")) == "k1"
    assert "'k2' is revoked" in following.problems[0]


def test_a_key_that_was_revoked_before_the_start_opens_nothing(follow: Follow) -> None:
    assert follow(document("k1", "k1", entry("k2", revoked=True))).ring == "k1"


# ---- keys that leave ----


def test_a_key_that_was_never_active_here_stays_from_when_it_left(follow: Follow) -> None:
    following = follow(document("k2", "k1", entry("k2", not_before=at(-5000)), previous="k1"))
    assert following.poll(1000, document("k2", entry("k2", not_before=at(-5000)))) == "k2 k1"
    assert following.poll(1000 + RETENTION - 0.1) == "k2 k1"
    assert following.poll(1000 + RETENTION) == "k2"


def test_a_key_that_ceased_to_seal_here_stays_from_then(follow: Follow) -> None:
    following = follow(document("k2", "k1", entry("k2", not_before=at(100)), previous="k1"))
    following.poll(100)
    alone = document("k2", entry("k2", not_before=at(100)))
    assert following.poll(500, alone) == "k2 k1"
    assert following.poll(100 + RETENTION - 0.1) == "k2 k1"
    assert following.poll(100 + RETENTION) == "k2"


def test_a_key_that_leaves_when_its_time_is_over_is_removed_at_once(follow: Follow) -> None:
    following = follow(document("k2", "k1", entry("k2", not_before=at(100)), previous="k1"))
    following.poll(100)
    assert following.poll(100 + RETENTION, document("k2", entry("k2", not_before=at(100)))) == "k2"


def test_a_step_that_is_cut_off_lets_no_key_go_early(follow: Follow) -> None:
    path = follow(document("k1", "k1")).path
    cut_off = threading.Event()

    def interrupt(snapshot: object) -> None:
        if cut_off.is_set():
            cut_off.clear()
            raise KeyboardInterrupt

    watcher = KeyFile(path).follow(clock=time.time, maximum_lifetime_ms=900_000, on_change=interrupt)
    for now, active in ((0, "k1"), (1000, "k2"), (2000, "k2"), (3000, "k1")):
        put(path, document(active, "k1", "k2"))
        watcher.poll_once(now)
        watcher.poll_once(now + DELAY)
    put(path, document("k2", "k1", "k2"))
    cut_off.set()
    with pytest.raises(KeyboardInterrupt):
        watcher.poll_once(5000)
    assert watcher.manager.keyring.active_key_id == "k2"
    put(path, document("k2", "k2"))
    for now, others in ((5001, ("k1",)), (5000 + RETENTION, ("k1",)), (5001 + RETENTION, ())):
        watcher.poll_once(now)
        assert watcher.manager.keyring.verification_key_ids == others


def test_a_key_that_leaves_while_it_seals_stays_from_then(follow: Follow) -> None:
    following = follow(document("k1", "k1"))
    assert following.poll(1000, document("k2", "k2")) == "k2 k1"
    assert following.poll(1000 + RETENTION - 0.1) == "k2 k1"
    assert following.poll(1000 + RETENTION) == "k2"


def test_a_key_that_comes_back_stays(follow: Follow) -> None:
    following = follow(document("k1", "k1"))
    following.poll(50, document("k1", "k1", "k2"))
    following.poll(100, document("k1", "k1"))
    following.poll(200, document("k1", "k1", "k2"))
    assert following.poll(100 + RETENTION) == "k1 k2"
    assert following.poll(2000, document("k1", "k1")) == "k1 k2"
    assert following.poll(2000 + RETENTION - 0.1) == "k1 k2"
    assert following.poll(2000 + RETENTION) == "k1"


def test_a_key_that_is_held_stays(follow: Follow) -> None:
    following = follow(document("k1", "k1"))
    held = following.watcher.manager.sealing()
    following.poll(1000, document("k2", "k2"))
    assert following.poll(1000 + RETENTION) == "k2 k1"
    # A held key does not keep the file from being followed.
    assert following.poll(3000, document("k2", "k2", "k3")) == "k2 k1 k3"
    held.release()
    assert following.poll(3001) == "k2 k3"
    assert following.problems == []


def test_the_file_decides_over_changes_by_hand(follow: Follow) -> None:
    following = follow(document("k1", "k1", "k2"))
    following.poll(DELAY)
    manager = following.watcher.manager
    manager.activate_staged_key("k2")
    manager.remove_verification_key("k1")
    manager.stage_verification_key(ProtectionKey.from_id_and_bytes("own", b"\x91" * 31 + b"x"))
    assert following.poll(1000) == "k1 k2 own"
    assert following.poll(1000 + RETENTION) == "k1 k2"


def test_a_key_that_is_removed_by_hand_comes_back(follow: Follow) -> None:
    following = follow(document("k1", "k1"))
    following.poll(1, document("k1", "k1", "k2"))
    following.watcher.manager.remove_verification_key("k2")
    assert following.poll(2) == "k1 k2"


# ---- clocks that are set ----


def test_a_clock_set_back_takes_no_key_back(follow: Follow) -> None:
    following = follow(document("k2", "k1", entry("k2", not_before=at(300)), previous="k1"))
    assert following.poll(300) == "k2 k1"
    for now in (299, 0, -100_000, 300):
        assert following.poll(now) == "k2 k1"


def test_a_clock_set_back_lengthens_no_delay(follow: Follow) -> None:
    following = follow(document("k1", "k1"))
    following.poll(10_000, document("k2", "k1", "k2"))
    assert following.poll(5000) == "k1 k2"
    assert following.poll(5000 + DELAY - 0.1) == "k1 k2"
    assert following.poll(5000 + DELAY) == "k2 k1"


def test_a_clock_set_back_lengthens_no_delay_of_a_key_that_came_late(follow: Follow) -> None:
    following = follow(document("k1", "k1"))
    following.poll(10_000, document("k2", "k1", entry("k2", not_before=at(100)), previous="k1"))
    assert following.poll(5000) == "k1 k2"
    assert following.poll(5000 + DELAY - 0.1) == "k1 k2"
    assert following.poll(5000 + DELAY) == "k2 k1"


def test_a_clock_set_back_keeps_a_key_that_never_sealed_no_longer_than_anew(follow: Follow) -> None:
    following = follow(document("k1", "k1"))
    following.poll(9000, document("k1", "k1", "k2"))
    following.poll(10_000, document("k1", "k1"))
    following.poll(5000)
    assert following.poll(5000 + RETENTION - 0.1) == "k1 k2"
    assert following.poll(5000 + RETENTION) == "k1"


def test_a_clock_set_back_keeps_a_key_no_longer_than_anew(follow: Follow) -> None:
    following = follow(document("k1", "k1"))
    following.poll(10_000, document("k2", "k2"))
    following.poll(5000)
    assert following.poll(5000 + RETENTION - 0.1) == "k2 k1"
    assert following.poll(5000 + RETENTION) == "k2"


def test_a_clock_set_back_refuses_no_file_that_is_in_force(follow: Follow) -> None:
    following = follow(document("k1", entry("k1", not_before=at(-1))))
    assert following.poll(-1000) == "k1"
    assert following.problems == []


def test_a_clock_set_forward(follow: Follow) -> None:
    following = follow(document("k2", "k1", entry("k2", not_before=at(300)), previous="k1"))
    assert following.poll(10**9) == "k2 k1"


# ---- bad files ----

GOOD = document("k1", "k1", "k2")


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"\0" * 100, json.dumps(document("k2", "k2", "k3")).encode()[:-20], document("k3", "k2")]
)
def test_bad_content_keeps_the_last_good_ring(follow: Follow, content: dict[str, Any] | bytes) -> None:
    following = follow(document("k1", "k1"))
    assert following.poll(1, content) == "k1"
    assert following.poll(2) == "k1"
    assert len(following.problems) == 1
    assert following.poll(3, GOOD) == "k1 k2"


def test_every_half_written_file_keeps_the_last_good_ring(follow: Follow) -> None:
    following = follow(document("k1", "k1"))
    data = json.dumps(document("k2", "k2", "k3")).encode()
    for length in range(len(data)):
        following.path.write_bytes(data[:length])  # as somebody would who does not rename
        assert following.poll(length / 1000) == "k1"
    following.path.write_bytes(data)
    assert following.poll(1) == "k3 k1 k2"


def test_a_file_that_is_missing_or_closed_to_us_keeps_the_last_good_ring(follow: Follow) -> None:
    following = follow(document("k1", "k1"))
    following.path.unlink()
    assert following.poll(1) == "k1"
    put(following.path, GOOD, 0o644)
    assert following.poll(2) == "k1"
    put(following.path, GOOD, 0o620)
    assert following.poll(3) == "k1"
    assert following.problems == [
        "cannot be used: No such file or directory",
        "may be read by others than its owner and group; chmod 600 it",
        "may be written by others than its owner; chmod 600 it",
    ]
    following.path.chmod(0o600)
    assert following.poll(4) == "k1 k2"


def test_keys_that_do_not_go_with_those_of_the_process(follow: Follow) -> None:
    following = follow(document("k1", "k1"))
    assert following.poll(1, document("k1", entry("k1", key=entry("k2")["key"]))) == "k1"
    assert following.poll(2, document("k3", entry("k3", key=entry("k1")["key"]))) == "k1"
    other_bytes, other_id = following.problems
    assert "'k1' with other bytes" in other_bytes
    assert "'k3' and 'k1' have the same bytes" in other_id


def test_each_problem_is_told_once_until_the_file_is_good_again(
    follow: Follow, caplog: pytest.LogCaptureFixture
) -> None:
    following = follow(document("k1", "k1"))
    name = f"key file {str(following.path)!r}"
    for _ in range(2):
        for content in (b"", b"", b"{", b"", b"{"):
            following.poll(1, content)
        following.poll(1, GOOD)
        following.poll(1)
    truncated = [problem for problem in following.problems if problem.startswith("is no JSON text")]
    assert len(truncated) == len(following.problems) == 4
    assert truncated[:2] == truncated[2:]
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert (
        warnings
        == [
            *(f"{name}: {problem}; what it said last stays in force" for problem in truncated[:2]),
            f"{name} is good again",
        ]
        * 2
    )


def test_what_on_problem_raises_changes_nothing(follow: Follow, caplog: pytest.LogCaptureFixture) -> None:
    path = follow(document("k1", "k1")).path

    def fail(problem: str) -> None:
        raise SystemExit("not to be logged")

    watcher = KeyFile(path).follow(clock=lambda: START, maximum_lifetime_ms=900_000, on_problem=fail)
    put(path, b"")
    watcher.poll_once()
    put(path, GOOD)
    watcher.poll_once()
    assert watcher.manager.keyring.verification_key_ids == ("k2",)
    assert "on_problem raised SystemExit" in caplog.messages
    assert "not to be logged" not in caplog.text


@pytest.mark.parametrize("error", [ValueError, RuntimeError, SystemExit])
def test_a_clock_that_fails_is_a_problem(
    follow: Follow, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    following = follow(document("k1", "k1"))
    following.now = "later"  # type: ignore[assignment]
    following.watcher.poll_once()
    assert following.problems == ["it cannot be followed: TypeError"]
    monkeypatch.setattr(KeyFileWatcher, "_apply", lambda *arguments: (_ for _ in ()).throw(error("text")))
    following.poll(1, b"")
    assert following.problems[-1] == f"it cannot be followed: {error.__name__}"


def test_a_start_needs_a_good_file(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    for content, words in ((None, "No such file"), (b"", "is no JSON text"), (document("k2", "k1"), "active")):
        if content is not None:
            put(path, content)
        with pytest.raises(KeyFileError, match=words) as caught:
            KeyFile(path).follow(clock=time.time, maximum_lifetime_ms=900_000)
        assert_shows_no_key(everything_told(caught.value))


# ---- mounted secrets ----


def test_a_mounted_secret_is_followed_and_its_mode_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "secret"
    mounted(folder, document("k1", "k1"))
    watchers = [
        KeyFile(place).follow(clock=lambda: START, maximum_lifetime_ms=900_000)
        for place in (folder, folder / "keyring.json")
    ]
    for revision in range(2, 5):
        ids = [f"k{number}" for number in range(1, revision)]
        mounted(folder, document("k1", *ids), str(revision))
        for watcher in watchers:
            watcher.poll_once()
            assert sorted(key.id for key in watcher.manager.keyring.keys) == ids
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings == [
        f"key file {str(place)!r} may be read by others than its owner and group; let defaultMode be 0400"
        for place in (folder, folder / "keyring.json")
    ]


# ---- whatever happens ----

ENTRIES = st.fixed_dictionaries(
    {},
    optional={
        "created": st.integers(-5, 5).map(lambda steps: at(steps * 60)),
        "not_before": st.integers(-5, 40).map(lambda steps: at(steps * 60)),
        "revoked": st.booleans(),
    },
)
DOCUMENTS = st.tuples(
    st.lists(st.sampled_from(IDS), min_size=1, unique=True).flatmap(
        lambda ids: st.fixed_dictionaries(dict.fromkeys(ids, ENTRIES))
    ),
    st.sampled_from(IDS),
    st.none() | st.sampled_from(IDS),
).map(
    lambda parts: document(
        parts[1],
        *(entry(key_id, **members) for key_id, members in parts[0].items()),
        **({} if parts[2] is None else {"previous": parts[2]}),
    )
)
STEPS = st.lists(st.tuples(st.integers(0, 1500), st.none() | st.just(b"") | DOCUMENTS), max_size=12)


@settings(max_examples=300, deadline=None)
@given(steps=STEPS)
def test_whatever_a_file_says(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, Any]]) -> None:
    following = Following(tmp_path_factory.mktemp("watch") / "keys.json", document("k1", "k1"))
    manager = following.watcher.manager
    ceased: dict[str, float] = {}  # when a key was last taken from sealing
    missing: dict[str, float] = {}  # since when a key is no longer in the file
    revoked: set[str] = set()
    now = 0.0
    for step, content in steps:
        before = manager.keyring
        now += step
        following.poll(now, content)
        after = manager.keyring
        known, ring = ({key.id for key in each.keys} for each in (before, after))
        in_force = following.watcher._content
        usable = {each.key.id for each in in_force.usable}
        revoked |= {each.key.id for each in in_force.entries if each.revoked} & known

        assert after.active_key_id in usable
        not_before = in_force.active.not_before
        if not_before is not None and not_before.timestamp() > START + now:
            assert after.active_key_id != in_force.active.key.id

        if before.active_key_id != after.active_key_id:
            ceased[before.active_key_id] = now
            ceased.pop(after.active_key_id, None)
        missing = {key_id: missing.get(key_id, now) for key_id in known - usable - revoked}
        over = {key_id for key_id, since in missing.items() if now >= ceased.get(key_id, since) + RETENTION}
        assert ring == usable | missing.keys() - over
        for key_id in over:
            ceased.pop(key_id, None)
    assert_shows_no_key("\n".join(following.problems))


# ---- the thread ----


OTHERS: set[threading.Thread] = set()  # threads of watchers that other tests keep


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    OTHERS.update(followers())
    yield put(tmp_path / "keys.json", document("k1", "k1"))
    gc.collect()
    wait_until(lambda: not followers())


def started(path: Path, changed: threading.Event | None = None) -> KeyFileWatcher:
    return KeyFile(path, poll_interval=timedelta(milliseconds=10)).follow(
        clock=time.time,
        maximum_lifetime_ms=900_000,
        on_change=None if changed is None else lambda snapshot: changed.set(),
    )


def followers() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "mcpinput-keys" and each not in OTHERS]


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_nothing_runs_before_it_is_asked_for(path: Path) -> None:
    started(path)
    assert followers() == []


def test_the_thread_follows_renames_and_writes_in_place(path: Path) -> None:
    changed = threading.Event()
    watcher = started(path, changed)
    watcher.ensure()
    for ids in (("k1", "k2"), ("k1", "k2", "k3")):
        put(path, document("k1", *ids))
        assert changed.wait(SECONDS)
        changed.clear()
        assert sorted(key.id for key in watcher.manager.keyring.keys) == list(ids)
    path.write_text(json.dumps(document("k1", "k1", entry("k2", revoked=True), "k3")))
    assert changed.wait(SECONDS)
    assert sorted(key.id for key in watcher.manager.keyring.keys) == ["k1", "k3"]
    watcher.stop()


def test_a_process_that_was_idle_has_the_ring_of_now(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_FIRST_STEP_SECONDS", SECONDS)
    watcher = started(path)
    time.sleep(0.02)
    put(path, document("k2", "k2", entry("k1", revoked=True)))
    watcher.ensure()
    assert [key.id for key in watcher.manager.keyring.keys] == ["k2"]
    watcher.stop()


def test_a_disk_that_does_not_answer_holds_no_request_up(path: Path) -> None:
    watcher = started(path)
    time.sleep(0.02)
    answered = threading.Event()
    read = watcher._read

    def hang(*arguments: Any) -> Any:
        answered.wait()
        return read(*arguments)

    object.__setattr__(watcher, "_read", hang)
    put(path, document("k1", "k1", "k2"))
    for _ in range(100):
        watcher.ensure()
    assert watcher.manager.keyring.verification_key_ids == ()
    answered.set()
    wait_until(lambda: watcher.manager.keyring.verification_key_ids == ("k2",))
    watcher.stop()


@pytest.mark.parametrize("raised", [KeyboardInterrupt, GeneratorExit])
def test_the_thread_goes_on_whatever_the_application_raises_in_it(path: Path, raised: type[BaseException]) -> None:
    told = threading.Semaphore(0)

    def on_change(snapshot: object) -> None:
        told.release()
        raise raised

    put(path, document("k0", "k0"))
    watcher = KeyFile(
        path, poll_interval=timedelta(milliseconds=10), activation_delay=timedelta(milliseconds=10)
    ).follow(clock=time.time, maximum_lifetime_ms=900_000, on_change=on_change)
    watcher.ensure()
    for key_id in ("k1", "k2"):
        put(path, document("k0", "k0", key_id))
        assert told.acquire(timeout=SECONDS)
    assert "k2" in watcher.manager.keyring.verification_key_ids
    watcher.stop()


def test_the_thread_goes_on_when_its_problem_cannot_be_logged(path: Path) -> None:
    refused, changed = threading.Event(), threading.Event()

    def failing(record: logging.LogRecord) -> bool:
        refused.set()
        raise RuntimeError

    watcher = started(put(path, document("k0", "k0")), changed)
    watcher.ensure()
    logging.getLogger("mcpinput").addFilter(failing)
    try:
        put(path, b"{")
        assert refused.wait(SECONDS)
    finally:
        logging.getLogger("mcpinput").removeFilter(failing)
    put(path, document("k0", "k0", "k1"))
    assert changed.wait(SECONDS)
    watcher.stop()


def test_one_thread_however_often_it_is_asked_for(path: Path) -> None:
    watcher = started(path)
    together = threading.Barrier(8)

    def ask() -> None:
        together.wait()
        for _ in range(100):
            watcher.ensure()

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(followers()) == 1
    assert followers()[0].daemon
    watcher.stop()


def test_stop_ends_it_for_good(path: Path) -> None:
    watcher = started(path)
    watcher.ensure()
    watcher.stop()
    watcher.stop()
    wait_until(lambda: not followers())
    watcher.ensure()
    assert followers() == []
    unstarted = started(path)
    unstarted.stop()
    unstarted.ensure()
    assert followers() == []


def test_the_thread_ends_with_the_watcher(path: Path) -> None:
    watcher = started(path)
    watcher.ensure()
    reference = weakref.ref(watcher)
    del watcher
    wait_until(lambda: gc.collect() >= 0 and reference() is None)
    wait_until(lambda: not followers())


def test_ctrl_c_while_the_thread_is_started_leaves_no_second_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(threading.Thread):
        def start(self) -> None:
            super().start()
            raise KeyboardInterrupt

    put(path, document("k0", "k0"))
    watcher = KeyFile(path, poll_interval=timedelta(milliseconds=10)).follow(clock=time.time, maximum_lifetime_ms=1)
    with monkeypatch.context() as patched:
        patched.setattr(watch.threading, "Thread", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            watcher.ensure()
    watcher.ensure()
    end = time.monotonic() + SECONDS
    while len(followers()) != 1 and time.monotonic() < end:
        time.sleep(0.01)
    assert len(followers()) == 1
    watcher.stop()


def test_a_thread_that_cannot_be_started_is_a_problem_until_it_can(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    watcher = started(path)

    class NoThread(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(watch.threading, "Thread", NoThread)
    watcher.ensure()
    watcher.ensure()
    assert sum("no thread can be started" in message for message in caplog.messages) == 1
    monkeypatch.undo()
    watcher.ensure()
    assert len(followers()) == 1
    watcher.stop()


def in_child(work: Callable[[], object]) -> None:
    """Runs something in a fork of this process, which must end well and in time."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            threading.Timer(SECONDS, os._exit, (2,)).start()
            work()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # that it has threads: so have servers
def test_a_child_starts_its_own_thread(path: Path) -> None:
    watcher = started(path)
    watcher.ensure()
    wait_until(lambda: len(followers()) == 1)

    def work() -> None:
        assert followers() == []
        put(path, document("k1", "k1", "k2"))
        watcher.ensure()
        wait_until(lambda: watcher.manager.keyring.verification_key_ids == ("k2",))

    in_child(work)
    wait_until(lambda: watcher.manager.keyring.verification_key_ids == ("k2",))
    watcher.stop()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_while_a_thread_is_being_started(path: Path) -> None:
    watcher = started(path)

    def work() -> None:
        watcher.ensure()
        put(path, document("k1", "k1", "k2"))
        wait_until(lambda: watcher.manager.keyring.verification_key_ids == ("k2",))

    with watch._starting:
        in_child(work)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_in_the_middle_of_a_step(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watcher = started(path)
    inside, go_on = threading.Event(), threading.Event()
    read = watcher._read

    def hang(*arguments: Any) -> Any:
        inside.set()
        go_on.wait(SECONDS)
        return read(*arguments)

    object.__setattr__(watcher, "_read", hang)
    watcher.ensure()
    assert inside.wait(SECONDS)

    def work() -> None:
        go_on.set()
        put(path, document("k1", "k1", "k2"))
        watcher.ensure()
        wait_until(lambda: watcher.manager.keyring.verification_key_ids == ("k2",))

    in_child(work)
    go_on.set()
    watcher.stop()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_forks_while_the_file_changes(path: Path) -> None:
    watcher = started(path)
    watcher.ensure()

    def work() -> None:
        watcher.ensure()
        put(path, document("k3", entry("k3"), entry("k1", revoked=True), entry("k2", revoked=True)))
        wait_until(lambda: [key.id for key in watcher.manager.keyring.keys] == ["k3"])
        token = seal_token(watcher.manager.sealing().key, bytes(24), b"payload")
        assert opens(watcher, token)

    for number in range(20):
        put(path, document("k1", *(("k1", "k2") if number % 2 else ("k1",))))
        time.sleep(0.003)
        if number % 5 == 0:
            with_copy = path.read_bytes()
            in_child(work)
            put(path, with_copy)
    watcher.stop()


# ---- secrets ----


def test_nothing_shows_a_key(follow: Follow, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    following = follow(GOOD)
    watcher = following.watcher
    following.poll(1, b"{")
    following.poll(2, document("k3", "k1", "k3", entry("k2", revoked=True)))
    following.poll(3, document("k1", entry("k1", key=entry("k2")["key"])))
    assert_shows_no_key(f"{watcher!r} {watcher} {caplog.text} {following.problems} {watcher.manager!r}")
    with pytest.raises(TypeError):
        vars(watcher)
    with pytest.raises(TypeError, match="key material"):
        watcher.__reduce__()
    error = raised(
        lambda: watcher.manager.stage_verification_key(ProtectionKey.from_id_and_bytes("k1", bytes_of("k0")))
    )
    assert_shows_no_key(everything_told(error))
