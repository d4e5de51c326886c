"""What a fault acts on and looks at."""

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
    """The cluster, the clients, the observer, a connection of the fault's own, its random choices, and the way in.

    `proxy` is the wire proxy, which only some runs have.
    """

    scenario: Scenario
    cluster: Cluster
    fleet: Fleet
    observer: Observer
    kafka: Kafka
    rng: random.Random
    access: Access | None = None
    proxy: Proxy | None = None
