"""``mcpinput state explain``: what it says of a token, with which exit code, and what it never shows."""

from __future__ import annotations

import base64
import io
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcpinput import ProtectionConfig, ProtectionKey, ProtectionKeyring, Server
from mcpinput.cli import main
from tests.support.asgi import Client, meta
from tests.support.servers import Clock, price_server

SECRET = bytes((7 * index + index * index) % 256 for index in range(32))
OTHER = bytes((11 * index + 3 * index * index) % 256 for index in range(32))
KEY = ProtectionKey.from_id_and_bytes("k1", SECRET)
Explain = Callable[..., tuple[int, dict[str, str]]]
"""Exit code, and what was printed by name; ``verdict`` is the last line."""


def spelled(key: bytes) -> str:
    return base64.urlsafe_b64encode(key).decode().rstrip("=")


def write_keys(path: Path, **members: Any) -> Path:
    entry = {"id": "k1", "key": spelled(SECRET), **members}
    entries = [entry, {"id": "k2", "key": spelled(OTHER)}]
    path.write_text(json.dumps({"version": 1, "active": "k2", "keys": entries}))
    path.chmod(0o600)
    return path


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return write_keys(tmp_path / "keys.json")


@pytest.fixture
def explain(keys: Path, capsys: pytest.CaptureFixture[str]) -> Explain:
    def run(token: str, *options: str) -> tuple[int, dict[str, str]]:
        code = main(["state", "explain", token, "--keys", str(keys), *options])
        out, err = capsys.readouterr()
        assert err == ""
        *lines, verdict = out.splitlines()
        return code, dict(line.split(": ", 1) for line in lines if ": " in line) | {"verdict": verdict}

    return run


def server_of(clock: Clock | None = None) -> Server:
    protection = ProtectionConfig(
        keyring=ProtectionKeyring.with_active_key(KEY).build(), clock=clock or Clock(time.time())
    )
    return price_server(protection=protection)[0]


def token_of(server: Server | None = None, arguments: Any = None) -> str:
    """A token for ``set_price``, made under id 1 by a server named ``prices`` whose callers are ``everybody``."""
    client = Client((server or server_of()).asgi())
    token: str = client.call_tool("set_price", {"sku": "s3cret"} if arguments is None else arguments).result[
        "requestState"
    ]
    return token


def params(arguments: Any = None, **more: Any) -> dict[str, Any]:
    return {
        "name": "set_price",
        "arguments": {"sku": "s3cret"} if arguments is None else arguments,
        "_meta": meta(),
    } | more


def written(path: Path, content: Any) -> str:
    path.write_text(json.dumps(content))
    return str(path)


ALL = ("--audience", "prices", "--path", "/mcp", "--partition", "everybody")


def test_an_honest_retry_would_open(explain: Explain, tmp_path: Path) -> None:
    retry = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params(requestState="x", inputResponses={})}
    code, said = explain(token_of(), "--params", written(tmp_path / "p", retry), *ALL)
    assert code == 0
    assert said["key"] == "k1"
    for name in ("audience", "endpoint path", "protocol version", "method", "authorization partition", "parameters"):
        assert said[name] == "same"
    assert said["tenant"] == said["principal"] == "not given; the token has none"
    assert said["request id"] == "differs, as it must"
    assert said["round"] == "1 of at most 10"
    assert said["lifetime"] == "900.000 s of at most 900.000 s"
    assert said["state"] == "13 bytes"
    assert said["asked"] == "1 (elicitation form)"
    assert said["verdict"] == "would open"


def test_params_alone_leave_method_and_id_open(explain: Explain, tmp_path: Path) -> None:
    code, said = explain(token_of(), "--params", written(tmp_path / "p", params()))
    assert code == 0
    assert said["parameters"] == "same"
    assert said["method"] == "not given; the token has one"
    assert said["request id"] == "not given"
    assert said["verdict"] == "would open, as far as is given"


@pytest.mark.parametrize(
    ("options", "name", "text"),
    [
        (("--audience", "pod-7"), "audience", "differs"),
        (("--path", "/other"), "endpoint path", "differs"),
        (("--method", "prompts/get"), "method", "differs"),
        (("--partition", "alice"), "authorization partition", "differs"),
        (("--tenant", "shop"), "tenant", "differs; the token has none"),
        (("--principal", "alice"), "principal", "differs; the token has none"),
        (("--request-id", "1"), "request id", "same as that of the request that emitted the state; "),
        (("--rounds", "1", "--lifetime", "899.999"), "lifetime", "900.000 s of at most 899.999 s"),
    ],
)
def test_what_differs_is_named_and_refuses(explain: Explain, options: tuple[str, ...], name: str, text: str) -> None:
    code, said = explain(token_of(), *options)
    assert code == 1
    assert said[name].startswith(text)
    assert said["verdict"] == f"would be refused: {name}"


@pytest.mark.parametrize("path", ["/mcp/", "mcp", "/mcp"])
def test_a_path_is_normalised_as_a_server_does(explain: Explain, path: str) -> None:
    assert explain(token_of(), "--path", path)[1]["endpoint path"] == "same"


@pytest.mark.parametrize(("text", "same"), [("1", True), ('"1"', False), ("a", False), ("2", False), ("é", False)])
def test_ids_keep_their_json_type(explain: Explain, text: str, same: bool) -> None:
    assert explain(token_of(), "--request-id", text)[0] == same


def test_other_parameters_say_what_the_digest_covers(
    explain: Explain, keys: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = params({"sku": "an0ther"}, requestState="t", _meta=meta(**{"progressToken": 7, "shop.example/x": 1}))
    path = written(tmp_path / "p", other)
    token = token_of()
    assert explain(token, "--params", path)[1]["verdict"] == "would be refused: parameters"
    main(["state", "explain", token, "--keys", str(keys), "--params", path])
    out = capsys.readouterr().out
    covered = next(line for line in out.splitlines() if line.startswith("  the digest covers"))
    assert covered == (
        "  the digest covers the values of name, arguments, _meta io.modelcontextprotocol/protocolVersion, "
        "_meta io.modelcontextprotocol/clientCapabilities, _meta shop.example/x"
    )
    assert "an0ther" not in out


def test_numbers_are_compared_by_value(explain: Explain, tmp_path: Path) -> None:
    path = tmp_path / "p"
    path.write_text(json.dumps(params({"price": 1})).replace('"price": 1', '"price": 1.00'))
    assert explain(token_of(arguments={"price": 1}), "--params", str(path))[1]["parameters"] == "same"


def test_time_that_is_over(explain: Explain) -> None:
    code, said = explain(token_of(server_of(Clock(time.time() - 1000))))
    assert code == 1
    assert said["verdict"] == "would be refused: expired"
    assert said["issued"].endswith(" s ago")
    assert said["expires"].endswith(" s ago")
    code, said = explain(token_of(server_of(Clock(time.time() + 1000))))
    assert (code, said["verdict"]) == (1, "would be refused: issued in the future")
    assert " in " in said["issued"]


@pytest.mark.parametrize(
    ("token", "said"),
    [
        ("", "malformed"),
        ("no token", "malformed"),
        ("x" * 70_000, "too large"),
    ],
)
def test_what_is_no_token(explain: Explain, token: str, said: str) -> None:
    assert explain(token) == (1, {"verdict": f"would be refused: {said}"})


def test_a_changed_token_and_a_foreign_key(explain: Explain, keys: Path) -> None:
    token = token_of()
    changed = token[:60] + ("A" if token[60] != "A" else "B") + token[61:]
    assert explain(changed) == (1, {"key": "k1", "verdict": "would be refused: not authentic"})
    foreign = price_server(clock=Clock(time.time()), keys=ProtectionKeyring.ephemeral())[0]
    code, said = explain(token_of(foreign))
    assert code == 1
    assert said["key"].startswith("ephemeral-")
    assert said["verdict"] == "would be refused: unknown key"


def test_a_revoked_key_still_explains(explain: Explain, keys: Path) -> None:
    write_keys(keys, revoked=True)
    code, said = explain(token_of(), "--tenant", "shop")
    assert code == 1
    assert said["key"] == "k1 (revoked)"
    assert said["tenant"] == "differs; the token has none"
    assert said["verdict"] == "would be refused: unknown key"


def test_the_token_may_come_by_stdin(explain: Explain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{token_of()}\n"))
    assert explain("-")[0] == 0


def test_a_token_on_stdin_that_is_no_text(keys: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff"), "utf-8"))
    assert main(["state", "explain", "-", "--keys", str(keys)]) == 2
    assert capsys.readouterr().err == "mcpinput state: the token on stdin is no text\n"


def test_it_shows_no_token_state_argument_or_key(
    explain: Explain, keys: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = token_of()
    for options in ((), ("--params", written(tmp_path / "p", params())), ("--principal", "pr1ncipal")):
        main(["state", "explain", token, "--keys", str(keys), *options])
        out, err = capsys.readouterr()
        assert err == ""
        for secret in (token, token[10:40], "step", "s3cret", "pr1ncipal", spelled(SECRET), SECRET.hex()):
            assert secret not in out


def test_names_that_a_terminal_would_obey_are_quoted(
    keys: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path / "p", params(**{"\x1b[2J": 1}))
    assert main(["state", "explain", token_of(), "--keys", str(keys), "--params", path]) == 1
    out = capsys.readouterr().out
    assert "'\\x1b[2J'" in out
    assert "\x1b" not in out


# ---- wrongly called ----


@pytest.fixture
def refused(keys: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a wrong call; the one line that it prints."""

    def run(*options: str, keys_at: str = str(keys)) -> str:
        assert main(["state", "explain", token_of(), "--keys", keys_at, *options]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("mcpinput state: ")
        assert err.count("\n") == 1
        return err

    return run


@pytest.mark.parametrize(
    "options",
    [
        ("--path", "/a//b"),
        ("--path", "/a/../b"),
        ("--request-id", "1.5"),
        ("--request-id", "null"),
        ("--request-id", "true"),
        ("--request-id", "\udcff"),
        ("--tenant", "\udcff"),
        ("--lifetime", "0"),
        ("--lifetime=-1",),
        ("--lifetime", "nan"),
        ("--lifetime", "inf"),
        ("--lifetime", "1e300"),
        ("--lifetime", "soon"),
        ("--rounds", "0"),
        ("--rounds", "65536"),
        ("--rounds", "²"),
    ],
)
def test_options_that_cannot_be_used(options: tuple[str, ...], keys: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["state", "explain", token_of(), "--keys", str(keys), *options])
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert f"error: argument {options[0].partition('=')[0]}: " in err


@pytest.mark.parametrize(("path", "words"), [("/no/such/file", "No such file or directory"), ("/", "Is a directory")])
def test_parameters_that_cannot_be_read(refused: Callable[..., str], path: str, words: str) -> None:
    assert refused("--params", path) == f"mcpinput state: --params: cannot read {path}: {words}\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "--params: "),
        ('{"name": "s3cret", "name": 1}', "--params: "),
        ("[]", "must hold a JSON object"),
        ('"s3cret"', "must hold a JSON object"),
        ('{"jsonrpc": "2.0", "params": ["s3cret"]}', "must be an object"),
    ],
)
def test_parameters_that_cannot_be_used(refused: Callable[..., str], tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "p").write_text(text)
    line = refused("--params", str(tmp_path / "p"))
    assert words in line
    assert "s3cret" not in line


def test_a_key_file_that_cannot_be_used(refused: Callable[..., str], tmp_path: Path, keys: Path) -> None:
    assert "No such file" in refused(keys_at=str(tmp_path / "nothing"))
    keys.write_text(f'{{"version": 1, "active": "k1", "keys": [{{"id": "k1", "key": "{spelled(SECRET)}"')
    assert spelled(SECRET) not in refused()


@pytest.mark.parametrize("argv", [["state"], ["state", "explain"], ["state", "explain", "t"], ["state", "seal"]])
def test_what_argparse_refuses(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2
    assert "usage: mcpinput state" in capsys.readouterr().err


def test_what_has_no_end_is_not_read_to_it(keys: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["state", "explain", token_of(), "--keys", str(keys), "--params", "/dev/zero"]) == 2
    assert capsys.readouterr().err.startswith("mcpinput state: --params: /dev/zero: a text of ")
    with open("/dev/zero") as endless:
        monkeypatch.setattr(sys, "stdin", endless)
        assert main(["state", "explain", "-", "--keys", str(keys)]) == 1
    assert capsys.readouterr().out == "would be refused: too large\n"


def test_a_closed_stdin_brings_no_token(keys: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["state", "explain", "-", "--keys", str(keys)]) == 2
    assert capsys.readouterr().err == "mcpinput state: the token was to come by stdin, which is closed\n"
