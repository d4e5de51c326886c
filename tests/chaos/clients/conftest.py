"""Fleets on the shared broker, and runs that end all their processes."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from chaos.fleet.fleet import Fleet
from chaos.processes.process import end_run
from chaos.run.directory import Run
from chaos.run.events import now_us
from chaos.scenario.load import parse
from chaos.scenario.resolve import resolve
from chaos.wait import wait_until
from tests.conftest import QUICK_SESSIONS
from tests.support.ledgers import rows

MakeFleet = Callable[[str], Fleet]
WAIT_S = 60


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = Run.create(tmp_path, f"run-{secrets.token_hex(4)}")
    yield run
    end_run(run.path)


@pytest.fixture
def fleet(run: Run, bootstrap: str) -> Iterator[Callable[[str], Fleet]]:
    """Return a function that creates the topics and the fleet of a scenario: YAML without title and cluster."""
    fleets: list[Fleet] = []

    def make(text: str) -> Fleet:
        head = f"title: A test of clients\ncluster: {{brokers: 1, config: {json.dumps(QUICK_SESSIONS)}}}\n"
        scenario = parse(head + text, "test")
        resolved = resolve(scenario, run_id=run.run_id, name="test", created_us=now_us(), seed=1, overrides=[])
        topics = [NewTopic(t.name, t.partitions, t.replication_factor) for t in scenario.topics]
        with admin(bootstrap) as a:
            for future in a.create_topics(topics).values():
                future.result(30)
        fleets.append(Fleet(run, resolved, bootstrap))
        return fleets[-1]

    yield make
    for fleet in fleets:
        fleet.kill_all()


@contextmanager
def admin(bootstrap: str) -> Iterator[AdminClient]:
    yield AdminClient({"bootstrap.servers": bootstrap})


def until(condition: Callable[[], object], why: str) -> None:
    """Wait at most `WAIT_S` for a condition."""
    wait_until(condition, WAIT_S, why)


def offsets(run: Run, consumer: str) -> list[tuple[int, int]]:
    """Return partition and offset of each delivery of a consumer."""
    return [(d["partition"], d["offset"]) for d in rows(run, "deliveries", consumer=consumer)]


def crash_while_reading(fleet: Fleet, name: str) -> None:
    """Start all clients, crash and restart the first one of an entry amid its records, and wait for the producers."""
    fleet.start_consumers()
    fleet.wait_assigned(WAIT_S)
    fleet.start_producers()
    until(lambda: fleet.delivered(name) >= 100, "nothing is delivered")
    fleet.crash(f"{name}/1")
    fleet.restart(f"{name}/1")
    until(fleet.producers_done, "producers did not finish")


def take_half_over(fleet: Fleet) -> None:
    """Start the entry a, and the entry b amid the records: each has two of four partitions then."""
    first, second = fleet._scenario.consumers
    fleet._start_all([first])
    until(lambda: len(fleet.state("a/1").assigned()) == 4, "not assigned")
    fleet.start_producers()
    until(lambda: fleet.delivered("a") > 0, "nothing is delivered")
    fleet._start_all([second])
    until(lambda: len(fleet.state("b/1").assigned()) == len(fleet.state("a/1").assigned()) == 2, "not rebalanced")
