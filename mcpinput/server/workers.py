"""Whether this process is one of several workers: an ephemeral key of its own is then of no use to the others.

Nobody tells a worker how many there are, so this looks where the number is usually given. Options of the command line
come before those in ``GUNICORN_CMD_ARGS``, and both before ``WEB_CONCURRENCY``: in this order uvicorn, gunicorn and
others obey them. A number that only a configuration file names is not seen.
"""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise

__all__ = ["number_of_workers", "warn_of_ephemeral_key"]

logger = logging.getLogger("mcpinput")


def warn_of_ephemeral_key(
    server_name: str, *, arguments: Sequence[str] | None = None, environment: Mapping[str, str] | None = None
) -> None:
    """Logs a warning where a server with an ephemeral key is served by several workers. Call it once for each server.

    Args:
        server_name: To be named.
        arguments: Those of the process by default, its own name left out.
        environment: That of the process by default.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    workers = number_of_workers(arguments, os.environ if environment is None else environment)
    if workers > 1:
        logger.warning(
            "server %r has an ephemeral key, and this process is one of %d workers: each of them draws a key of its "
            "own, so state that one has sealed is refused by the others. Give all of them the same key file: "
            "ProtectionConfig(key_file=KeyFile(...)), made by 'mcpinput keys new'",
            server_name,
            workers,
            extra={
                "mcpinput_event": "ephemeral_key_among_workers",
                "mcpinput_server": server_name,
                "mcpinput_workers": workers,
            },
        )


def number_of_workers(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """How many processes load the application, each for itself; 1 where nothing says that there are more."""
    from_gunicorn = _split(environment.get("GUNICORN_CMD_ARGS", ""))
    if "--preload" in arguments or "--preload" in from_gunicorn:
        return 1  # it is loaded once, before the workers are forked, so that they share its key
    for told in (_option(arguments), _option(from_gunicorn), _number(environment.get("WEB_CONCURRENCY", ""))):
        if told is not None:
            return told
    return 1


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a quote that is not closed
        return text.split()


def _option(arguments: Sequence[str]) -> int | None:
    """The number that the last ``-w`` or ``--workers`` gives."""
    told = None
    for argument, following in pairwise([*arguments, ""]):
        if argument in ("-w", "--workers"):
            number = _number(following)
        elif argument.startswith("--workers="):
            number = _number(argument.removeprefix("--workers="))
        else:
            number = _number(argument.removeprefix("-w")) if argument.startswith("-w") else None
        told = told if number is None else number
    return told


def _number(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 6 else None
