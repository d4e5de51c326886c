"""Faults of connectors: what is ordered, when it counts as proven, and what heals it; mistakes in a scenario."""

import random
import sys
from types import SimpleNamespace

import pytest

from chaos.errors import ClientError, FaultError, ScenarioError
from chaos.faults import FAULTS
from chaos.faults.base import World
from chaos.scenario.load import of_mapping
from tests.support.connect import Worker

pytestmark = pytest.mark.slow

CONFIG = {"name": "printed", "tasks.max": "1"}
RESTART = "POST /connectors/printed/restart?includeTasks=true&onlyFailed=false"
SINK = {"connector.class": "org.example.Sink", "topics": "orders"}


@pytest.fixture
def workers():
    both = [Worker(), Worker()]
    for worker in both:
        worker.ready = True
        worker.runs("RUNNING", "RUNNING")
        worker.answers["/connectors/printed/config"] = (200, CONFIG)
    yield both
    for worker in both:
        worker.close()


def scenario(mode="distributed", connectors=("printed",), **fault):
    return of_mapping(
        {
            "title": "x",
            "topics": [{"name": "orders"}],
            "producers": [{"name": "shop", "topic": "orders", "value": {"template": '{"id": "{id}"}'}}],
            "apps": [
                {
                    "name": "sink",
                    "connect": {"connectors": dict.fromkeys(connectors, SINK), "mode": mode},
                    "group": "connect-printed",
                    "instances": 2,
                    "reads": ["orders"],
                }
            ],
            "effects": [{"name": "out", "log": {"app": "sink", "pattern": "(?P<id>.*)"}, "id": "id"}],
            "faults": [{"name": "f", "when": {"at": "1s"}, "target": {"app": "sink"}} | fault],
        },
        "x.yaml",
    )


def built(workers, **given):
    loaded = scenario(**given)
    names = enumerate(workers, 1)
    instances = [
        SimpleNamespace(name=f"sink/{n}", alive=True, ready=w.ready, values={"port": str(w.port)}) for n, w in names
    ]
    apps = SimpleNamespace(of=lambda name: instances)
    (spec,) = loaded.faults
    return FAULTS[spec.kind](spec), World(loaded, None, None, None, None, random.Random(1), apps=apps)


def states(connector, *tasks):
    return {"connector": {"state": connector}, "tasks": [{"id": n, "state": state} for n, state in enumerate(tasks)]}


def test_a_restart_is_proven_by_what_the_worker_restarted_and_only_when_all_tasks_run(workers):
    fault, world = built(workers, kind="connector.restart")
    workers[0].answers[RESTART] = (202, states("RESTARTING", "RESTARTING"))
    assert fault.inject(world) == "restarted connector printed and its tasks"
    assert (workers[0].orders, workers[1].orders) == ([RESTART], []), "one of a group is asked"
    workers[0].runs("RUNNING", "RESTARTING")
    assert fault.proof(world) is None
    workers[0].runs("RUNNING", "RUNNING")
    assert fault.proof(world) == "2 parts of connector printed restarted, and 1 tasks run"


def test_a_worker_of_a_group_that_starts_again_gets_no_order(workers):
    workers[0].ready = False
    workers[0].close()
    fault, world = built(workers, kind="connector.change", settings={"tasks.max": 3})
    fault.inject(world)
    assert workers[1].put == [("/connectors/printed/config", {**CONFIG, "tasks.max": "3"})]


def test_a_restart_of_nothing_has_no_proof(workers):
    fault, world = built(workers, kind="connector.restart")
    workers[0].answers[RESTART] = (202, states("RUNNING", "RUNNING"))
    fault.inject(world)
    assert fault.proof(world) is None


def test_a_pause_is_proven_when_the_connector_and_each_task_are_paused_and_healed_by_a_resume(workers):
    fault, world = built(workers, kind="connector.pause", mode="standalone")
    fault.inject(world)
    for worker in workers:
        assert worker.orders == ["PUT /connectors/printed/pause"], "each standalone worker has the connector"
    workers[0].runs("PAUSED", "PAUSED")
    workers[1].runs("PAUSED", "RUNNING")
    assert fault.proof(world) is None
    workers[1].runs("PAUSED", "PAUSED", "PAUSED")
    assert fault.proof(world) == "connector printed and 3 tasks are paused"
    fault.heal(world)
    assert workers[1].orders[-1] == "PUT /connectors/printed/resume"


def test_other_settings_are_put_beside_the_own_ones_and_the_heal_puts_the_ones_of_before(workers):
    fault, world = built(workers, kind="connector.change", settings={"tasks.max": 3})
    fault.inject(world)
    assert workers[0].put == [("/connectors/printed/config", {**CONFIG, "tasks.max": "3"})]
    assert fault.proof(world) is None, "the worker has the settings of before"
    workers[0].answers["/connectors/printed/config"] = (200, {**CONFIG, "tasks.max": "3"})
    assert fault.proof(world) == "connector printed has the settings, and 1 tasks run"
    fault.heal(world)
    assert workers[0].put[-1] == ("/connectors/printed/config", CONFIG)


def test_a_refusal_is_the_message_of_the_worker(workers):
    fault, world = built(workers, kind="connector.pause")
    workers[0].answers["PUT /connectors/printed/pause"] = (404, {"message": "Unknown connector printed"})
    with pytest.raises((ClientError, FaultError), match=r"sink/1 refuses PUT .*: Unknown connector printed"):
        fault.inject(world)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"connector": "other"}, "faults[0].connector"),
        ({"connectors": ("a", "b")}, "faults[0].connector: which one of a, b?"),
        ({"target": {"app": "sink/1"}}, "is of the whole application; write sink"),
    ],
)
def test_a_mistake_is_said_when_the_scenario_is_loaded(given, message):
    with pytest.raises(ScenarioError) as refused:
        scenario(kind="connector.pause", **given)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"target": {"app": "sink"}}, "faults[0].target.app: sink is no database of the run (postgres)"),
        ({"target": {"app": "db"}, "heal": {"after": "1s"}}, "faults[0].heal: nothing undoes the statement; give undo"),
        ({"target": {"app": "db/1"}}, "faults[0].target.app: database.execute is of the whole application; write db"),
    ],
)
def test_a_statement_needs_a_database_and_a_heal_what_undoes_it(fault, message):
    given = {"name": "f", "kind": "database.execute", "statement": "drop table a", "shown_by": "select true"}
    scenario = {
        "title": "t",
        "topics": [{"name": "orders"}],
        "producers": [{"name": "shop", "topic": "orders"}],
        "apps": [{"name": "sink", "command": [sys.executable]}, {"name": "db", "postgres": {}}],
        "faults": [{**given, "when": {"acked": 1}, **fault}],
    }
    with pytest.raises(ScenarioError) as e:
        of_mapping(scenario, "t.yaml")
    assert message in str(e.value)


@pytest.mark.parametrize(
    ("more", "partition", "message"),
    [
        ({}, "sink-offset/24", None),
        ({}, "sink-config/0", None),
        ({}, "sink-offset/25", "sink-offset has partitions 0 to 24, not 25"),
        ({"config": {"offset.storage.partitions": 3}}, "sink-offset/3", "sink-offset has partitions 0 to 2, not 3"),
        ({"config": {"status.storage.topic": "mine"}}, "mine/4", None),
        ({"mode": "standalone"}, "sink-status/0", "there is no topic 'sink-status'"),
    ],
)
def test_the_leader_of_a_topic_that_workers_keep_for_themselves_is_a_target(more, partition, message):
    connect = {"connectors": {"c": {"connector.class": "A", "topics": "orders"}}, **more}
    scenario = {
        "title": "t",
        "topics": [{"name": "orders"}],
        "producers": [{"name": "shop", "topic": "orders", "value": {"template": "order {id}"}}],
        "apps": [{"name": "sink", "connect": connect, "reads": ["orders"]}],
        "effects": [{"name": "printed", "log": {"app": "sink", "pattern": "(?P<id>.+)"}}],
        "faults": [{"name": "f", "kind": "broker.kill", "target": {"leader_of": partition}, "when": {"acked": 1}}],
    }
    if message is None:
        assert of_mapping(scenario, "t.yaml").faults[0].target.leader_of == partition
        return
    with pytest.raises(ScenarioError) as e:
        of_mapping(scenario, "t.yaml")
    assert message in str(e.value)
