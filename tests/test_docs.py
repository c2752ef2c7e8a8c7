"""The pages: what README, the guide and the page of formats show is run, so that it stays true."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import shlex
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest

from mcpinput import (
    ANONYMOUS,
    Admission,
    InputRequest,
    InputRequiredResult,
    InputResponses,
    JsonWriteError,
    KeyFileError,
    ProtectionConfig,
    ProtectionKey,
    ProtectionKeyring,
    RequestContext,
    RequestStateMode,
    Server,
    _keys,
    input_required,
    protocol,
)
from mcpinput._core import envelope
from mcpinput._demo import demo_server
from mcpinput.json import canonical_bytes, canonical_raw, parameter_digest, parse
from mcpinput.protection.context import Bindings
from mcpinput.protection.keyfile import content_of
from mcpinput.protection.protector import open_token
from mcpinput.protection.state import Call, StateBoundary
from tests.services.conftest import served
from tests.services.wire import post
from tests.support.asgi import Client, meta
from tests.support.pages import blocks, program

ROOT: Final = Path(__file__).resolve().parent.parent
README: Final = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDE: Final = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
FORMATS: Final = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
VECTORS: Final = json.loads((ROOT / "tests" / "vectors" / "protection-v1.json").read_text(encoding="utf-8"))
DEMO_COMMAND: Final = "pip install '.[demo]' && mcpinput demo"
TEST_COMMAND: Final = "pip install -e '.[test]' && python -m pytest"
KEY: Final = bytes(range(32))


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


# ---- docs/guide.md ----


@pytest.fixture(scope="module")
def guide() -> dict[str, Any]:
    """What the guide's program defines, once it has run."""
    namespace: dict[str, Any] = {"__name__": "guide"}
    with pytest.warns(DeprecationWarning, match="is deprecated in revision 2026-07-28"):
        exec(compile(program(GUIDE), "docs/guide.md", "exec"), namespace)
    return namespace


def text_of(result: Any) -> str:
    text = result["content"][0]["text"]
    assert isinstance(text, str)
    return text


def accepted(key: str, **content: Any) -> dict[str, Any]:
    return {key: {"action": "accept", "content": content}}


def test_contents_of_the_guide_are_its_headings() -> None:
    headings = re.findall(r"^## (.+)$", GUIDE, re.MULTILINE)
    links = re.findall(r"^- \[(.+)\]\(#(.+)\)$", GUIDE, re.MULTILINE)
    assert links == [(heading, re.sub(r"[^\w ]", "", heading).lower().replace(" ", "-")) for heading in headings]


def test_test_in_the_guide_passes(guide: dict[str, Any]) -> None:
    asyncio.run(guide["test_refund"]())


def test_refund_is_asked_until_it_is_complete(guide: dict[str, Any]) -> None:
    client = Client(guide["server"].asgi())

    def refund(**more: Any) -> Any:
        return client.call_tool("orders.refund", {"order": "7"}, **more).result

    asked = refund(id=1)
    asked = refund(id=2, answers=accepted("refund", amount=True, reason="late"), state=asked["requestState"])
    params = asked["inputRequests"]["refund"]["params"]
    assert params["message"] == "The amount must be above 0. What should be refunded?"
    assert params["requestedSchema"]["required"] == ["amount"]
    raw = b'{"name":"orders.refund","arguments":{"order":"7"},"inputResponses":%b,"requestState":%b,"_meta":%b}' % (
        b'{"refund":{"action":"accept","content":{"amount":3.50}}}',
        json.dumps(asked["requestState"]).encode(),
        json.dumps(meta()).encode(),
    )
    params = {"name": "orders.refund", "_meta": meta()}
    done = client.request("tools/call", params, raw_params=raw, id=3)
    assert b'"structuredContent":{"order":"7","amount":3.50,"reason":"late"}' in done.body


def test_refund_ends_on_no_and_when_no_rounds_are_left(guide: dict[str, Any]) -> None:
    client = Client(guide["server"].asgi())
    asked = client.call_tool("orders.refund", {"order": "7"}).result
    for action in ("decline", "cancel"):
        answers = {"refund": {"action": action}}
        more: dict[str, Any] = {"answers": answers, "state": asked["requestState"], "id": 2}
        done = client.call_tool("orders.refund", {"order": "7"}, **more).result
        assert text_of(done).startswith(f"Nothing was refunded: the person {action}")
    for number in range(2, 11):
        asked = client.call_tool("orders.refund", {"order": "7"}, state=asked["requestState"], id=number).result
    done = client.call_tool("orders.refund", {"order": "7"}, state=asked["requestState"], id=11).result
    assert done["isError"] is True


def test_answer_to_older_words_does_not_count(guide: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(guide["server"].asgi())
    asked = client.call_tool("orders.refund", {"order": "7"}).result
    question = guide["question"]

    def reworded(refund: Any) -> InputRequest:
        params = question(refund).params.copy()
        return InputRequest.from_declaration(guide["form"], params | {"message": "How much did they pay?"})

    monkeypatch.setitem(guide, "question", reworded)
    answers = accepted("refund", amount=3, reason="late")
    more: dict[str, Any] = {"answers": answers, "state": asked["requestState"], "id": 2}
    asked = client.call_tool("orders.refund", {"order": "7"}, **more).result
    assert asked["inputRequests"]["refund"]["params"]["message"] == "How much did they pay?"


def test_handlers_of_the_guide(guide: dict[str, Any]) -> None:
    client = Client(guide["server"].asgi())
    assert client.call_tool("orders.count").result["structuredContent"] == 2
    assert client.call_tool("orders.note", {"order": "9"}).error["code"] == 1
    noted = client.call_tool("orders.note", {"order": "7"}).result
    assert (text_of(noted), noted["_meta"]["shop.example/stored"]) == ("Noted.", True)
    assert client.call_tool("orders.refund", {}).result["isError"] is True
    letter = client.get_prompt("orders.apology", {"order": "7"}).result["messages"][0]["content"]["text"]
    assert letter == "Write an apology for order 7."
    assert client.get_prompt("orders.apology").error["code"] == -32602


def test_resources_of_the_guide(guide: dict[str, Any]) -> None:
    client = Client(guide["server"].asgi())
    assert client.read_resource("orders://all").result["contents"][0]["text"] == '["7", "8"]'
    item = client.read_resource("orders://7/items/tea%20pot").result["contents"][0]
    assert item["text"] == "item tea pot of order 7"
    for no_segment in ("a/b", "a%2Fb", "..", "%2e"):
        assert client.read_resource(f"orders://7/items/{no_segment}").error["code"] == -32602
    file = client.read_resource("orders://7/files/a/b%2Fc").result["contents"][0]
    assert decoded(file["blob"]) == "a/b/c of order 7"


def decoded(blob: str) -> str:
    return base64.b64decode(blob).decode()


def test_state_of_the_application(guide: dict[str, Any]) -> None:
    client = Client(guide["server"].asgi())
    for action, text in (("accept", "Sent: Dear customer"), ("decline", "Thrown away: Dear customer")):
        asked = client.call_tool("orders.draft").result
        assert asked["requestState"] in guide["drafts"]
        answers = {"send": {"action": action}}
        done = client.call_tool("orders.draft", answers=answers, state=asked["requestState"], id=2).result
        assert text_of(done) == text
    again = client.call_tool("orders.draft", answers=answers, state=asked["requestState"], id=2).result
    assert again["resultType"] == "input_required"


def test_page_roots_and_sampling(guide: dict[str, Any]) -> None:
    client = Client(guide["asking"].asgi())
    asked = client.call_tool("orders.pay").result
    answers: Any = {"page": {"action": "accept"}}
    asked = client.call_tool("orders.pay", answers=answers, state=asked["requestState"], id=2).result
    handle = asked["inputRequests"]["page"]["params"]["url"].removeprefix("https://shop.example/pay/")
    guide["paid"].add(handle)
    done = client.call_tool("orders.pay", answers=answers, state=asked["requestState"], id=3).result
    assert text_of(done) == "Paid."
    assert client.call_tool("orders.pay", capabilities={"elicitation": {}}).error["code"] == -32021

    asked = client.call_tool("orders.sort").result
    answers = {
        "folders": {"roots": [{"uri": "file:///home"}]},
        "text": {"role": "assistant", "content": {"type": "text", "text": "home"}, "model": "small"},
    }
    done = client.call_tool("orders.sort", answers=answers, state=asked["requestState"], id=2).result
    assert text_of(done) == "1 folders, sorted by small"


def test_doors_of_the_guide(guide: dict[str, Any]) -> None:
    client = Client(guide["guarded"].asgi())
    refused = client.call_tool("orders.whoami")
    assert (refused.status, refused.body, refused.header(b"www-authenticate")) == (401, b"", b"Bearer")
    headers: Any = {b"authorization": b"Bearer a long random token"}
    assert text_of(client.call_tool("orders.whoami", headers=headers).result) == "alice of shop"


def test_observer_and_interceptor(guide: dict[str, Any]) -> None:
    client = Client(guide["watched"].asgi())
    guide["counts"].clear()
    assert client.call_tool("orders.count").result["isError"] is True
    assert client.read_resource("orders://all").result["resultType"] == "complete"
    assert client.call_tool("orders.other").error["code"] == -32602
    assert guide["counts"] == {"requests": 2, "complete": 2, "operation": 1}


def test_rotation_in_the_guide(guide: dict[str, Any]) -> None:
    for manager in guide["managers"]:
        snapshot = manager.snapshot()
        assert (snapshot.active_key_id, snapshot.verification_key_ids) == ("2026-08", ())


class Kms:
    """A key management service that only moves bytes."""

    down = False

    async def encrypt(self, data: bytes, associated_data: bytes) -> bytes:
        return associated_data[-32:] + data

    async def decrypt(self, data: bytes, associated_data: bytes) -> bytes:
        if self.down:
            raise ConnectionError
        if data[:32] != associated_data[-32:]:
            raise ValueError
        return data[32:]


def test_key_file_of_the_guide(guide: dict[str, Any], tmp_path: Path) -> None:
    path = str(tmp_path / "keys.json")
    with pytest.raises(KeyFileError, match="No such file"):
        Server("orders", version="1.0.0", protection=guide["from_file"](path), admission=ANONYMOUS)
    _, fingerprint = _keys.new(path, time.time())
    server = Server("orders", version="1.0.0", protection=guide["from_file"](path), admission=ANONYMOUS)
    assert fingerprint.endswith(server.protection_keyring_manager.snapshot().fingerprint.value)


def test_protector_of_the_guide(guide: dict[str, Any]) -> None:
    kms = Kms()
    server = Server("orders", version="1.0.0", protection=guide["kms_protection"](kms), admission=ANONYMOUS)

    @server.tool("ask", request_state=RequestStateMode.FRAMEWORK_PROTECTED)
    async def ask(ctx: RequestContext) -> str | InputRequiredResult:
        return ctx.state(str) if ctx.has_request_state else input_required(framework_request_state="kept")

    client = Client(server.asgi())
    state = client.call_tool("ask").result["requestState"]
    assert text_of(client.call_tool("ask", state=state, id=2).result) == "kept"
    assert client.call_tool("ask", {"other": 1}, state=state, id=2).status == 400
    assert client.call_tool("ask", state="?", id=2).status == 400
    kms.down = True
    assert client.call_tool("ask", state=state, id=2).status == 503


def test_limits_of_the_guide(guide: dict[str, Any]) -> None:
    client = Client(guide["limited"].asgi())
    assert client.send(b" " * 1_000_001, client.headers("tools/list", {})).status == 413
    assert client.send(b"[" * 33, client.headers("tools/list", {})).error["code"] == -32700


def test_hosts_and_mount_of_the_guide(guide: dict[str, Any]) -> None:
    assert Client(guide["app"], host=b"shop.example").request("tools/list").status == 200
    assert Client(guide["app"]).request("tools/list").status == 421
    mounted = Client(guide["site"], path="/api/mcp")
    assert mounted.request("tools/list").status == 200
    asked = mounted.call_tool("orders.refund", {"order": "7"}).result
    unmounted = Client(guide["server"].asgi())
    answers = {"refund": {"action": "decline"}}
    more: dict[str, Any] = {"answers": answers, "state": asked["requestState"], "id": 2}
    assert unmounted.call_tool("orders.refund", {"order": "7"}, **more).status == 200
    assert Client(guide["site"], path="/mcp").request("tools/list").status == 404


@pytest.fixture
def demo() -> Iterator[str]:
    with served(demo_server().asgi()) as url:
        yield url


def curl(command: str, url: str, token: str) -> Any:
    """Sends what a curl command of the guide says."""
    name, address, *words = shlex.split(command.replace("TOKEN", token).replace("\\\n", " "))
    assert (name, address) == ("curl", "http://127.0.0.1:8000/mcp")
    options = list(zip(words[::2], words[1::2], strict=True))
    (body,) = [value for option, value in options if option == "-d"]
    headers = dict(value.split(": ", 1) for option, value in options if option == "-H")
    assert len(headers) + 1 == len(options)
    return post(url, body.encode(), headers)


def test_conversation_by_curl(demo: str) -> None:
    token = ""
    commands, answers = blocks(GUIDE, "sh"), blocks(GUIDE, "json")
    assert len(commands) == len(answers) == 2
    for command, answer in zip(commands, answers, strict=True):
        reply = curl(command, demo, token)
        token = reply.result.get("requestState", token)
        assert (reply.status, reply.body) == (200, json.loads(answer.replace("TOKEN", token)))
    reply = curl(commands[1].replace('"id": 2', '"id": 1'), demo, token)
    assert (reply.error["code"], reply.error["message"]) == (-32602, "Invalid or expired requestState")
    assert '-32602, "Invalid or expired requestState"' in GUIDE


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


def test_idempotency_key() -> None:
    (answer,) = blocks(section("Idempotency key"), "json")
    (key,) = blocks(section("Idempotency key"), "text")
    boundary = StateBoundary(ProtectionConfig.ephemeral())
    bindings = Bindings("orders", "/mcp", protocol.PROTOCOL_VERSION, protocol.TOOLS_CALL)
    ask, retry = (Call(bindings, request_id, lambda: bytes(32)) for request_id in (1, 2))
    sealed = boundary.seal_now(
        ask, None, {"approval": (1, bytes(16))}, False, None, bytes(range(16)), boundary.default_terms
    )
    ctx = RequestContext(
        method=bindings.method,
        endpoint_path=bindings.path,
        protocol_version=bindings.protocol_version,
        request_id=2,
        meta={},
        admission=Admission(None),
        input_responses=InputResponses.from_responses(
            {"approval": parse(answer.encode()), "other": {"action": "cancel"}}
        ),
        application_request_state=None,
        opened=boundary.open_now(sealed.token, retry, boundary.default_terms),
        boundary=boundary,
        terms=boundary.default_terms,
    )
    assert ctx.idempotency_key("refund") == key.strip()


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


def test_key_file() -> None:
    (file,) = blocks(section("Key files"), "json")
    (fingerprints,) = blocks(section("Key files"), "text")
    start = datetime(2026, 12, 1, 8, 20, tzinfo=UTC).timestamp()
    content = content_of(file.encode(), start)
    sealing = [content.sealing_at(now) for now in (start - 0.001, start)]
    assert [entry.key.id for entry in sealing] == ["2026-11", "2026-12"]
    assert [content.ring(entry).fingerprint.value for entry in sealing] == fingerprints.split()
