"""The receiver of an effect: an HTTP server of the run that an application calls.

A call that it accepts is an effect, even if the application is gone before the answer: it is recorded first. A caller
that closes its connection before the answer, as after a time-out of its own, is recorded with its call.
"""

from __future__ import annotations

import random
import select
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from chaos.effects.payload import Extractor, Record, decoder
from chaos.errors import MachineError
from chaos.run.events import now_us
from chaos.setup.apps import External
from chaos.setup.effects import Effect

Sight = dict[str, Any]
"""A row of `effect_sights`."""
MOST_BYTES = 64 << 20
RESET_S = 1.0
"""Longest time for a connection that its caller closed to refuse the answer; one that is half closed takes it."""
LEFT = "its caller left"
"""What the place of a call says if its caller did not wait for the answer."""


class Receiver:
    """The receiver of one effect, inside its context.

    accept: records a call. rng: draws the refusals. reach: where applications reach it. hidden: whether no text of the
    run may have a part of a call.
    """

    def __init__(
        self,
        effect: Effect,
        accept: Callable[[Sight], None],
        rng: random.Random,
        reach: External | None = None,
        hidden: bool = False,
    ) -> None:
        self._reach = reach or External()
        assert effect.http is not None
        self._effect, self._http, self._accept, self._rng = effect, effect.http, accept, rng
        self._extract, self._decode = Extractor(effect, hidden), decoder("json")
        self._lock, self.calls, self.refused, self.left = threading.Lock(), 0, 0, 0
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 60

            def _answer(self) -> None:
                status, number = receiver.take(self)
                closed_s = _wait(self, select.POLLRDHUP, receiver._http.slow)
                try:
                    self.send_response(status)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                except ConnectionError:
                    closed = True
                else:
                    closed = closed_s is not None and _wait(self, 0, RESET_S) is not None
                if closed:
                    self.close_connection = True
                    if status == 200:
                        receiver.leave(number, receiver._http.slow if closed_s is None else closed_s)

            do_POST = do_PUT = do_PATCH = do_DELETE = _answer

            def do_GET(self) -> None:
                """Answer that the receiver is there: a look is no effect."""
                self.send_response(200 if self.path == receiver._http.path else 404)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Keep quiet."""

        try:
            self._server = ThreadingHTTPServer((self._reach.listen, self._http.port or 0), Handler)
        except OSError as e:
            raise MachineError(
                f"effect {effect.name}: port {self._http.port or 'any'} of {self._reach.listen} cannot be used "
                f"({e.strerror}); "
                "choose another http.port, or leave it out"
            ) from None
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        """The address that the application calls."""
        return f"http://{self._reach.host}:{self._server.server_address[1]}{self._http.path}"

    def __enter__(self) -> Receiver:
        threading.Thread(target=self._server.serve_forever, daemon=True, name=f"effect {self._effect.name}").start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def take(self, call: BaseHTTPRequestHandler) -> tuple[int, int]:
        """Record a call, and return the status of the answer, and the number of the call."""
        body = _body(call)
        with self._lock:
            self.calls += 1
            number = self.calls
            refused = self._rng.random() < self._http.fail / 1_000_000
            self.refused += refused
        status = 404 if call.path.partition("?")[0] != self._http.path else self._http.status if refused else 200
        if body is None:
            status = 413
        if status == 200:
            for sight in self._sights(call, body or b"", number):
                self._accept(sight)
        return status, number

    def leave(self, number: int, after_s: float) -> None:
        """Record that the caller of an accepted call left before the answer."""
        with self._lock:
            self.left += 1
        self._accept({"mark": _name(number), "left_after_us": round(after_s * 1e6)})

    def _sights(self, call: BaseHTTPRequestHandler, body: bytes, number: int) -> Iterator[Sight]:
        now = now_us()
        for found in self._extract(lambda: Record(self._decode(body or None), None, call.headers.items())):
            where, at_us = _name(number) + found.item, now if found.at_us is None else found.at_us
            sight = {"mark": where, "where": where, "at_us": at_us, "after_us": at_us}
            what = {"problem": found.problem} if found.id is None else {"id": found.id, "value": found.value}
            yield sight | what


def call_of(sight: Sight) -> str:
    """Return the mark of the call in which an effect was: of a list, each item has a mark."""
    return str(sight["mark"]).partition(" [")[0]


def _name(number: int) -> str:
    return f"call {number:,}"


def _wait(call: BaseHTTPRequestHandler, events: int, limit_s: float) -> float | None:
    """Wait for the whole time; return after how many seconds the connection had an event or an error, None if never."""
    began = time.monotonic()
    poll = select.poll()
    poll.register(call.connection, events)
    found = bool(poll.poll(1000 * limit_s))
    after_s = time.monotonic() - began
    if found and events:
        time.sleep(max(0.0, limit_s - after_s))  # the answer takes as long as it would have
    return after_s if found else None


def _body(call: BaseHTTPRequestHandler) -> bytes | None:
    """Return the body of a call; None if it is too long."""
    if "chunked" in call.headers.get("Transfer-Encoding", "").lower():
        return _chunks(call)
    text = call.headers.get("Content-Length", "0")
    length = int(text) if text.isdigit() else 0
    if length > MOST_BYTES:
        call.close_connection = True
        return None
    return call.rfile.read(length)


def _chunks(call: BaseHTTPRequestHandler) -> bytes | None:
    parts, total = [], 0
    while size := int(call.rfile.readline().partition(b";")[0].strip() or b"0", 16):
        total += size
        if total > MOST_BYTES:
            call.close_connection = True
            return None
        parts.append(call.rfile.read(size))
        call.rfile.readline()
    while call.rfile.readline().strip():
        pass  # trailers
    return b"".join(parts)
