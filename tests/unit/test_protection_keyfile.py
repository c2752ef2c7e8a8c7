"""Files of keys: what is taken, what is refused and in which words, and that no key shows."""

from __future__ import annotations

import base64
import copy
import json
import os
import pickle
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpinput import InputError, KeyFile, KeyFileError
from mcpinput.protection import keyfile
from mcpinput.protection.keyfile import KeyEntry, KeyFileContent, Refused, content_of, data_of, time_text
from tests.support.keyfiles import (
    assert_shows_no_key,
    bytes_of,
    document,
    entry,
    everything_told,
    put,
    raised,
    text_of,
)

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC).timestamp()
PAST = "2026-12-01T11:00:00Z"
FUTURE = "2026-12-01T13:00:00Z"


def read(content: object, now: float = NOW) -> KeyFileContent:
    return content_of(json.dumps(content).encode(), now)


def refusal(content: object) -> str:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    with pytest.raises(Refused) as caught:
        content_of(data, NOW)
    assert_shows_no_key(str(caught.value))
    return str(caught.value)


# ---- content ----


def test_a_file_of_everything() -> None:
    content = read(
        document(
            "k2",
            entry("k1", created="2026-12-01T00:00:00Z"),
            entry("k2", created="2026-12-01T00:00:00.25Z", not_before=FUTURE, revoked=False),
            entry("k0", revoked=True),
            previous="k1",
        )
    )
    assert [each.key.id for each in content.entries] == ["k1", "k2", "k0"]
    assert [each.key.id for each in content.usable] == ["k1", "k2"]
    assert content.active is content.find("k2")
    assert content.previous is content.find("k1")
    assert content.find("k9") is None
    assert content.active.created == datetime(2026, 12, 1, 0, 0, 0, 250_000, tzinfo=UTC)
    assert content.active.not_before == datetime(2026, 12, 1, 13, 0, tzinfo=UTC)
    revoked = content.find("k0")
    assert revoked is not None
    assert (revoked.created, revoked.not_before, revoked.revoked) == (None, None, True)
    assert all(each.key.same_secret(each.key.from_id_and_bytes("x", bytes_of(each.key.id))) for each in content.entries)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "version must be 1: this release reads no other"),
        ({"version": "1"}, "version must be 1: this release reads no other"),
        ({"version": True}, "version must be 1: this release reads no other"),
        ({"version": 1.0}, "version must be 1: this release reads no other"),
        ({"version": 2, "rings": []}, "version must be 1: this release reads no other"),
        ({"active": "k9"}, "active is the id of none of the keys"),
        ({"active": 1}, "active must be a string, the id of one of the keys"),
        ({"active": None}, "active must be a string, the id of one of the keys"),
        ({"active": "k0"}, "active names a revoked key; make another one active"),
        ({"previous": "k9"}, "previous is the id of none of the keys"),
        ({"previous": None}, "previous must be a string, the id of one of the keys"),
        ({"previous": "k1"}, "previous must name another key than active"),
        ({"keys": []}, "keys must be an array of 1 to 100 keys"),
        ({"keys": {}}, "keys must be an array of 1 to 100 keys"),
        ({"keys": [entry("k1")] * 101}, "keys must be an array of 1 to 100 keys"),
        ({"keys": ["k1"]}, "keys[0] must be a JSON object"),
        ({"keyss": []}, "it has a member 'keyss', which is not known; members are version, active, keys, previous"),
        (
            {text_of("k1"): 1},
            "it has a member of a name that is not shown, which is not known; members are version, active, keys, "
            "previous",
        ),
    ],
)
def test_a_file_is_refused(change: dict[str, Any], message: str) -> None:
    assert refusal(document("k1", "k1", "k2", entry("k0", revoked=True)) | change) == message


@pytest.mark.parametrize("name", ["version", "active", "keys"])
def test_a_member_is_missing(name: str) -> None:
    content = document("k1", "k1")
    del content[name]
    expected = "version must be 1: this release reads no other" if name == "version" else f"it has no member {name!r}"
    assert refusal(content) == expected


KEY_TEXT = "keys[1].key must be unpadded base64url of at least 32 bytes"
MADE_UP = "keys[1].key is no random key but a pattern or a text; 'mcpinput keys new' makes good ones"
TIME = "must be a time in UTC as RFC 3339 has it, such as 2026-12-01T00:20:00Z"


def spelled(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "k1"}, "keys[1].id is the id of keys[0] too; each key needs its own"),
        ({"id": 2}, "keys[1].id must be a string"),
        ({"id": ""}, "keys[1].id must be an HTTP token of 1 to 64 ASCII characters"),
        ({"id": "a b"}, "keys[1].id must be an HTTP token of 1 to 64 ASCII characters"),
        ({"id": "k\0"}, "keys[1].id must be an HTTP token of 1 to 64 ASCII characters"),
        ({"id": "k" * 65}, "keys[1].id must be an HTTP token of 1 to 64 ASCII characters"),
        ({"id": text_of("k2"), "key": "k2"}, KEY_TEXT),  # exchanged
        ({"key": text_of("k1")}, "keys[1].key is the key of keys[0] too; each id needs its own"),
        ({"key": None}, "keys[1].key must be a string"),
        ({"key": 32}, "keys[1].key must be a string"),
        ({"key": list(bytes_of("k2"))}, "keys[1].key must be a string"),
        ({"key": ""}, KEY_TEXT),
        ({"key": spelled(bytes_of("k2")[:31])}, KEY_TEXT),
        ({"key": text_of("k2") + "="}, KEY_TEXT),
        ({"key": text_of("k2")[:-1] + "Z"}, KEY_TEXT),  # spare bits that are not zero
        ({"key": text_of("k2") + "\n"}, KEY_TEXT),
        ({"key": f" {text_of('k2')}"}, KEY_TEXT),
        ({"key": base64.b64encode(b"\xfb\xff" * 16 + bytes_of("k2")).decode()}, KEY_TEXT),  # + and /
        ({"key": bytes_of("k2").hex() + "é"}, KEY_TEXT),
        ({"key": spelled(bytes(32))}, MADE_UP),
        ({"key": spelled(b"\xa5" * 32)}, MADE_UP),
        ({"key": spelled(bytes(range(32)))}, MADE_UP),
        ({"key": spelled(b"\x9a\x03\xf7\x81" * 16)}, MADE_UP),
        ({"key": spelled(b"change-me-please: this is only a placeholder\n")}, MADE_UP),
        ({"key": "change-me-change-me-change-me-change-me-change-m"}, MADE_UP),
        ({"key": "replace_this_by_32_random_bytes_of_your_own0"}, MADE_UP),
        ({"key": bytes_of("k2").hex()}, MADE_UP),
        ({"revoked": 1}, "keys[1].revoked must be true or false"),
        ({"revoked": "true"}, "keys[1].revoked must be true or false"),
        ({"revoked": None}, "keys[1].revoked must be true or false"),
        ({"created": 1_780_000_000}, f"keys[1].created {TIME}"),
        ({"created": None}, f"keys[1].created {TIME}"),
        ({"created": "2026-12-01"}, f"keys[1].created {TIME}"),
        ({"created": "2026-12-01T00:00:00"}, f"keys[1].created {TIME}"),
        ({"created": "2026-12-01T00:00:00+01:00"}, f"keys[1].created {TIME}"),
        ({"created": "2026-12-01 00:00:00Z"}, f"keys[1].created {TIME}"),
        ({"created": "2026-12-01T00:00:00z"}, f"keys[1].created {TIME}"),
        ({"created": "2026-12-01T00:00:00.Z"}, f"keys[1].created {TIME}"),
        ({"created": "2026-12-01T00:00:00Z\n"}, f"keys[1].created {TIME}"),
        ({"created": "\u0662026-12-01T00:00:00Z"}, f"keys[1].created {TIME}"),
        ({"not_before": "2026-02-30T00:00:00Z"}, f"keys[1].not_before {TIME}"),
        ({"not_before": "2026-12-01T24:00:00Z"}, f"keys[1].not_before {TIME}"),
        ({"not_before": "2026-12-01T23:59:60Z"}, f"keys[1].not_before {TIME}"),
        ({"not_before": "0000-12-01T00:00:00Z"}, f"keys[1].not_before {TIME}"),
        (
            {"notBefore": PAST},
            "keys[1] has a member 'notBefore', which is not known; members are id, key, created, not_before, revoked",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_key_is_refused(change: dict[str, Any], message: str) -> None:
    assert refusal(document("k1", "k1", entry("k2") | change)) == message


@pytest.mark.parametrize("name", ["id", "key"])
def test_a_member_of_a_key_is_missing(name: str) -> None:
    key = entry("k2")
    del key[name]
    assert refusal(document("k1", "k1", key)) == f"keys[1] has no member {name!r}"


@pytest.mark.parametrize("content", [[], "text", 1, None, True])
def test_a_file_is_an_object(content: object) -> None:
    assert refusal(content) == "it must be a JSON object"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"\xef\xbb\xbf{}",
        b"\xff",
        b'{"version": 1, "version": 1}',
        b"{} {}",
        b"[" * 300,
        b"{'version': 1}",
        b'{"version": NaN}',
    ],
)
def test_a_file_is_strict_json(data: bytes) -> None:
    assert refusal(data).startswith("is no JSON text: ")


def test_an_empty_file_is_called_empty() -> None:
    assert refusal(b"") == "is no JSON text: it is empty"


def test_an_only_key_must_be_good_to_seal() -> None:
    message = "keys[1].not_before is in the future, and no other key could seal until then"
    alone = document("k1", entry("k0", revoked=True), entry("k1", not_before=FUTURE))
    assert refusal(alone) == message
    assert read(alone, NOW + 3600).active.key.id == "k1"
    assert read(document("k1", entry("k1", not_before="2026-12-01T12:00:00Z"))).active.key.id == "k1"


def test_a_previous_key_that_is_revoked_counts_as_absent() -> None:
    content = read(document("k2", entry("k1", revoked=True), "k2", "k3", previous="k1"))
    assert content.previous is None


def test_every_half_written_file_is_refused() -> None:
    data = data_of(read(document("k2", entry("k1", created=PAST), entry("k2", not_before=FUTURE), previous="k1")))
    for length in range(len(data) - 1):  # the last byte is the end of the line
        assert "JSON text" in refusal(data[:length])


def test_what_is_said_of_a_damaged_file_shows_no_key() -> None:
    data = data_of(read(document("k2", entry("k1", created=PAST), entry("k2", not_before=FUTURE), previous="k1")))
    for at in range(len(data)):
        for byte in b'"\\A{,\x00\xff':
            damaged = data[:at] + bytes((byte,)) + data[at + 1 :]
            try:
                content_of(damaged, NOW)
            except Refused as refused:
                assert_shows_no_key(str(refused))


# ---- which key seals ----


@pytest.mark.parametrize(
    ("content", "may", "sealing"),
    [
        (document("k1", "k1"), False, "k1"),
        (document("k2", "k1", "k2"), True, "k2"),
        (document("k2", "k1", "k2"), False, "k1"),
        (document("k2", "k2", "k3", "k1"), False, "k3"),
        (document("k2", "k2", "k3", "k1", previous="k1"), False, "k1"),
        (document("k2", entry("k1", revoked=True), "k2", "k3", previous="k1"), False, "k3"),
        (document("k2", entry("k1", revoked=True), "k2", previous="k1"), False, "k2"),
        # A younger key than the active one is new, and no former one.
        (document("k1", entry("k1", created=PAST), entry("k2", created=FUTURE)), False, "k1"),
        (document("k1", entry("k1", created=PAST), entry("k2", created=FUTURE), "k0"), False, "k0"),
        (document("k1", entry("k1", created=PAST), entry("k2", created=FUTURE), previous="k2"), False, "k2"),
        (document("k1", entry("k1", created=FUTURE), entry("k2", created=PAST)), False, "k2"),
        (document("k1", entry("k1", created=PAST), entry("k2", created=PAST)), False, "k2"),
        # Nor beside one whose time came long ago, but which this process does not know yet.
        (document("k1", entry("k1", created=PAST, not_before=PAST), entry("k2", created=FUTURE)), False, "k1"),
        (document("k1", entry("k1", created=PAST, not_before=PAST), entry("k2", created=FUTURE), "k0"), False, "k0"),
        # An active key whose time has not come never seals.
        (
            document("k1", entry("k1", created=PAST, not_before=FUTURE), entry("k2", created=FUTURE), "k0"),
            False,
            "k0",
        ),
        (
            document("k1", entry("k1", created=PAST, not_before=FUTURE), entry("k2", created=FUTURE)),
            False,
            "k2",
        ),
    ],
)
def test_which_key_seals(content: dict[str, Any], may: bool, sealing: str) -> None:
    assert read(content).sealing(may, NOW).key.id == sealing


def test_which_key_seals_by_the_times_of_the_file() -> None:
    content = read(document("k2", "k1", entry("k2", not_before=FUTURE)))
    assert content.sealing_at(NOW + 3599.9).key.id == "k1"
    assert content.sealing_at(NOW + 3600).key.id == "k2"
    assert read(document("k2", "k1", "k2")).sealing_at(NOW).key.id == "k2"


def test_the_ring_has_all_keys_that_open() -> None:
    content = read(document("k2", "k1", "k2", entry("k0", revoked=True)))
    gone = content.active.key.from_id_and_bytes("k3", bytes_of("k3"))
    ring = content.ring(content.sealing(False, NOW), [gone])
    assert (ring.active_key_id, ring.verification_key_ids) == ("k1", ("k2", "k3"))


# ---- writing ----

TIMES = st.none() | st.datetimes(timezones=st.just(UTC))


@given(created=st.lists(TIMES, min_size=3, max_size=3), past=TIMES, previous=st.booleans(), revoked=st.booleans())
def test_what_is_written_is_read(
    created: list[datetime | None], past: datetime | None, previous: bool, revoked: bool
) -> None:
    keys = [KeyEntry.random(f"k{number}", datetime(2026, 1, 1, tzinfo=UTC)) for number in range(3)]
    entries = tuple(
        KeyEntry(key.key, key._text, created=time, not_before=past, revoked=revoked and number == 2)
        for number, (key, time) in enumerate(zip(keys, created, strict=True))
    )
    content = KeyFileContent(entries, entries[1], entries[0] if previous else None)
    again = content_of(data_of(content), NOW)
    assert [vars_of(each) for each in again.entries] == [vars_of(each) for each in entries]
    assert again.active.key.id == "k1"
    assert (again.previous is not None) is previous
    assert data_of(again) == data_of(content)


def vars_of(each: KeyEntry) -> tuple[object, ...]:
    return each.key, each.created, each.not_before, each.revoked


@pytest.mark.parametrize("text", ["2026-12-01T00:00:00Z", "0001-01-01T00:00:00.000001Z", "9999-12-31T23:59:59.100000Z"])
def test_times_are_written_as_they_are_read(text: str) -> None:
    assert time_text(datetime.fromisoformat(text)) == text


def test_random_keys_differ_and_are_read() -> None:
    keys = [KeyEntry.random(f"k{number}", datetime(2026, 1, 1, tzinfo=UTC)) for number in range(50)]
    content = content_of(data_of(KeyFileContent(tuple(keys), keys[0])), NOW)
    assert len(content.entries) == 50


def test_a_key_that_looks_made_up_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = [bytes(32), b"x" * 32, bytes_of("k1")]
    monkeypatch.setattr(os, "urandom", lambda count: drawn.pop(0))
    key = KeyEntry.random("k1", datetime(2026, 1, 1, tzinfo=UTC))
    assert key.key == key.key.from_id_and_bytes("k1", bytes_of("k1"))


# ---- the file ----


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return put(tmp_path / "keys.json", document("k1", "k1"))


def problem(path: Path | str) -> str:
    with pytest.raises(KeyFileError) as caught:
        KeyFile(path).read(NOW)
    told = everything_told(caught.value)
    assert_shows_no_key(told)
    prefix = f"key file {str(path)!r}: "
    assert str(caught.value).startswith(prefix)
    return str(caught.value).removeprefix(prefix)


def test_the_error_is_of_the_library_and_a_value_error() -> None:
    assert issubclass(KeyFileError, InputError)
    assert issubclass(KeyFileError, ValueError)
    error = pickle.loads(pickle.dumps(KeyFileError("key file 'x': is no regular file")))
    assert str(error) == "key file 'x': is no regular file"


def test_a_file_is_read(path: Path) -> None:
    content = KeyFile(path).read(NOW)
    assert (content.active.key.id, content.is_exposed) == ("k1", False)


def test_an_unchanged_file_is_what_it_was(path: Path) -> None:
    file = KeyFile(path)
    content = file.read(NOW)
    assert file.read(NOW, content) is content
    put(path, path.read_bytes())
    assert file.read(NOW, content) is content
    put(path, path.read_bytes() + b" ")
    assert file.read(NOW, content) is not content


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640, 0o440, 0o700])
def test_modes_that_are_taken(path: Path, mode: int) -> None:
    path.chmod(mode)
    assert KeyFile(path).read(NOW).active.key.id == "k1"


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666, 0o660, 0o622])
def test_who_may_write(path: Path, mode: int) -> None:
    path.chmod(mode)
    assert problem(path) == "may be written by others than its owner; chmod 600 it"


@pytest.mark.parametrize("mode", [0o604, 0o644, 0o444])
def test_who_may_read(path: Path, mode: int) -> None:
    path.chmod(mode)
    assert problem(path) == "may be read by others than its owner and group; chmod 600 it"


def mounted(folder: Path, content: dict[str, Any], revision: str = "1", mode: int = 0o644) -> None:
    """Delivers a secret as Kubernetes does: a folder for each revision, and one link that is exchanged."""
    folder.mkdir(exist_ok=True)
    revised = folder / f"..{revision}"
    revised.mkdir()
    put(revised / "keyring.json", content, mode)
    (folder / "..data_tmp").symlink_to(revised.name)
    os.rename(folder / "..data_tmp", folder / "..data")
    if not (folder / "keyring.json").is_symlink():
        (folder / "keyring.json").symlink_to("..data/keyring.json")


def test_a_mounted_secret(tmp_path: Path) -> None:
    folder = tmp_path / "secret"
    mounted(folder, document("k1", "k1"))
    for place in (folder, folder / "keyring.json", folder / "..data" / "keyring.json"):
        content = KeyFile(place).read(NOW)
        assert (content.active.key.id, content.is_exposed) == ("k1", True)
    mounted(folder, document("k2", "k2"), "2", 0o440)
    for place in (folder, folder / "keyring.json", folder / "..data" / "keyring.json"):
        content = KeyFile(place).read(NOW)
        assert (content.active.key.id, content.is_exposed) == ("k2", False)


def test_a_mounted_secret_that_others_may_write(tmp_path: Path) -> None:
    folder = tmp_path / "secret"
    mounted(folder, document("k1", "k1"), mode=0o666)
    assert problem(folder) == "may be written by others than its owner; chmod 600 it"


def test_a_folder_with_a_file_of_keys(tmp_path: Path) -> None:
    put(tmp_path / "keyring.json", document("k1", "k1"), 0o644)
    assert KeyFile(tmp_path).read(NOW).is_exposed


def test_a_link_is_followed_and_its_target_judged(tmp_path: Path, path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(path.name)
    assert KeyFile(link).read(NOW).active.key.id == "k1"
    path.chmod(0o644)
    assert problem(link) == "may be read by others than its owner and group; chmod 600 it"


def test_what_is_no_file(tmp_path: Path) -> None:
    assert problem(tmp_path / "missing.json") == "cannot be used: No such file or directory"
    assert problem(tmp_path) == "is a folder without keyring.json"
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert problem(tmp_path / "pipe") == "is no regular file"
    assert problem("/dev/zero") == "is no regular file"
    (tmp_path / "loop").symlink_to("loop")
    assert problem(tmp_path / "loop") == "cannot be used: Too many levels of symbolic links"


def test_how_large_a_file_may_be(path: Path) -> None:
    data = path.read_bytes()
    put(path, data + b" " * (1024 * 1024 - len(data)))
    assert KeyFile(path).read(NOW).active.key.id == "k1"
    put(path, data + b" " * (1024 * 1024 - len(data) + 1))
    assert problem(path) == "has more than 1048576 bytes"


def test_a_file_that_is_written_meanwhile(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_once = os.read

    done: list[int] = []

    def read_all_and_write(descriptor: int, count: int) -> bytes:
        found = read_once(descriptor, count)
        if not done:
            done.append(path.write_bytes(b" " * len(found) + b" "))
        return found

    monkeypatch.setattr(keyfile.os, "read", read_all_and_write)
    assert problem(path) == "was written while it was read; replace it by a rename"


def test_an_error_of_the_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int, count: int) -> bytes:
        raise OSError(5, text_of("k1"))

    monkeypatch.setattr(keyfile.os, "read", fail)
    assert problem(path) == "cannot be used: Input/output error"


@pytest.mark.parametrize("error", [MemoryError, RuntimeError, RecursionError, SystemExit])
@pytest.mark.parametrize("name", ["parse", "_entry", "_key_bytes", "_is_made_up", "_time", "ProtectionKey"])
def test_an_unexpected_error_is_told_by_its_type(
    path: Path, monkeypatch: pytest.MonkeyPatch, name: str, error: type[BaseException]
) -> None:
    def fail(*args: object) -> None:
        raise error(text_of("k1"))

    class Failing:
        from_id_and_bytes = staticmethod(fail)

    monkeypatch.setattr(keyfile, name, Failing if name == "ProtectionKey" else fail)
    assert problem(path) == f"cannot be used: {error.__name__}"


def test_an_interrupt_goes_through_without_a_key(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise KeyboardInterrupt(text_of("k1"))

    monkeypatch.setattr(keyfile, "_time", fail)
    error = raised(lambda: KeyFile(path).read(NOW))
    assert type(error) is KeyboardInterrupt
    assert_shows_no_key(everything_told(error))


def test_the_search_for_keys_finds_them() -> None:
    for shown in (text_of("k1"), bytes_of("k2").hex(), repr(bytes_of("k3")), str(list(bytes_of("k0")))):
        with pytest.raises(AssertionError):
            assert_shows_no_key(f"said: {shown}")

    def tell() -> None:
        raise ValueError(text_of("k1"))

    with pytest.raises(AssertionError):
        assert_shows_no_key(everything_told(raised(tell)))


def test_nothing_shows_a_key(path: Path) -> None:
    content = KeyFile(path).read(NOW)
    for thing in (content, content.active, content.entries, content.active.key):
        assert_shows_no_key(f"{thing!r} {thing}")
    for thing in (content, content.active):
        for take in (copy.copy, copy.deepcopy, pickle.dumps, vars):
            with pytest.raises(TypeError):
                take(thing)
        for name in dir(thing):
            if not name.startswith("_"):
                assert_shows_no_key(repr(getattr(thing, name)))


# ---- KeyFile ----


def test_a_key_file_describes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    file = KeyFile("keys.json")
    monkeypatch.chdir("/")
    assert file.path == str(tmp_path / "keys.json")
    assert file.activation_delay == timedelta(seconds=120)
    assert file.poll_interval == timedelta(seconds=1)
    assert repr(file) == f"<KeyFile {file.path!r}>"
    with pytest.raises(AttributeError):
        file.path = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"path": b"keys.json"}, TypeError, "path must be a str"),
        ({"path": 1}, TypeError, "int"),
        ({"path": None}, TypeError, "NoneType"),
        ({"path": ""}, ValueError, "path must not be empty"),
        ({"activation_delay": 120}, TypeError, "activation_delay must be a timedelta, not int"),
        ({"poll_interval": 1.0}, TypeError, "poll_interval must be a timedelta, not float"),
        ({"poll_interval": timedelta(milliseconds=9)}, ValueError, "poll_interval must be from 10 milliseconds"),
        ({"poll_interval": timedelta(hours=1, seconds=1)}, ValueError, "poll_interval must be from 10 milliseconds"),
        ({"activation_delay": timedelta(milliseconds=999)}, ValueError, "activation_delay must be from poll_interval"),
        ({"activation_delay": timedelta(0)}, ValueError, "activation_delay must be from poll_interval"),
        ({"activation_delay": timedelta(days=1, seconds=1)}, ValueError, "activation_delay must be from"),
    ],
)
def test_what_a_key_file_is_made_of(arguments: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        KeyFile(**{"path": "keys.json"} | arguments)
