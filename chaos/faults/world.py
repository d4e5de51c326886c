"""The world of a fault: everything that it acts on and observes."""

from __future__ import annotations

import random
from dataclasses import dataclass

from chaos.clients.fleet import Fleet
from chaos.cluster.api import Cluster
from chaos.kafka.access import Access
from chaos.kafka.client import Kafka
from chaos.observer import Observer
from chaos.relay.control import Proxy
from chaos.scenario.model import Scenario


@dataclass(frozen=True)
class World:
    """The scenario, the cluster, the clients, the observer, and a separate Kafka connection for one fault.

    `rng` makes the random choices of all faults. `access` is the way to log in, `proxy` the wire proxy; both are None
    for runs without them.
    """

    scenario: Scenario
    cluster: Cluster
    fleet: Fleet
    observer: Observer
    kafka: Kafka
    rng: random.Random
    access: Access | None = None
    proxy: Proxy | None = None
