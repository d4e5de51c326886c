"""Clients on two machines, each with a host name, a boot id and a wrong wall clock, and an existing cluster: they have
the verdicts of one machine, and a machine without its cable is named.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chaos.cluster.process.driver import ProcessCluster
from chaos.cluster.settings import ClusterSpec
from chaos.processes.ports import free_ports
from chaos.processes.process import ProcessId
from chaos.run.directory import Run
from chaos.run.events import read_events
from chaos.wait import wait_until
from chaos.workers.workers import ADDRESS
from checks.audit.facts.machine_clocks import MOST_US
from checks.evidence import audit_rows, ledger_rows
from tests.support.netns import Network, why_no_namespaces
from tests.support.platform import ROOT, Ended, chaos, left_running

WHY_NOT = why_no_namespaces()
pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT),
    pytest.mark.nightly(
        twin="system/test_fleet.py::test_clients_on_two_workers_pass_and_every_record_is_in_the_ledger"
    ),
]

TEXT = """
title: two machines
topics: [{name: orders, partitions: 4, replication_factor: 1}]
producers: [{name: shop, topic: orders, count: 2, records: RECORDS, rate: 250/s}]
consumers:
  - {mode: subscribe, name: billing, group: billing, members: 2, topics: [orders], per_record: 1ms,
     config: {auto.offset.reset: earliest, session.timeout.ms: 6000}}
faults:
  # each record now takes 2 s, so after 1.5 s the member has polled a batch that it has not processed
  - {name: slow, kind: consumer.slow, target: {member: billing/2}, per_record: 2s,
     when: {delivered: {consumer: billing, records: 1000}}, heal: {when: {after: crash.healed}}}
  - {name: crash, kind: consumer.crash, target: {member: billing/2}, when: {after: slow + 1500ms},
     heal: {when: {after: crash.proven}}}
variants:
  committed-after: {}
  committed-before:
    set: {consumers.billing.commit: {when: before_processing, kind: sync}}
    expect: {lost_processing: 0}
"""
AHEAD_S = {"east": 3.0, "west": -2.0}
"""How wrong the clocks of the machines are."""
CLIENTS = [["billing/1", "shop/1"], ["billing/2", "shop/2"]]
RECORDS = 1500


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    with Network(tmp_path_factory.mktemp("machines"), [*AHEAD_S]) as made:
        for name, ahead_s in AHEAD_S.items():
            made.machines[name].set_clock(ahead_s)
        yield made


@pytest.fixture(scope="module")
def bootstrap(network: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a cluster that is there already, which all machines reach."""
    (port,) = free_ports(1)
    address = f"{network.address}:{port}"
    listeners = {
        "listeners": f"BRIDGE://{address}",
        "advertised.listeners": f"BRIDGE://{address}",
        "listener.security.protocol.map": "BRIDGE:PLAINTEXT",
    }
    run = Run.create(tmp_path_factory.mktemp("cluster"), "theirs")
    cluster = ProcessCluster.deploy(run, ClusterSpec(1, extra=lambda broker: listeners), ProcessId.current(), 3600)
    yield address
    cluster.destroy()


@dataclass
class Fleet:
    """A run of which the workers are on the machines."""

    drive: subprocess.Popen[str]
    run: Run
    agents: list[subprocess.Popen[bytes]]

    def finish(self) -> dict[str, Any]:
        """Wait for the end of all, and return the result with the exit code, and those of the agents."""
        _, errors = self.drive.communicate(timeout=300)
        assert self.run.result.exists(), errors[-3000:]
        codes = [agent.wait(60) for agent in self.agents]
        return json.loads(self.run.result.read_text()) | {"code": self.drive.returncode, "agents": codes}


def scenario(folder: Path, records: int = RECORDS) -> Path:
    path = folder / "machines.yaml"
    path.write_text(TEXT.replace("RECORDS", str(records)))
    return path


def drive(network: Network, bootstrap: str, folder: Path, variant: str, records: int = RECORDS) -> Fleet:
    """Start a run with its workers on the machines."""
    argv = [sys.executable, "-m", "tests.system.fleet_drive", str(scenario(folder, records)), variant, bootstrap]
    env = {**os.environ, ADDRESS: network.address}
    process = subprocess.Popen(
        [*argv, str(folder / "runs")], cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    run = Run(Path(process.stdout.readline().strip()))
    agents = [
        machine.start(
            *(sys.executable, "-m", "chaos.workers", str(run.path), str(number)),
            log=machine.folder / "agent.log",
            cwd=ROOT,
        )
        for number, machine in enumerate(network.machines.values(), start=1)
    ]
    return Fleet(process, run, agents)


def on_workers(run: Run, key: str) -> list[Any]:
    """Return all values of a key of each worker, in the order of their numbers."""
    rows = ledger_rows(run, "cluster", ["entity", "key", "value"])
    found: dict[str, list[Any]] = {"worker:worker-1": [], "worker:worker-2": []}
    for row in rows:
        if row["entity"].startswith("worker:") and row["key"] == key:
            found[row["entity"]].append(json.loads(row["value"]))
    return [*found.values()]


def unmet(result: dict[str, Any]) -> set[tuple[str, str, str]]:
    """Return what the verdict depends on: each expectation that did not pass, with its verdict."""
    return {
        (e["check"], e["split"], e["verdict"])
        for e in result["expectations"]
        if e["verdict"] not in ("pass", "not applicable")
    }


def alone(bootstrap: str, folder: Path, variant: str) -> Ended:
    """Run on this machine, without workers."""
    given = ["--driver", "attached", "--bootstrap", bootstrap, "--variant", variant, "--json"]
    return chaos("run", scenario(folder), *given, "--runs-dir", folder / "alone")


def latency_us(result: dict[str, Any]) -> int:
    """Return the median time from the send call to the end of processing, which is often on the other machine."""
    (median,) = [m["value_us"] for m in result["metrics"] if (m["metric"], m["stat"]) == ("end_to_end_latency", "p50")]
    return int(median)


def idle(network: Network, runs_dir: Path) -> bool:
    """Return whether no process of a run or of a machine is left."""
    return left_running(runs_dir) == [] and all(machine.pids() == [] for machine in network.machines.values())


@pytest.mark.parametrize(
    ("variant", "verdict", "code"), [("committed-after", "pass", 0), ("committed-before", "fail", 1)]
)
def test_clients_on_two_machines_have_the_verdict_of_one(network, bootstrap, tmp_path, variant, verdict, code):
    here = alone(bootstrap, tmp_path, variant)
    assert (here.code, here.result["verdict"]) == (code, verdict), here.result["sentence"]
    fleet = drive(network, bootstrap, tmp_path, variant)
    result = fleet.finish()
    assert (result["code"], result["verdict"], result["agents"]) == (code, verdict, [0, 0]), result["sentence"]
    assert unmet(result) == unmet(here.result)
    assert result["counts"]["sent"] == here.result["counts"]["sent"] == 2 * RECORDS
    # without the correction of times it is more than a second
    assert latency_us(result) == pytest.approx(latency_us(here.result), abs=500_000)
    assert_machines_are_named(fleet.run)
    assert idle(network, tmp_path) and not any(any(m.tmp.iterdir()) for m in network.machines.values())


def assert_machines_are_named(run: Run) -> None:
    """Assert that ledger and report have hosts, clients and clocks, and that the true offsets are within these."""
    hosts = [hosts[0] for hosts in on_workers(run, "host")]
    assert [(host["name"], host["beside_drive"]) for host in hosts] == [(name, False) for name in AHEAD_S]
    assert [sorted(clients[0]) for clients in on_workers(run, "clients")] == CLIENTS
    for clocks, ahead_s in zip(on_workers(run, "clock"), AHEAD_S.values(), strict=True):
        wrong = [(ahead, known) for ahead, known in clocks if abs(ahead - ahead_s * 1e6) > known]
        assert wrong == [] and len(clocks) > 5
    lived = {(r["client"], r["event"]): r["at_us"] for r in ledger_rows(run, "lifecycle", ["client", "event", "at_us"])}
    for client, ahead_s in (("shop/1", AHEAD_S["east"]), ("shop/2", AHEAD_S["west"])):
        # by the clock of the machine, and just after that by the clock of the drive
        assert lived[client, "stopped"] - lived[client, "usage"] == pytest.approx(ahead_s * 1e6, abs=1.5e6)
    counts = {(r["name"], r["scope"]): r["value"] for r in audit_rows(run, "counts")}
    known = [counts["clock_uncertainty_us", f"worker-{n}"] for n in (1, 2)]
    assert 0 < max(known) < MOST_US and counts["clock_slack_us", ""] == sum(known)
    page = re.sub(r"<[^>]+>|\s+", " ", run.report.read_text())
    for name, shown in (("east", r"\+3 s"), ("west", "\N{MINUS SIGN}2 s")):
        assert re.search(rf"{name} +process \d+, on another machine .{{,60}} {shown} +± [\d.]+ \S?s ", page), name


def test_a_machine_without_its_cable_is_named_and_nothing_counts_as_lost(network, bootstrap, tmp_path):
    fleet, west = drive(network, bootstrap, tmp_path, "committed-after", records=100_000), network.machines["west"]

    def acked() -> bool:
        return any(e["kind"] == "progress" and e["acked"] > 200 for e in read_events(fleet.run))

    wait_until(acked, 180, lambda: f"nothing was acknowledged; see {fleet.run.path}")
    west.plug(out=True)
    try:
        result = fleet.finish()
        assert (result["code"], result["verdict"], result["agents"]) == (3, "inconclusive", [0, 1]), result["sentence"]
        gone = r"worker-2 \(process \d+ on west\) is gone: .*, and with it the clients shop/2, billing/2"
        assert re.search(gone, result["problems"][0]) and re.search(gone, result["sentence"]), result["problems"]
        assert [e["check"] for e in result["expectations"] if e["verdict"] == "fail"] == []
        assert (result["totals"], result["findings"], result["tolerated"]) == ([], [], [])
        assert not re.search(r"\blost\b|not delivered|unknown outcome", result["sentence"]), result["sentence"]
        assert idle(network, tmp_path)
    finally:
        west.plug(out=False)
    rows = ledger_rows(fleet.run, "lifecycle", ["client", "event", "detail"])
    crashed = {row["client"]: json.loads(row["detail"]) for row in rows if row["event"] == "crashed"}
    assert all(crashed[client]["unexpected"] for client in CLIENTS[1])
    log = (west.folder / "agent.log").read_text()
    kept = re.search(r"worker-2 lost its drive: .*; its ledger stays in (\S+)", log)
    assert kept and Path(kept[1]).is_relative_to(west.tmp), log
    assert any((Path(kept[1]) / "ledger").rglob("*.*"))
