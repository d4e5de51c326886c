"""The watch over the KRaft quorum: asks each controller directly whether it believes to be active.

Brokers name one active controller only. A controller that is cut off from the others may go on as the active one, and
only its own answers show that. The table `cluster` gets, for the entity `controller:<id>`:

- `active`: the epoch in which it believes to be active; null if it does not, or does not answer;
- `active_last`: `{"epoch": …, "asked_us": …}` when it ends: the time of the last request that it answered as active.

The first answer after silence does not count: a process that was paused may answer before it looks at its clock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from chaos.kafka.access import Access
from chaos.kafka.connection import BrokerConnection
from chaos.kafka.quorum import Belief, ask_controller

EVERY_S = 0.2
TIMEOUT_S = 1.0

Note = Callable[[str, str, object], None]
"""Records an entity, a key and a value if it changed."""


class QuorumWatch:
    """Asks the dedicated controllers inside its context."""

    def __init__(
        self, controllers: Mapping[int, tuple[str, int]], note: Note, access: Callable[[int], Access | None]
    ) -> None:
        """`controllers` are the addresses by node id; without any, nothing is watched. access: how to log in to one."""
        self._access = access
        self._note = note
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._repeat, args=(node, at), daemon=True, name=f"quorum-watch-{node}")
            for node, at in controllers.items()
        ]

    def __enter__(self) -> QuorumWatch:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(timeout=10)

    def _repeat(self, node: int, at: tuple[str, int]) -> None:
        link, track = BrokerConnection(*at, self._access(node)), Track(node, self._note)
        while not self._stopping.is_set():
            track.add(ask_controller(node, link, TIMEOUT_S))
            self._stopping.wait(EVERY_S)
        track.end()
        link.close()


class Track:
    """The answers of one controller in order, and what is recorded of them."""

    def __init__(self, node: int, note: Note) -> None:
        self.belief: Belief | None = None
        self._entity, self._note = f"controller:{node}", note
        self._silent = True

    def add(self, answer: Belief | None) -> None:
        """Take the next answer; None if there was none."""
        ignored, self._silent = self._silent and answer is not None, answer is None
        if ignored:
            return
        if self.belief is not None and (answer is None or answer.epoch != self.belief.epoch):
            self.end()
        self.belief = answer
        self._note(self._entity, "active", answer.epoch if answer else None)

    def end(self) -> None:
        """Record the last answer as the active one, if there is one."""
        if self.belief is not None and self.belief.epoch is not None:
            last = {"epoch": self.belief.epoch, "asked_us": self.belief.asked_us}
            self._note(self._entity, "active_last", last)
