"""The death of a task manager without Flink: its target, its proof, and that one comes back in its place."""

import random
from types import SimpleNamespace

import pytest

from chaos.errors import FaultError
from chaos.faults import FAULTS
from chaos.fleet.session import Subtask
from chaos.scenario.load import parse

SCENARIO = """
title: t
topics: [{name: orders, partitions: 4}]
producers: [{name: shop, topic: orders}]
consumers:
  - {mode: assign, name: job, topics: [orders], members: 2, config: {parallelism.default: 2},
     client: {runtime: flink, session: {}}}
faults: [{name: kill, kind: taskmanager.kill, target: TARGET, when: {at: 1s}}]
"""


class Session:
    """A session cluster of two task managers; each runs a subtask of job/1, and the second one one of job/2."""

    def __init__(self):
        self.job_manager = self
        self.starts, self.alive = {1: 1, 2: 1}, {1: True, 2: True}
        self.listed = ["job-1.1", "job-2.1"]
        self.ran = [self.subtask("job/1", 0, "job-1.1"), self.subtask("job/1", 1, "job-2.1")]
        self.ran.append(self.subtask("job/2", 0, "job-2.1"))

    @staticmethod
    def subtask(job, index, host, attempt=0, status="RUNNING"):
        return Subtask(job, "v", index, attempt, status, host)

    def name_of(self, number):
        return f"job-{number}.{self.starts[number]}"

    def number_of(self, name):
        return next((n for n in self.starts if self.name_of(n) == name), None)

    def task_managers(self):
        return self.listed

    def subtasks(self):
        return self.ran

    def kill(self, number):
        self.alive[number] = False

    def start(self, number):
        if self.alive[number]:
            return False
        self.starts[number] += 1
        self.alive[number] = True
        return True

    def wait_ready(self, timeout_s):
        assert all(self.alive.values())


def made(target="{task_manager: job/2}", hosts=None):
    scenario = parse(SCENARIO.replace("TARGET", target), "t.yaml")
    session = Session()
    client = SimpleNamespace(task_managers=lambda: hosts or {})
    fleet = SimpleNamespace(session=lambda entry: session, state=lambda name: client)
    world = SimpleNamespace(scenario=scenario, fleet=fleet, rng=random.Random(0))
    return FAULTS["taskmanager.kill"](scenario.faults[0]), world, session


def test_it_is_proven_when_it_is_no_longer_listed_and_each_of_its_subtasks_has_another_attempt():
    fault, world, session = made()
    assert fault.proof(world) is None
    assert fault.inject(world) == ("killed task manager 2 of job, which ran subtask 1 of job/1, subtask 0 of job/2")
    assert fault.evidence == {"task_manager": "job-2.1", "subtasks": ["subtask 1 of job/1", "subtask 0 of job/2"]}

    assert fault.proof(world) is None, "the job manager still lists it"
    session.listed = ["job-1.1"]
    assert fault.proof(world) is None, "no subtask has another attempt"
    session.ran[1] = session.subtask("job/1", 1, "job-1.1", attempt=1)
    assert fault.proof(world) is None, "one subtask has no other attempt"
    session.ran[2] = session.subtask("job/2", 0, "(unassigned)", attempt=1, status="SCHEDULED")
    assert fault.proof(world) == (
        "the job manager lists 1 task managers, without job-2.1; subtask 1 of job/1 is in attempt 2 (RUNNING), "
        "subtask 0 of job/2 is in attempt 2 (SCHEDULED)"
    )
    session.listed = None
    assert fault.proof(world) is None, "the job manager does not answer"


def test_it_is_proven_with_a_lower_parallelism_once_the_rest_of_the_job_runs():
    fault, world, session = made("{task_manager: job/1}")
    session.ran = [session.subtask("job/1", i, "job-1.1" if i < 2 else "job-2.1") for i in range(4)]
    fault.inject(world)
    session.listed = ["job-2.1"]
    session.ran = []
    assert fault.proof(world) is None, "the job is between two attempts"
    session.ran = [session.subtask("job/2", 0, "job-2.1")]
    assert fault.proof(world) is None, "only another job runs"
    session.ran = [session.subtask("job/1", 0, "job-2.1", attempt=1)]
    assert fault.proof(world) == (
        "the job manager lists 1 task managers, without job-1.1; subtask 0 of job/1 is in attempt 2 (RUNNING), "
        "subtask 1 of job/1 does not come back: job/1 runs with parallelism 1"
    )
    session.ran = [session.subtask("job/1", 0, "job-2.1", attempt=1, status="DEPLOYING")]
    assert fault.proof(world) is None, "the subtask that is listed does not run yet, so the others may follow"


def test_it_is_healed_once_by_another_one_in_its_place():
    fault, world, session = made()
    assert fault.heal(world) == "nothing to heal"
    fault.inject(world)
    assert fault.heal(world) == "task manager 2 of job started again as job-2.2"
    assert fault.heal(world) == "nothing to heal"
    session.listed = ["job-1.1", "job-2.2"]
    session.ran = [session.subtask(s.job, s.index, s.task_manager, attempt=1) for s in session.ran]
    assert fault.proof(world), "it was proven late, after the heal"


@pytest.mark.parametrize(
    ("target", "hosts", "resolved"),
    [
        ("{task_manager_of: job/2}", None, "task manager 2 of job"),
        ("{task_manager_of: job/1}, reads: orders/0", {"orders/0": "job-1.1"}, "task manager 1 of job"),
        ("{task_manager_of: job/1}, reads: orders/0", {"orders/0": "job-2.1"}, "task manager 2 of job"),
    ],
)
def test_it_hits_the_task_manager_that_runs_the_job_or_reads_the_partition(target, hosts, resolved):
    fault, world, session = made(target, hosts)
    fault.inject(world)
    assert fault.resolved == resolved
    assert session.alive == {1: resolved != "task manager 1 of job", 2: resolved != "task manager 2 of job"}


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("{task_manager: job/1}", "task manager 1 of job runs no subtask, so its end would restart none"),
        ("{task_manager_of: job/1}", "no task manager runs a subtask of job/1"),
        ("{task_manager_of: job/1}, reads: orders/0", "no task manager runs a subtask that reads orders/0 of job/1"),
    ],
)
def test_it_is_refused_where_nothing_would_restart(target, why):
    fault, world, session = made(target)
    session.ran = [session.subtask("job/1", 0, "(unassigned)", attempt=1, status="SCHEDULED")]
    with pytest.raises(FaultError, match=why):
        fault.inject(world)
    assert all(session.alive.values())
    assert fault.heal(world) == "nothing to heal"
