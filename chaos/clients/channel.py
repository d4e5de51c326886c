"""The client's end of the protocol: orders on stdin, events on stdout."""

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
LAST_WORDS_S = 5.0
"""How long a client whose owner is gone may take to end by itself; it may be stuck in a call to a dead broker."""


class Channel:
    """Orders as they arrive, and events as they are told. One per process, or one for each client in its threads.

    `started` turns true with the order to start; `stopping` with the order to stop, and when the owner is gone,
    `orphaned` only with the latter.
    `ignoring_reports` turns true with the order to look at no delivery reports any more.
    `per_record_s` is the extra time for each record that was last ordered, `seeks` are orders to seek that wait.
    """

    def __init__(self, client: str | None = None) -> None:
        """With `client`, it is one of several: it does not listen by itself, see `listen_for`."""
        self.stopping = False
        self.orphaned = False
        self.started = False
        self.per_record_s = 0.0
        self.ignoring_reports = False
        self.seeks: deque[dict[str, Any]] = deque()
        self._client = client
        self._told: dict[str, Any] = {}
        self._next_progress = 0.0
        if client is None:
            listen_for([self])

    def answers_to(self, client: str | None) -> bool:
        """Whether an order to this client, or to the whole process, is for it."""
        return client is None or self._client in (None, client)

    def obey(self, order: dict[str, Any]) -> None:
        """Take an order. Raises `ValueError`, `KeyError` and `TypeError` for what is none."""
        if order["do"] == "stop":
            self.stopping = True
        elif order["do"] == "start":
            self.started = True
        elif order["do"] == "ignore_reports":
            self.ignoring_reports = True
        elif order["do"] == "slow":
            self.per_record_s = float(order["per_record_s"])
        elif order["do"] == "seek":
            self.seeks.append(order)
        else:
            raise ValueError(f"unknown order {order['do']!r}")

    def tell(self, event: str, **fields: Any) -> None:
        """Tell the owner; one write(2) a line."""
        named = {} if self._client is None else {"client": self._client}
        line = json.dumps({"event": event, **named, **fields}) + "\n"
        try:
            os.write(sys.stdout.fileno(), line.encode())
        except OSError:  # nobody listens any more
            self.orphaned = self.stopping = True

    def progress_due(self) -> bool:
        """Whether enough time has passed since progress was last told."""
        return time.monotonic() >= self._next_progress

    def progress(self, **fields: Any) -> None:
        """Tell progress; nothing where nothing changed."""
        self._next_progress = time.monotonic() + PROGRESS_EVERY_S
        if fields != self._told:
            self._told = fields
            self.tell("progress", **fields)


def listen_for(channels: Sequence[Channel]) -> None:
    """Hand the orders on stdin to these channels, in a thread, until the owner is gone; then end the process."""

    def listen() -> None:
        for line in sys.stdin:
            try:
                order = json.loads(line)
                for channel in [c for c in channels if c.answers_to(order.get("client"))]:
                    channel.obey(order)
            except (ValueError, KeyError, TypeError, AttributeError) as e:
                channels[0].tell("error", detail=f"order not understood: {line.strip()}: {e}")
        for channel in channels:
            channel.orphaned = channel.stopping = True
        time.sleep(LAST_WORDS_S)
        os._exit(1)

    threading.Thread(target=listen, name="orders", daemon=True).start()
