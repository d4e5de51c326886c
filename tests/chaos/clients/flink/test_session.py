"""Flink jobs in a session cluster with a real broker: attempts, the end of a task manager, and what is left."""

from __future__ import annotations

import json

import pytest

from chaos.errors import ClientError
from chaos.processes.process import find_marked
from chaos.run.directory import Run
from chaos.wait import wait_until
from tests.chaos.clients.conftest import WAIT_S, MakeFleet, until
from tests.support.ledgers import rows, topic_name

pytestmark = [pytest.mark.landing, pytest.mark.kafka]


@pytest.mark.nightly(
    twin="chaos/clients/flink/test_flink.py::test_a_flink_job_that_writes_restores_its_checkpoint_and_its_rows_agree"
)
@pytest.mark.parametrize("release", ["2.3.0", "1.20.5"])
def test_a_subtask_restores_its_checkpoint_in_another_task_manager(fleet: MakeFleet, run: Run, release: str) -> None:
    t = topic_name()
    f = fleet(f"""
topics: [{{name: {t}, partitions: 2, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, records: 3000, rate: 300/s, keys: 9}}]
consumers:
  - {{mode: assign, name: job, group: g{t}, topics: [{t}],
      config: {{parallelism.default: 2, heartbeat.interval: 300 ms}}, checkpoint_every: 500ms,
      commit: {{when: on_checkpoint, kind: async}},
      client: {{runtime: flink, release: {release}, session: {{}}}}}}
limits: {{clients: {WAIT_S}s}}
""")
    f.start_consumers()
    f.wait_assigned(WAIT_S)
    roles = [p.role for p in find_marked() if p.run_dir == run.path]
    assert roles == ["consumer job/1", "job-manager job", "producer shop/1", "task-manager job/1", "task-manager job/2"]
    f.start_producers()
    until(lambda: any(r["position"] and not r["partition"] for r in _checkpoints(run)), "no checkpoint is complete")

    hosts = f.state("job/1").task_managers()
    lost = hosts[f"{t}/0"]
    assert {lost, hosts[f"{t}/1"]} == {"job-1.1", "job-2.1"}
    session = f.session("job")
    number = session.number_of(lost)
    assert number is not None
    session.kill(number)
    with pytest.raises(ClientError, match="is gone already"):
        session.kill(number)
    until(lambda: f.state("job/1").task_managers().get(f"{t}/0") == hosts[f"{t}/1"], "the subtask did not restart")
    session.start(number)
    session.wait_ready(WAIT_S)
    until(f.producers_done, "not everything is sent")
    until(lambda: len({(d["partition"], d["offset"]) for d in _deliveries(run)}) == 3000, "not everything is read")
    f.check()
    assert f.stop_all(WAIT_S) == []
    assert f.unexpected_exits() == []

    life = {(r["incarnation"], r["event"]): json.loads(r["detail"]) for r in rows(run, "lifecycle", client="job/1")}
    crashed = [(incarnation, detail) for (incarnation, event), detail in life.items() if event == "crashed"]
    assert [detail["task_manager"] for _, detail in crashed] == [lost]
    dead = crashed[0][0]
    assert {i for i, event in life if event == "stopped"} == {1, 2, 3, 4} - {dead}
    begun = rows(run, "assignments", consumer="job/1", event="assigned")
    assert sorted((a["incarnation"], a["partition"], a["source"]) for a in begun) == sorted(
        [(dead, 0, "start"), (5 - dead, 1, "start"), (4, 0, "checkpoint")]
    )
    stored = [r["position"] for r in _checkpoints(run) if r["incarnation"] == dead]
    done = max(d["offset"] for d in _deliveries(run) if d["incarnation"] == dead) + 1
    position = next(a["position"] for a in begun if a["incarnation"] == 4)
    assert stored[-1] <= position <= done
    offsets = {i: [d["offset"] for d in _deliveries(run) if d["incarnation"] == i] for i in (dead, 5 - dead, 4)}
    assert offsets[dead] == list(range(done))
    assert offsets[4] == list(range(position, position + len(offsets[4])))
    assert offsets[5 - dead] == list(range(len(offsets[5 - dead]))), "the other subtask goes on"
    commits = rows(run, "commits", consumer="job/1")
    assert {(c["partition"], c["offset"]) for c in commits} <= {
        (r["partition"], r["position"]) for r in _checkpoints(run)
    }

    assert len(list((run.path / "clients").glob("*.tmp"))) == 2, "temporary files of the job and of its cluster"
    f.kill_all()
    assert not list((run.path / "clients").glob("*.tmp"))
    gone = lambda: not [p for p in find_marked() if p.run_dir == run.path]  # noqa: E731
    wait_until(gone, WAIT_S, "a process is left")


@pytest.mark.nightly(
    twin="chaos/clients/flink/test_flink.py::test_a_flink_job_that_writes_restores_its_checkpoint_and_its_rows_agree"
)
def test_a_task_manager_that_ends_by_itself_is_reported(fleet: MakeFleet, run: Run) -> None:
    t = topic_name()
    f = fleet(f"""
topics: [{{name: {t}, partitions: 1, replication_factor: 1}}]
producers: [{{name: shop, topic: {t}, records: 10}}]
consumers:
  - {{mode: assign, name: job, topics: [{t}], client: {{runtime: flink, session: {{}}}},
      config: {{taskmanager.memory.network.min: nonsense}}}}
limits: {{clients: {WAIT_S}s}}
""")
    with pytest.raises(ClientError, match=r"task-manager job/\d ended with 1: .*nonsense.*; see .*taskmanager-\d.log"):
        f.start_consumers()


def _checkpoints(run: Run) -> list[dict[str, int]]:
    return rows(run, "assignments", consumer="job/1", event="checkpoint")  # type: ignore[return-value]


def _deliveries(run: Run) -> list[dict[str, int]]:
    return rows(run, "deliveries", consumer="job/1")  # type: ignore[return-value]
