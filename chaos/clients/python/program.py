"""The client side of the protocol, for programs in Python: orders, events, lifecycle rows, and the run of a program."""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from chaos.clients.protocol import ClientSpec, lifecycle_row
from chaos.ledger.stream import TableWriter
from chaos.run.events import now_us

PROGRESS_EVERY_S = 0.1
ORPHAN_EXIT_S = 5.0
"""Time to exit without the fleet; afterwards the process ends, even in a blocking call to a dead broker."""


class Channel:
    """The orders received and the events sent. One per process, or one per client if clients are threads.

    started: the order to start was received.
    stopping: the order to stop was received, or the fleet is gone.
    orphaned: the fleet is gone.
    ignoring_reports: the order to ignore delivery reports was received.
    per_record_s: extra processing time of each record, in seconds.
    seeks: orders to seek that are not done yet.
    resumes: number of orders to resume.
    """

    def __init__(self, client: str | None = None) -> None:
        """Pass `client` if the process runs several clients. Call `listen_for` to receive orders."""
        self.started = self.stopping = self.orphaned = self.ignoring_reports = False
        self.per_record_s = 0.0
        self.seeks: deque[dict[str, Any]] = deque()
        self.resumes = 0
        self._client = client
        self._last_progress: dict[str, Any] = {}
        self._next_progress = 0.0

    def accepts(self, client: str | None) -> bool:
        """Return whether an order is for this channel. `client` is None in orders to the whole process."""
        return client is None or self._client in (None, client)

    def obey(self, order: dict[str, Any]) -> None:
        """Apply an order. Raises `ValueError`, `KeyError` or `TypeError` if it is not an order of the protocol."""
        match order["do"]:
            case "stop":
                self.stopping = True
            case "start":
                self.started = True
            case "ignore_reports":
                self.ignoring_reports = True
            case "slow":
                self.per_record_s = float(order["per_record_s"])
            case "clock":
                self.send("clock", shown_us=time.time_ns() // 1000)
            case "seek":
                self.seeks.append(order)
            case "resume":
                self.resumes += 1
            case unknown:
                raise ValueError(f"unknown order {unknown!r}")

    def send(self, event: str, **fields: Any) -> None:
        """Send an event to the fleet, in one write(2)."""
        source = {} if self._client is None else {"client": self._client}
        line = json.dumps({"event": event, **source, **fields}) + "\n"
        try:
            os.write(sys.stdout.fileno(), line.encode())
        except OSError:  # the fleet is gone
            self.orphaned = self.stopping = True

    def progress_due(self) -> bool:
        """Return whether `PROGRESS_EVERY_S` has passed since the last progress."""
        return time.monotonic() >= self._next_progress

    def progress(self, **fields: Any) -> None:
        """Send a progress event, unless nothing changed."""
        self._next_progress = time.monotonic() + PROGRESS_EVERY_S
        if fields != self._last_progress:
            self._last_progress = fields
            self.send("progress", **fields)


def listen_for(channels: Sequence[Channel]) -> None:
    """Start a thread that hands the orders on stdin to the channels; when stdin ends, it ends the process."""

    def listen() -> None:
        for line in sys.stdin:
            try:
                order = json.loads(line)
                for channel in [c for c in channels if c.accepts(order.get("client"))]:
                    channel.obey(order)
            except (ValueError, KeyError, TypeError, AttributeError) as e:
                channels[0].send("error", detail=f"invalid order {line.strip()}: {e}")
        for channel in channels:
            channel.orphaned = channel.stopping = True
        time.sleep(ORPHAN_EXIT_S)
        os._exit(1)

    threading.Thread(target=listen, name="orders", daemon=True).start()


class Lifecycle:
    """Writes `lifecycle` for one incarnation of a client, and sends the events of the protocol that belong to it."""

    def __init__(self, spec: ClientSpec, channel: Channel) -> None:
        self._spec, self._channel = spec, channel
        self._writer = TableWriter(spec.ledger, "lifecycle", spec.writer)

    def event(self, event: str, **detail: Any) -> None:
        """Write a row; for started and stopped, send an event as well."""
        spec = self._spec
        self._writer.append_rows([lifecycle_row(spec.client, spec.role, spec.incarnation, event, detail)])
        if event in ("started", "stopped"):
            self._channel.send(event)

    def error(self, message: str, **detail: Any) -> None:
        """Report an error as a row, an event and a line in the log."""
        self.event("error", error=message, **detail)
        self._channel.send("error", detail=message)
        log(message)


def log(message: str) -> None:
    """Write a line to the log of the client, which is stderr."""
    sys.stderr.write(f"{now_us()} {message}\n")
    sys.stderr.flush()


class Client(Protocol):
    """One incarnation of a client."""

    def run(self) -> bool:
        """Run until the order to stop. Returns whether everything was done that `stopped` means."""


Spec = TypeVar("Spec", bound=ClientSpec)


def run_clients(specs: Sequence[Spec], build: Callable[[Spec, Channel, Lifecycle], Client], **started: object) -> int:
    """Run one incarnation of each client, the first in this thread. Returns the exit code of the program.

    `started` is the detail of that event. An exception is recorded as an error of the client that it ends.
    """
    channels = [Channel(spec.client if len(specs) > 1 else None) for spec in specs]
    stopped: list[str] = []

    def run(spec: Spec, channel: Channel) -> None:
        lifecycle = Lifecycle(spec, channel)
        try:
            client = build(spec, channel, lifecycle)
            lifecycle.event("started", **started)
            if client.run() and not channel.orphaned:
                lifecycle.event("stopped")
                stopped.append(spec.client)
        except Exception as e:
            lifecycle.error(f"{type(e).__name__}: {e}")
            raise

    gc.disable()  # cycle detection took a third of the time; the many messages form no cycles
    listen_for(channels)
    pairs = list(zip(specs, channels, strict=True))
    threads = [threading.Thread(target=run, args=pair, name=pair[0].client) for pair in pairs[1:]]
    for thread in threads:
        thread.start()
    run(*pairs[0])
    for thread in threads:
        thread.join()
    if any(channel.orphaned for channel in channels):
        os._exit(1)
    return 0 if len(stopped) == len(specs) else 1
