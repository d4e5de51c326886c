"""Segments of a capture, read as `chaos.relay.capture` describes them; the product decodes them in Java."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from chaos.relay.capture import _ENTRY, _HOLE, MAGIC
from chaos.relay.frames import LENGTH_BYTES


@dataclass(frozen=True)
class Read:
    """An entry of a segment. `data`: the frame, with zeros in place of its holes."""

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
    data: bytes


def read_segment(path: Path) -> Iterator[Read]:
    """Yield the complete entries of a segment. Raises `ValueError` if the file is none."""
    content = path.read_bytes()
    if not content.startswith(MAGIC):
        raise ValueError(f"{path} is no segment of a capture")
    at = len(MAGIC)
    while at + _ENTRY.size <= len(content):
        length, kind, flags, holes, connection, number, seen, passed, *frame_fields = _ENTRY.unpack_from(content, at)
        following = at + LENGTH_BYTES + length
        if following > len(content):
            return
        at += _ENTRY.size
        frame = bytearray()
        spans = [_HOLE.unpack_from(content, at + i * _HOLE.size) for i in range(holes)]
        at += holes * _HOLE.size
        for begin, size in spans:
            kept = begin - len(frame)
            frame += content[at : at + kept] + bytes(size)
            at += kept
        frame += content[at:following]
        at = following
        api, version, correlation, size = frame_fields
        yield Read(kind, flags, connection, number, seen, passed, api, version, correlation, size, bytes(frame))
