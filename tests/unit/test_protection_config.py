"""Configuration is judged when it is made."""

import copy
import dataclasses
import pickle
import time
from datetime import timedelta
from pathlib import Path

import pytest

from mcpinput.protection import KeyFile, ProtectionConfig, ProtectionKey, ProtectionKeyring

KEY = ProtectionKey.from_id_and_bytes("k1", b"x" * 32)
RING = ProtectionKeyring.with_active_key(KEY).build()


class Protector:
    def seal(self, payload, context):
        raise NotImplementedError

    def open(self, token, context):
        raise NotImplementedError


def test_defaults():
    config = ProtectionConfig(keyring=RING)
    assert config.keyring is RING
    assert config.protector is None
    assert config.maximum_request_state_lifetime == timedelta(minutes=15)
    assert config.maximum_lifetime_ms == 900_000
    assert config.maximum_request_state_rounds == 10
    assert config.maximum_encoded_bytes == 65_536
    assert config.maximum_decoded_bytes == 49_152
    assert config.audience is None
    assert config.bind_principal is True
    assert config.clock is time.time
    assert not config.is_ephemeral


def test_exactly_one_provider():
    protector = Protector()
    assert ProtectionConfig(protector=protector).protector is protector
    file = KeyFile("keys.json")
    assert ProtectionConfig(key_file=file).key_file is file
    for providers in (
        {},
        {"keyring": None},
        {"keyring": RING, "protector": protector},
        {"keyring": RING, "key_file": file},
        {"key_file": file, "protector": protector},
        {"keyring": RING, "key_file": file, "protector": protector},
    ):
        with pytest.raises(TypeError, match=r"exactly one of keyring=, key_file= and protector="):
            ProtectionConfig(**providers)


@pytest.mark.parametrize("ring", [[], [KEY], KEY, ProtectionKeyring.with_active_key(KEY), {"k1": KEY}, b"x" * 32])
def test_a_keyring_is_a_keyring(ring):
    with pytest.raises(TypeError, match="keyring must be a ProtectionKeyring"):
        ProtectionConfig(keyring=ring)


@pytest.mark.parametrize("file", ["keys.json", Path("keys.json"), RING, b"{}"])
def test_a_key_file_is_a_key_file(file):
    with pytest.raises(TypeError, match=r"key_file must be a KeyFile, .*KeyFile\(path\) makes one"):
        ProtectionConfig(key_file=file)


def test_a_config_of_a_key_file_shows_its_path_and_reads_nothing():
    config = ProtectionConfig(key_file=KeyFile("/nowhere/keys.json"))
    assert repr(config) == "<ProtectionConfig <KeyFile '/nowhere/keys.json'>>"
    assert not config.is_ephemeral


@pytest.mark.parametrize("protector", [object(), "kms", RING])
def test_a_protector_seals_and_opens(protector):
    with pytest.raises(TypeError, match="protector must have a method seal"):
        ProtectionConfig(protector=protector)


@pytest.mark.parametrize(
    "lifetime",
    [float("inf"), float("nan"), 0, -1, 600, 900.0, "600", None, True, 10**400],
    ids=lambda value: str(value)[:8],
)
def test_a_lifetime_is_a_timedelta(lifetime):
    with pytest.raises(TypeError, match="maximum_request_state_lifetime must be a timedelta"):
        ProtectionConfig(keyring=RING, maximum_request_state_lifetime=lifetime)


@pytest.mark.parametrize(
    "lifetime",
    [
        timedelta(0),
        timedelta(seconds=-1),
        timedelta(microseconds=999),
        timedelta(milliseconds=1, microseconds=1),
        timedelta(days=366, milliseconds=1),
        timedelta.max,
        timedelta.min,
    ],
    ids=str,
)
def test_a_lifetime_is_whole_milliseconds_up_to_366_days(lifetime):
    with pytest.raises(ValueError, match="from 1 ms to 366 days"):
        ProtectionConfig(keyring=RING, maximum_request_state_lifetime=lifetime)


@pytest.mark.parametrize("lifetime", [timedelta(milliseconds=1), timedelta(days=366)])
def test_the_ends_of_the_lifetime(lifetime):
    config = ProtectionConfig(keyring=RING, maximum_request_state_lifetime=lifetime)
    assert config.maximum_lifetime_ms == lifetime / timedelta(milliseconds=1)


LIMITS = ("maximum_request_state_rounds", "maximum_encoded_bytes", "maximum_decoded_bytes")


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("value", [1.0, "10", None, True, b"1"])
def test_limits_are_integers(name, value):
    with pytest.raises(TypeError, match=f"{name} must be an int"):
        ProtectionConfig(keyring=RING, **{name: value})


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("value", [0, -1, -(10**400)], ids=["zero", "negative", "huge"])
def test_limits_are_positive(name, value):
    with pytest.raises(ValueError, match=f"{name} must be (positive|from 1 to 65535)"):
        ProtectionConfig(keyring=RING, **{name: value})


def test_limits_have_ends():
    assert ProtectionConfig(keyring=RING, maximum_request_state_rounds=65_535).maximum_request_state_rounds == 65_535
    with pytest.raises(ValueError, match="from 1 to 65535"):
        ProtectionConfig(keyring=RING, maximum_request_state_rounds=65_536)
    ProtectionConfig(keyring=RING, maximum_encoded_bytes=100, maximum_decoded_bytes=100)
    with pytest.raises(ValueError, match="must not be above maximum_encoded_bytes"):
        ProtectionConfig(keyring=RING, maximum_encoded_bytes=100, maximum_decoded_bytes=101)


@pytest.mark.parametrize("audience", [b"a", 1, True])
def test_an_audience_is_text(audience):
    with pytest.raises(TypeError, match="audience"):
        ProtectionConfig(keyring=RING, audience=audience)


@pytest.mark.parametrize("audience", ["", "\ud800"], ids=["empty", "surrogate"])
def test_an_audience_is_well_formed_and_not_empty(audience):
    with pytest.raises(ValueError, match="audience"):
        ProtectionConfig(keyring=RING, audience=audience)


@pytest.mark.parametrize("settings", [{"bind_principal": 1}, {"bind_principal": None}, {"clock": 5}, {"clock": None}])
def test_the_rest_is_judged_too(settings):
    with pytest.raises(TypeError, match=next(iter(settings))):
        ProtectionConfig(keyring=RING, **settings)


def test_arguments_are_named():
    with pytest.raises(TypeError):
        ProtectionConfig(RING)


def test_a_configuration_cannot_be_changed_copied_or_pickled():
    config = ProtectionConfig(keyring=RING)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.maximum_request_state_rounds = 11
    for take in (copy.copy, copy.deepcopy, pickle.dumps, dataclasses.asdict):
        with pytest.raises(TypeError, match="key material"):
            take(config)


def test_an_ephemeral_configuration_takes_everything_but_a_provider():
    config = ProtectionConfig.ephemeral(maximum_request_state_rounds=3, audience="a")
    assert config.is_ephemeral
    assert (config.maximum_request_state_rounds, config.audience) == (3, "a")
    assert dataclasses.replace(config, maximum_request_state_rounds=4).is_ephemeral
    assert config.keyring.active_key_id != ProtectionConfig.ephemeral().keyring.active_key_id
    for provider in ({"keyring": RING}, {"protector": Protector()}, {"keyring": None}):
        with pytest.raises(TypeError, match="takes no"):
            ProtectionConfig.ephemeral(**provider)
    with pytest.raises(ValueError, match="from 1 to 65535"):
        ProtectionConfig.ephemeral(maximum_request_state_rounds=0)
