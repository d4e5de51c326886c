"""The client side of the protocol: orders on stdin, events on stdout."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

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
    """

    def __init__(self, client: str | None = None) -> None:
        """Pass `client` if the process runs several clients. Call `listen_for` to receive orders."""
        self.started = self.stopping = self.orphaned = self.ignoring_reports = False
        self.per_record_s = 0.0
        self.seeks: deque[dict[str, Any]] = deque()
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
            case "seek":
                self.seeks.append(order)
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
