"""Rules of share groups: what keeps them from running, or from being judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chaos.faults.base import FaultSpec
from chaos.faults.consumers import ConsumerResumeSpec, ConsumerSeekSpec
from chaos.faults.groups import ResetShareOffsetsSpec
from chaos.faults.topics import DeleteTopicSpec, RecreateTopicSpec
from chaos.setup.model import Setup
from chaos.setup.share import LIMIT, RESET, Share

SHARES_SINCE = (4, 2)
"""The first release of Apache Kafka in which share groups are ready for production."""
LIMIT_SINCE = (4, 3)
"""The first release in which a group may set its delivery limit (KIP-1240); before, only the brokers do."""
OF_GROUP = {
    "auto.offset.reset": RESET,
    "isolation.level": "share.isolation.level",
    "session.timeout.ms": "share.session.timeout.ms",
    "heartbeat.interval.ms": "share.heartbeat.interval.ms",
    "enable.auto.commit": "",
    "group.instance.id": "",
    "group.protocol": "",
    "group.remote.assignor": "",
    "interceptor.classes": "",
    "partition.assignment.strategy": "",
}
"""Settings that KafkaShareConsumer refuses, with the setting of the group in their place."""
RESETS = ("earliest", "latest")


def share_group_problems(setup: Setup, faults: Sequence[FaultSpec]) -> Iterator[str]:
    """Yield what keeps share groups from running, or from being judged."""
    for i, entry in enumerate(setup.consumers):
        if isinstance(entry, Share):
            yield from _share_broker_problems(setup, f"consumers[{i}]", entry)
            yield from _share_setting_problems(f"consumers[{i}]", entry)
    groups: dict[str, Share] = {}
    others = {entry.group for entry in setup.readers}
    for entry in setup.shares:
        first = groups.setdefault(entry.group, entry)
        if entry.group in others:
            yield f"consumers: {entry.group} is the group id of a share group and of other consumers; use two ids"
        if first.settings != entry.settings:
            yield f"consumers: {first.name} and {entry.name} give the share group {entry.group} different settings"
    for i, fault in enumerate(faults):
        yield from _share_fault_problems(setup, f"faults[{i}]", fault, groups)


def _share_broker_problems(setup: Setup, where: str, entry: Share) -> Iterator[str]:
    if setup.attached:
        return
    release = tuple(int(part) for part in setup.cluster.kafka.split("."))[:2]
    if release < SHARES_SINCE:
        yield f"{where}.mode: share groups need brokers of Kafka 4.2 or later, not {setup.cluster.kafka}"
    elif release < LIMIT_SINCE and LIMIT in entry.settings:
        yield (
            f"{where}.settings: {LIMIT} is a setting of groups from Kafka 4.3 on, not in {setup.cluster.kafka}; set "
            "group.share.delivery.count.limit of the brokers in cluster.config"
        )


def _share_setting_problems(where: str, entry: Share) -> Iterator[str]:
    for name in sorted(entry.settings):
        if not name.startswith("share."):
            yield f"{where}.settings: {name} is no setting of a share group; their names begin with share."
    if (reset := entry.setting(RESET)) not in RESETS:
        yield f"{where}.settings: {RESET} is {reset!r}; the audit knows {' and '.join(RESETS)}"
    for name in sorted(entry.config):
        if name in OF_GROUP:
            instead = f"set {OF_GROUP[name]} in settings" if OF_GROUP[name] else "a share group has nothing like it"
            yield f"{where}.config: KafkaShareConsumer refuses {name}: {instead}"
    for name, key in (("share.acknowledgement.mode", "commit"), ("max.poll.records", "max_poll_records")):
        if name in entry.config:
            yield f"{where}.config: {name} is given by the key {key}"


def _share_fault_problems(setup: Setup, where: str, fault: FaultSpec, groups: dict[str, Share]) -> Iterator[str]:
    selector, value = fault.target.selector
    if isinstance(fault, DeleteTopicSpec | RecreateTopicSpec):
        readers = sorted(entry.name for entry in groups.values() if value in entry.topics)
        if readers:
            yield f"{where}: {readers[0]} is a share group and reads {value}; deleted topics are not judged for one"
    if selector == "group" and value in groups and not isinstance(fault, ResetShareOffsetsSpec):
        yield f"{where}.target.group: {value} is a share group, which has no committed offsets"
    shares = {entry.name for entry in setup.shares}
    if isinstance(fault, ConsumerSeekSpec | ConsumerResumeSpec) and (
        str(value).partition("/")[0] in shares or value in groups
    ):
        yield f"{where}: members of a share group have no positions"
