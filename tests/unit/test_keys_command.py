"""``mcpinput keys``: what it makes and refuses, in which order a rotation goes, and that a crash breaks nothing."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mcpinput import KeyFile, KeyFileError, _keys
from mcpinput.cli import main
from mcpinput.protection.keyfile import KeyFileContent
from tests.support.keyfiles import assert_shows_no_key, document, entry, everything_told, put, raised, text_of
from tests.unit.test_protection_keyfile import mounted

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC).timestamp()
SECONDS = 60


def at(seconds: float) -> str:
    """A time of the tests' clock as files spell it."""
    return datetime.fromtimestamp(NOW + seconds, UTC).isoformat().replace("+00:00", "Z")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


def content_at(path: Path, seconds: float = 0) -> KeyFileContent:
    return KeyFile(path).read(NOW + seconds)


def rotate(path: Path, seconds: float = 0, lifetime: int = 900, delay: int = 120, key_id: str | None = None) -> str:
    return "\n".join(_keys.rotate(str(path), NOW + seconds, lifetime, delay, key_id))


def refusal(path: Path, action: Callable[[], object]) -> str:
    """The words in which something is refused; the file is as it was, and nothing lies beside it."""
    before = path.read_bytes() if path.is_file() else None
    names = sorted(each.name for each in path.parent.iterdir())
    error = raised(action)
    assert isinstance(error, KeyFileError), error
    assert_shows_no_key(everything_told(error))
    assert sorted(each.name for each in path.parent.iterdir()) == names
    assert before == (path.read_bytes() if path.is_file() else None)
    prefix = f"key file {str(path)!r}: "
    assert str(error).startswith(prefix)
    return str(error).removeprefix(prefix)


# ---- new ----


def test_new_makes_a_file_that_a_server_takes(path: Path) -> None:
    old = os.umask(0)
    try:
        told = _keys.new(str(path), NOW, "2026-12")
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    content = content_at(path)
    assert [each.key.id for each in content.entries] == ["2026-12"]
    assert content.active.created == datetime.fromtimestamp(NOW, UTC)
    ring = content.ring(content.active)
    assert told == ["key 2026-12", f"fingerprint 2 mcpinput-protection-v1 {ring.fingerprint.value}"]
    assert [each.name for each in path.parent.iterdir()] == ["keys.json"]


def test_new_draws_a_key_and_an_id(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.json", "b.json")]
    for path in paths:
        _keys.new(str(path), NOW + 0.5)
    one, other = (content_at(path, 1).active.key for path in paths)
    assert one.id != other.id
    assert one.id.startswith("2026-12-01-")
    assert not one.same_secret(other)


def test_new_leaves_what_is_there(path: Path) -> None:
    put(path, document("k1", "k1"))
    assert refusal(path, lambda: _keys.new(str(path), NOW)) == "exists already, and is left as it is"
    link = path.with_name("link.json")
    link.symlink_to("nowhere.json")
    assert refusal(link, lambda: _keys.new(str(link), NOW)) == "exists already, and is left as it is"


@pytest.mark.parametrize("key_id", ["", "a b", "k" * 65, "\u00e9", "k\n"])
def test_new_needs_an_id_of_a_token(path: Path, key_id: str) -> None:
    message = "is not written: --id must be an HTTP token of 1 to 64 ASCII characters"
    assert refusal(path, lambda: _keys.new(str(path), NOW, key_id)) == message


def test_new_where_there_is_no_folder(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "keys.json"
    with pytest.raises(KeyFileError, match="cannot be used: No such file or directory"):
        _keys.new(str(path), NOW)


def test_new_leaves_nothing_where_the_disk_is_full(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int, data: memoryview) -> int:
        raise OSError(28, bytes(data).decode())

    monkeypatch.setattr(os, "write", fail)
    assert refusal(path, lambda: _keys.new(str(path), NOW)) == "cannot be used: No space left on device"


# ---- check, fingerprint ----


def test_check_tells_the_role_of_each_key(path: Path) -> None:
    made = {"created": at(-5000)}
    put(
        path,
        document(
            "k2", entry("k1", **made), entry("k2", not_before=at(60), **made), entry("k0", revoked=True), previous="k1"
        ),
    )
    assert _keys.check(str(path), NOW)[:3] == [
        f"k1: seals until {at(60)}, and opens, made at {at(-5000)}",
        f"k2: opens, and seals from {at(60)} on, made at {at(-5000)}",
        "k0: revoked",
    ]
    assert _keys.check(str(path), NOW + 60)[:2] == [
        f"k1: opens, made at {at(-5000)}",
        f"k2: seals and opens since {at(60)}, made at {at(-5000)}",
    ]


def test_check_and_fingerprint_agree_with_a_server(path: Path) -> None:
    put(path, document("k2", "k1", entry("k2", not_before=at(60)), previous="k1"))
    watcher = KeyFile(path).follow(clock=lambda: NOW, maximum_lifetime_ms=900_000)
    for seconds in (0, 60):
        watcher.poll_once(NOW + seconds)
        snapshot = watcher.manager.snapshot()
        assert _keys.fingerprint(str(path), NOW + seconds) == snapshot.fingerprint
        text = f"fingerprint 2 mcpinput-protection-v1 {snapshot.fingerprint.value}"
        assert _keys.check(str(path), NOW + seconds)[2:] == [text]
    assert len({_keys.fingerprint(str(path), NOW + seconds) for seconds in (0, 60)}) == 2


def test_check_tells_of_a_file_that_lacks_a_time(path: Path) -> None:
    put(path, document("k2", "k1", "k2"))
    assert _keys.check(str(path), NOW)[-1] == (
        "note: k2 has no not_before, so k1 seals for the activation delay of every server that starts"
    )


def test_check_tells_of_a_mounted_secret_that_others_may_read(tmp_path: Path) -> None:
    mounted(tmp_path / "secret", document("k1", "k1"))
    lines = _keys.check(str(tmp_path / "secret"), NOW)
    assert lines[0] == "k1: seals and opens"
    assert lines[-1].startswith("note: others than its owner and group may read the file")


@pytest.mark.parametrize("action", [_keys.check, _keys.fingerprint])
def test_what_a_server_would_refuse(path: Path, action: Callable[[str, float], object]) -> None:
    put(path, document("k1", "k1"), 0o644)
    assert refusal(path, lambda: action(str(path), NOW)) == (
        "may be read by others than its owner and group; chmod 600 it"
    )
    put(path, document("k1", "k1", entry("k2", not_before="today")))
    assert refusal(path, lambda: action(str(path), NOW)).startswith("keys[1].not_before must be a time in UTC")
    put(path, b"")
    assert refusal(path, lambda: action(str(path), NOW)).startswith("is no JSON text")


# ---- rotate ----


def test_a_whole_rotation_and_another(path: Path) -> None:
    _keys.new(str(path), NOW, "a")
    start = 0.0
    for former, new in (("a", "b"), ("b", "c")):
        assert rotate(path, start + 1000, key_id=new) == (
            f"step 1 of 3: key {new} is new; it opens, and {former} goes on to seal\n"
            f"next: once every instance has this file, and from {at(start + 1120)} on, 'mcpinput keys rotate' lets "
            f"{new} seal"
        )
        content = content_at(path, start + 1000)
        assert [each.key.id for each in content.entries] == [former, new]
        assert content.sealing_at(NOW + start + 1000).key.id == former

        assert refusal(path, lambda: rotate(path, start + 1119.9)) == (  # noqa: B023 - called at once
            f"is left as it is: the next step is right from {at(start + 1120)} on, when every instance has the new key"
        )
        assert rotate(path, start + 1120) == (
            f"step 2 of 3: key {new} seals from {at(start + 1240)} on; {former} seals until then, and opens\n"
            f"next: from {at(start + 2200)} on, 'mcpinput keys rotate' takes {former} out"
        )
        content = content_at(path, start + 1120)
        assert content.sealing_at(NOW + start + 1239).key.id == former
        assert content.sealing_at(NOW + start + 1240).key.id == new

        assert refusal(path, lambda: rotate(path, start + 2199.9)) == (  # noqa: B023 - called at once
            f"is left as it is: the next step is right from {at(start + 2200)} on, when nothing is good any more that "
            f"{former} has sealed"
        )
        assert rotate(path, start + 2200) == (
            f"step 3 of 3: key {former} is taken out; {new} seals and opens\n"
            "next: nothing; 'mcpinput keys rotate' begins anew"
        )
        content = content_at(path, start + 2200)
        assert [each.key.id for each in content.entries] == [new]
        assert content.previous is None
        start += 5000
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["keys.json"]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_rotation_breaks_no_token_of_a_fleet(path: Path, restarts: bool) -> None:
    """Every instance opens what any instance seals, whenever each of them polls, or starts anew."""
    _keys.new(str(path), NOW, "a")

    def instance(seconds: float) -> Any:
        return KeyFile(path).follow(clock=lambda: NOW + seconds, maximum_lifetime_ms=900_000)

    fleet = [instance(1) for _ in range(3)]
    sealed: list[tuple[float, str]] = []
    for seconds in range(10, 4000, 10):
        if seconds in (500, 1000, 2500):
            rotate(path, seconds, key_id=f"at-{seconds}" if seconds == 500 else None)
        for number, watcher in enumerate(fleet):
            if restarts and seconds % 70 == number * 10:
                fleet[number] = instance(seconds)
            elif seconds % 30 == number * 10:  # each has a file that is up to half a minute old
                watcher.poll_once(NOW + seconds)
            sealed.append((seconds, watcher.manager.keyring.active_key_id))
        good = {key_id for then, key_id in sealed if seconds - then <= 900}
        for watcher in fleet:
            assert good <= {key.id for key in watcher.manager.keyring.keys}
    assert [watcher.manager.keyring.active_key_id for watcher in fleet] == ["at-500"] * 3
    assert [len(watcher.manager.keyring.keys) for watcher in fleet] == [1, 1, 1]


def test_lifetime_and_delay_are_those_of_the_service(path: Path) -> None:
    put(path, document("k1", entry("k1", created=at(-100)), entry("k2", created=at(-4))))
    assert "from 2026-12-01T12:00:01Z on" in refusal(path, lambda: rotate(path, delay=5))
    rotate(path, 1, delay=5)
    assert "from 2026-12-01T12:01:16Z on" in refusal(path, lambda: rotate(path, 2, lifetime=10))
    assert rotate(path, 76, lifetime=10).startswith("step 3 of 3")


def test_a_fraction_of_a_second_makes_nothing_early(path: Path) -> None:
    _keys.new(str(path), NOW, "a")
    rotate(path, 1000.5)
    assert f"from {at(1121)} on" in refusal(path, lambda: rotate(path, 1120.9))
    assert f"seals from {at(1242)} on" in rotate(path, 1121.1)


def test_a_key_without_times_goes_on_to_seal_in_servers_that_start(path: Path) -> None:
    put(path, document("k1", "k1"))
    rotate(path)
    watcher = KeyFile(path).follow(clock=lambda: NOW + 1, maximum_lifetime_ms=900_000)
    assert watcher.manager.keyring.active_key_id == "k1"
    behind = KeyFile(path).follow(clock=lambda: NOW - 60, maximum_lifetime_ms=900_000)  # a clock that is late
    assert behind.manager.keyring.active_key_id == "k1"


def test_revoked_keys_stay_in_the_file(path: Path) -> None:
    put(path, document("k1", entry("k0", revoked=True), entry("k1", created=at(-5000)), previous="k0"))
    rotate(path, key_id="k2")
    rotate(path, 200)
    rotate(path, 2000)
    content = content_at(path, 2000)
    assert [(each.key.id, each.revoked) for each in content.entries] == [("k0", True), ("k2", False)]


UNCLEAR = "is not as a rotation leaves it: "


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            document("k1", "k1", "k2", "k3"),
            "3 keys open; take out, or mark as revoked, all but the two that are in use",
        ),
        (
            document("k1", "k1", "k2"),
            "keys[1] has no created, so nobody can tell since when instances have it",
        ),
        (
            document("k2", entry("k1", created=at(-9000)), entry("k2", created=at(-5000))),
            "keys[0] is older than the active key; let previous name it, or take it out",
        ),
        (
            document("k1", "k1", entry("k2", created=at(-5000), not_before=at(-4000))),
            "keys[1] has a not_before, which a new key that is not active has not",
        ),
        (
            document("k2", "k1", entry("k2", not_before=at(10))),
            "the active key does not seal yet, and previous does not say which one does",
        ),
        (
            document("k2", "k1", "k2", previous="k1"),
            "the active key has no not_before, so nobody can tell since when it seals",
        ),
        (
            document("k2", entry("k1", created=at(-5000)), "k2"),
            "the active key has neither created nor not_before, so nobody can tell which key is new",
        ),
        (
            document("k1", entry("k1", not_before=at(-9000)), entry("k2", not_before=at(-10)), previous="k2"),
            "previous began to seal after active did, so nobody can tell when it ceased to",
        ),
    ],
)
def test_a_file_that_can_be_read_in_two_ways(path: Path, content: dict[str, Any], message: str) -> None:
    put(path, content)
    assert refusal(path, lambda: rotate(path)) == UNCLEAR + message


def test_the_id_is_for_a_new_key(path: Path) -> None:
    put(path, document("k1", "k1"))
    assert refusal(path, lambda: rotate(path, key_id="k1")) == (
        "is left as it is: it has a key 'k1' already; a new key needs an id of its own"
    )
    assert refusal(path, lambda: rotate(path, key_id="a b")).startswith("is not written: --id must be")
    rotate(path)
    assert refusal(path, lambda: rotate(path, 500, key_id="k9")) == (
        "is left as it is: --id names a new key, and the next step of this file makes none"
    )


def test_files_that_are_not_rotated_in_place(tmp_path: Path, path: Path) -> None:
    put(path, document("k1", "k1"))
    link = tmp_path / "link.json"
    link.symlink_to("keys.json")
    assert refusal(link, lambda: rotate(link)) == "is a symbolic link: rotate the file that it leads to"
    folder = tmp_path / "secret"
    mounted(folder, document("k1", "k1"), mode=0o600)
    for place in (folder, folder / "keyring.json", folder / "..data" / "keyring.json"):
        assert refusal(place, lambda place=place: rotate(place)) == (  # type: ignore[misc]
            "is a mounted secret: rotate the file that the secret is made of, and have it delivered anew"
        )
    missing = tmp_path / "missing.json"
    assert refusal(missing, lambda: rotate(missing)) == "cannot be used: No such file or directory"
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert refusal(tmp_path / "pipe", lambda: rotate(tmp_path / "pipe")) == "is no regular file"


@pytest.mark.parametrize(("mode", "words"), [(0o644, "may be read by others"), (0o660, "may be written by others")])
def test_a_file_that_a_server_refuses_is_not_rotated(path: Path, mode: int, words: str) -> None:
    put(path, document("k1", "k1"), mode)
    assert refusal(path, lambda: rotate(path)).startswith(words)
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_owner_and_mode_stay(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(path, document("k1", "k1"), 0o440)
    given_to: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "fchown", lambda descriptor, user, group: given_to.append((user, group)))
    rotate(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o440
    assert given_to == []
    fstat = os.fstat

    def of_others(descriptor: int) -> os.stat_result:
        found = fstat(descriptor)
        if found.st_ino != path.stat().st_ino:
            return found
        return os.stat_result((*found[:4], found.st_uid + 7, found.st_gid + 7, *found[6:]))

    monkeypatch.setattr(os, "fstat", of_others)
    rotate(path, 200)
    assert given_to == [(os.getuid() + 7, path.stat().st_gid + 7)]


# ---- what goes wrong ----


@pytest.mark.parametrize("name", ["write", "fsync", "rename", "fchmod"])
def test_a_rotation_that_fails_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def fail(*arguments: object) -> None:
        raise OSError(28, text_of("k1"))

    put(path, document("k1", "k1"))
    monkeypatch.setattr(os, name, fail)
    assert refusal(path, lambda: rotate(path)) == "cannot be used: No space left on device"


def test_nothing_is_put_in_place_that_a_server_would_refuse(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(path, document("k1", "k1"))
    monkeypatch.setattr(_keys, "data_of", lambda content: b"{}")
    assert refusal(path, lambda: rotate(path)) == "version must be 1: this release reads no other"


@pytest.mark.parametrize("name", ["_next", "_replace", "data_of", "content_of", "_locked", "read_open"])
@pytest.mark.parametrize("error", [MemoryError, RuntimeError, SystemExit])
def test_an_unexpected_error_is_told_by_its_type(
    path: Path, monkeypatch: pytest.MonkeyPatch, name: str, error: type[BaseException]
) -> None:
    def fail(*arguments: object) -> None:
        raise error(text_of("k1"))

    put(path, document("k1", "k1"))
    monkeypatch.setattr(_keys, name, fail)
    assert refusal(path, lambda: rotate(path)) == f"cannot be used: {error.__name__}"


def test_an_interrupt_goes_through_without_a_key(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*arguments: object) -> None:
        raise KeyboardInterrupt(text_of("k1"))

    put(path, document("k1", "k1"))
    monkeypatch.setattr(os, "rename", fail)
    error = raised(lambda: rotate(path))
    assert type(error) is KeyboardInterrupt
    assert_shows_no_key(everything_told(error))
    assert main(["keys", "rotate", str(path)]) == 130
    assert capsys.readouterr().out == ""


def rotate_in_a_process_that_is_killed(path: Path, calls: int) -> int:
    """Rotates in a fork that dies at the n-th call to the operating system; its exit code."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 1
    left = calls
    write = os.write

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*arguments: Any, **more: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            if call is write:  # it comes in parts
                arguments = arguments[0], arguments[1][: max(1, len(arguments[1]) // 2)]
            return call(*arguments, **more)

        return wrapper

    try:
        for name in ("open", "write", "fsync", "fchmod", "rename", "unlink", "close", "fstat", "stat"):
            setattr(os, name, counted(getattr(os, name)))
        rotate(path, key_id="new")
        status = 0
    finally:
        os._exit(status)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # where another test has left a thread
def test_a_rotation_that_is_killed_leaves_the_old_file_or_the_new_one(path: Path) -> None:
    ends = set()
    beside = path.with_name(".keys.json.new")
    put(path, document("k1", entry("k1", created=at(-5000))))
    old = path.read_bytes()
    for calls in range(1, 200):
        put(path, old)
        code = rotate_in_a_process_that_is_killed(path, calls)
        ids = [each.key.id for each in content_at(path).entries]
        assert path.read_bytes() == old or ids == ["k1", "new"]
        ends.add((code, len(ids), beside.exists()))
        if code != -signal.SIGKILL:
            break
        if beside.exists():
            assert stat.S_IMODE(beside.stat().st_mode) == 0o600
    # What a killed run has left is taken away by the next one.
    killed = -signal.SIGKILL
    assert ends == {(killed, 1, False), (killed, 1, True), (killed, 2, False), (0, 2, False)}


TOGETHER = """
    import sys
    from mcpinput.cli import main

    print("ready", flush=True)
    sys.stdin.read()
    sys.exit(main(["keys", "rotate", sys.argv[1]]))
"""


def test_of_rotations_at_once_one_is_made(path: Path) -> None:
    _keys.new(str(path), time.time(), "a")
    command = [sys.executable, "-c", textwrap.dedent(TOGETHER), str(path)]
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    children = [subprocess.Popen(command, cwd=path.parent, text=True, **pipes) for _ in range(4)]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.close()
        child.stdin = None
    told = [(child.communicate(timeout=SECONDS), child.returncode) for child in children]
    assert sorted(code for _, code in told) == [0, 1, 1, 1]
    for (out, err), code in told:
        assert (out.startswith("step 1 of 3") and not err) if code == 0 else ("the next step is right from" in err)
    assert len(json.loads(path.read_bytes())["keys"]) == 2


def test_a_rotation_waits_for_another_and_sees_its_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(path, document("k1", entry("k1", created=at(-5000))))
    flock = _keys.fcntl.flock
    calls = []

    def overtaken(descriptor: int, operation: int) -> None:
        calls.append(descriptor)
        if len(calls) == 1:  # while it waited, another one has put a file in place
            put(path, document("k1", entry("k1", created=at(-5000)), entry("k2", created=at(-1))))
        flock(descriptor, operation)

    monkeypatch.setattr(_keys.fcntl, "flock", overtaken)
    with pytest.raises(KeyFileError, match="the next step is right from"):
        rotate(path)
    assert len(calls) == 2


# ---- the command line ----


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main(["keys", *argv])
    out, err = capsys.readouterr()
    return code, out, err


def test_the_commands(path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    code, new, err = run(capsys, "new", "keys.json", "--id", "a")
    assert (code, err) == (0, "")
    secret = json.loads(path.read_bytes())["keys"][0]["key"]
    outputs = [new]
    for argv in (["check", "keys.json"], ["fingerprint", "keys.json"], ["rotate", "keys.json", "--id", "b"]):
        code, out, err = run(capsys, *argv)
        assert (code, err) == (0, "")
        outputs.append(out)
    assert new.splitlines()[1] == outputs[1].splitlines()[-1] == f"fingerprint {outputs[2].strip()}"
    assert outputs[3].startswith("step 1 of 3: key b is new")
    code, out, err = run(capsys, "rotate", "keys.json", "--lifetime", "1", "--activation-delay", "1000")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(f"mcpinput keys: key file {str(path)!r}: is left as it is: the next step is right from ")
    code, out, err = run(capsys, "new", "keys.json")
    assert (code, out, err) == (1, "", f"mcpinput keys: key file {str(path)!r}: exists already, and is left as it is\n")
    assert secret not in "".join((*outputs, err))


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "ACTION"),
        (["turn"], "'turn'"),
        (["new"], "FILE"),
        (["new", ""], "a path is needed"),
        (["rotate", "f", "--lifetime", "0"], "'0' is no time: whole seconds from 1 to 31622400 are needed"),
        (["rotate", "f", "--lifetime", "31622401"], "is no time"),
        (["rotate", "f", "--activation-delay", "1.5"], "is no time"),
        (["rotate", "f", "--activation-delay", "-1"], "--activation-delay"),
        (["check", "f", "--id", "a"], "--id"),
    ],
)
def test_wrong_arguments(argv: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["keys", *argv])
    assert caught.value.code == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("full", [True, False])
def test_output_that_cannot_be_written_is_one_line(tmp_path: Path, full: bool, unbuffered: str) -> None:
    """A full disk, or a reader that has gone. What was to be done is done."""
    command = [sys.executable, "-m", "mcpinput", "keys", "new", str(tmp_path / "keys.json")]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    if full:
        output = os.open("/dev/full", os.O_WRONLY)
    else:
        reading, output = os.pipe()
        os.close(reading)
    try:
        done = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, text=True, env=environment, timeout=60)
    finally:
        os.close(output)
    reason = "No space left on device" if full else "Broken pipe"
    assert (done.returncode, done.stderr) == (1, f"mcpinput keys: done, but stdout cannot be written: {reason}\n")
    assert (tmp_path / "keys.json").exists()
