"""Records of the user's form in programs of clients: what a producer sends, and whose record a reader sees."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chaos.clients.protocol import IdentitiesSpec, ProducerSpec
from chaos.clients.python.values import Origins, UserValues
from chaos.ledger.record import IDENTITY_HEADER, Identity, encode, of_tombstone, parse
from chaos.ledger.record_columns import Identities, headers_of
from chaos.values.model import Value

SENT_US = 1_763_697_600_000_000
OWN = encode(Identity("7f3a91c0", "other/1", 1, 5, SENT_US), None, b"payload")


def producer(tmp_path: Path, incarnation: int = 1, **value: Any) -> ProducerSpec:
    (tmp_path / "orders.jsonl").write_text('{"id": "a", "customer": 7}\n{"id": "b", "customer": 8}\n')
    return ProducerSpec.model_validate(
        {"run_id": "r", "run_token": "7f3a91c0", "ledger": tmp_path, "client": "shop/1", "incarnation": incarnation}
        | {"bootstrap": "b:1", "topic": "orders", "records": 9, "value_size": 128, "seed": 3}
        | {"value": Value.model_validate({"samples": str(tmp_path / "orders.jsonl"), **value})}
    )


def test_a_record_carries_its_identity_in_a_header_and_the_same_payload_in_each_incarnation(tmp_path: Path) -> None:
    first, second = (UserValues(producer(tmp_path, i, id="$.id", key="$.customer")) for i in (1, 2))
    made, again = first.make(4, 3, SENT_US), second.make(4, 3, SENT_US + 9)
    assert [(r.value, r.key) for r in made] == [(r.value, r.key) for r in again]
    assert [json.loads(r.value)["id"] for r in made] == [f"7f3a91c0-shop-1-{seq}" for seq in (4, 5, 6)]
    for record, incarnation, sent_us in ((made[0], 1, SENT_US), (again[0], 2, SENT_US + 9)):
        assert record.headers == [(IDENTITY_HEADER, record.identity)]
        assert parse(record.identity) == Identity("7f3a91c0", "shop/1", incarnation, 4, sent_us)
    assert first.keys(np.array([4, 5])).to_pylist() == ["7", "8"]


def test_without_a_key_the_rows_have_none(tmp_path: Path) -> None:
    assert UserValues(producer(tmp_path)).keys(np.array([4, 5])).to_pylist() == [None, None]


@pytest.mark.parametrize("mark", ["header", "none"])
def test_a_reader_finds_out_who_sent_a_record(tmp_path: Path, mark: str) -> None:
    spec = producer(tmp_path, id="$.id", mark=mark, id_type="text")
    assert spec.value is not None
    unmarked = {"orders": [spec.value]} if mark == "none" else {}
    marked = ["orders"] if mark == "header" else []
    origins = Origins("7f3a91c0", IdentitiesSpec(in_headers=marked, unmarked=unmarked, first={"shop/1": 0}, most=9))
    (record,) = UserValues(spec).make(4, 1, SENT_US)
    assert (mark == "header") == bool(record.headers)
    found = parse(origins.of("orders", record.value, record.headers))
    assert found is not None
    assert (found.producer, found.incarnation, found.seq) == ("shop/1", 1, 4)
    assert origins.of("orders", OWN, None) == OWN
    assert parse(origins.of("orders", b"foreign", None)) is None
    # an application that copies headers and ids into its own topic does not become the producer
    assert parse(origins.of("invoices", record.value, record.headers)) is None
    tombstone = of_tombstone(OWN, b"k")
    assert origins.of("orders", None, [(IDENTITY_HEADER, tombstone)]) == tombstone
    assert origins.of("orders", None, None) is None


def test_without_a_spec_only_tombstones_are_looked_at() -> None:
    mark = of_tombstone(OWN, b"k")
    assert Origins().of("orders", b"payload", [(IDENTITY_HEADER, mark)]) == b"payload"
    assert Origins().of("orders", None, [(IDENTITY_HEADER, mark)]) == mark


def test_the_row_of_a_record_that_has_only_an_id_has_no_time_of_the_send(tmp_path: Path) -> None:
    spec = producer(tmp_path, id="$.id", mark="none", id_type="text")
    assert spec.value is not None
    origins = Origins("7f3a91c0", IdentitiesSpec(unmarked={"orders": [spec.value]}, first={"shop/1": 0}, most=9))
    (record,) = UserValues(spec).make(4, 1, SENT_US)
    columns = Identities(headers_of([origins.of("orders", record.value, []), OWN]))
    assert columns.known_sent_us().to_pylist() == [None, SENT_US]
    assert columns.seq.to_pylist() == [4, 5]
    assert columns.producers()[0].to_pylist() == ["shop/1", "other/1"]
