"""One run judged twice: by the ledgers of its clients, and by what passed on the wire alone."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from chaos.anomalies import ANOMALIES
from chaos.run.directory import Run
from chaos.scenario.load import load
from chaos.scenario.shipped import shipped, unchecked
from tests.checks.wire.test_agreement import differences, on_wire, summary
from tests.support.platform import ROOT, chaos

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

SAMPLE = "checks/wire/test_agreement.py::test_the_wire_and_the_ledgers_agree_on_duplicates_and_on_a_rebalance"
TERMS = (
    "checks/expectations/test_judgement.py::"
    "test_what_the_wire_does_not_decide_is_no_pass_and_inconclusive_if_the_scenario_asks_for_it"
)

DUPLICATES = """
title: Records are written twice, and a member of the group dies
cluster: {brokers: 2}
capture: {}
topics: [{name: orders, partitions: 2, replication_factor: 2}]
producers:
  - name: shop
    topic: orders
    rate: 500/s
    records: 3000
    outlast_faults: true
    config: {acks: all, enable.idempotence: false, max.in.flight.requests.per.connection: 1, reconnect.backoff.ms: 50}
consumers:
  - {mode: subscribe, name: billing, group: billing, members: 2, topics: [orders],
     commit: {when: after_batch, kind: sync}, config: {auto.offset.reset: earliest, session.timeout.ms: 6000}}
faults:
  - {name: lost-reply, kind: wire.cut, api: Produce, client: shop/*, side: response, count: 2,
     target: {leader_of: orders/0}, when: {acked: 500}, heal: {when: {after: lost-reply.proven + 1s}}}
  - {name: crash, kind: consumer.crash, target: {member: billing/1}, when: {acked: 1500},
     heal: {when: {after: crash.proven}}}
expect: {duplicate_write: {min: 1}, duplicate_delivery: {illegal: 0}}
"""


def judged_on_wire(run, folder):
    """Return a copy of a run that the checks have judged by the wire."""
    shutil.copytree(run.path, folder / run.run_id, ignore=shutil.ignore_patterns("brokers", "gx", "*.sock"))
    copy = Run(folder / run.run_id)
    on_wire(copy)
    argv = [sys.executable, "-m", "checks", str(copy.path), "--only", "audit", "validate", "report"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert copy.result.exists(), done.stderr[-3000:]
    return copy


@pytest.fixture(scope="module")
def duplicates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("judged")
    (folder / "twice.yaml").write_text(DUPLICATES)
    ended = chaos("run", folder / "twice.yaml", "--runs-dir", folder / "runs", "--json", timeout_s=550)
    assert ended.code == 0, ended.err[-3000:]
    (path,) = (folder / "runs").glob("twice-*")
    return Run(path), judged_on_wire(Run(path), folder)


@pytest.mark.nightly(twin=SAMPLE)
def test_the_wire_and_the_ledgers_agree_on_duplicates_and_on_a_rebalance(duplicates):
    own, wire = map(summary, duplicates)
    assert wire["duplicate_write", "", "orders"]["count"] > 0
    assert differences(own, wire) == []


@pytest.mark.nightly(twin=TERMS)
def test_a_verdict_by_the_wire_says_so_and_passes_nothing_that_it_does_not_decide(duplicates):
    result = json.loads(duplicates[1].result.read_text())
    hidden = [e for e in result["expectations"] if e["check"] in ANOMALIES and ANOMALIES[e["check"]].hidden]
    assert {e["verdict"] for e in hidden} == {"not applicable", "inconclusive"} and "on the wire" in result["sentence"]
    assert all("effects" in e["why"] for e in hidden if e["check"] in ("overcommit", "lost_processing"))
    assert [e["check"] for e in hidden if e["verdict"] == "inconclusive"] == ["duplicate_delivery"], "`expect` names it"


DRIVERS = {name: (unchecked(path).get("cluster") or {}).get("driver", "process") for name, path in shipped().items()}
CAPTURED = [name for name, driver in DRIVERS.items() if driver == "process"]


@pytest.mark.nightly(twin=SAMPLE)
@pytest.mark.parametrize("name", CAPTURED)
def test_the_wire_and_the_ledgers_agree_over_the_catalogue(name, tmp_path):
    variant = next(iter(load(shipped()[name]).variants), None)
    side = ("--variant", variant) if variant else ()
    ended = chaos("run", name, *side, "--set", "capture.payloads=all", "--runs-dir", tmp_path, timeout_s=850)
    runs = [Run(path.parent) for path in tmp_path.glob("*/resolved.json")]
    assert runs and (runs[0].audit / "summary").exists(), ended.err[-3000:]
    assert differences(summary(runs[0]), summary(judged_on_wire(runs[0], tmp_path / "wire"))) == []
