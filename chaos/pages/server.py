"""The pages on a port of this machine, until Ctrl-C. There is no login: for others, use the plugin of Airflow."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable

import uvicorn
from starlette.middleware.trustedhost import TrustedHostMiddleware

from chaos.errors import MachineError
from chaos.pages.app import create_app
from chaos.pages.site import Site

LOOPBACK = "127.0.0.1"
_LOCAL_NAMES = [LOOPBACK, "localhost", "testserver"]


def serve(site: Site, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve the pages until Ctrl-C or SIGTERM. port: 0 for a free one. ready: called with the URL.

    On the loopback address, only requests to that name are answered, so that no web page of another host can read the
    pages through a name of its own (DNS rebinding). Raises `MachineError` if the address cannot be used.
    """
    listener = _listen(host, port)
    with contextlib.closing(listener):
        app = create_app(site)
        if host == LOOPBACK:
            app.add_middleware(TrustedHostMiddleware, allowed_hosts=_LOCAL_NAMES)
        ready(f"http://{host}:{listener.getsockname()[1]}/")
        config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=3)
        with contextlib.suppress(KeyboardInterrupt):  # uvicorn passes the signal on after it has ended
            uvicorn.Server(config).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as e:
        raise MachineError(f"{host} is no address of this machine ({e.strerror}); leave --host out") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as e:
        listener.close()
        raise MachineError(
            f"cannot listen on {host} port {port}: {e.strerror}; choose another with --port, or leave it out"
        ) from None
    return listener
