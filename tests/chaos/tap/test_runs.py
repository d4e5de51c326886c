"""What the commands for runs make of the folder of a tap."""

from __future__ import annotations

import pytest

from chaos.campaign.subject import load_subject
from chaos.errors import UsageError
from chaos.kafka.security import Security
from chaos.run.directory import Run
from chaos.scenario.load import parse
from chaos.scenario.resolve import read, save
from chaos.tap.order import Order
from chaos.tap.session import _resolved

TOPICS = [{"name": "orders", "partitions": 3, "replication_factor": 3}]
APPS = [{"name": "billing", "external": True, "group": "billing", "reads": ["orders"]}]


@pytest.fixture
def run(tmp_path):
    made = Run.create(tmp_path, "tap-1")
    security = Security(protocol="SASL_SSL", mechanism="PLAIN", username="u", password="env:TAP_PASSWORD")
    order = Order("kafka:9092", security, "0.0.0.0", 9092, "tap.internal", "none")
    save(made, _resolved(made, order, TOPICS, APPS))
    return made


def test_a_tap_is_a_run_without_clients_of_ours_that_is_judged_on_the_wire(run):
    resolved = read(run)
    assert resolved.scenario.tapped and resolved.scenario.judged_on_wire and resolved.scenario.hides_payloads
    (reader,) = resolved.audited().scenario.readers
    assert (reader.group, reader.topics) == ("billing", ["orders"])
    assert resolved.command() == "python -m chaos tap --bootstrap kafka:9092"


def test_nothing_of_a_tap_runs_again_and_changes_the_cluster(run):
    with pytest.raises(UsageError, match="nothing of it can run again"):
        load_subject(str(run.path))


@pytest.mark.parametrize("key", ["topics", "producers"])
def test_a_scenario_that_is_no_tap_has_topics_and_producers(key):
    given = {"topics": "[{name: orders}]", "producers": "[{name: shop, topic: orders, records: 1}]", key: "[]"}
    text = "title: t\n" + "".join(f"{name}: {value}\n" for name, value in given.items())
    with pytest.raises(Exception, match=rf"{key}: give at least one"):
        parse(text, "mine.yaml")
