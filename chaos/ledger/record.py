"""The identity at the start of the value of each record, as fixed-width ASCII.

    AS1 7f3a91c0 shop/1.............. 0001 000000001234 1763697600000000 9f3c21aa <payload>
    |   |         |                    |    |            |                |
    |   run       producer (padded)    |    seq          sent, us         CRC-32 of key and the rest of the value
    version                            incarnation

The output of a processor also has a record header, `aftershock-input: orders/0/1234`: topic, partition and offset of
the record that it was made from (`INPUT_HEADER`).

It is readable with kcat, any client language can write it, and Spark extracts it with `substring`. It identifies a
record even if the producer was killed before it wrote the ledger row. A tombstone, a record without a value, carries
the same bytes without a payload in the header `IDENTITY_HEADER`; so does a record with a payload of the user's form.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

VERSION = b"AS1"
RUN_WIDTH, PRODUCER_WIDTH, INCARNATION_WIDTH, SEQ_WIDTH, TIME_WIDTH, CRC_WIDTH = 8, 20, 4, 12, 16, 8

RUN_AT = 4
PRODUCER_AT = RUN_AT + RUN_WIDTH + 1
INCARNATION_AT = PRODUCER_AT + PRODUCER_WIDTH + 1
SEQ_AT = INCARNATION_AT + INCARNATION_WIDTH + 1
TIME_AT = SEQ_AT + SEQ_WIDTH + 1
CRC_AT = TIME_AT + TIME_WIDTH + 1
INPUT_HEADER = "aftershock-input"
"""Key of the record header with the coordinates of the input."""
COUNT_HEADER = "aftershock-count"
"""Key of the record header with the running count of the input's key, in decimal digits."""
HEADER_BYTES = CRC_AT + CRC_WIDTH + 1
"""Bytes before the payload: the smallest size of a value."""
IDENTITY_HEADER = "aftershock"
"""The record header with the identity of a tombstone, or of a payload of the user's form."""
UNSEALED = b"-" * CRC_WIDTH
"""Stands for the CRC in an identity that was made from an id in a payload, where nothing seals the record."""


COUNT_DIGITS = 18
"""Digits of a number that fits the columns of the ledger."""
_INPUT = re.compile(r"([a-zA-Z0-9._-]+)/([0-9]{1,9})/([0-9]{1,18})")
"""A topic name, and numbers that fit the columns of the ledger."""

UNTIMED_US = 0
"""The time of the send in an identity that has none."""

Input = tuple[str, int, int]
"""Topic, partition and offset of the record that an output was made from."""


@dataclass(frozen=True)
class Identity:
    """The origin of a record: run token, producer, incarnation, seq and time of the send call in us."""

    run: str
    producer: str
    incarnation: int
    seq: int
    sent_us: int


def run_token(run_id: str) -> str:
    """Return the 8 characters that distinguish the records of a run from records of other runs."""
    return f"{zlib.crc32(run_id.encode()):08x}"


def encode(identity: Identity, key: bytes | None, payload: bytes) -> bytes:
    """Return the value of a record: header, CRC, payload."""
    prefix = header_prefix(identity.run, identity.producer, identity.incarnation)
    head = prefix + b"%012d %016d " % (identity.seq, identity.sent_us)
    return seal_value(head, key, payload)


def header_prefix(run: str, producer: str, incarnation: int) -> bytes:
    """Return the part of the header that all records of an incarnation share. Raises `ValueError` for a long name."""
    if len(producer) > PRODUCER_WIDTH:
        raise ValueError(f"producer name {producer!r} is longer than {PRODUCER_WIDTH} characters")
    return b"%s %s %s %04d " % (VERSION, run.encode(), producer.ljust(PRODUCER_WIDTH).encode(), incarnation)


def seal_value(head: bytes, key: bytes | None, payload: bytes) -> bytes:
    """Return header, CRC-32 of key + header + payload, and payload as one value."""
    crc = zlib.crc32(head if key is None else key + head)
    return b"%s%08x %s" % (head, zlib.crc32(payload, crc), payload)


def of_tombstone(value: bytes, key: bytes | None) -> bytes:
    """Return what the header of a tombstone holds, from the value that the record would have."""
    return seal_value(value[:CRC_AT], key, b"")


def in_header(head: bytes, key: bytes | None, value: bytes) -> bytes:
    """Return what the header of a record holds that has a payload of the user's form."""
    return b"%s%08x " % (head, zlib.crc32(value, zlib.crc32(head if key is None else key + head)))


def unsealed(run: str, producer: str, seq: int) -> bytes:
    """Return the identity of a record that has only an id: without time and CRC, of the only incarnation."""
    return header_prefix(run, producer, 1) + b"%012d %016d %s " % (seq, UNTIMED_US, UNSEALED)


def in_headers(headers: Sequence[tuple[str, str | bytes | None]] | None) -> bytes | None:
    """Return the identity that the headers of a tombstone hold; None without one."""
    return next((v for name, v in headers or () if name == IDENTITY_HEADER and isinstance(v, bytes)), None)


def parse(value: bytes | None) -> Identity | None:
    """Return the identity in a value; None for a null, foreign or truncated value."""
    if value is None or len(value) < HEADER_BYTES or value[:3] != VERSION:
        return None
    try:
        return Identity(
            run=value[RUN_AT : RUN_AT + RUN_WIDTH].decode("ascii"),
            producer=value[PRODUCER_AT : PRODUCER_AT + PRODUCER_WIDTH].decode("ascii").rstrip(),
            incarnation=int(value[INCARNATION_AT : INCARNATION_AT + INCARNATION_WIDTH]),
            seq=int(value[SEQ_AT : SEQ_AT + SEQ_WIDTH]),
            sent_us=int(value[TIME_AT : TIME_AT + TIME_WIDTH]),
        )
    except (ValueError, UnicodeDecodeError):
        return None


def encode_input(source: Input) -> bytes:
    """Return the value of the record header `INPUT_HEADER`."""
    return "{}/{}/{}".format(*source).encode()


def parse_input(headers: Sequence[tuple[str, bytes | None]] | None) -> Input | None:
    """Return the coordinates in the first header `INPUT_HEADER` of a record, None without a readable one."""
    for key, value in headers or ():
        if key == INPUT_HEADER:
            source = _INPUT.fullmatch((value or b"").decode("ascii", "replace"))
            return (source[1], int(source[2]), int(source[3])) if source else None
    return None


def parse_count(headers: Sequence[tuple[str, bytes | None]] | None) -> int | None:
    """Return the number in the first header `COUNT_HEADER` of a record, None without a readable one."""
    text = next((value or b"" for key, value in headers or () if key == COUNT_HEADER), b"")
    return int(text) if text.isdigit() and len(text) <= COUNT_DIGITS else None


def crc_ok(key: bytes | None, value: bytes) -> bool:
    """Return whether the CRC matches key and value."""
    expected = seal_value(value[:CRC_AT], key, value[HEADER_BYTES:])
    return expected == value
