"""``mcpinput state explain``: says offline which of the things that a token is bound to differs from a request.

Rules

- What is printed holds no state, key, token, argument or principal. Asked requests are shown by number and kind.
- Exit codes: 0 it would open, 1 it would not, 2 wrongly called (options, key file or parameters that cannot be used).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from mcpinput import protocol
from mcpinput._core.digest import message_digest
from mcpinput.errors import JsonError, KeyFileError
from mcpinput.json import Limits, parameter_digest, parse
from mcpinput.protection.config import MAXIMUM_LIFETIME, MAXIMUM_ROUNDS
from mcpinput.protection.explain import Binding, Contents, Explanation, Known, Verdict, explain
from mcpinput.protection.keyfile import KeyFile
from mcpinput.protection.keyring import ProtectionKeyring
from mcpinput.requests import InputRequestType
from mcpinput.server.server import normalised_path

__all__ = ["UnusableInput", "add_command"]

_STDIO_PATH: Final = "stdio:"
_KINDS: Final = {kind.code: kind.name.lower().replace("_", " ") for kind in InputRequestType}
_MOST_READ: Final = Limits().body_bytes + 1  # longer is over the limit of parameters, and no token is as long
_TEXTS: Final = {
    "audience": "the server's name, or its ProtectionConfig(audience=)",
    "method": "JSON-RPC method; not needed where --params holds the whole request",
    "partition": "authorization partition, as admitted",
    "tenant": "tenant, as admitted",
    "principal": "principal, as admitted",
}


class UnusableInput(Exception):
    """The key file, the parameters or the token cannot be read; says why."""


@dataclass(frozen=True, slots=True)
class _Request:
    """What the file of ``--params`` tells.

    Attributes:
        digest: Digest of the stable parameters.
        covered: Names of what the digest covers.
        version: Protocol version, as its ``_meta`` says.
        method: Where the file holds the whole request; likewise the next one.
        id: JSON-RPC id.
    """

    digest: bytes = field(repr=False)
    covered: tuple[str, ...]
    version: str
    method: str | None = None
    id: int | str | None = None


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds ``state explain`` to the commands of ``mcpinput``."""
    state = commands.add_parser("state", help="look into request state", description="Looks into request state.")
    actions = state.add_subparsers(required=True, metavar="ACTION")
    parser = actions.add_parser(
        "explain",
        help="say why a token opens or does not",
        description="Compares a token with a request, offline, and says what differs. What is not given counts as the "
        "same. Shows neither state nor keys.",
        epilog="Exit code: 0 it would open, 1 it would not, 2 wrongly called.",
    )
    parser.add_argument(
        "token", metavar="TOKEN", type=_text, help="requestState as the client sent it; - reads it from stdin"
    )
    parser.add_argument("--keys", required=True, metavar="FILE", help="the server's key file, or its mounted folder")
    parser.add_argument(
        "--params", metavar="FILE", help="JSON of the retry's params, or of the whole request: then method and id too"
    )
    parser.add_argument("--path", metavar="PATH", type=_path, help="the server's path as configured, or stdio:")
    for name, text in _TEXTS.items():
        parser.add_argument(f"--{name}", metavar="TEXT", type=_text, help=text)
    parser.add_argument(
        "--request-id", metavar="ID", type=_request_id, help='id of the retry: 7 is a number, "7" in quotes a string'
    )
    parser.add_argument(
        "--lifetime",
        metavar="SECONDS",
        type=_lifetime,
        default=timedelta(minutes=15),
        help="maximum lifetime of the server's state (default: 900)",
    )
    parser.add_argument(
        "--rounds", metavar="NUMBER", type=_rounds, default=10, help="maximum rounds of the server (default: 10)"
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    known = Known(
        audience=options.audience,
        path=options.path,
        protocol_version=protocol.PROTOCOL_VERSION,
        method=options.method,
        partition=options.partition,
        tenant=options.tenant,
        principal=options.principal,
        request_id=options.request_id,
        maximum_lifetime_ms=options.lifetime // timedelta(milliseconds=1),
        maximum_rounds=options.rounds,
    )
    request = None if options.params is None else _request(options.params)
    if request is not None:
        known = replace(
            known,
            protocol_version=request.version,
            method=request.method if known.method is None else known.method,
            parameter_digest=request.digest,
            request_id=request.id if known.request_id is None else known.request_id,
        )
    now = time.time()
    now_ms = round(now * 1000)
    try:
        ring, revoked = _ring_of(options.keys, now)
    except KeyFileError as error:
        raise UnusableInput(str(error)) from None
    explanation = explain(_token(options.token), ring, known, now_ms, revoked=revoked)
    if hasattr(sys.stdout, "reconfigure"):  # a terminal that lacks a character should still show the rest
        sys.stdout.reconfigure(errors="backslashreplace")
    for line in _lines(explanation, known, request, now_ms, revoked):
        print(line)
    return 0 if explanation.failure is None else 1


# ---- options ----


def _text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError("not UTF-8 text") from None
    return text


def _path(text: str) -> str:
    if text == _STDIO_PATH:
        return text
    try:
        return normalised_path(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _request_id(text: str) -> int | str:
    try:
        value = parse(_text(text).encode())
    except JsonError:
        return text  # a string whose quotes the shell has taken
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise argparse.ArgumentTypeError("an id is a string or an integer")


def _lifetime(text: str) -> timedelta:
    try:
        lifetime = timedelta(seconds=float(text))
    except (ValueError, OverflowError):
        lifetime = timedelta(0)
    if timedelta(milliseconds=1) <= lifetime <= MAXIMUM_LIFETIME:
        return lifetime
    raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0, up to 366 days")


def _rounds(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= MAXIMUM_ROUNDS:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {MAXIMUM_ROUNDS}")


# ---- what is read ----


def _token(text: str) -> str:
    if text != "-":
        return text.strip()
    if sys.stdin is None:
        raise UnusableInput("the token was to come by stdin, which is closed")
    try:
        return sys.stdin.read(_MOST_READ).strip()
    except UnicodeDecodeError:
        raise UnusableInput("the token on stdin is no text") from None


def _ring_of(path: str, now: float) -> tuple[ProtectionKeyring, frozenset[str]]:
    """Every key of a key file, and the ids of those that are revoked: they are good for an explanation, if no more."""
    content = KeyFile(path).read(now)
    builder = ProtectionKeyring.with_active_key(content.active.key)
    for entry in content.entries:
        if entry is not content.active:
            builder.verification_key(entry.key)
    return builder.build(), frozenset(entry.key.id for entry in content.entries if entry.revoked)


def _request(path: str) -> _Request:
    try:
        with open(path, "rb") as file:
            raw = file.read(_MOST_READ)  # may be a pipe or device without an end
        tree = parse(raw)
        if not isinstance(tree, dict):
            raise UnusableInput(f"--params: {path} must hold a JSON object: params, or the whole request")
        whole = "jsonrpc" in tree
        params = tree.get("params", {}) if whole else tree
        if not isinstance(params, dict):
            raise UnusableInput(f"--params: params of the request in {path} must be an object")
        digest = message_digest(raw) if whole else parameter_digest(raw)
    except OSError as error:
        raise UnusableInput(f"--params: cannot read {path}: {error.strerror}") from None
    except JsonError as error:
        raise UnusableInput(f"--params: {path}: {error}") from None
    meta = params.get("_meta")
    meta = meta if isinstance(meta, dict) else {}
    version = meta.get(protocol.META_PROTOCOL_VERSION)
    method, request_id = (tree.get("method"), tree.get("id")) if whole else (None, None)
    return _Request(
        digest=digest,
        covered=(
            *(name for name in params if name not in (*protocol.RETRY_PARAMS, "_meta")),
            *(f"_meta {name}" for name in meta if name not in protocol.TRANSIENT_META),
        ),
        version=version if isinstance(version, str) else protocol.PROTOCOL_VERSION,
        method=method if isinstance(method, str) else None,
        id=request_id if isinstance(request_id, (int, str)) and not isinstance(request_id, bool) else None,
    )


# ---- output ----


def _lines(
    explanation: Explanation, known: Known, request: _Request | None, now_ms: int, revoked: frozenset[str]
) -> Iterator[str]:
    if explanation.key_id is not None:
        yield f"key: {explanation.key_id}" + (" (revoked)" if explanation.key_id in revoked else "")
    contents = explanation.contents
    if contents is not None:
        for binding in contents.bindings:
            yield f"{binding.failure}: {_compared(binding)}"
        yield f"parameters: {contents.parameters}"
        if contents.parameters is Verdict.DIFFERS and request is not None:
            covered = (name if name.isprintable() else repr(name) for name in request.covered)
            yield f"  the digest covers the values of {', '.join(covered) or 'nothing here'}"
            yield (
                "  and not inputResponses, requestState, and of _meta progressToken, traceparent, tracestate, baggage; "
                "1 and 1.0 are the same, {} and nothing differ"
            )
        yield f"request id: {_REQUEST_ID[contents.request_id]}"
        yield from _facts(contents, known, now_ms)
    if explanation.failure is not None:
        yield f"would be refused: {explanation.failure}"
    elif contents is not None and _all_given(contents):
        yield "would open"
    else:
        yield "would open, as far as is given"


_REQUEST_ID: Final = {
    Verdict.SAME: "same as that of the request that emitted the state; a retry needs one of its own",
    Verdict.DIFFERS: "differs, as it must",
    Verdict.NOT_GIVEN: "not given",
}


def _compared(binding: Binding) -> str:
    if binding.verdict is Verdict.SAME:
        return binding.verdict
    if binding.absent:
        return f"{binding.verdict}; the token has none"
    return f"{binding.verdict}; the token has one" if binding.verdict is Verdict.NOT_GIVEN else binding.verdict


def _all_given(contents: Contents) -> bool:
    verdicts = {each.verdict for each in contents.bindings if not each.absent}
    return Verdict.NOT_GIVEN not in verdicts | {contents.parameters, contents.request_id}


def _facts(contents: Contents, known: Known, now_ms: int) -> Iterator[str]:
    yield f"round: {contents.round} of at most {known.maximum_rounds}"
    yield f"issued: {_time(contents.issued_ms)}, {_distance(contents.issued_ms - now_ms)}"
    yield f"expires: {_time(contents.expires_ms)}, {_distance(contents.expires_ms - now_ms)}"
    lifetime_ms = contents.expires_ms - contents.issued_ms
    yield f"lifetime: {_seconds(lifetime_ms)} of at most {_seconds(known.maximum_lifetime_ms)}"
    yield "state: none" if contents.state_bytes is None else f"state: {contents.state_bytes} bytes"
    kinds = ", ".join(_KINDS[kind] for kind in contents.asked)
    yield f"asked: {len(contents.asked)}" + (f" ({kinds})" if kinds else "")
    if contents.replayed:
        yield "asks: replayed"


def _time(ms: int) -> str:
    try:
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)).isoformat(" ", "milliseconds")
    except OverflowError:
        return f"{ms} ms after 1970"


def _distance(ms: int) -> str:
    return f"in {_seconds(ms)}" if ms > 0 else f"{_seconds(-ms)} ago"


def _seconds(ms: int) -> str:
    sign = "-" if ms < 0 else ""
    return f"{sign}{abs(ms) // 1000}.{abs(ms) % 1000:03} s"
