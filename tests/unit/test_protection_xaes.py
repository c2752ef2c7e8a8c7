"""XAES-256-GCM against the vectors of its specification."""

import hashlib
import json
import threading
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidTag

from mcpinput.protection.xaes import XaesGcm

VECTORS = json.loads(Path(__file__).parents[1].joinpath("vectors", "xaes256gcm.json").read_text())


def unhex(case, *names):
    return [bytes.fromhex(case[name]) for name in names]


@pytest.mark.parametrize("case", VECTORS["vectors"], ids=lambda case: case["desc"])
def test_vectors(case):
    key, nonce, plaintext, associated_data, ciphertext = unhex(
        case, "key", "nonce", "plaintext", "associated_data", "ciphertext"
    )
    cipher = XaesGcm(key)
    assert cipher.encrypt(nonce, plaintext, associated_data) == ciphertext
    assert cipher.decrypt(nonce, ciphertext, associated_data) == plaintext


@pytest.mark.parametrize("case", VECTORS["accumulated"], ids=lambda case: case["desc"])
def test_accumulated_random_vectors(case):
    # Each iteration reads at most 32 + 24 + 256 + 256 bytes, so the stream of this length cannot run out.
    stream = hashlib.shake_128().digest(case["iterations"] * 568)
    assert stream.hex().startswith(case["stream_start"])
    at = 0

    def read(size):
        nonlocal at
        at += size
        return stream[at - size : at]

    outputs = hashlib.shake_128()
    for _ in range(case["iterations"]):
        key, nonce = read(32), read(24)
        plaintext = read(read(1)[0])
        associated_data = read(read(1)[0])
        cipher = XaesGcm(key)
        ciphertext = cipher.encrypt(nonce, plaintext, associated_data)
        assert cipher.decrypt(nonce, ciphertext, associated_data) == plaintext
        outputs.update(ciphertext)
    assert outputs.hexdigest(32) == case["digest"]


def test_what_was_changed_does_not_decrypt():
    cipher = XaesGcm(b"k" * 32)
    nonce, text, associated_data = b"n" * 24, b"text", b"associated"
    sealed = cipher.encrypt(nonce, text, associated_data)
    for size in range(len(sealed)):
        with pytest.raises(InvalidTag):
            cipher.decrypt(nonce, sealed[:size], associated_data)
    for bit in range(8 * 24):
        other = bytearray(nonce)
        other[bit // 8] ^= 1 << bit % 8
        with pytest.raises(InvalidTag):
            cipher.decrypt(bytes(other), sealed, associated_data)
    with pytest.raises(InvalidTag):
        cipher.decrypt(nonce, sealed, b"")
    with pytest.raises(InvalidTag):
        XaesGcm(b"l" * 32).decrypt(nonce, sealed, associated_data)


@pytest.mark.parametrize("size", [0, 12, 23, 25])
def test_nonces_have_24_bytes(size):
    with pytest.raises(ValueError, match="24 bytes"):
        XaesGcm(b"k" * 32).encrypt(bytes(size), b"", b"")


@pytest.mark.parametrize("size", [0, 16, 31, 33])
def test_keys_have_32_bytes(size):
    with pytest.raises(ValueError, match="32 bytes"):
        XaesGcm(bytes(size))


def test_one_key_in_many_threads():
    cipher = XaesGcm(b"k" * 32)
    nonces = [index.to_bytes(24, "big") for index in range(400)]
    expected = [XaesGcm(b"k" * 32).encrypt(nonce, b"text", b"") for nonce in nonces]
    results = {}

    def work(worker):
        results[worker] = [cipher.encrypt(nonce, b"text", b"") for nonce in nonces]

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [results[worker] for worker in range(4)] == [expected] * 4
