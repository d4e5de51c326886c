"""Vectorised parsing gives the same rows as `chaos.ledger.record` for single records."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from chaos.ledger.record import (
    COUNT_HEADER,
    CRC_AT,
    HEADER_BYTES,
    IDENTITY_HEADER,
    VERSION,
    Identity,
    Input,
    crc_ok,
    encode,
    in_header,
    in_headers,
    of_tombstone,
    parse,
    parse_count,
    unsealed,
)
from chaos.ledger.schemas import LOG
from checks.readback.rows import Records

IDENTITIES = st.builds(
    Identity,
    run=st.sampled_from(["7f3a91c0", "0badcafe"]),
    producer=st.text("abcdefghijklmnop-_/0123456789 \t", min_size=1, max_size=20),
    incarnation=st.integers(0, 9999),
    seq=st.integers(0, 10**12 - 1),
    sent_us=st.integers(0, 10**16 - 1),
)
KEYS = st.none() | st.binary(max_size=20)
ODD = [b" ", b"_", b"+", b"-", b"\x80", b"\x00", b"x", b"F"]


@st.composite
def records(draw: st.DrawFn) -> tuple[bytes | None, bytes | None]:
    """Return records of the platform, the same changed, cut or with another key, and foreign records."""
    key = draw(KEYS)
    value = encode(draw(IDENTITIES), key, draw(st.binary(max_size=40)))
    kind = draw(st.sampled_from(["whole", "whole", "changed", "odd", "cut", "key", "other", "tombstone"]))
    at = draw(st.integers(0, len(value) - 1))
    if kind == "changed":
        value = value[:at] + draw(st.binary(min_size=1, max_size=1)) + value[at + 1 :]
    elif kind == "odd":
        at = min(at, HEADER_BYTES - 1)
        value = value[:at] + draw(st.sampled_from(ODD)) + value[at + 1 :]
    elif kind == "cut":
        value = value[:at]
    elif kind == "key":
        key = draw(KEYS)
    elif kind == "other":
        value = draw(st.binary(max_size=120))
    return key, None if kind == "tombstone" else value


@given(st.lists(records(), min_size=1, max_size=12))
@example([(None, None)])
@example([(None, encode(Identity("7f3a91c0", "p", 1, 1, 1), None, b"").replace(b"0001", b"+001"))])
def test_every_record_is_parsed_as_if_alone(records: list[tuple[bytes | None, bytes | None]]) -> None:
    keys, values = [k for k, _ in records], [v for _, v in records]
    offsets = range(5, 5 + len(values))
    batch = Records("orders", 3, offsets, [1_763_697_600_123] * len(values), keys, values).rows()
    batch.validate(full=True)
    assert batch.schema.equals(LOG)
    for row, offset, (key, value) in zip(batch.to_pylist(), offsets, records, strict=True):
        known = parse(value)
        has_header = value is not None and len(value) >= HEADER_BYTES and value.startswith(VERSION)
        assert row == {
            "topic": "orders",
            "partition": 3,
            "offset": offset,
            "timestamp_us": 1_763_697_600_123_000,
            "run": known and known.run,
            "producer": known and known.producer,
            "incarnation": known and known.incarnation,
            "seq": known and known.seq,
            "crc_ok": crc_ok(key, value) if has_header and value is not None else None,
            "committed": True,
            "key": None,
            "tombstone": None,
            "input_topic": None,
            "input_partition": None,
            "input_offset": None,
            "count": None,
        }


def test_keys_are_read_where_they_are_needed() -> None:
    keys = [b"k1", None, b"\xff"]
    batch = Records("prices", 0, range(3), [1, 2, 3], keys, [None, None, None], keyed=True).rows()
    batch.validate(full=True)
    assert batch.column("key").to_pylist() == ["k1", None, "\\xff"]


def test_inputs_are_columns() -> None:
    inputs: list[Input | None] = [("in", 2, 7), None]
    batch = Records("out", 0, [0, 1], [1, 1], [None, None], [None, None], inputs).rows()
    rows = batch.select(["input_topic", "input_partition", "input_offset"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [("in", 2, 7), (None, None, None)]


def test_counts_are_a_column() -> None:
    headers = [[(COUNT_HEADER, b"12")], [(COUNT_HEADER, b"-1"), ("x", b"1")], [(COUNT_HEADER, None)], None]
    counts = [parse_count(of_record) for of_record in headers]
    assert counts == [12, None, None, None]
    batch = Records("out", 0, range(4), [1] * 4, [b"k"] * 4, [None] * 4, keyed=True, counts=counts).rows()
    batch.validate(full=True)
    assert batch.column("count").to_pylist() == counts


def test_a_tombstone_has_its_identity_in_a_header() -> None:
    identity = Identity("7f3a91c0", "shop/1", 2, 37, 1_763_697_600_000_000)
    value = encode(identity, b"k1", b"payload")
    hidden = of_tombstone(value, b"k1")
    assert in_headers([("trace", b"x"), (IDENTITY_HEADER, hidden)]) == hidden
    assert in_headers(None) is in_headers([("trace", b"x")]) is None
    carried = {1: hidden}
    batch = Records("prices", 0, range(3), [1, 2, 3], [b"k1"] * 3, [value, None, None], (), None, True, carried).rows()
    found = batch.select(["seq", "crc_ok", "tombstone"]).to_pylist()
    assert [tuple(row.values()) for row in found] == [(37, True, False), (37, True, True), (None, None, True)]


def test_a_payload_of_the_user_has_its_identity_and_its_crc_in_a_header() -> None:
    value = encode(Identity("7f3a91c0", "shop/1", 2, 37, 1_763_697_600_000_000), b"k1", b"")
    payload = b'{"order_id": "7f3a91c0-shop-1-37"}'
    mark = in_header(value[:CRC_AT], b"k1", payload)
    payloads = [payload, payload.replace(b"37", b"38"), payload, b"short", payload]
    keys = [b"k1", b"k1", b"k2", b"k1", b"k1"]
    batch = Records("orders", 0, range(5), [1] * 5, keys, payloads, marks=dict.fromkeys(range(4), mark)).rows()
    found = batch.select(["producer", "incarnation", "seq", "crc_ok"]).to_pylist()
    whole, changed = ("shop/1", 2, 37, True), ("shop/1", 2, 37, False)
    assert [tuple(row.values()) for row in found] == [whole, changed, changed, changed, (None, None, None, None)]


def test_nothing_is_said_of_the_crc_of_a_record_that_has_only_an_id() -> None:
    marks = {0: unsealed("7f3a91c0", "shop/1", 37)}
    batch = Records("orders", 0, range(2), [1, 2], [None, None], [b"{}", b"{}"], marks=marks).rows()
    found = batch.select(["run", "producer", "incarnation", "seq", "crc_ok"]).to_pylist()
    assert [tuple(row.values()) for row in found] == [("7f3a91c0", "shop/1", 1, 37, None), (None,) * 5]
