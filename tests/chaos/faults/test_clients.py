"""Faults of clients without a cluster: a client that runs is never started again."""

from types import SimpleNamespace

import pytest

from chaos.errors import ClientError
from chaos.faults import FAULTS
from chaos.scenario.load import parse

SCENARIO = """
title: t
topics: [{name: orders}]
producers: [{name: shop, topic: orders}]
consumers: [{mode: assign, name: replay, topics: [orders]}]
faults:
  - {name: consumer, kind: consumer.crash, target: {member: replay/1}, when: {at: 1s}}
  - {name: producer, kind: producer.crash, target: {member: shop/1}, when: {at: 1s}}
"""


class Fleet:
    """A fleet of clients; `crash` fails if the process resists."""

    def __init__(self, resists=False):
        self.incarnations, self.resists = [SimpleNamespace(alive=True)], resists

    def state(self, client):
        return self.incarnations[-1]

    def crash(self, client):
        if self.resists:
            raise ClientError("the process did not end")
        self.state(client).alive = False

    def restart(self, client):
        if self.state(client).alive:
            raise ClientError(f"{client} still runs")
        self.incarnations.append(SimpleNamespace(alive=True))


@pytest.mark.parametrize("index", [0, 1], ids=["consumer.crash", "producer.crash"])
def test_a_crashed_client_is_started_once_and_a_running_one_never(index):
    scenario = parse(SCENARIO, "t.yaml")

    def injected(fleet):
        world = SimpleNamespace(scenario=scenario, fleet=fleet)
        fault = FAULTS[scenario.faults[index].kind](scenario.faults[index])
        try:
            fault.inject(world)
        except ClientError:
            assert fault.proof(world) is None
        return fault, world

    fault, world = injected(Fleet())
    assert fault.proof(world) == f"the process of {fault.resolved} is gone"
    assert fault.heal(world) == f"{fault.resolved} started again"
    assert fault.heal(world) == "nothing to heal"
    assert len(world.fleet.incarnations) == 2
    assert fault.proof(world), "the proof remains after the heal"

    fault, world = injected(Fleet(resists=True))
    assert fault.heal(world) == "nothing to heal"

    fault, world = injected(Fleet())
    world.fleet.restart("by another fault")
    assert fault.heal(world) == "nothing to heal"
