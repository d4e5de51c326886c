"""What both kinds of connection share, those through the proxy and those through the switch: when they are read."""

from __future__ import annotations

import asyncio


class Half(asyncio.Protocol):
    """One direction of a connection: it is not read while there is a reason, such as a receiver that is slow."""

    other: Half
    """The opposite direction, whose source is this one's receiver."""

    def __init__(self) -> None:
        self._stopped_for: set[str] = set()

    def readable(self) -> asyncio.Transport | None:
        """What it reads from, as long as there is something to read."""
        raise NotImplementedError

    def pause_writing(self) -> None:
        """The other side of `source` reads slower than it is written to."""
        self.other.stop_reading("its receiver is slow")

    def resume_writing(self) -> None:
        """It has caught up."""
        self.other.go_on_reading("its receiver is slow")

    def stop_reading(self, why: str) -> None:
        """Read no more for now, for this reason among others."""
        if not self._stopped_for and (source := self.readable()) is not None:
            source.pause_reading()
        self._stopped_for.add(why)

    def go_on_reading(self, why: str) -> None:
        """That reason is gone."""
        if why not in self._stopped_for:
            return
        self._stopped_for.discard(why)
        if not self._stopped_for and (source := self.readable()) is not None and not source.is_closing():
            source.resume_reading()
