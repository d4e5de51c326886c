"""Workers as processes of this machine: who is let in, the clients that they run, and their end, in order or not."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any, cast

import pytest

from chaos.clients.protocol import ProducerSpec
from chaos.clients.roster import ClientState
from chaos.errors import ClientError, ScenarioError
from chaos.ledger.seal import read_seal, seal
from chaos.ledger.store import VARIABLE
from chaos.processes.process_table import find_marked
from chaos.run.directory import Run
from chaos.run.events import now_us
from chaos.scenario.load import parse
from chaos.scenario.model import Scenario
from chaos.scenario.runtimes.choice import Client as Library
from chaos.wait import wait_until
from chaos.workers import workers as workers_module
from chaos.workers.connection import Channel, connect, published
from chaos.workers.remote import Worker
from chaos.workers.workers import KNOWN_US, TIMEOUT, Workers, place
from tests.chaos.workers.conftest import TEXT

WAIT_S = 60


def until(condition: Callable[[], object], why: str) -> None:
    wait_until(condition, WAIT_S, why)


def running(run: Run) -> list[str]:
    return [found.role for found in find_marked() if found.run_dir == run.path]


def producer(run: Run, workers: Workers, client: str) -> ClientState:
    """Start a producer that waits for the order to start, on its worker."""
    host = workers.host_of(client)
    host.prepare([Library()])
    spec = ProducerSpec.model_validate(
        {
            "run_id": run.run_id,
            "run_token": "12345678",
            "ledger": host.written.ledger,
            "client": client,
            "bootstrap": "127.0.0.1:1",
            "topic": "orders",
            "value_size": 100,
            "records": 10,
            "hold": True,
        }
    )
    process = host.start(spec, Library(), run.logs / f"{client.replace('/', '-')}.log", {})
    state = ClientState(client, "producer", 1, process)
    state.listen(lambda _: None)
    until(lambda: state.started.is_set() or not state.alive, "not started")
    assert state.alive, state.last_lines()
    return state


def test_clients_are_placed_in_turn_and_threads_of_a_process_stay_together(scenario: Scenario) -> None:
    assert dict(place(scenario, 2)) == {
        **{"shop/1": 1, "shop/2": 2, "shop/3": 1},
        **{"billing/1": 2, "billing/2": 2, "billing/3": 1, "billing/4": 1},
    }


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "fleet:",
            "faults: [{kind: clock.jump, name: j, target: {member: shop/1}, by: 5s, when: {acked: 1}}]\nfleet:",
            "clock of a client",
        ),
        ("{workers: 2}", "{workers: 0}", "fleet.workers"),
    ],
)
def test_what_workers_cannot_do_is_refused(old: str, new: str, said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        parse(TEXT.replace(old, new), "test")


@pytest.mark.parametrize("stored", [False, True])
def test_clients_run_on_their_workers_and_their_ledgers_become_one(
    run: Run, scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: bool
) -> None:
    monkeypatch.setenv(VARIABLE, f"file://{tmp_path}/there" if stored else "")
    with Workers(run, scenario, start=True) as workers:
        assert (run.path / "workers" / "secret").stat().st_mode & 0o777 == 0o600
        states = [producer(run, workers, client) for client in ("shop/1", "shop/2")]
        assert states[0].shown_us(WAIT_S) and states[1].shown_us(WAIT_S)
        assert workers.host_of("shop/1").written.incarnations("shop/1") == [1]
        assert workers.host_of("shop/2").written.incarnations("shop/1") == []
        assert states[0].process.pause()
        assert states[0].process.signal(signal.SIGCONT)
        states[1].kill(WAIT_S)
        assert (states[1].exit_code, workers.all[1].lost) == (-signal.SIGKILL, "")
        with pytest.raises(ClientError, match="takes no order"):
            states[1].order({"do": "stop"})
        states[0].order({"do": "stop"})
        assert states[0].gone.wait(WAIT_S) and states[0].exit_code == 0
        assert states[0].meter.total and states[0].meter.total.peak_rss_bytes > 0
        delivered, missing = workers.collect()
        assert missing == {}
        seal(run.ledger, delivered, missing, workers.store)
        for delivery in delivered:
            delivery.move_logs()
        workers.forget()
        work = [worker.written.ledger for worker in workers.all]
    assert read_seal(run.ledger).tables["lifecycle"].rows == 3
    sends = (tmp_path / "there" / "run" if stored else run.path) / "ledger" / "sends.parquet"
    assert len(list(sends.iterdir())) == 3 and [*tmp_path.rglob("sends.parquet")] == [sends]
    assert not (tmp_path / "there" / "run" / "workers").exists() or not any((tmp_path / "there").rglob("worker-*"))
    assert {path.name for path in run.logs.glob("shop-*.log")} == {"shop-1.log", "shop-2.log"}
    assert not any(folder.exists() for folder in work)
    assert not (run.path / "workers" / "secret").exists() and running(run) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_worker_that_is_killed_is_named_and_its_clients_crashed(
    run: Run, scenario: Scenario, number: signal.Signals
) -> None:
    with Workers(run, scenario, start=True) as workers:
        one, other = producer(run, workers, "shop/1"), producer(run, workers, "shop/2")
        workers._spawned[0].identity.signal(number)
        until(lambda: not one.alive, "its end was not noticed")
        assert one.exit_code is None and "worker-1" in one.last_lines()[0] and other.alive
        with pytest.raises(ClientError, match=r"worker-1 .* is gone: .* the clients shop/1, shop/3, billing/3"):
            workers.check()
        until(lambda: not [role for role in running(run) if "shop/1" in role], "its client outlives it")
        delivered, missing = workers.collect()
        assert [d.worker for d in delivered] == ["worker-2"] and "worker-1" in missing["worker-1"]
        seal(run.ledger, delivered, missing)
    assert list(read_seal(run.ledger).missing) == ["worker-1"]
    assert running(run) == []


@pytest.mark.parametrize("stored", [False, True])
def test_a_part_that_is_not_the_one_that_was_put_is_missing(
    run: Run, scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: bool
) -> None:
    monkeypatch.setenv(VARIABLE, f"file://{tmp_path}/there" if stored else "")
    folder = tmp_path / "there" / "run" if stored else run.path
    with Workers(run, scenario, start=True) as workers:
        call = workers.all[0].call

        def damaging(name: str, *arguments: float, **named: object) -> object:
            answer = call(name, *arguments, **named)
            if name == "deliver":
                part = folder / "workers" / "worker-1" / "sends" / "part-00000.parquet"
                part.write_bytes(part.read_bytes()[:-1] + (b"" if stored else b"?"))
            return answer

        monkeypatch.setattr(workers.all[0], "call", damaging)
        delivered, missing = workers.collect()
        assert [d.worker for d in delivered] == ["worker-2"]
        assert "part-00000.parquet is not the file that worker-1 put there" in missing["worker-1"]
        assert f"stays in {workers.all[0].ledger} on " in missing["worker-1"]


def test_only_who_knows_the_secret_is_let_in(run: Run, scenario: Scenario) -> None:
    with Workers(run, scenario, start=True) as workers:
        address = published(run)
        assert address is not None
        with Client((address.host, address.port)) as raw, pytest.raises((ClientError, EOFError, OSError)):
            channel = Channel(raw)
            channel.prove(b"guessed", "worker", "drive")
        twice = connect(run, address)
        twice.hello({"number": 1, "host": "h", "machine": "m", "pid": 1, "ledger": "l"})
        with pytest.raises((EOFError, OSError)):
            twice.receive(WAIT_S)
        workers.check()
        assert [worker.name for worker in workers.all] == ["worker-1", "worker-2"]


def test_workers_that_do_not_come_are_named(run: Run, scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TIMEOUT, "0.2")
    with (
        pytest.raises(ClientError, match=r"2 of 2 workers did not connect \(worker-1, worker-2\).*worker_concurrency"),
        Workers(run, scenario, start=False),
    ):
        pass
    assert not (run.path / "workers" / "secret").exists()


def test_a_time_out_that_is_no_number_is_refused(run: Run, scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TIMEOUT, "5m")
    with pytest.raises(ClientError, match=f"{TIMEOUT}=5m is no number of seconds"), Workers(run, scenario, start=False):
        pass


def test_the_placement_is_recorded_and_the_clocks_of_one_machine_agree(run: Run, scenario: Scenario) -> None:
    rows: dict[tuple[str, str], object] = {}
    with Workers(run, scenario, start=True) as workers:
        workers.watch(lambda entity, key, value: rows.update({(entity, key): value}))
        until(lambda: {("worker:worker-1", "clock"), ("worker:worker-2", "clock")} <= rows.keys(), "no comparison")
    ahead_us, uncertainty_us = json.loads(json.dumps(rows["worker:worker-2", "clock"]))
    assert abs(ahead_us) <= uncertainty_us
    assert rows["worker:worker-1", "clients"] == ["shop/1", "shop/3", "billing/3", "billing/4"]
    assert Path("/proc").exists() is False or rows["worker:worker-1", "host"]


class SlowAtFirst:
    """A worker of which the first answers about its clock, 2 s ahead, take long. It does not answer after `answers`."""

    name, machine, host, pid = "worker-1", "another machine", "node-7", 1

    def __init__(self, slow: int, answers: int = 10**6) -> None:
        self.slow, self.answers, self.asked, self.lost = slow, answers, 0, ""

    def call(self, name: str, timeout_s: float) -> int:
        self.asked += 1
        if self.asked > self.answers:
            raise ClientError("no answer")
        time.sleep(0.3 if self.asked <= self.slow else 0.001)
        return now_us() + 2_000_000

    def lose(self, reason: str) -> None:
        self.lost = reason

    def end(self) -> None:
        self.lost = "ended"


@pytest.mark.parametrize(("slow", "answers"), [(0, 10**6), (2, 10**6), (10**6, 10**6), (10**6, 1)])
def test_clients_start_when_the_clocks_are_known_and_slow_comparisons_before_are_left_out(
    run: Run, scenario: Scenario, monkeypatch: pytest.MonkeyPatch, slow: int, answers: int
) -> None:
    monkeypatch.setattr(workers_module, "KNOWN_TIMEOUT_S", 2.0)
    workers, worker = Workers(run, scenario, start=False), SlowAtFirst(slow, answers)
    workers._by_number[1] = cast(Worker, worker)
    clocks: list[tuple[int, int]] = []
    began = time.monotonic()
    workers.watch(lambda entity, key, value: clocks.append(cast(Any, value)) if key == "clock" else None)
    took_s = time.monotonic() - began
    try:
        if slow in (0, 2):
            assert slow * 0.3 <= took_s < 2 and clocks[0][1] <= KNOWN_US
        elif answers == 1:
            assert took_s < 2 and clocks == [] and worker.lost
        else:  # it goes on without, and the audit decides
            assert 2 <= took_s < 4
            until(lambda: clocks and clocks[0][1] > KNOWN_US, "no comparison")
        assert all(abs(ahead_us - 2_000_000) <= known_us for ahead_us, known_us in clocks)
    finally:
        workers.__exit__()


def test_a_delay_of_the_drive_between_its_clocks_is_in_the_uncertainty(
    run: Run, scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    def delayed_us() -> int:
        at_us = now_us()
        time.sleep(0.02)
        return at_us

    monkeypatch.setattr(workers_module, "now_us", delayed_us)
    monkeypatch.setattr(workers_module, "KNOWN_US", 100_000)
    workers = Workers(run, scenario, start=False)
    workers._by_number[1] = cast(Worker, SlowAtFirst(0))
    clocks: list[tuple[int, int]] = []
    workers.watch(lambda entity, key, value: clocks.append(cast(Any, value)) if key == "clock" else None)
    workers.__exit__()
    assert clocks and all(abs(ahead_us - 2_000_000) <= known_us for ahead_us, known_us in clocks)
