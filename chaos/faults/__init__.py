"""Faults: what Aftershock breaks, how it heals it, and how it knows that it took effect.

A fault has three parts, and needs a driver that can do what its model in `chaos.scenario.faults` lists as `needs`:

- `inject` does the damage, at a target that is resolved at that moment, and says in words what it hit;
- `proof` looks, from outside the injector, for the change that shows the damage took effect (another leader, a member
  that left, a request that is not answered) and gives it as a sentence, or None while there is none;
- `heal` undoes it. It may be called at any time, more than once, also for an injection that failed half-way.

A fault without proof makes a run inconclusive: a test that passes although its fault never happened proves nothing.
"""

from __future__ import annotations

from chaos.faults.broker import BrokerKill, BrokerPause, BrokerStop, ControllerKill, CoordinatorKill
from chaos.faults.consumer import (
    ConsumerChurn,
    ConsumerCrash,
    ConsumerJoin,
    ConsumerLeave,
    ConsumerPause,
    ConsumerSlow,
)
from chaos.faults.consumer_seek import ConsumerSeek
from chaos.faults.disk import BrokerWipe, DiskLimit, LogTruncate
from chaos.faults.fault import Fault
from chaos.faults.groups import DeleteGroup, DeleteOffsets, ResetOffsets
from chaos.faults.leaders import ElectPreferred, ElectUnclean, Reassign
from chaos.faults.network import BrokerDisconnect, BrokerIsolate, LinkCut
from chaos.faults.resources import BrokerOom, BrokerThrottle, DiskFill
from chaos.faults.restart import RollingRestart
from chaos.faults.runner import FaultRun
from chaos.faults.topics import AddPartitions, CreateTopic, DeleteRecords, DeleteTopic, TopicConfig
from chaos.faults.world import World

FAULTS: dict[str, type[Fault]] = {
    "broker.kill": BrokerKill,
    "broker.pause": BrokerPause,
    "coordinator.kill": CoordinatorKill,
    "controller.kill": ControllerKill,
    "broker.stop": BrokerStop,
    "cluster.rolling_restart": RollingRestart,
    "broker.wipe": BrokerWipe,
    "log.truncate": LogTruncate,
    "disk.limit": DiskLimit,
    "broker.isolate": BrokerIsolate,
    "broker.disconnect": BrokerDisconnect,
    "link.cut": LinkCut,
    "broker.throttle": BrokerThrottle,
    "broker.oom": BrokerOom,
    "disk.fill": DiskFill,
    "consumer.slow": ConsumerSlow,
    "consumer.crash": ConsumerCrash,
    "consumer.seek": ConsumerSeek,
    "consumer.pause": ConsumerPause,
    "consumer.leave": ConsumerLeave,
    "consumer.join": ConsumerJoin,
    "consumer.churn": ConsumerChurn,
    "topic.add_partitions": AddPartitions,
    "topic.create": CreateTopic,
    "topic.delete": DeleteTopic,
    "topic.delete_records": DeleteRecords,
    "topic.config": TopicConfig,
    "group.delete_offsets": DeleteOffsets,
    "group.reset_offsets": ResetOffsets,
    "group.delete": DeleteGroup,
    "election.preferred": ElectPreferred,
    "election.unclean": ElectUnclean,
    "partition.reassign": Reassign,
}

__all__ = ["FAULTS", "Fault", "FaultRun", "World"]
