"""``Server.asgi(allowed_hosts=...)``: whoever deploys a server says under which names it is called."""

from __future__ import annotations

import pytest

from mcpinput import Server
from tests.support.asgi import Client


def status(app: object, host: str, origin: str | None = None) -> int:
    client = Client(app, host=host.encode())
    return client.request("tools/list", headers={} if origin is None else {b"origin": origin.encode()}).status


def test_hosts_of_the_deployment_replace_those_of_the_server() -> None:
    server = Server("shop", version="1", allowed_hosts=["shop.test"])
    deployed = server.asgi(allowed_hosts=["shop.example", "10.0.0.7:8000"])
    assert [status(deployed, host) for host in ("shop.example:1", "10.0.0.7:8000")] == [200, 200]
    assert [status(deployed, host) for host in ("shop.test", "10.0.0.7:8001", "localhost")] == [421, 421, 421]
    assert [status(server.asgi(), host) for host in ("shop.test", "shop.example")] == [200, 421]


def test_any_host() -> None:
    assert status(Server("shop", version="1").asgi(allowed_hosts=["*"]), "any.example") == 200


def test_origins_stay() -> None:
    server = Server("shop", version="1", allowed_origins=["https://app.example"])
    deployed = server.asgi(allowed_hosts=["shop.example"])
    assert status(deployed, "shop.example", "https://app.example") == 200
    assert status(deployed, "shop.example", "https://shop.example") == 403


def test_what_is_no_host_is_refused() -> None:
    server = Server("shop", version="1")
    with pytest.raises(ValueError, match="is no host name"):
        server.asgi(allowed_hosts=["http://shop.example"])
    with pytest.raises(TypeError, match="not one str"):
        server.asgi(allowed_hosts="shop.example")
