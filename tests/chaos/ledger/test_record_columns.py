"""Values written and read as columns equal the values of `chaos.ledger.record`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from chaos.ledger import record
from chaos.ledger.record_columns import Identities, ValueFactory, headers_of

pa.array([""])  # the first call imports pandas, which takes longer than an example may

KEYS = [b"k0", b"k1", b"another key", b""]

own_values = st.builds(
    lambda producer, incarnation, seq, sent, payload: record.encode(
        record.Identity("7f3a91c0", producer, incarnation, seq, sent), None, payload
    ),
    st.text("abcz/09-", min_size=1, max_size=20),
    st.integers(0, 9999),
    st.integers(0, 10**12 - 1),
    st.integers(0, 10**16 - 1),
    st.binary(max_size=40),
)


def damaged(value: bytes, at: int, byte: int) -> bytes:
    at %= len(value)
    return value[:at] + bytes([byte]) + value[at + 1 :]


any_values = st.one_of(
    own_values,
    st.none(),
    st.binary(max_size=120),
    st.builds(lambda v, n: v[:n], own_values, st.integers(0, 120)),
    st.builds(damaged, own_values, st.integers(0, record.HEADER_BYTES), st.integers(0, 255)),
    st.builds(damaged, own_values, st.integers(0, record.HEADER_BYTES), st.sampled_from(list(b" +-_\t9"))),
)


def by_parse(values: list[bytes | None]) -> list[tuple[object, ...]]:
    parsed = [record.parse(v) for v in values]
    return [(p.producer, p.incarnation, p.seq, p.sent_us) if p else (None,) * 4 for p in parsed]


def by_columns(values: list[bytes | None]) -> list[tuple[object, ...]]:
    identities = Identities(headers_of(values))
    return list(
        zip(*(c.to_pylist() for c in (*identities.producers(), identities.seq, identities.sent_us)), strict=True)
    )


@given(st.lists(own_values, min_size=1, max_size=30))
def test_identities_by_columns_equal_those_of_parse(values: list[bytes | None]) -> None:
    assert by_columns(values) == by_parse(values)


@given(st.lists(any_values, min_size=1, max_size=10))
def test_damaged_foreign_and_missing_values_are_read_as_parse_reads_them(values: list[bytes | None]) -> None:
    assert by_columns(values) == by_parse(values)


@given(
    size=st.integers(record.HEADER_BYTES, record.HEADER_BYTES + 300),
    first=st.integers(0, 10**12 - 1000),
    count=st.integers(1, 1000),
    sent=st.integers(0, 10**16 - 1),
    keyed=st.booleans(),
)
def test_values_equal_those_of_encode_byte_for_byte(size: int, first: int, count: int, sent: int, keyed: bool) -> None:
    factory = ValueFactory("7f3a91c0", "shop/1", 3, size, KEYS)
    count = min(count, factory.room(first))
    numbers = np.arange(first, first + count) % len(KEYS)
    values = factory.make(first, count, sent, numbers if keyed else None)
    assert len(values) == count
    for i in {0, count // 2, count - 1}:
        identity = record.Identity("7f3a91c0", "shop/1", 3, first + i, sent)
        payload = values[i][record.HEADER_BYTES :]
        assert len(values[i]) == size
        assert values[i] == record.encode(identity, KEYS[numbers[i]] if keyed else None, payload)


def test_large_values_are_created_a_few_at_a_time() -> None:
    factory = ValueFactory("7f3a91c0", "shop/1", 1, 2**20)
    assert factory.room(0) == 1
    (value,) = factory.make(7, 1, 5)
    assert len(value) == 2**20
    assert record.crc_ok(None, value)
