"""Segments of a capture, read in Python as `chaos.relay.capture` describes them. Spark decodes whole captures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from chaos.relay.capture import ENTRY, HOLE, MAGIC
from chaos.relay.frames import LENGTH_BYTES, Head


@dataclass(frozen=True)
class Read:
    """An entry of a segment. holes: begin in the frame and length of each run of bytes that was left out of `kept`."""

    kind: int
    flags: int
    connection: int
    number: int
    seen_us: int
    passed_us: int
    api: int
    version: int
    correlation: int
    size: int
    holes: tuple[tuple[int, int], ...]
    kept: bytes

    @property
    def data(self) -> bytes:
        """The frame, with zeros in place of its holes."""
        if not self.holes:
            return self.kept
        frame, at = bytearray(), 0
        for begin, size in self.holes:
            kept = begin - len(frame)
            frame += self.kept[at : at + kept] + bytes(size)
            at += kept
        return bytes(frame + self.kept[at:])

    @property
    def head(self) -> Head:
        """The header of the frame, without the client id."""
        return Head(self.size, self.correlation, self.api, self.version)


class Tail:
    """The entries of a capture as they are written, from a segment on."""

    def __init__(self, folder: Path, number: int = 1) -> None:
        self._folder = folder
        self._number, self._at = number, len(MAGIC)

    def new(self) -> Iterator[Read]:
        """Yield the entries that are complete now, and were not yielded before."""
        while (path := self._folder / f"{self._number:06}.wire").exists():
            ended = (
                self._folder / f"{self._number + 1:06}.wire"
            ).exists()  # asked first: nothing is written to it then
            with path.open("rb") as segment:
                segment.seek(self._at)
                content, begin = segment.read(), self._at
            for entry, end in _entries(content):
                self._at = begin + end
                yield entry
            if not ended:
                return
            self._number, self._at = self._number + 1, len(MAGIC)


def _entries(content: bytes) -> Iterator[tuple[Read, int]]:
    """Yield the complete entries, each with the index behind it."""
    at = 0
    while at + ENTRY.size <= len(content):
        length, kind, flags, holes, connection, number, seen, passed, *frame_fields = ENTRY.unpack_from(content, at)
        following = at + LENGTH_BYTES + length
        if following > len(content):
            return
        at += ENTRY.size
        spans = tuple(HOLE.unpack_from(content, at + i * HOLE.size) for i in range(holes))
        kept = content[at + holes * HOLE.size : following]
        at = following
        api, version, correlation, size = frame_fields
        yield Read(kind, flags, connection, number, seen, passed, api, version, correlation, size, spans, kept), at
