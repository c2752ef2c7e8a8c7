"""A server that knows its callers, and whose state survives a restart and opens on every instance.

    export CATALOG_KEY=$(python -c 'import secrets; print(secrets.token_hex(32))')
    export CATALOG_TOKENS='{"alice": "a long random token", "bob": "another"}'
    python examples/admitted.py --port 8000

Who calls with ``Authorization: Bearer`` and a token of the list is let in. State is bound to the caller: what Alice was
asked, Bob cannot answer. A real service would check tokens of its identity provider instead of a list.
"""

import hashlib
import json
import os
import sys

from mcpinput import (
    Accepted,
    Admission,
    AdmissionFacts,
    Identity,
    InputRequest,
    InputRequestDeclaration,
    InputRequiredResult,
    ProtectionConfig,
    ProtectionKey,
    ProtectionKeyring,
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
    """The server, with the key and the tokens that the environment holds."""
    callers = {_digest(token): name for name, token in json.loads(os.environ["CATALOG_TOKENS"]).items()}
    key = ProtectionKey.from_id_and_bytes("catalog-1", bytes.fromhex(os.environ["CATALOG_KEY"]))

    def authenticate(facts: TransportFacts) -> Identity | Refusal:
        header = None if facts.headers is None else facts.headers.get("authorization")
        scheme, _, token = (header or "").partition(" ")
        # Looked up by digest: how long that takes says nothing about the tokens.
        name = callers.get(_digest(token)) if scheme.lower() == "bearer" else None
        return Refusal(401, {"WWW-Authenticate": "Bearer"}) if name is None else Identity(name)

    def admission(facts: AdmissionFacts, identity: Identity | None) -> Admission | Refusal:
        if identity is None:
            return Refusal(403)
        return Admission(partition=partition_of(subject=identity.subject), principal=identity.subject)

    server = Server(
        "admitted-catalog",
        version="1.0.0",
        protection=ProtectionConfig(keyring=ProtectionKeyring.with_active_key(key).build()),
        authenticate=authenticate,
        admission=admission,
    )
    server.tool("catalog.clear", input_requests=[form], request_state=RequestStateMode.FRAMEWORK_PROTECTED)(clear)
    return server


async def clear(ctx: RequestContext) -> str | InputRequiredResult:
    """Removes the caller's items, once the caller has agreed."""
    if not ctx.has_request_state:
        question = {
            "mode": "form",
            "message": f"Remove all items of {ctx.admission.principal}?",
            "requestedSchema": {"type": "object", "properties": {}},
        }
        return input_required({"sure": InputRequest.from_declaration(form, question)}, framework_request_state="asked")
    if isinstance(ctx.input_responses.elicitation("sure"), Accepted):
        return f"All items of {ctx.admission.principal} are removed."
    return "Nothing was removed."


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


if __name__ == "__main__":
    raise SystemExit(main(["serve", "__main__:build_server", *sys.argv[1:]]))
