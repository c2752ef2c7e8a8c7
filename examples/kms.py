"""A server whose state is protected by a key management service: no key that opens a token is ever in this process.

    python examples/kms.py --port 8000

Each token is encrypted under a data key of its own, and carries that key wrapped by the service: envelope encryption.
What the token is for is authenticated twice: by the cipher, and by its digest, which the service checks and may log.

``Kms`` stands in for a real service, and SIGUSR1 takes it away and brings it back. While it is away, retries get 503
with ``Retry-After``: clients keep their state and try again.

Every ask and every retry is one call of the service. To save calls, a data key can be kept and used for some minutes.
Then nonces must still be random, no more than 2^32 tokens may be made under one key, and a key that was revoked at the
service still opens until the last copy of it is forgotten.
"""

import asyncio
import base64
import os
import signal
import sys

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from mcpinput import (
    ANONYMOUS,
    Absent,
    Accepted,
    Cancelled,
    Declined,
    InputRequest,
    InputRequestDeclaration,
    InputRequiredResult,
    ProtectionConfig,
    ProtectionContext,
    ProtectionFailure,
    RequestContext,
    RequestStateMode,
    RequestStateProtectionError,
    Requirement,
    Server,
    input_required,
)
from mcpinput.cli import main

KEY_BYTES = 32
NONCE_BYTES = 12
SECONDS = 2.0


class Kms:
    """Stands in for a service that wraps and unwraps data keys, under a key that never leaves it."""

    def __init__(self) -> None:
        self._key = AESGCM(AESGCM.generate_key(8 * KEY_BYTES))
        self.is_away = False

    async def encrypt(self, data_key: bytes, context: bytes) -> bytes:
        """Wraps a data key; it is unwrapped only under the same context."""
        await self._travel()
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._key.encrypt(nonce, data_key, context)

    async def decrypt(self, wrapped: bytes, context: bytes) -> bytes:
        """Unwraps a data key; raises InvalidTag where it was not wrapped here, under the same context."""
        await self._travel()
        return self._key.decrypt(wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:], context)

    async def _travel(self) -> None:
        await asyncio.sleep(0)
        if self.is_away:
            raise ConnectionError("the service cannot be reached")


class KmsProtector:
    """Seals each payload under a new data key. Token: base64url of u16 length, wrapped key, nonce, ciphertext."""

    def __init__(self, kms: Kms) -> None:
        self._kms = kms

    async def seal(self, payload: bytes, context: ProtectionContext) -> str:
        data_key = os.urandom(KEY_BYTES)
        try:
            async with asyncio.timeout(SECONDS):
                wrapped = await self._kms.encrypt(data_key, context.associated_data_digest)
        except OSError:  # ConnectionError and TimeoutError among them
            raise RequestStateProtectionError(ProtectionFailure.UNAVAILABLE) from None
        nonce = os.urandom(NONCE_BYTES)
        sealed = AESGCM(data_key).encrypt(nonce, payload, context.associated_data)
        return base64.urlsafe_b64encode(len(wrapped).to_bytes(2, "big") + wrapped + nonce + sealed).decode()

    async def open(self, token: str, context: ProtectionContext) -> bytes:
        data = base64.urlsafe_b64decode(token)
        if base64.urlsafe_b64encode(data).decode() != token:
            raise ValueError("a token has exactly one text")
        end = 2 + int.from_bytes(data[:2], "big")
        wrapped, nonce, sealed = data[2:end], data[end : end + NONCE_BYTES], data[end + NONCE_BYTES :]
        try:
            async with asyncio.timeout(SECONDS):
                data_key = await self._kms.decrypt(wrapped, context.associated_data_digest)
        except OSError:
            raise RequestStateProtectionError(ProtectionFailure.UNAVAILABLE) from None
        # Whatever else is raised, here or above, refuses the token: a tag that does not verify, a part that is missing.
        return AESGCM(data_key).decrypt(nonce, sealed, context.associated_data)


form = InputRequestDeclaration.from_elicitation_form(Requirement.REQUIRED)


def build_server(kms: Kms) -> Server:
    """A server whose one tool asks once before it does what cannot be undone."""
    server = Server(
        "kms-payouts",
        version="1.0.0",
        protection=ProtectionConfig(protector=KmsProtector(kms)),
        admission=ANONYMOUS,  # examples/admitted.py tells callers apart
    )
    server.tool("payouts.release", input_requests=[form], request_state=RequestStateMode.FRAMEWORK_PROTECTED)(release)
    return server


async def release(ctx: RequestContext) -> str | InputRequiredResult:
    """Releases the payouts of today, once somebody has confirmed it."""
    question = InputRequest.from_declaration(
        form,
        {
            "mode": "form",
            "message": "Release all payouts of today?",
            "requestedSchema": {"type": "object", "properties": {}},
        },
    )
    answer = ctx.input_responses.elicitation("sure", question)
    match answer:
        case Accepted():
            return "All payouts are released."
        case Declined() | Cancelled():
            return "Nothing was released."
        case Absent():
            return input_required({"sure": question}, framework_request_state="asked")


def serve() -> Server:
    """The server, with a service that SIGUSR1 takes away and brings back."""
    kms = Kms()

    def toggle(number: int, frame: object) -> None:
        kms.is_away = not kms.is_away
        print(f"kms: {'away' if kms.is_away else 'back'}", flush=True)

    signal.signal(signal.SIGUSR1, toggle)
    return build_server(kms)


if __name__ == "__main__":
    raise SystemExit(main(["serve", "__main__:serve", *sys.argv[1:]]))
