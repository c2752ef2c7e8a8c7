"""How a server protects request state: with which keys or protector, for how long, how often, how much."""

from __future__ import annotations

import functools
import inspect
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack, final

from mcpinput._core.envelope import field
from mcpinput.errors import EnvelopeError
from mcpinput.protection.keyfile import KeyFile
from mcpinput.protection.keyring import ProtectionKeyring
from mcpinput.protection.secret import Secret
from mcpinput.protection.sizes import LONGEST_KEY_ID, SealedSize, sealed_size
from mcpinput.results import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mcpinput.protection.protector import RequestStateProtector
    from mcpinput.stores.base import RecordStore

__all__ = ["MAXIMUM_LIFETIME", "MAXIMUM_ROUNDS", "ProtectionConfig", "checked_lifetime_ms", "checked_rounds"]


class _Settings(TypedDict, total=False):
    maximum_request_state_lifetime: timedelta
    maximum_request_state_rounds: int
    maximum_encoded_bytes: int
    maximum_decoded_bytes: int
    audience: str | None
    bind_principal: bool
    single_use: RecordStore | None
    clock: Callable[[], float]


MAXIMUM_LIFETIME: Final = timedelta(days=366)
MAXIMUM_ROUNDS: Final = 65_535
_MILLISECOND: Final = timedelta(milliseconds=1)


def checked_lifetime_ms(name: str, lifetime: timedelta) -> int:
    """A lifetime in milliseconds.

    Raises:
        TypeError: It is no timedelta.
        ValueError: It is not whole milliseconds, or not from 1 ms to 366 days.
    """
    if not isinstance(lifetime, timedelta):
        raise TypeError(f"{name} must be a timedelta, not {type(lifetime).__name__}")
    if not _MILLISECOND <= lifetime <= MAXIMUM_LIFETIME or lifetime % _MILLISECOND:
        raise ValueError(f"{name} must be whole milliseconds, from 1 ms to 366 days")
    return lifetime // _MILLISECOND


def checked_rounds(name: str, rounds: int) -> int:
    """A number of rounds.

    Raises:
        TypeError: It is no int.
        ValueError: It is not from 1 to 65,535.
    """
    if not isinstance(rounds, int) or isinstance(rounds, bool):
        raise TypeError(f"{name} must be an int, not {type(rounds).__name__}")
    if not 1 <= rounds <= MAXIMUM_ROUNDS:
        raise ValueError(f"{name} must be from 1 to {MAXIMUM_ROUNDS}")
    return rounds


def _tell_without_arguments(made: type[ProtectionConfig]) -> type[ProtectionConfig]:
    """Lets no frame of an error hold what was passed: the bytes of a key, perhaps, in place of a ring or a file."""
    take: Callable[..., None] = made.__init__

    @functools.wraps(take)
    def __init__(self: ProtectionConfig, *args: Any, **settings: Any) -> None:
        try:
            take(self, *args, **settings)
        except (TypeError, ValueError) as error:
            problem = type(error)(str(error))
        else:
            return
        del self, args, settings
        raise problem

    made.__init__ = __init__  # type: ignore[method-assign]
    return made


@final
@_tell_without_arguments
@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class ProtectionConfig(Secret):
    """Protection of one service's request state. Give exactly one of ``keyring``, ``key_file`` and ``protector``.

    Attributes:
        keyring: The ring that each server starts from; it can be rotated live.
        key_file: Where each server reads its ring, and follows what changes there.
        protector: The application's own protector, instead of a ring.
        maximum_request_state_lifetime: From a flow's first ask to its expiry: whole milliseconds, at most 366 days.
        maximum_request_state_rounds: Asks in one flow, 1 to 65,535.
        maximum_encoded_bytes: Length of a token.
        maximum_decoded_bytes: Bytes of framework metadata and canonical state together; at most
            ``maximum_encoded_bytes``. Neither limit promises that every state of some size fits.
        audience: Name that all instances of the service share; None takes the server's name.
        bind_principal: Whether state opens for the principal alone that it was made for. False shares it inside the
            authorization partition and tenant, on purpose.
        single_use: Where spent tokens are recorded, so that each opens for one request alone; None lets an identical
            retry open again. All instances of the service share it, and its clock agrees with ``clock``.
        clock: Wall clock, in seconds since 1970.

    Raises:
        TypeError: Not exactly one provider, or an argument of a wrong type.
        ValueError: An argument out of range.
    """

    keyring: ProtectionKeyring | None = None
    key_file: KeyFile | None = None
    protector: RequestStateProtector | None = None
    maximum_request_state_lifetime: timedelta = timedelta(minutes=15)
    maximum_request_state_rounds: int = 10
    maximum_encoded_bytes: int = 65_536
    maximum_decoded_bytes: int = 49_152
    audience: str | None = None
    bind_principal: bool = True
    single_use: RecordStore | None = None
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self._check_provider()
        checked_lifetime_ms("maximum_request_state_lifetime", self.maximum_request_state_lifetime)
        checked_rounds("maximum_request_state_rounds", self.maximum_request_state_rounds)
        for name in ("maximum_encoded_bytes", "maximum_decoded_bytes"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"{name} must be an int, not {type(value).__name__}")
            if value < 1:
                raise ValueError(f"{name} must be positive")
        if self.maximum_decoded_bytes > self.maximum_encoded_bytes:
            raise ValueError("maximum_decoded_bytes must not be above maximum_encoded_bytes")
        self._check_audience()
        if not isinstance(self.bind_principal, bool):
            raise TypeError(f"bind_principal must be a bool, not {type(self.bind_principal).__name__}")
        self._check_single_use()
        if not callable(self.clock):
            raise TypeError(f"clock must be callable, not {type(self.clock).__name__}")

    def _check_provider(self) -> None:
        if sum(provider is not None for provider in (self.keyring, self.key_file, self.protector)) != 1:
            raise TypeError(
                "give exactly one of keyring=, key_file= and protector=, or use ProtectionConfig.ephemeral()"
            )
        if self.keyring is not None and not isinstance(self.keyring, ProtectionKeyring):
            raise TypeError(f"keyring must be a ProtectionKeyring, not {type(self.keyring).__name__}")
        if self.key_file is not None and not isinstance(self.key_file, KeyFile):
            raise TypeError(f"key_file must be a KeyFile, not {type(self.key_file).__name__}; KeyFile(path) makes one")
        if self.protector is not None:
            for method in ("seal", "open"):
                if not callable(getattr(self.protector, method, None)):
                    raise TypeError(f"protector must have a method {method}(); see RequestStateProtector")

    def _check_single_use(self) -> None:
        store = self.single_use
        if store is None:
            return
        if isinstance(store, type):
            raise TypeError(f"single_use must be a record store, not the class {store.__name__}: call it")
        for method in ("get", "insert", "delete"):
            if not inspect.iscoroutinefunction(getattr(store, method, None)):
                raise TypeError(
                    f"single_use must have a method async def {method}(); see RecordStore, or use SqliteStore(path)"
                )

    def _check_audience(self) -> None:
        if self.audience is None:
            return
        if not isinstance(self.audience, str):
            raise TypeError(f"audience must be a str or None, not {type(self.audience).__name__}")
        if not self.audience:
            raise ValueError("audience must not be empty; None takes the server's name")
        try:
            field(self.audience)
        except EnvelopeError:
            raise ValueError("audience must be text without lone surrogates") from None

    @classmethod
    def ephemeral(cls, **settings: Unpack[_Settings]) -> ProtectionConfig:
        """Protection by a random key of this process: state does not survive it, and no other process opens it.

        Args:
            settings: Everything that :class:`ProtectionConfig` takes but ``keyring``, ``key_file`` and ``protector``.

        Raises:
            TypeError, ValueError: As :class:`ProtectionConfig`.
        """
        for provider in ("keyring", "key_file", "protector"):
            if provider in settings:
                del settings  # the bytes of a key may be among them
                raise TypeError(f"ProtectionConfig.ephemeral() makes its own key and takes no {provider}")
        return cls(keyring=ProtectionKeyring.ephemeral(), **settings)

    def sealed_size(self, state: object = ABSENT, *, keys: Iterable[str] = ()) -> SealedSize:
        """Measures what an ask with this state would carry: for tests of a representative continuation.

        With a key file, whose keys are not known here, the longest key id is taken.

        Args:
            state: State as a handler would give it; left out, an ask without state is measured.
            keys: Keys of its input requests.

        Raises:
            JsonError: The state has no canonical form: a float, a foreign type, over a limit of JSON.
            TypeError: ``keys`` is one str, or holds something else than str.
        """
        key_id = None
        if self.keyring is not None:
            key_id = self.keyring.active_key_id
        elif self.key_file is not None:
            key_id = "x" * LONGEST_KEY_ID
        return sealed_size(
            state,
            keys,
            key_id=key_id,
            has_state=state is not ABSENT,
            maximum_encoded=self.maximum_encoded_bytes,
            maximum_decoded=self.maximum_decoded_bytes,
        )

    @property
    def is_ephemeral(self) -> bool:
        """Whether the key is a random one of this process."""
        return self.keyring is not None and self.keyring.is_ephemeral

    @property
    def maximum_lifetime_ms(self) -> int:
        """``maximum_request_state_lifetime`` in milliseconds."""
        return self.maximum_request_state_lifetime // _MILLISECOND

    def __repr__(self) -> str:
        for provider in (self.keyring, self.key_file):
            if isinstance(provider, (ProtectionKeyring, KeyFile)):  # what was passed instead may be a key
                return f"<ProtectionConfig {provider!r}>"
        return f"<ProtectionConfig protector {type(self.protector).__name__}>"
