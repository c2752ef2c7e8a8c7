"""A server that knows its callers, and whose state survives a restart, opens on every instance, and outlives its keys.

    python -c 'import json, secrets
    print(json.dumps({"active": "k1", "keys": {"k1": secrets.token_hex(32)}}))' > keys.json && chmod 600 keys.json
    export CATALOG_KEYS=$PWD/keys.json
    export CATALOG_TOKENS='{"alice": "a long random token", "bob": "another"}'
    python examples/admitted.py --port 8000

Who calls with ``Authorization: Bearer`` and a token of the list is let in. State is bound to the caller: what Alice was
asked, Bob cannot answer. A real service would check tokens of its identity provider instead of a list.

The file of keys is read again on SIGHUP, and the ring as it then is goes to stdout. To replace a key: add the new one
on every instance; when all print the same fingerprint, make it the active one everywhere; wait 16 minutes (the lifetime
of state, and one for clocks that differ); take the old one out.
"""

import hashlib
import json
import os
import signal
import sys
import threading
from pathlib import Path

from mcpinput import (
    Absent,
    Accepted,
    Admission,
    AdmissionFacts,
    Cancelled,
    Declined,
    Identity,
    InputRequest,
    InputRequestDeclaration,
    InputRequiredResult,
    ProtectionConfig,
    ProtectionKey,
    ProtectionKeyring,
    ProtectionKeyringManager,
    Refusal,
    RequestContext,
    RequestStateMode,
    Requirement,
    Server,
    TransportFacts,
    input_required,
    partition_of,
)
from mcpinput.cli import main

form = InputRequestDeclaration.from_elicitation_form(Requirement.REQUIRED)


def build_server() -> Server:
    """The server, with the keys and the tokens that the environment names."""
    path = Path(setting("CATALOG_KEYS", "the path of a file of keys"))
    tokens = json.loads(setting("CATALOG_TOKENS", "a JSON object from caller to token"))
    callers = {digest(token): name for name, token in tokens.items()}

    def authenticate(facts: TransportFacts) -> Identity | Refusal:
        header = None if facts.headers is None else facts.headers.get("authorization")
        scheme, _, token = (header or "").partition(" ")
        # Looked up by digest: how long that takes says nothing about the tokens.
        name = callers.get(digest(token)) if scheme.lower() == "bearer" else None
        return Refusal(401, {"WWW-Authenticate": "Bearer"}) if name is None else Identity(name)

    def admission(facts: AdmissionFacts, identity: Identity | None) -> Admission | Refusal:
        if identity is None:
            return Refusal(403)
        return Admission(partition=partition_of(subject=identity.subject), principal=identity.subject)

    server = Server(
        "admitted-catalog",
        version="1.0.0",
        protection=ProtectionConfig(keyring=read_ring(path)),
        authenticate=authenticate,
        admission=admission,
    )
    server.tool("catalog.clear", input_requests=[form], request_state=RequestStateMode.FRAMEWORK_PROTECTED)(clear)
    follow(path, server.protection_keyring_manager)
    return server


async def clear(ctx: RequestContext) -> str | InputRequiredResult:
    """Removes the caller's items, once the caller has agreed."""
    question = InputRequest.from_declaration(
        form,
        {
            "mode": "form",
            "message": f"Remove all items of {ctx.admission.principal}?",
            "requestedSchema": {"type": "object", "properties": {}},
        },
    )
    answer = ctx.input_responses.elicitation("sure", question)
    match answer:
        case Accepted():
            return f"All items of {ctx.admission.principal} are removed."
        case Declined() | Cancelled():
            return "Nothing was removed."
        case Absent():
            return input_required({"sure": question}, framework_request_state="asked")


# ---- keys ----


def read_ring(path: Path) -> ProtectionKeyring:
    """The ring that a file describes: ``{"active": "k2", "keys": {"k1": "<64 hex digits>", "k2": "..."}}``."""
    content = json.loads(path.read_text())
    keys = {key_id: bytes.fromhex(text) for key_id, text in content["keys"].items()}
    active = content["active"]
    builder = ProtectionKeyring.with_active_key(ProtectionKey.from_id_and_bytes(active, keys.pop(active)))
    for key_id, key in keys.items():
        builder.verification_key(ProtectionKey.from_id_and_bytes(key_id, key))
    return builder.build()


def follow(path: Path, manager: ProtectionKeyringManager) -> None:
    """Makes the manager's ring that of the file, whenever SIGHUP comes."""

    def reload() -> None:
        try:
            rotate(manager, read_ring(path))
        except Exception as error:  # whatever the file holds, the ring that there is stays
            print(f"keys: {type(error).__name__}: {error}", flush=True)
        snapshot = manager.snapshot()
        others = ", ".join(snapshot.verification_key_ids) or "none"
        print(f"keys: {snapshot.active_key_id} seals, others: {others}; {snapshot.fingerprint.value}", flush=True)

    # In a thread: a signal may interrupt the very lines that hold the manager's lock.
    signal.signal(signal.SIGHUP, lambda number, frame: threading.Thread(target=reload).start())


def rotate(manager: ProtectionKeyringManager, wanted: ProtectionKeyring) -> None:
    """Stages what is new, activates what is to seal, and removes what is no longer there."""
    ids = {wanted.active_key_id, *wanted.verification_key_ids}
    for key_id in ids:
        key = wanted.find(key_id)
        assert key is not None
        manager.stage_verification_key(key)  # does nothing where it is in the ring already
    if manager.keyring.active_key_id != wanted.active_key_id:
        manager.activate_staged_key(wanted.active_key_id)
    for key_id in manager.keyring.verification_key_ids:
        if key_id not in ids:
            manager.remove_verification_key(key_id)


def setting(name: str, what: str) -> str:
    """An environment variable."""
    try:
        return os.environ[name]
    except KeyError:
        raise SystemExit(f"set {name} to {what}; the top of {__file__} shows how") from None


def digest(token: str) -> bytes:
    """What a token is looked up by."""
    return hashlib.sha256(token.encode()).digest()


if __name__ == "__main__":
    raise SystemExit(main(["serve", "__main__:build_server", *sys.argv[1:]]))
