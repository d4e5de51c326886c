"""A captured run: what the wire alone says, compared with what the ledgers of the clients say."""

from __future__ import annotations

from collections import Counter, defaultdict

import pyarrow.parquet as pq
import pytest

from chaos.relay.capture import ENTRY, MAGIC, REQUEST
from chaos.relay.frames import LENGTH_BYTES
from chaos.run.directory import Run
from checks.wire.tables import table_path
from tests.support.platform import chaos

pytestmark = [pytest.mark.kafka, pytest.mark.landing, pytest.mark.timeout(600)]

SCENARIO = """
title: Clients of every protocol, captured
cluster: {brokers: 2, config: {group.share.min.record.lock.duration.ms: 1000}}
capture: {}
topics: [{name: orders, partitions: 2, replication_factor: 2}]
producers:
  - {name: shop, topic: orders, records: 600, rate: 300, config: {acks: all, enable.idempotence: true}}
  - {name: plain, topic: orders, records: 300, rate: 150, config: {acks: all, enable.idempotence: false}}
consumers:
  - {mode: share, name: worker, group: workers, topics: [orders], client: java,
     settings: {share.auto.offset.reset: earliest, share.record.lock.duration.ms: 5000}}
  - {mode: subscribe, name: newer, group: newer, topics: [orders], client: java,
     commit: {when: after_batch, kind: sync}, config: {auto.offset.reset: earliest, group.protocol: consumer}}
  - {mode: subscribe, name: older, group: older, topics: [orders],
     commit: {when: after_batch, kind: sync}, config: {auto.offset.reset: earliest}}
expect: {}
"""
FETCH, SHARE_FETCH, CONSUMER_HEARTBEAT = 1, 78, 68


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wire")
    (folder / "wire.yaml").write_text(SCENARIO)
    ended = chaos("run", folder / "wire.yaml", "--runs-dir", folder / "runs", "--json", timeout_s=550)
    assert ended.code == 0, ended.err[-3000:]
    (path,) = (folder / "runs").glob("wire-*")
    return Run(path)


@pytest.fixture(scope="module")
def tables(run):
    """Return a function: the rows of a table of the ledger or of the wire, of the run."""

    def rows(name: str, ledger: bool = False):
        return pq.read_table(run.ledger / f"{name}.parquet" if ledger else table_path(run, name)).to_pylist()

    return rows


def versions(run, connections):
    """Return in which version each instance sent requests, by instance and kind."""
    instances, found = {row["connection"]: row["instance"] for row in connections}, {}
    for segment in run.wire.glob("*.wire"):
        content, at = segment.read_bytes(), len(MAGIC)
        while at < len(content):
            length, kind, _, _, connection, _, _, _, api, version, _, _ = ENTRY.unpack_from(content, at)
            if kind == REQUEST:
                found[instances[connection], api] = version
            at += LENGTH_BYTES + length
    return found


def offsets(batches, key):
    """Return the offsets of batches, by a key."""
    found = defaultdict(set)
    for one in batches:
        found[key(one)] |= set(range(one["base_offset"], one["base_offset"] + one["records"]))
    return found


def test_the_wire_has_every_acknowledged_record_and_no_other(tables):
    wire = offsets(
        [one for one in tables("produced") if one["outcome"] == "ok"], lambda o: (o["topic"], o["partition"])
    )
    ledger = defaultdict(set)
    for sent in tables("sends", ledger=True):
        ledger[sent["topic"], sent["partition"]].add(sent["offset"])
    assert wire == ledger and sum(map(len, wire.values())) == 900


def test_every_delivered_record_was_fetched_by_the_same_instance(tables):
    data = [one for one in tables("fetched") if one["complete"] and not one["control"]]
    fetched = offsets(data, lambda one: (one["instance"], one["topic"], one["partition"]))
    for row in tables("deliveries", ledger=True):
        assert row["offset"] in fetched[row["consumer"], row["topic"], row["partition"]]
    taken = defaultdict(set)
    for one in tables("acquired"):
        taken[one["topic"], one["partition"]] |= set(range(one["first_offset"], one["last_offset"] + 1))
    assert sum(map(len, taken.values())) == 900


def test_every_commit_of_the_ledger_is_on_the_wire(tables):
    wire = Counter((c["instance"], c["partition"], c["offset"]) for c in tables("commits") if c["error"] == 0)
    ledger = Counter((c["consumer"], c["partition"], c["offset"]) for c in tables("commits", ledger=True))
    assert ledger and not ledger - wire


def test_clients_speak_the_newest_versions_through_the_proxy_and_all_is_read(run, tables):
    spoken = versions(run, tables("connections"))
    assert spoken["newer/1", FETCH] == 18
    assert spoken["worker/1", SHARE_FETCH] == 2
    assert spoken["newer/1", CONSUMER_HEARTBEAT] == 1
    assert tables("unread") == []
    assigned = [one for one in tables("membership") if one["assigned"]]
    assert {one["call"] for one in assigned} == {"SyncGroup", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat"}
    assert {part["topic"] for one in assigned for part in one["assigned"]} == {"orders"}
