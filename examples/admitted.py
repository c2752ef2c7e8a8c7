"""A server that knows its callers, and whose state survives a restart, opens on every instance, and outlives its keys.

    mcpinput keys new keys.json
    export CATALOG_KEYS=$PWD/keys.json
    export CATALOG_TOKENS='{"alice": "a long random token", "bob": "another"}'
    python examples/admitted.py --port 8000

Who calls with ``Authorization: Bearer`` and a token of the list is let in. State is bound to the caller: what Alice was
asked, Bob cannot answer. A real service would check tokens of its identity provider instead of a list.

The server follows the file of keys. To replace a key, run ``mcpinput keys rotate keys.json`` three times: it says what
it has done, and from when on the next run is right. Bring the file to every instance after each.
"""

import hashlib
import json
import os
import sys

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
    KeyFile,
    ProtectionConfig,
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
    keys = KeyFile(setting("CATALOG_KEYS", "the path of a file of keys"))
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
        protection=ProtectionConfig(key_file=keys),
        authenticate=authenticate,
        admission=admission,
    )
    server.tool("catalog.clear", input_requests=[form], request_state=RequestStateMode.FRAMEWORK_PROTECTED)(clear)
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
