"""Faults of consumers, and of producers and processors, which also produce."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from chaos.kafka.partition import TopicPartition
from chaos.scenario.faults.base import FaultSpec
from chaos.setup.clients import uses_kip_848
from chaos.setup.model import Setup, unknown
from chaos.setup.needs import Needs
from chaos.setup.triggers import Partition, Target, split_member
from chaos.units import Duration, Size


def client_problems(where: str, target: Target, role: str, members: Mapping[str, int]) -> Iterator[str]:
    """Check a target that is a client against the entries of a role, by their number of members."""
    selector, value = target.selector
    name, number = split_member(value) if selector == "member" else (value, 1)
    yield from unknown(f"{where}.target.{selector}", name, role, members)
    if number > members.get(name, number):
        yield f"{where}.target.{selector}: {name} has members 1 to {members[name]}, not {number}"


class ClientFault(FaultSpec):
    """A fault of one client process."""

    run_only = "the clients of a run"
    targets = frozenset({"member", "random_member"})

    def client_problems(self, where: str, role: str, members: Mapping[str, int]) -> Iterator[str]:
        """Check the target against the entries of a role, such as `consumers`, by their number of members."""
        yield from client_problems(where, self.target, role, members)

    def client_name(self) -> str:
        """Return the name of the targeted entry, such as `billing`."""
        return str(self.target.selector[1]).partition("/")[0]


class ClientQuota(ClientFault):
    """Limit the bytes per second that each broker takes from a client, or returns to it; healed by removing the quota.

    The quota is for the client id (KIP-546). A broker delays the requests of a client above its quota, and its response
    says for how long (KIP-13, KIP-219).
    """

    abilities = ("throttle times",)
    once_per_target = True
    kind: Literal["client.quota"]
    producer_byte_rate: Size | None = Field(None, gt=0, description="bytes per second of produce requests, by broker")
    consumer_byte_rate: Size | None = Field(None, gt=0, description="bytes per second of fetch responses, by broker")

    @property
    def rates(self) -> dict[str, int]:
        """The quotas by their Kafka names."""
        rates = {"producer_byte_rate": self.producer_byte_rate, "consumer_byte_rate": self.consumer_byte_rate}
        return {key: rate for key, rate in rates.items() if rate is not None}

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that each quota concerns requests of the client, and that the cluster ends with the run."""
        readers = {c.name: c.members for c in (*setup.consumers, *setup.processors)}
        writers = {p.name: p.count for p in setup.producers} | {p.name: p.members for p in setup.processors}
        yield from self.client_problems(where, "clients", readers | writers)
        if not self.rates:
            yield f"{where}: give producer_byte_rate, consumer_byte_rate or both"
        for key, clients, act in (("producer_byte_rate", writers, "writes"), ("consumer_byte_rate", readers, "reads")):
            if key in self.rates and self.client_name() in (readers | writers).keys() - clients.keys():
                yield f"{where}.{key}: {self.client_name()} never {act}, so this quota has no effect"
        if setup.attached:
            yield (
                f"{where}: {self.kind} is for clusters of the run only: on an existing cluster the quota also applies "
                "to other clients with this client id, and it stays if the run is killed"
            )


class ConsumerFault(ClientFault):
    """A fault of one consumer process."""

    targets = frozenset({"member", "random_member", "random_member_of"})
    of_processors: ClassVar[bool] = False
    """Whether processors, which consume too, can be the target."""

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the target is a consumer."""
        selector, value = self.target.selector
        if self.of_processors:
            yield from self._problems_with_processors(setup, where)
            return
        if selector == "random_member_of":
            yield from setup.group_problems(f"{where}.target.{selector}", value)
            if writers := sorted({p.name for p in setup.processors} & set(setup.groups.get(value, []))):
                yield f"{where}.target.{selector}: {writers[0]!r} of the group writes; {self.kind} is for consumers"
            return
        name = self.client_name()
        if name in {p.name for p in setup.producers} | {p.name for p in setup.processors}:
            yield f"{where}.target.{selector}: {name!r} writes; {self.kind} is for consumers"
        else:
            yield from self.client_problems(where, "consumers", {c.name: c.members for c in setup.consumers})

    def _problems_with_processors(self, setup: Setup, where: str) -> Iterator[str]:
        selector, value = self.target.selector
        if selector == "random_member_of":
            yield from setup.group_problems(f"{where}.target.{selector}", value)
            names = set(setup.groups.get(value, []))
        elif (name := self.client_name()) in {p.name for p in setup.producers}:
            other = f"; use {self.kind.replace('consumer', 'producer')}"
            yield f"{where}.target.{selector}: {name!r} only writes; {self.kind} is for consumers and processors{other}"
            return
        else:
            members = {c.name: c.members for c in (*setup.consumers, *setup.processors)}
            yield from self.client_problems(where, "consumers and processors", members)
            names = {name}
        for processor in setup.processors:
            if processor.name in names and processor.threads > 1:
                yield (
                    f"{where}.target.{selector}: the {processor.threads} members in a process of {processor.name} come "
                    "and go together; leave threads out"
                )


class ConsumerSlow(ConsumerFault):
    """Slow a consumer down per record: it exceeds max.poll.interval.ms, if its client has it; healed by full speed."""

    kind: Literal["consumer.slow"]
    per_record: Duration = Field(description="extra processing time of each record")


class ConsumerCrash(ConsumerFault):
    """SIGKILL a consumer process; healed by a start of its next incarnation."""

    kind: Literal["consumer.crash"]


class ConsumerSeek(ConsumerFault):
    """Make a consumer seek to another position, as its application would; there is nothing to heal."""

    abilities = ("seek",)
    one_of = ("offsets", "ago")
    kind: Literal["consumer.seek"]
    offsets: dict[Partition, int] | None = Field(None, description="to these offsets, such as orders/0: 100")
    ago: Duration | None = Field(
        None, gt=0, description="or, on each assigned partition, to the records written this long ago"
    )
    lookup_first: Annotated[Duration | None, Needs("assignments in turn")] = Field(
        None,
        gt=0,
        description="in place of a seek: assign the partitions without offsets, so that the client library looks up "
        "where to start, and this long afterwards again at the target (assign mode)",
    )


class ConsumerResume(ConsumerFault):
    """Make a consumer resume its partitions, none of which is paused: nothing changes; there is nothing to heal."""

    abilities = ("resume",)
    kind: Literal["consumer.resume"]


class ConsumerPause(ConsumerFault):
    """SIGSTOP a consumer for longer than its session: it becomes a zombie; healed by SIGCONT."""

    kind: Literal["consumer.pause"]


class ConsumerLeave(ConsumerFault):
    """Make a consumer or processor leave its group and stop in order; healed by a start of its next incarnation."""

    of_processors = True
    kind: Literal["consumer.leave"]
    for_good: bool = Field(False, description="it does not come back, as in a rolling change; there is nothing to heal")

    @model_validator(mode="after")
    def _check_heal(self) -> Self:
        if self.for_good and self.heal:
            raise ValueError("heal: a consumer that leaves for_good does not come back; leave one of the two out")
        return self


class ConsumerJoin(ConsumerFault):
    """Start a member of a consumer or processor that was held back until then; it stays."""

    of_processors = True
    targets = frozenset({"member"})
    once_per_target = True
    kind: Literal["consumer.join"]


class ConsumerChurn(ConsumerFault):
    """Make a consumer leave and rejoin repeatedly; healed by a start if it is down."""

    kind: Literal["consumer.churn"]
    times: int = Field(5, ge=1, le=100, description="how often it leaves")
    every: Duration = Field(1.0, description="time that it stays away, and then in the group")


class ConsumerFence(ConsumerFault):
    """Start a second process with the group.instance.id of a running static member, which fences the first (KIP-345).

    There is nothing to heal: the later process continues.
    """

    kind: Literal["consumer.fence"]

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the target is a static member of the classic protocol."""
        yield from super().problems(setup, where)
        selector, value = self.target.selector
        names = setup.groups.get(value, []) if selector == "random_member_of" else [self.client_name()]
        for entry in [c for c in setup.consumers if c.name in names]:
            if entry.mode != "subscribe" or not entry.static:
                yield f"{where}.target.{selector}: {entry.name} is not static, so no other process can fence it"
            elif uses_kip_848(entry.config):
                yield (
                    f"{where}.target.{selector}: {entry.name} has group.protocol=consumer (KIP-848), where the broker "
                    "refuses the later process (UNRELEASED_INSTANCE_ID) and fences none"
                )


class ProducerFault(ClientFault):
    """A fault of one producer or processor process."""

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the target is a producer or a processor."""
        members = {p.name: p.count for p in setup.producers} | {p.name: p.members for p in setup.processors}
        yield from self.client_problems(where, "producers", members)


class ProducerEntryFault(ProducerFault):
    """A fault of one producer process; processors have faults of consumers for it."""

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the target is a producer."""
        if self.client_name() in {p.name for p in setup.processors}:
            other = self.kind.replace("producer", "consumer")
            selector, _ = self.target.selector
            yield f"{where}.target.{selector}: {self.client_name()} also reads, in a group; use {other}"
        else:
            yield from self.client_problems(where, "producers", {p.name: p.count for p in setup.producers})


class ProducerLeave(ProducerEntryFault):
    """Stop a producer in order: it flushes, closes and ends; healed by a start of its next incarnation."""

    kind: Literal["producer.leave"]
    for_good: bool = Field(False, description="it does not come back, whatever it has sent; there is nothing to heal")

    @model_validator(mode="after")
    def _check_heal(self) -> Self:
        if self.for_good and self.heal:
            raise ValueError("heal: a producer that leaves for_good does not come back; leave one of the two out")
        return self


class ProducerJoin(ProducerEntryFault):
    """Start a producer that was held back until then; it stays."""

    targets = frozenset({"member"})
    once_per_target = True
    kind: Literal["producer.join"]


class ProducerCrash(ProducerFault):
    """SIGKILL a producer or a processor; healed by a start of its next incarnation."""

    kind: Literal["producer.crash"]
    unreported: Annotated[int, Needs("ignore reports")] = Field(
        0,
        ge=0,
        description="make the application ignore delivery reports first, and kill it once this many more records are "
        "in the log: it cannot know of them",
    )

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that unreported records can be counted: the producer is the only writer of its topic."""
        yield from super().problems(setup, where)
        if not self.unreported:
            return
        producer = next((p for p in setup.producers if p.name == self.client_name()), None)
        if producer is None or producer.count != 1 or producer.transactions:
            yield f"{where}.unreported: needs a producer without transactions that is one process"
        elif sum(1 for p in setup.producers if set(p.written) & set(producer.written)) > 1:
            topics = ", ".join(producer.written)
            yield f"{where}.unreported: other producers write to {topics}, so its records cannot be counted"


class ProducerFence(ProducerFault):
    """Start the next incarnation of a transactional client while the current one runs, which fences the current one.

    There is nothing to heal: the next incarnation continues.
    """

    abilities = ("fencing",)
    kind: Literal["producer.fence"]

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the target writes in transactions."""
        yield from super().problems(setup, where)
        plain = {p.name for p in setup.producers if not p.transactions}
        plain |= {p.name for p in setup.processors if not p.transactions}
        if self.client_name() in plain:
            selector, _ = self.target.selector
            yield f"{where}.target.{selector}: {self.client_name()} has no transactions, so nothing can fence it"


class TaskManagerKill(FaultSpec):
    """SIGKILL a task manager of a Flink session cluster; healed by a start of another one in its place.

    Flink restarts the subtasks that ran there from the last checkpoint, where slots are free.
    """

    run_only = "the clients of a run"
    targets = frozenset({"task_manager", "task_manager_of"})
    breaks_brokers = False
    kind: Literal["taskmanager.kill"]
    reads: Partition | None = Field(
        None, description="with `task_manager_of`: the task manager of the subtask that reads this partition"
    )

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the target has a session cluster, with the task manager or the job that it names."""
        selector, value = self.target.selector
        name, number = split_member(value)
        where_target = f"{where}.target.{selector}"
        entry = next((c for c in setup.consumers if c.name == name), None)
        session = entry.client.session if entry else None
        if entry is None or session is None:
            yield f"{where_target}: {name!r} is no consumer in a session cluster; give it client: {{session: {{}}}}"
            return
        count, what = (
            (session.task_managers, "task managers") if selector == "task_manager" else (entry.members, "members")
        )
        if number > count:
            yield f"{where_target}: {name} has {what} 1 to {count}, not {number}"
        if self.reads is not None:
            yield from setup.partition_problems(f"{where}.reads", self.reads)
            if selector != "task_manager_of":
                yield f"{where}.reads: goes with target: {{task_manager_of: {name}/1}}"
            elif not entry.topics_among([TopicPartition.parse(self.reads).topic]):
                yield f"{where}.reads: {name} does not read {self.reads}"
