"""The client's end of the protocol: orders on stdin, events on stdout."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

PROGRESS_EVERY_S = 0.1
LAST_WORDS_S = 5.0
"""How long a client whose owner is gone may take to end by itself; it may be stuck in a call to a dead broker."""


class Channel:
    """Orders as they arrive, and events as they are told. One per process.

    `started` turns true with the order to start; `stopping` with the order to stop, and when the owner is gone,
    `orphaned` only with the latter.
    `deaf` turns true with the order to look at no delivery reports any more.
    `per_record_s` is the extra time for each record that was last ordered.
    """

    def __init__(self) -> None:
        self.stopping = False
        self.orphaned = False
        self.started = False
        self.per_record_s = 0.0
        self.deaf = False
        self._told: dict[str, Any] = {}
        self._next_progress = 0.0
        threading.Thread(target=self._listen, name="orders", daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin:
            try:
                order = json.loads(line)
                if order["do"] == "stop":
                    self.stopping = True
                elif order["do"] == "start":
                    self.started = True
                elif order["do"] == "deaf":
                    self.deaf = True
                elif order["do"] == "slow":
                    self.per_record_s = float(order["per_record_s"])
                else:
                    raise ValueError(f"unknown order {order['do']!r}")
            except (ValueError, KeyError, TypeError) as e:
                self.tell("error", detail=f"order not understood: {line.strip()}: {e}")
        self.orphaned = self.stopping = True
        time.sleep(LAST_WORDS_S)
        os._exit(1)

    def tell(self, event: str, **fields: Any) -> None:
        """Tell the owner; one write(2) a line."""
        line = json.dumps({"event": event, **fields}) + "\n"
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
