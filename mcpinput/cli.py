"""The command line: ``mcpinput demo``, ``mcpinput serve``, and those of other files: ``keys``, ``state``.

Rules

- What goes wrong is one line on stderr that says what it was.
- Exit codes: 0 done, 1 failed (or a token would not open), 2 wrongly called, 130 ended by Ctrl-C.
- What only some commands need (uvicorn, the official client) is imported when such a command runs.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import importlib.util
import inspect
import os
import socket
import sys
import traceback
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from mcpinput import _keys, _state
from mcpinput.errors import KeyFileError
from mcpinput.server.asgi import AsgiApp
from mcpinput.server.headers import is_loopback
from mcpinput.server.server import Server

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


_PRINTING = ("keys", "state")  # what they do with files raises no OSError, so that one is of stdout
_LIBRARY = os.path.join(os.path.dirname(__file__), "")
_STANDARD_LIBRARY = os.path.join(os.path.dirname(os.__file__), "")


class _Failure(Exception):
    """The command ends with one line on stderr and an exit code."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        argv: Arguments without the program's name; those of the process by default.

    Returns:
        The exit code.

    Raises:
        SystemExit: The arguments cannot be parsed (2), or ask for help or the version (0).
    """
    options = argparse.Namespace(command="")
    try:
        options = _parser().parse_args(argv)
        status = options.run(options) or 0
        if options.command in _PRINTING and sys.stdout is not None:
            sys.stdout.flush()
        return status
    except _Failure as failure:
        print(f"mcpinput {options.command}: {failure}", file=sys.stderr)
        return failure.status
    except KeyFileError as error:
        print(f"mcpinput {options.command}: {error}", file=sys.stderr)
        return 1
    except _state.UnusableInput as error:
        print(f"mcpinput {options.command}: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        if options.command not in _PRINTING:
            raise
        with open(os.devnull, "w") as nowhere:  # or the interpreter would fail again when it ends
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        print(f"mcpinput {options.command}: done, but stdout cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(file=sys.stderr)  # the terminal's ^C stands on the line of the prompt
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mcpinput", description="MCP servers that ask the person on the other side.")
    parser.add_argument("--version", action="version", version=f"mcpinput {version('mcpinput')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    demo = commands.add_parser(
        "demo",
        help="serve the demo and answer its questions in the terminal",
        description="Serves the demo's server in this process, calls two of its tools with the official Python client, "
        "and shows every round as it goes over the wire. You answer what the tools ask.",
    )
    demo.add_argument("--yes", action="store_true", help="answer by itself, and check the results")
    demo.add_argument("--port", type=_port, default=0, help="port on 127.0.0.1 (default: a free one)")
    demo.set_defaults(run=_demo)

    serve = commands.add_parser(
        "serve",
        help="serve an application's server",
        description="Serves a Server over Streamable HTTP, until SIGINT or SIGTERM.",
    )
    serve.add_argument(
        "target",
        metavar="MODULE:SERVER",
        help="a mcpinput.Server, a callable without arguments that returns one, or an application made by its asgi()",
    )
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    serve.add_argument(
        "--port", type=_port, default=8000, help="port to listen on (default: %(default)s; 0: a free one)"
    )
    serve.add_argument(
        "--allowed-host",
        action="append",
        metavar="HOST",
        help="value of the Host header that is answered: a name, name:port, or * for any; may be given several times",
    )
    serve.set_defaults(run=_serve)

    _keys.add_commands(commands)
    _state.add_command(commands)
    return parser


def _port(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= 65_535:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no port: a number from 0 to 65535 is needed")


def _need(extra: str, *modules: str) -> None:
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise _Failure(f"this command needs {module}: pip install 'mcpinput[{extra}]'")


# ---- demo ----


def _demo(options: argparse.Namespace) -> None:
    _need("demo", "mcp", "uvicorn")
    from mcpinput import _walkthrough

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that lacks a character should still show the rest
            stream.reconfigure(errors="backslashreplace")
    listener = _listen("127.0.0.1", options.port)
    try:
        _walkthrough.walk(listener, _walkthrough.ANSWERS if options.yes else None)
    except (Exception, BaseExceptionGroup) as error:  # whatever went wrong, the person gets one line
        cause = _first(error)
        if isinstance(cause, KeyboardInterrupt):
            raise cause from None
        if isinstance(cause, EOFError):
            raise _Failure("the input ended before the demo did; 'mcpinput demo --yes' answers by itself") from None
        raise _Failure(_one_line(cause)) from error
    finally:
        listener.close()


def _first(error: BaseException) -> BaseException:
    """The first exception of a group, or the exception itself: task groups wrap what was raised inside of them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _one_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


# ---- serve ----


def _serve(options: argparse.Namespace) -> None:
    _need("server", "uvicorn")
    from mcpinput import _serving

    hosts: list[str] | None = options.allowed_host
    if hosts is None and not is_loopback(options.host):
        raise _Failure(
            f"--host {options.host} can be reached from outside, so it needs --allowed-host: the name by which clients "
            "call this server, or '*' for any",
            2,
        )
    app = _application(options.target, hosts)
    listener = _listen(options.host, options.port)
    url = _serving.url_of(listener, options.host, app.endpoint_path)
    _serving.serve(app, listener, ready=lambda: print(url, flush=True))


def _listen(host: str, port: int) -> Any:
    from mcpinput import _serving

    try:
        return _serving.listen(host, port)
    except OSError as error:
        # The error's own text repeats the address where it is not about the name of the host.
        reason = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        raise _Failure(f"cannot listen on {host} port {port}: {reason}") from None


def _application(target: str, hosts: list[str] | None) -> AsgiApp:
    found = _load(target)
    if isinstance(found, AsgiApp):
        if hosts is not None:
            raise _Failure(
                f"{target} is an application whose hosts are set already: name its Server instead, or leave "
                "--allowed-host out",
                2,
            )
        return found
    try:
        return found.asgi(allowed_hosts=hosts)
    except ValueError as error:
        raise _Failure(str(error), 2) from None


def _load(target: str) -> Server | AsgiApp:
    module_name, _, path = target.partition(":")
    if not module_name or not path:
        raise _Failure(f"{target!r} is not of the form MODULE:SERVER, such as app:server for server in app.py", 2)
    if not sys.flags.safe_path and os.getcwd() not in sys.path:  # as python -m does
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            raise _Failure(f"there is no module {error.name!r} here or among what is installed", 2) from None
        raise _failed(f"importing {module_name!r}", error) from error
    except Exception as error:  # the module is the user's: it may raise anything
        raise _failed(f"importing {module_name!r}", error) from error
    try:
        found: Any = functools.reduce(getattr, path.split("."), module)
    except AttributeError:
        raise _Failure(f"module {module_name!r} has no {path!r}", 2) from None
    if callable(found) and not isinstance(found, AsgiApp):
        try:
            found = found()
        except Exception as error:  # as above
            raise _failed(f"calling {target}", error) from error
        path = f"{path}()"
    if isinstance(found, (Server, AsgiApp)):
        return found
    if inspect.iscoroutine(found):
        found.close()
    raise _Failure(f"{module_name}:{path} is of type {type(found).__name__}, and no mcpinput.Server", 2)


def _failed(what: str, error: Exception) -> _Failure:
    frames = traceback.extract_tb(error.__traceback__)
    # The user's own line: not the library's or the standard library's in which it ended.
    frame = next((frame for frame in reversed(frames) if _is_own(frame.filename)), None)
    where = "" if frame is None else f" ({frame.filename}, line {frame.lineno})"
    return _Failure(f"{what} failed: {_one_line(error)}{where}", 2)


def _is_own(filename: str) -> bool:
    """Whether a line is the user's, and neither of this library nor of the standard one."""
    if filename.startswith((_LIBRARY, "<")):
        return False
    return "site-packages" in filename or not filename.startswith(_STANDARD_LIBRARY)


if __name__ == "__main__":
    raise SystemExit(main())
