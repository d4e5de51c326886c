"""Records in answers to Fetch and in Produce requests: given twice, or with a changed byte."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kafka.protocol.api_key import ApiKey
from kafka.protocol.consumer import FetchResponse
from kafka.protocol.producer import ProduceRequest
from kafka.record.util import calc_crc32c, decode_varint

from chaos.relay.contents import TopicIds, layout
from chaos.relay.frames import LENGTH_BYTES
from chaos.relay.refusals import Matches

_PREFIX = struct.Struct(">qiib")  # base offset, length of the rest, leader epoch or CRC, magic
_OVERHEAD, _HEADER = 12, 61
_CRC, _CHECKED = 17, 21
"""Where a batch has its CRC-32C, and where the bytes begin that the CRC is of (KIP-98)."""
_OLD_CRC, _OLD_CHECKED = 12, 16
_CODEC, _CONTROL = 0x07, 0x20
_COUNT = struct.Struct(">i")


@dataclass(frozen=True)
class _Batch:
    """A complete batch in records, or a message of a format before Kafka 0.11."""

    begin: int
    end: int
    magic: int
    attributes: int

    @property
    def has_data(self) -> bool:
        """Whether it is not the marker of a transaction."""
        return self.magic < 2 or not self.attributes & _CONTROL


def _batches(records: bytes) -> Iterator[_Batch]:
    """Yield the complete batches; the last one in an answer to Fetch may be cut off."""
    at = 0
    while at + _PREFIX.size <= len(records):
        _, length, _, magic = _PREFIX.unpack_from(records, at)
        end = at + _OVERHEAD + length
        if length <= _PREFIX.size - _OVERHEAD or end > len(records) or (magic >= 2 and end - at < _HEADER):
            return
        yield _Batch(at, end, magic, records[at + 22] if magic >= 2 else records[at + 17])
        at = end


def doubled(records: bytes) -> bytes:
    """Return records with a copy behind each complete batch of data.

    A copy stands next to its batch, and markers have none, so both belong to the same transaction.
    """
    parts, at = [], 0
    for batch in _batches(records):
        at = batch.end
        parts.append(records[batch.begin : batch.end] * (2 if batch.has_data else 1))
    return b"".join([*parts, records[at:]])


def corrupted(records: bytes, rng: random.Random, valid: bool) -> bytes:
    """Return records with the lowest bit of one byte changed: in a value, or in the compressed bytes of a batch.

    valid: whether the batch gets a checksum of the changed bytes. The same records if no batch of data has any.
    """
    chosen = [batch for batch in _batches(records) if batch.has_data]
    rng.shuffle(chosen)
    for batch in chosen:
        found = bytearray(records[batch.begin : batch.end])
        if (at := _byte_of(found, batch, rng)) is None:
            continue
        found[at] ^= 1
        if valid and batch.magic >= 2:
            found[_CRC:_CHECKED] = calc_crc32c(memoryview(found)[_CHECKED:]).to_bytes(4, "big")
        elif valid:
            found[_OLD_CRC:_OLD_CHECKED] = zlib.crc32(memoryview(found)[_OLD_CHECKED:]).to_bytes(4, "big")
        return records[: batch.begin] + bytes(found) + records[batch.end :]
    return records


def _byte_of(found: bytearray, batch: _Batch, rng: random.Random) -> int | None:
    """Return the index of a byte of a value in a batch; of a compressed byte, or the last one of an old message."""
    if batch.magic < 2:
        return len(found) - 1
    if batch.attributes & _CODEC:
        return rng.randrange(_HEADER, len(found)) if len(found) > _HEADER else None
    values = [span for span in _values(found) if span[0] < span[1]]
    return rng.randrange(*rng.choice(values)) if values else None


def _values(batch: bytearray) -> Iterator[tuple[int, int]]:
    """Yield where the value of each record begins and ends."""
    at = _HEADER
    for _ in range(_COUNT.unpack_from(batch, _HEADER - _COUNT.size)[0]):
        length, at = decode_varint(batch, at)
        following = at + length
        _, at = decode_varint(batch, at + 1)
        _, at = decode_varint(batch, at)
        key, at = decode_varint(batch, at)
        value, at = decode_varint(batch, at + max(0, key))
        yield at, at + max(0, value)
        at = following


def with_copies(frame: bytes, version: int, matches: Matches, ids: TopicIds) -> bytes | None:
    """Return an answer to Fetch that has the records of the partitions that match twice; None if it has none.

    Raises `ValueError` if the answer cannot be decoded.
    """
    answer = _decoded(FetchResponse, frame, ApiKey.Fetch, version)
    found = False
    for partition in _partitions(answer.responses, "partitions", "partition_index", matches, ids):
        records = bytes(partition.records or b"")
        partition.records = doubled(records)
        found = found or len(partition.records) > len(records)
    return bytes(answer.encode(header=True, framed=True)) if found else None


def with_changed_byte(
    frame: bytes, api: int, version: int, matches: Matches, ids: TopicIds, rng: random.Random, valid: bool
) -> bytes | None:
    """Return an answer to Fetch, or a Produce request, with one changed byte in one partition that matches.

    None if there are no records of it. Raises `ValueError` if the frame cannot be decoded.
    """
    if api == ApiKey.Fetch:
        answer = _decoded(FetchResponse, frame, api, version)
        partitions = list(_partitions(answer.responses, "partitions", "partition_index", matches, ids))
    else:
        request = _decoded(ProduceRequest, frame, api, version)
        partitions = list(_partitions(request.topic_data, "partition_data", "index", matches, ids))
    rng.shuffle(partitions)
    for partition in partitions:
        records = bytes(partition.records or b"")
        other = corrupted(records, rng, valid)
        if other != records:
            return frame.replace(records, other, 1)  # of the same length, so the frame stays as it is
    return None


def _decoded(kind: Any, frame: bytes, api: int, version: int) -> Any:
    try:
        return kind.decode(memoryview(frame)[LENGTH_BYTES:], version=layout(api, version), header=True)
    except Exception as e:  # noqa: BLE001 - the decoder raises errors of many types
        raise ValueError(f"{kind.__name__} version {version} is not understood: {e!r}") from None


def _partitions(topics: Any, field: str, number: str, matches: Matches, ids: TopicIds) -> Iterator[Any]:
    """Yield the partitions that match."""
    for topic in topics or ():
        name = getattr(topic, "topic", None) or getattr(topic, "name", None) or ids.get(topic.topic_id, "")
        yield from (p for p in getattr(topic, field) if matches(name, getattr(p, number)))
