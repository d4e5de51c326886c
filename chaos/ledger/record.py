"""The identity that travels inside the value of every record, as fixed-width ASCII.

    AS1 7f3a91c0 shop/1.............. 0001 000000001234 1763697600000000 9f3c21aa <payload>
    |   |         |                    |    |            |                |
    |   run       producer (padded)    |    seq          sent, us         CRC-32 of key and the rest of the value
    version                            incarnation

A person reads it with kcat, any client in any language can carry it, Spark cuts it with `substring`. A record whose
ledger row died with its producer is still known by it.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

VERSION = b"AS1"
RUN_WIDTH, PRODUCER_WIDTH, INCARNATION_WIDTH, SEQ_WIDTH, TIME_WIDTH, CRC_WIDTH = 8, 20, 4, 12, 16, 8

RUN_AT = 4
PRODUCER_AT = RUN_AT + RUN_WIDTH + 1
INCARNATION_AT = PRODUCER_AT + PRODUCER_WIDTH + 1
SEQ_AT = INCARNATION_AT + INCARNATION_WIDTH + 1
TIME_AT = SEQ_AT + SEQ_WIDTH + 1
CRC_AT = TIME_AT + TIME_WIDTH + 1
HEADER_BYTES = CRC_AT + CRC_WIDTH + 1
"""Bytes before the payload: the shortest value a record can have."""


@dataclass(frozen=True)
class Identity:
    """Who sent a record: run token, producer, incarnation, seq and the time of the call in us."""

    run: str
    producer: str
    incarnation: int
    seq: int
    sent_us: int


def run_token(run_id: str) -> str:
    """The 8 characters by which records of a run are told from those of another."""
    return f"{zlib.crc32(run_id.encode()):08x}"


def encode(identity: Identity, key: bytes | None, payload: bytes) -> bytes:
    """The value of a record: header, CRC, payload."""
    prefix = header_prefix(identity.run, identity.producer, identity.incarnation)
    head = prefix + b"%012d %016d " % (identity.seq, identity.sent_us)
    return seal_value(head, key, payload)


def header_prefix(run: str, producer: str, incarnation: int) -> bytes:
    """The part of the header that is the same for all records of one incarnation."""
    if len(producer) > PRODUCER_WIDTH:
        raise ValueError(f"producer name {producer!r} is longer than {PRODUCER_WIDTH} characters")
    return b"%s %s %s %04d " % (VERSION, run.encode(), producer.ljust(PRODUCER_WIDTH).encode(), incarnation)


def seal_value(head: bytes, key: bytes | None, payload: bytes) -> bytes:
    """Join header and payload with the CRC of key + header + payload between them."""
    crc = zlib.crc32(head if key is None else key + head)
    return b"%s%08x %s" % (head, zlib.crc32(payload, crc), payload)


def parse(value: bytes | None) -> Identity | None:
    """The identity in a value, or None where there is none (not a record of ours, or cut short)."""
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


def crc_ok(key: bytes | None, value: bytes) -> bool:
    """Whether key and value are what the producer sent."""
    expected = seal_value(value[:CRC_AT], key, value[HEADER_BYTES:])
    return expected == value
