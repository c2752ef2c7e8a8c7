"""The pages: what README and the page of formats show is run, so that it stays true."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest

from mcpinput import JsonWriteError, ProtectionKey, ProtectionKeyring
from mcpinput._core import envelope
from mcpinput.json import canonical_bytes, canonical_raw, parameter_digest, parse
from mcpinput.protection.context import Bindings
from mcpinput.protection.protector import open_token
from tests.support.asgi import Client

ROOT: Final = Path(__file__).resolve().parent.parent
README: Final = (ROOT / "README.md").read_text(encoding="utf-8")
FORMATS: Final = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
VECTORS: Final = json.loads((ROOT / "tests" / "vectors" / "protection-v1.json").read_text(encoding="utf-8"))
DEMO_COMMAND: Final = "pip install '.[demo]' && mcpinput demo"
TEST_COMMAND: Final = "pip install -e '.[test]' && python -m pytest"
KEY: Final = bytes(range(32))


def blocks(page: str, language: str) -> list[str]:
    """Contents of the fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def rows(heading: str) -> list[list[str]]:
    """Cells of the rows of the table whose header row begins with ``heading``, code marks taken off."""
    table = FORMATS.split(f"\n| {heading} |", 1)[1].split("\n\n", 1)[0]
    found = [re.split(r"(?<!\\)\|", line.strip("|")) for line in table.splitlines()[2:]]
    return [[cell.strip().strip("`") for cell in row] for row in found]


def section(name: str) -> str:
    """One section of the page of formats."""
    return FORMATS.split(f"\n## {name}", 1)[1].split("\n## ", 1)[0]


def joined(block: str) -> str:
    """A long value that is broken over lines."""
    return "".join(block.split())


# ---- README ----


def test_readme_begins_with_two_sentences_and_the_two_commands() -> None:
    title, purpose, demo, test = README.split("\n\n")[:4]
    assert title == "# mcpinput"
    assert len(re.findall(r"[a-z]\.(?:\s|$)", purpose)) == 2
    assert (demo, test) == (f"```sh\n{DEMO_COMMAND}\n```", f"```sh\n{TEST_COMMAND}\n```")


def test_example_in_readme_runs() -> None:
    (source,) = blocks(README, "python")
    namespace: dict[str, Any] = {"__name__": "example"}
    exec(compile(source, "README.md", "exec"), namespace)
    client = Client(namespace["app"])
    asked = client.call_tool("catalog.continue", {}, id=1).result
    assert asked["resultType"] == "input_required"
    assert asked["inputRequests"]["approval"]["params"]["message"] == "Approve catalog access?"
    for action, text in (("accept", "approved"), ("decline", "not approved"), ("cancel", "not approved")):
        answers = {"approval": {"action": action}}
        done = client.call_tool("catalog.continue", {}, answers=answers, state=asked["requestState"], id=2).result
        assert (done["resultType"], done["content"][0]["text"]) == ("complete", text)
    again = client.call_tool("catalog.continue", {}, state=asked["requestState"], id=3).result
    assert again["resultType"] == "input_required"


def test_links_in_the_pages_lead_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "SECURITY.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")]
    broken = [
        f"{page.name}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert broken == []


# ---- docs/formats.md ----


@pytest.mark.parametrize(("text", "canonical"), rows("JSON"), ids=lambda text: text)
def test_canonical_forms(text: str, canonical: str) -> None:
    assert canonical_raw(text.encode()).decode() == canonical
    assert canonical_bytes(parse(text.encode())).decode() == canonical


def test_number_text_has_at_most_1033_characters() -> None:
    longest = "-9." + "9" * 1_023 + "E-10000"
    assert len(longest) == 1_033
    assert canonical_bytes(Decimal(longest)).decode() == longest
    with pytest.raises(JsonWriteError):
        canonical_bytes(Decimal(longest.replace("E", "9E")))
    assert "at most 1,033 characters" in FORMATS


def test_parameter_digest() -> None:
    (params,) = blocks(section("Parameter digest"), "json")
    text, digest = blocks(section("Parameter digest"), "text")
    stable = parse(params.encode())
    assert isinstance(stable, dict)
    for name in ("inputResponses", "requestState"):
        del stable[name]
    del stable["_meta"]["progressToken"]
    assert canonical_bytes(stable).decode() == text.strip()
    assert parameter_digest(params.encode()).hex() == digest.strip()


@pytest.mark.parametrize(("text", "field", "binding"), rows("text"))
def test_fields(text: str, field: str, binding: str) -> None:
    value = None if text == "absent" else json.loads(text)
    assert envelope.field(value).hex() == field
    assert envelope.binding(value).hex() == binding


@pytest.mark.parametrize(("text", "digest"), rows("id"))
def test_request_id_hashes(text: str, digest: str) -> None:
    assert envelope.request_id_hash(json.loads(text)).hex() == digest


def test_payload() -> None:
    (block,) = blocks(section("Payload"), "text")
    (case,) = [case for case in VECTORS["payloads"] if case["desc"] == "one form, state"]
    payload = envelope.decode_payload(bytes.fromhex(joined(block)))
    assert joined(block) == case["payload"]
    assert (payload.round, payload.issued_ms, payload.expires_ms) == (1, case["issued_ms"], case["expires_ms"])
    assert payload.bindings == Bindings(**case["bound"]).digests()
    assert payload.state == case["state"].encode()


def test_token() -> None:
    (payload,) = blocks(section("Payload"), "text")
    (block,) = blocks(section("Token"), "text")
    ring = ProtectionKeyring.with_active_key(ProtectionKey.from_id_and_bytes("2026-07", KEY)).build()
    assert open_token(ring, joined(block)) == ("2026-07", bytes.fromhex(joined(payload)))


def test_fingerprint() -> None:
    (block,) = blocks(section("Fingerprint"), "text")
    ring = ProtectionKeyring.with_active_key(ProtectionKey.from_id_and_bytes("a", KEY)).build()
    assert ring.fingerprint.value == block.strip()
