"""Serving under uvicorn, for the command line.

Rules

- The socket is bound and listens before uvicorn starts: a port that is taken is an error that the caller sees, and
  whoever knows the URL can already connect.
- SIGINT and SIGTERM end a served application as its user wants: requests are finished, and the process exits with 0.
  Those that are not finished within the grace period, or at a second signal, are answered with 503.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    import uvicorn

    from mcpinput.server.asgi import AsgiApp

GRACE_SECONDS: Final = 10


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one.

    Raises:
        OSError: The host is unknown, or the port cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=1024)


def url_of(listener: socket.socket, host: str, path: str) -> str:
    """The URL at which an endpoint behind a listening socket is served."""
    return f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}{path}"


def serve(app: AsgiApp, listener: socket.socket, ready: Callable[[], None]) -> None:
    """Serves until SIGINT or SIGTERM. To be called in the main thread.

    Args:
        app: What to serve.
        listener: Where to; closed at the end.
        ready: Called once a client could connect, and a signal would be heard.
    """
    server = _uvicorn_server(app)
    # uvicorn puts its own handlers in while it runs, and afterwards raises what it caught once more, for whoever was
    # there before. That is the same handler here, so a signal is an end and no failure, whenever it comes.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, server.handle_exit)
    ready()
    server.run(sockets=[listener])


@asynccontextmanager
async def serving(app: Any, listener: socket.socket) -> AsyncIterator[None]:
    """Serves for as long as the context is open, beside what else runs on the loop.

    Not to be used in the main thread: elsewhere uvicorn leaves the process's signals alone.
    """
    server = _uvicorn_server(app)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield
    finally:
        server.should_exit = True
        await task


class _EndsQuietly:
    """The application, for a server that cancels what runs when it ends: that is no failure to tell of."""

    def __init__(self, app: Any, is_ending: Callable[[], bool]) -> None:
        self._app = app
        self._is_ending = is_ending

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        started = False

        async def noting(message: Any) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except asyncio.CancelledError:
            if not self._is_ending():
                raise
            if scope["type"] != "http" or started:
                return
            headers = [(b"content-length", b"0"), (b"connection", b"close")]
            await send({"type": "http.response.start", "status": 503, "headers": headers})
            await send({"type": "http.response.body", "body": b""})


def _uvicorn_server(app: Any) -> uvicorn.Server:
    import uvicorn

    config = uvicorn.Config(
        app,
        ws="none",
        log_config=None,  # what is logged is the application's to arrange; warnings reach stderr either way
        access_log=False,
        proxy_headers=False,  # the peer is the peer: no header from outside may replace it
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    server = uvicorn.Server(config)
    config.app = _EndsQuietly(app, lambda: server.should_exit)
    return server
