"""From a resolved scenario to the specs of its clients."""

from __future__ import annotations

import math
import zlib
from pathlib import Path
from typing import get_args

from chaos.clients.checkpoint import checkpoint_of, first_unacked_of, next_seq_of
from chaos.clients.confluent.environment import number
from chaos.clients.protocol import (
    AssignConsumerSpec,
    CommitSpec,
    Config,
    GroupConsumerSpec,
    ProcessorSpec,
    ProducerSpec,
    TransactionSpec,
    WorkersSpec,
)
from chaos.ledger.record import run_token
from chaos.run.directory import Run
from chaos.scenario.consumers import Assign, Subscribe, Workers
from chaos.scenario.producers import ApplicationPartitioner, Processor, Producer, Transactions
from chaos.scenario.resolve import Resolved

ClientSpec = ProducerSpec | ProcessorSpec | GroupConsumerSpec | AssignConsumerSpec
Entry = Producer | Processor | Subscribe | Assign

MODULES: dict[type[ClientSpec], str] = {
    ProducerSpec: "chaos.clients.confluent.producer",
    ProcessorSpec: "chaos.clients.confluent.processor",
    GroupConsumerSpec: "chaos.clients.confluent.group_consumer",
    AssignConsumerSpec: "chaos.clients.confluent.assign_consumer",
}

CONSUMER_DEFAULTS: Config = {
    # after its queue was full, librdkafka fetches nothing for this long (1000 by default), however fast it is emptied:
    # a drain would mostly wait
    "fetch.queue.backoff.ms": 10,
}
"""Settings that a consumer has unless the scenario says otherwise; librdkafka knows them from 2.2.0 on."""
CONSUMER_DEFAULTS_SINCE = (2, 2, 0)

STOP_SHARE = 0.6
"""Of the time that clients have to stop, the part in which a producer waits for answers."""


class SpecBuilder:
    """Builds the spec of each client of a run, for any of its lives."""

    def __init__(self, run: Run, resolved: Resolved, bootstrap: str) -> None:
        self._run, self._resolved, self._bootstrap = run, resolved, bootstrap
        release = resolved.scenario.clients.confluent_kafka
        known = release is None or number(release) >= CONSUMER_DEFAULTS_SINCE
        self._consumer_defaults: Config = CONSUMER_DEFAULTS if known else {}

    def build(self, entry: Entry, client: str, incarnation: int, clock_zero_us: int) -> ClientSpec:
        """The spec of one life of a client. Start positions in time count from `clock_zero_us`."""
        if isinstance(entry, Producer):
            return self._producer(entry, client, incarnation)
        if isinstance(entry, Processor):
            return self._processor(entry, client, incarnation)
        common = {
            **self._common(client, incarnation, {**self._consumer_defaults, **entry.config}),
            "topics": entry.topics,
            "commit": CommitSpec(
                when=entry.commit.when,
                kind=entry.commit.kind,
                every_s=entry.commit.every,
                on_revoke=entry.commit.on_revoke,
            ),
            "max_poll_records": entry.max_poll_records,
            "per_record_s": entry.per_record,
            "group": entry.group,
        }
        if isinstance(entry, Subscribe):
            if entry.pattern is not None:
                common["topics"] = [f"^{entry.pattern}$"]
            if entry.threads > 1:
                common["threads"] = process_mates(entry, client)
            common["workers"] = entry.workers and workers_spec(entry.workers)
            return GroupConsumerSpec.model_validate(common)
        common |= {"discover_s": entry.discover, "no_group_id": entry.no_group_id}
        resume = entry.checkpoint and incarnation > 1
        common["checkpoint"] = checkpoint_of(self._run.ledger, client) if resume else {}
        if isinstance(entry.start, str):
            return AssignConsumerSpec.model_validate({**common, "start": entry.start})
        if entry.start.offsets is not None:
            return AssignConsumerSpec.model_validate({**common, "start": "offsets", "offsets": entry.start.offsets})
        timestamp_ms = round(clock_zero_us / 1000 + (entry.start.timestamp or 0) * 1000)
        return AssignConsumerSpec.model_validate({**common, "start": "timestamp", "timestamp_ms": timestamp_ms})

    def _producer(self, entry: Producer, client: str, incarnation: int) -> ProducerSpec:
        own = entry.partitioner if entry.partitioner in get_args(ApplicationPartitioner) else None
        settings: Config = {} if own or entry.partitioner is None else {"partitioner": entry.partitioner}
        if entry.partitioner == "sticky":  # librdkafka's for records without a key, whatever the hash
            settings = {"partitioner": "consistent_random"}
        begin = first_unacked_of if entry.resend else next_seq_of
        return ProducerSpec.model_validate(
            {
                **self._common(client, incarnation, {**settings, **entry.config}),
                **self._writing(entry, client),
                "topic": entry.topic,
                "records": self._most_records(entry),
                "first_seq": begin(self._run.ledger, client) if incarnation > 1 else 0,
                "hold": incarnation == 1,
                "rate": entry.rate,
                "keys": entry.keys,
                "seed": zlib.crc32(f"{self._resolved.seed}:{client}".encode()),
                "mode": entry.mode,
                "partitioner": own,
                "partitions": self._resolved.scenario.topic(entry.topic).partitions,
            }
        )

    def _processor(self, entry: Processor, client: str, incarnation: int) -> ProcessorSpec:
        return ProcessorSpec.model_validate(
            {
                **self._common(client, incarnation, entry.config),
                **self._writing(entry, client),
                "topic": entry.to,
                "first_seq": next_seq_of(self._run.ledger, client) if incarnation > 1 else 0,
                "group": entry.group,
                "topics": entry.topics,
                "consumer_config": {**self._consumer_defaults, **entry.consumer_config},
            }
        )

    def _writing(self, entry: Producer | Processor, client: str) -> dict[str, object]:
        """What producers and processors have in common."""
        return {
            "value_size": entry.value_size,
            "stop_within_s": max(0.1, STOP_SHARE * self._resolved.scenario.limits.clients),
            "transactions": entry.transactions and self._transactions(entry.transactions, client),
        }

    def _transactions(self, given: Transactions, client: str) -> TransactionSpec:
        return TransactionSpec(
            id=self._resolved.prefix + client.replace("/", "-"),
            records=given.records,
            abort_every=given.abort_every,
            timeout_s=given.timeout,
            hold_s=given.hold,
        )

    def _most_records(self, entry: Producer) -> int:
        """How many records a producer sends unless it is stopped: a load that outlasts the faults ends with them."""
        if not entry.outlast_faults:
            return entry.records
        return max(entry.records, math.ceil((entry.rate or 0) * self._resolved.scenario.limits.drive))

    def _common(self, client: str, incarnation: int, config: Config) -> dict[str, object]:
        cluster = self._resolved.scenario.cluster
        return {
            "run_id": self._run.run_id,
            "run_token": run_token(self._run.run_id),
            "ledger": self._run.ledger,
            "client": client,
            "incarnation": incarnation,
            "bootstrap": self._bootstrap,
            "security": cluster.security if cluster.driver == "attached" else None,
            "config": config,
        }

    def write(self, spec: ClientSpec) -> Path:
        """Write a spec to `clients/<client>.<incarnation>.json` of the run directory."""
        path = self._run.path / "clients" / f"{spec.writer.replace('/', '-')}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(spec.model_dump_json(indent=1), encoding="utf-8")
        return path


def workers_spec(workers: Workers) -> WorkersSpec:
    """As a client is given it."""
    return WorkersSpec(
        count=workers.count,
        tracking=workers.tracking,
        straggle_every=workers.straggle_every,
        straggle_s=workers.straggle,
    )


def process_mates(entry: Entry, client: str) -> list[str]:
    """The clients that live in one process with this one, itself among them, in order."""
    if not isinstance(entry, Subscribe) or entry.threads == 1:
        return [client]
    first = (int(client.rpartition("/")[2]) - 1) // entry.threads * entry.threads + 1
    return [f"{entry.name}/{n}" for n in range(first, min(first + entry.threads, entry.members + 1))]
