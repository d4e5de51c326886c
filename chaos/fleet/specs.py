"""The specs of a scenario's clients."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

from chaos.clients.checkpoint import checkpoint_of, first_unacked_of, next_seq_of
from chaos.clients.flink.traits import CLUSTER_SETTINGS
from chaos.clients.protocol import (
    AssignConsumerSpec,
    ClientSpec,
    Config,
    GroupConsumerSpec,
    IdentitiesSpec,
    ProcessorSpec,
    ProducerSpec,
    RowsSpec,
    ShareConsumerSpec,
    Steady,
)
from chaos.clients.runtime import runtime
from chaos.faults.settings import states_of
from chaos.kafka.security import Endpoint, Security
from chaos.ledger.record import run_token
from chaos.run.directory import Run
from chaos.scenario.model import Scenario
from chaos.scenario.resolve import Resolved
from chaos.scenario.retention import steadily_refused
from chaos.setup.clients import ApplicationPartitioner, Assign, Entry, Processor, Producer, Subscribe
from chaos.setup.names import PRIMARY
from chaos.setup.share import Share
from chaos.setup.timestamps import formula
from chaos.values.arrivals import Arrivals
from chaos.values.model import Value

TOPIC_CHANGES = frozenset({"topic.create", "topic.delete", "topic.recreate"})
"""Faults after which a topic may have other limits, in addition to faults that change its settings."""
RIGHTS_CHANGES = frozenset({"acl.withdraw"})
"""Faults after which clients have other rights."""
UNRECORDED = 1_000_000
"""Outputs that a crashed processor may have in the log without a row, if its library decides when to write them."""
STOP_SHARE = 0.6
"""Share of `limits.clients` in which a producer waits for delivery reports after the order to stop."""


class SpecBuilder:
    """Builds the spec of each incarnation of each client of a run.

    bootstrap: the addresses for a client of the first cluster. databases: URLs of applications of the run that are
    databases. beside: the other clusters by name.
    """

    def __init__(
        self,
        run: Run,
        resolved: Resolved,
        bootstrap: Callable[[str], str],
        security: Security | None = None,
        databases: Mapping[str, str] | None = None,
        beside: Mapping[str, Endpoint] | None = None,
    ) -> None:
        self._databases, self._beside = databases or {}, beside or {}
        self._run, self._resolved, self._scenario = run, resolved, resolved.scenario
        self._bootstrap, self._security = bootstrap, security
        self.folder = run.path / "clients"
        """The specs, and what client programs store next to them."""

    def build(
        self,
        entry: Entry,
        client: str,
        incarnation: int,
        clock_zero_us: int,
        session: str | None = None,
    ) -> ClientSpec:
        """Return the spec of one incarnation.

        Start times in the scenario count from `clock_zero_us`. session: the address of its session cluster.
        """
        spec: type[ClientSpec]
        match entry:
            case Producer():
                spec, fields = ProducerSpec, self._producer(entry, client, incarnation)
            case Processor():
                spec, fields = ProcessorSpec, self._processor(entry, client, incarnation)
            case Subscribe():
                spec, fields = GroupConsumerSpec, self._group_consumer(entry, client)
            case Share():
                spec, fields = ShareConsumerSpec, {"per_record_s": entry.per_record}
            case Assign():
                spec = AssignConsumerSpec
                fields = self._assign_consumer(entry, client, incarnation, clock_zero_us)
                fields["session"] = session
        shared = {name: value for name, value in entry if name in spec.model_fields}
        other = self._beside.get(self._cluster(entry))
        return spec.model_validate(
            {
                **shared,
                **fields,
                "run_id": self._run.run_id,
                "run_token": run_token(self._run.run_id),
                "ledger": self.ledger_of(entry),
                "client": client,
                "incarnation": incarnation,
                "bootstrap": other.bootstrap if other else self._bootstrap(client),
                "security": other.clients if other else self._security,
            }
        )

    def _cluster(self, entry: Entry) -> str:
        return self._scenario.cluster_of(entry) if isinstance(entry, Producer) else PRIMARY

    def ledger_of(self, entry: Entry) -> Path:
        """Return the ledger of a client.

        A producer at another cluster has the ledger of that cluster, which no rule about records reads.
        """
        cluster = self._cluster(entry)
        return (self._run if cluster == PRIMARY else self._run.beside(cluster)).ledger

    def _producer(self, entry: Producer, client: str, incarnation: int) -> dict[str, Any]:
        application = entry.partitioner if entry.partitioner in get_args(ApplicationPartitioner) else None
        settings: Config = {} if application or entry.partitioner is None else {"partitioner": entry.partitioner}
        if entry.partitioner == "sticky":
            settings = dict(entry.client.traits.sticky)
        first_seq = first_unacked_of if entry.resend else next_seq_of
        if entry.rows:
            first_seq = partial(next_seq_of, table="inserts")
        return {
            **self._writer(entry, client),
            "config": {**settings, **entry.config},
            "records": entry.most_records(self._scenario.limits.drive),
            "number_from": self._resolved.ids.of(client, 0, "number") if entry.value and entry.value.has_id else 0,
            "first_seq": first_seq(self.ledger_of(entry), client) if incarnation > 1 else 0,
            "rate": entry.rate if isinstance(entry.rate, float) else None,
            "arrivals": entry.rate if isinstance(entry.rate, Arrivals) else None,
            "hold": incarnation == 1,
            "checkpoint_every_s": entry.checkpoint_interval,
            "restore": incarnation > 1 and entry.checkpoint_interval is not None,
            "seed": zlib.crc32(f"{self._resolved.seed}:{client}".encode()),
            "partitioner": application,
            "timestamps": None if entry.timestamps is None else formula(entry.timestamps),
            "partitions": 1 if entry.rows else self._scenario.topic(entry.written[0]).partitions,
            "rows": self._rows(entry),
        }

    def _rows(self, entry: Producer) -> RowsSpec | None:
        """Return where a producer of rows writes; None for one that writes records."""
        if (rows := entry.rows) is None:
            return None
        if rows.file is not None:
            return RowsSpec(file=self._run.rows(rows.file))
        url = self._databases[rows.app] if rows.app else rows.sql or ""
        return RowsSpec(url=url, setting=f"producers: {entry.name}: rows.sql", insert=rows.insert or "")

    def _processor(self, entry: Processor, client: str, incarnation: int) -> dict[str, Any]:
        mates = process_mates(entry, client)
        unrecorded = entry.plain.records if entry.plain else 0
        if entry.client.missing("transactions of a size"):  # the library sends as much as its buffer takes
            unrecorded = UNRECORDED
        next_seq = max(next_seq_of(self._run.ledger, mate) for mate in mates)
        return {
            **self._writer(entry, client),
            # without transactions, outputs of one batch may be in the log without a row: their numbers are not used
            "first_seq": next_seq + unrecorded if incarnation > 1 else 0,
            "threads": mates if entry.threads > 1 else [],
            "plain": entry.plain and _in_seconds(entry.plain, "hold"),
            "assign_by": entry.assign_by,
            "consumer_config": {**self._consumer_defaults(entry), **entry.consumer_config},
            "identities": identities(self._resolved),
        }

    def _group_consumer(self, entry: Subscribe, client: str) -> dict[str, Any]:
        shared = self._consumer(entry)
        if instance_id := entry.instance_id(int(client.rpartition("/")[2])):
            shared["config"]["group.instance.id"] = instance_id
        return {
            **shared,
            "topics": entry.topics if entry.pattern is None else [f"^{entry.pattern}$"],
            "assign_by": entry.assign_by,
            "threads": process_mates(entry, client) if entry.threads > 1 else [],
            "workers": entry.workers and _in_seconds(entry.workers, "straggle"),
        }

    def _assign_consumer(self, entry: Assign, client: str, incarnation: int, clock_zero_us: int) -> dict[str, Any]:
        start: dict[str, Any] = {"start": entry.start}
        if not isinstance(entry.start, str) and entry.start.offsets is not None:
            start = {"start": "offsets", "offsets": entry.start.offsets}
        elif not isinstance(entry.start, str):
            at_ms = clock_zero_us / 1000 + (entry.start.timestamp or 0) * 1000
            start = {"start": "timestamp", "timestamp_ms": round(at_ms)}
        resume, every_s = entry.checkpoint and incarnation > 1, entry.checkpoint_interval
        shared = self._consumer(entry)
        if entry.client.session:
            settings = shared["config"].items()
            shared["config"] = {name: value for name, value in settings if not name.startswith(CLUSTER_SETTINGS)}
        return {
            **shared,
            **start,
            "discover_s": entry.discover,
            "checkpoint_every_s": every_s,
            "restore": resume,
            "checkpoint": checkpoint_of(self._run.ledger, client, every_s is not None) if resume else {},
        }

    def _writer(self, entry: Producer | Processor, client: str) -> dict[str, Any]:
        """Return the fields that producers and processors share."""
        transactional_id = self._resolved.prefix + client.replace("/", "-")
        topics = entry.inputs if isinstance(entry, Producer) else [entry.to]
        rows = isinstance(entry, Producer) and entry.rows
        kept = [[] if rows else [*steady(self._scenario, t), *self._steady_times(entry, t)] for t in topics]
        return {
            "topic": topics[0],
            "in_turn": topics if len(topics) > 1 else [],
            "steady": [what for what in kept[0] if all(what in others for others in kept)],
            "stop_within_s": max(0.1, STOP_SHARE * self._scenario.limits.clients),
            "transactions": entry.transactions
            and {"id": transactional_id, **_in_seconds(entry.transactions, "timeout", "hold")},
        }

    def _steady_times(self, entry: Producer | Processor, topic: str) -> list[Steady]:
        """Return `timestamps` if a refused timestamp was refused in every attempt.

        A fault of the clock lets the records of a batch differ, so a client without idempotence may have put the record
        into another batch before.
        """
        s, client = self._scenario, self._scenario.client_of(entry)
        settings = client.traits.defaults(client.release) | client.traits.common(entry.config)
        same = entry.transactions is not None or str(settings.get("enable.idempotence", False)).lower() == "true"
        mixed = entry.name in s.skewed_clients and not same
        return ["timestamps"] if not mixed and steadily_refused(s, s.faults, entry.name, topic) else []

    def _consumer_defaults(self, entry: Entry) -> Config:
        client = self._scenario.client_of(entry)
        return runtime(client.runtime).consumer_defaults(client.release)

    def _consumer(self, entry: Subscribe | Assign) -> dict[str, Any]:
        """Return the fields that both kinds of consumers share."""
        rack = {entry.client.traits.rack: entry.rack} if entry.rack else {}
        return {
            "config": {**self._consumer_defaults(entry), **rack, **entry.config},
            "commit": _in_seconds(entry.commit, "every"),
            "identities": identities(self._resolved),
            "per_record_s": entry.per_record,
        }


def identities(resolved: Resolved) -> IdentitiesSpec | None:
    """Return where the records of a run have their identities; None if they have them in their values."""
    producers, ids = resolved.scenario.producers, resolved.ids
    if not any(p.value for p in producers):
        return None
    unmarked: dict[str, list[Value]] = {}
    for producer in producers:
        if producer.value and producer.unmarked:
            for topic in producer.written:
                unmarked.setdefault(topic, []).append(producer.value)
    marked = {topic for p in producers if p.in_headers for topic in p.written}
    return IdentitiesSpec(
        in_headers=sorted(marked), unmarked=unmarked, created_us=ids.created_us, first=dict(ids.first), most=ids.most
    )


def write_spec(folder: Path, spec: ClientSpec) -> Path:
    """Write a spec to `<client>.<incarnation>.json` in a folder and return the path."""
    path = folder / f"{spec.writer.replace('/', '-')}.json"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(spec.model_dump_json(indent=1), encoding="utf-8")
    return path


def _in_seconds(part: BaseModel, *durations: str) -> dict[str, Any]:
    """Return the fields of a part of the scenario, with `_s` added to the names of durations."""
    return {f"{name}_s" if name in durations else name: value for name, value in part}


def process_mates(entry: Entry, client: str) -> list[str]:
    """Return the clients that run in the same process as `client`, in order, with `client` itself."""
    if not isinstance(entry, Subscribe | Processor) or entry.threads == 1:
        return [client]
    first = (int(client.rpartition("/")[2]) - 1) // entry.threads * entry.threads + 1
    return [f"{entry.name}/{n}" for n in range(first, min(first + entry.threads, entry.members + 1))]


def steady(scenario: Scenario, topic: str) -> list[Steady]:
    """Return what does not change during the run, as far as it concerns writes to a topic.

    Faults change the settings of topics, or delete a topic, which brokers may then create again with other settings.
    Others take rights, so the last of several attempts may be refused after an earlier one was written. On an attached
    cluster, others may change rights, and the default of brokers for the limit that a topic does not set.
    """
    found: list[Steady] = []
    others, config = scenario.cluster.driver == "attached", scenario.topic(topic).config
    changed = len(states_of(scenario.topic(topic), scenario.faults)) > 1
    if not changed and not any(f.target.topic == topic and f.kind in TOPIC_CHANGES for f in scenario.faults):
        found = ["settings"] if others and "max.message.bytes" not in config else ["settings", "limits"]
    unsteady = others or any(f.kind in RIGHTS_CHANGES for f in scenario.faults)
    return found if unsteady else [*found, "rights"]
