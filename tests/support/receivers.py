"""A mail server and a web server on free ports of this machine that keep what they receive."""

from __future__ import annotations

import contextlib
import email
import email.policy
import http.server
import json
import socketserver
import threading
from collections.abc import Iterator
from email.message import EmailMessage
from typing import Any


class _Mail(socketserver.StreamRequestHandler):
    """The commands of SMTP that a client without TLS and login needs."""

    def handle(self) -> None:
        self._say("220 test")
        while line := self.rfile.readline():
            command = line.split()[0].upper() if line.split() else b""
            if command == b"DATA":
                self._say("354 go on")
                lines: list[bytes] = []
                while (data := self.rfile.readline()) != b".\r\n":
                    lines.append(data.removeprefix(b".") if data.startswith(b"..") else data)
                self.server.received.append(email.message_from_bytes(b"".join(lines), policy=email.policy.default))
            self._say("221 bye" if command == b"QUIT" else "250 ok")
            if command == b"QUIT":
                return

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


class _Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append((self.path, json.loads(body)))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def _serving(server: Any) -> Iterator[Any]:
    server.received = []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def mail_server() -> Iterator[tuple[int, list[EmailMessage]]]:
    """Yield the port, and the list of the messages that arrived."""
    with _serving(socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Mail)) as server:
        yield server.server_address[1], server.received


@contextlib.contextmanager
def hook_server(status: int = 200) -> Iterator[tuple[int, list[tuple[str, Any]]]]:
    """Yield the port, and the list of paths and JSON bodies that were posted. status: of each answer."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Hook)
    server.status = status
    with _serving(server):
        yield server.server_address[1], server.received
