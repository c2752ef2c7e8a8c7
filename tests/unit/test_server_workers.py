"""The warning of a key that each of several workers would draw for itself."""

from __future__ import annotations

import logging
import sys

import pytest

from mcpinput import ProtectionConfig, Server
from mcpinput.server.workers import number_of_workers, warn_of_ephemeral_key
from tests.support.servers import price_server


@pytest.mark.parametrize(
    ("command", "environment", "workers"),
    [
        ("", {}, 1),
        ("app:app", {}, 1),
        ("app:app --workers 4", {}, 4),
        ("app:app --workers=4", {}, 4),
        ("-w 4 app:app", {}, 4),
        ("-w4 app:app", {}, 4),
        ("--workers 4 --workers 1", {}, 1),
        ("--workers", {}, 1),
        ("-w", {}, 1),
        ("--workers auto", {}, 1),
        ("--workers -4", {}, 1),
        ("--workers ²", {}, 1),
        ("--workers-timeout 4 --world 5", {}, 1),
        ("--workers 1", {"WEB_CONCURRENCY": "4"}, 1),
        ("--workers 4", {"WEB_CONCURRENCY": "1"}, 4),
        ("", {"WEB_CONCURRENCY": "4"}, 4),
        ("", {"WEB_CONCURRENCY": " 4 "}, 4),
        ("", {"WEB_CONCURRENCY": "1"}, 1),
        ("", {"WEB_CONCURRENCY": "0"}, 0),
        ("", {"WEB_CONCURRENCY": ""}, 1),
        ("", {"WEB_CONCURRENCY": "many"}, 1),
        ("", {"GUNICORN_CMD_ARGS": "--bind=127.0.0.1 --workers=3"}, 3),
        ("", {"GUNICORN_CMD_ARGS": "-w 3", "WEB_CONCURRENCY": "5"}, 3),
        ("", {"GUNICORN_CMD_ARGS": "--name 'open -w 3"}, 3),
        ("", {"GUNICORN_CMD_ARGS": "--name 'of -w 3 workers'"}, 1),
        ("-w 2", {"GUNICORN_CMD_ARGS": "-w 3", "WEB_CONCURRENCY": "5"}, 2),
        ("-w 4 --preload", {}, 1),
        ("-w 4", {"GUNICORN_CMD_ARGS": "--preload"}, 1),
    ],
)
def test_number_of_workers(command: str, environment: dict[str, str], workers: int) -> None:
    assert number_of_workers(command.split(), environment) == workers


def test_the_warning_says_what_happens_and_what_to_do(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["uvicorn", "app:app", "--workers", "3"])
    warn_of_ephemeral_key("orders")
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("mcpinput", logging.WARNING)
    text = record.getMessage()
    for words in ("'orders'", "ephemeral", "one of 3 workers", "refused by the others", "key_file="):
        assert words in text
    assert (vars(record)["mcpinput_event"], vars(record)["mcpinput_workers"]) == ("ephemeral_key_among_workers", 3)


def test_the_environment_of_the_process_counts(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["granian", "app:app"])
    monkeypatch.setenv("WEB_CONCURRENCY", "2")
    warn_of_ephemeral_key("orders")
    assert "one of 2 workers" in caplog.text


@pytest.mark.parametrize("arguments", [[], ["--workers", "1"]])
def test_a_single_worker_is_not_warned(
    arguments: list[str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    warn_of_ephemeral_key("orders", arguments=arguments, environment={})
    assert caplog.records == []


# ---- through a server ----


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [message for message in caplog.messages if "ephemeral key" in message]


def test_a_server_with_an_ephemeral_key_warns_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["uvicorn", "app:app", "--workers", "2"])
    server = Server("orders", version="1", protection=ProtectionConfig.ephemeral())
    assert warnings_of(caplog) == []
    server.asgi()
    server.asgi()
    (warning,) = warnings_of(caplog)
    assert "server 'orders'" in warning


def test_a_server_with_a_ring_or_without_state_does_not_warn(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["uvicorn", "app:app", "--workers", "2"])
    price_server()[0].asgi()
    Server("orders", version="1").asgi()
    assert warnings_of(caplog) == []
