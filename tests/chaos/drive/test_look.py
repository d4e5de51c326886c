"""The first look at an application: what is proposed from what it does."""

import sys

import pytest
import yaml

from chaos.apps.trial import Asked, scenario_of
from chaos.drive.look import Seen, place_of, proposed
from tests.support.platform import chaos, left_running

IDS = ["7f-shop-1-0", "7f-shop-1-1", 12]


class Record:
    def __init__(self, value=b"", key=None, headers=None):
        self._parts = value, key, headers

    def value(self):
        return self._parts[0]

    def key(self):
        return self._parts[1]

    def headers(self):
        return self._parts[2]


@pytest.mark.parametrize(
    ("records", "place"),
    [
        ([Record(b'{"for": {"id": "7f-shop-1-0"}}'), Record(b'{"for": {"id": "7f-shop-1-1"}}')], "$.for.id"),
        ([Record(b'{"order": 12}', b"12")], "$.order"),
        ([Record(b"\x00\x01", b"7f-shop-1-1")], "key"),
        ([Record(b"text", None, [("order", b"7f-shop-1-0"), ("none", None)])], "header:order"),
        ([Record(b'{"order": "7f-shop-1-0"}'), Record(b'{"order": "another"}')], None),
        ([Record(None, None)], None),
        ([], None),
    ],
)  # fmt: skip
def test_the_place_of_an_id_is_where_every_record_has_the_id_of_an_input(records, place):
    assert place_of(records, IDS) == place


def test_what_the_user_names_is_not_replaced_by_what_was_seen(tmp_path):
    asked = Asked(["a.py"], ["mine"], [], tmp_path / "s", "$.id", tmp_path, group="own")
    found = proposed(asked, Seen(("seen",), "other", {"out": "key"}))
    assert (found.reads, found.group, found.writes) == (["mine"], "own", ("out",))
    (effect,) = scenario_of(found)["effects"]
    assert (effect["topic"], effect["id"], effect["of"]) == ("out", "key", "mine")


SERVICE = """
import json, os
from confluent_kafka import Consumer, Producer

address = {"bootstrap.servers": os.environ["KAFKA_BOOTSTRAP"]}
consumer = Consumer({**address, "group.id": "billing", "auto.offset.reset": "earliest"})
producer = Producer(address)
consumer.subscribe(["orders"])
while True:
    for message in consumer.consume(10, 0.1):
        if message.error():
            raise SystemExit(message.error())
        order = json.loads(message.value())
        producer.produce("invoices", json.dumps({"invoice": {"for": order["order_id"]}}))
        if order["amount"] > 10:
            producer.produce("audits", message.value())
    producer.flush()
"""


@pytest.mark.kafka
def test_init_writes_the_topics_the_group_and_the_place_of_the_id(tmp_path):
    (tmp_path / "service.py").write_text(SERVICE)
    (tmp_path / "orders.jsonl").write_text('{"order_id": "x", "amount": 3}\n{"order_id": "y", "amount": 40}\n')
    save, runs = tmp_path / "mine.yaml", tmp_path / "runs"
    asked = ["--samples", tmp_path / "orders.jsonl", "--save", save, "--runs-dir", runs]
    ended = chaos("init", *asked, "--", sys.executable, tmp_path / "service.py")
    assert ended.code == 0, ended.err
    made = yaml.safe_load(save.read_text())
    assert [topic["name"] for topic in made["topics"]] == ["orders", "invoices"]
    assert (made["apps"][0]["reads"], made["apps"][0]["group"]) == (["orders"], "billing")
    assert [(effect["topic"], effect["id"]) for effect in made["effects"]] == [("invoices", "$.invoice.for")]
    assert "no effect: audits, 10 records for 20 inputs" in ended.err
    assert "# What is broken, one after another" in save.read_text()
    assert left_running(runs) == [] and not list(runs.glob("look-*"))
    again = chaos("init", *asked, "--", "x")
    assert again.code == 2 and f"{save} exists" in again.err
