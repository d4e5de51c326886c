"""The application of a published bug: the settings of its affected variant as an `app.yaml`, without its faults.

A proof of this application has no hint of the bug: neither the fault that shows it, nor its moment.
"""

from __future__ import annotations

from typing import Any

from chaos.errors import UsageError
from chaos.promise.consumer_facts import GREEDY, MARKS, NO_COMMITS
from chaos.scenario.clients import Processor, Producer, Subscribe
from chaos.scenario.model import Scenario
from chaos.scenario.processing import Transactions
from chaos.scenario.runtimes.choice import Client

Raw = dict[str, Any]

_LEAST_RECORDS, _LOAD_S = 1000, 20.0
"""The smallest number of records of a run of a proof, and the seconds that its load takes at most."""
_COMMITS = {
    "after_batch": "after_processing",
    "after_record": "after_processing",
    "periodic": "after_processing",
    "before_processing": "before_processing",
    "never": "never",
}
_COMMON_NAMES = ("java", "confluent")
"""Client libraries that use Kafka's own names of settings."""


def application_of(scenario: Scenario) -> Raw:
    """Return the application of a variant as plain data. Raises `UsageError` for what an application cannot express."""
    release = scenario.clients.confluent_kafka
    parts = _processing(scenario.processors[0], release) if scenario.processors else _clients(scenario, release)
    topic = scenario.topics[0]
    cluster = scenario.cluster
    return {
        **parts,
        "topic": {
            "name": topic.name,
            "partitions": topic.partitions,
            "replication_factor": topic.replication_factor,
            "config": dict(topic.config),
        },
        "cluster": {
            "brokers": cluster.brokers,
            "kafka": cluster.kafka,
            "config": dict(cluster.config),
            **({"controllers": cluster.controllers} if cluster.controllers else {}),
            **({"features": dict(cluster.features)} if cluster.features else {}),
        },
    }


def _processing(processor: Processor, release: str | None) -> Raw:
    if processor.transactions is None:
        raise UsageError("it needs a processor without transactions, which a proof does not run")
    client = _client(processor.client, release)
    config = {**processor.config, "transactional.id": processor.name, **_timeout(processor.transactions)}
    return {
        "producer": {"client": client, "config": config},
        "consumer": {
            "client": client,
            "config": {**processor.consumer_config, "group.id": processor.group, "enable.auto.commit": False},
            "commit": "in_transaction",
        },
        "traffic": {"members": min(processor.members, 10)},
    }


def _clients(scenario: Scenario, release: str | None) -> Raw:
    groups = [consumer for consumer in scenario.consumers if isinstance(consumer, Subscribe)]
    if not scenario.producers:
        raise UsageError("it has no producer")
    producer = scenario.producers[0]
    found: Raw = {"producer": _producer(producer, release), "traffic": _traffic(producer)}
    if groups:
        found["consumer"] = _consumer(groups[0], release)
        found["traffic"] |= {"members": min(groups[0].members, 10)}
    return found


def _producer(producer: Producer, release: str | None) -> Raw:
    config = dict(producer.config)
    if producer.transactions is not None:
        config |= {"transactional.id": producer.name, **_timeout(producer.transactions)}
    return {"client": _client(producer.client, release), "config": config}


def _traffic(producer: Producer) -> Raw:
    records = max(producer.records, _LEAST_RECORDS)
    traffic: Raw = {"producers": min(producer.count, 10), "records": records}
    if producer.rate is not None:
        traffic["rate"] = max(producer.rate, records / _LOAD_S)
    if producer.keys is not None:
        traffic["keys"] = producer.keys
    if producer.transactions is not None:
        traffic["transaction"] = producer.transactions.records
    return traffic


def _consumer(consumer: Subscribe, release: str | None) -> Raw:
    config, automatic = dict(consumer.config), consumer.commit.kind == "auto"
    if consumer.client.runtime in _COMMON_NAMES:
        config |= {"group.id": consumer.group, "enable.auto.commit": automatic}
        if consumer.client.runtime == "confluent" and automatic and consumer.commit.when != "before_processing":
            config["enable.auto.offset.store"] = False
    elif consumer.client.runtime == "kafka-python":
        config["enable_auto_commit"] = automatic
    elif consumer.client.runtime == "franz-go":
        greedy = GREEDY if consumer.commit.when == "before_processing" else MARKS
        config[greedy if automatic else NO_COMMITS] = True
    commit = _COMMITS.get(consumer.commit.when)
    if commit is None:
        raise UsageError(f"it commits {consumer.commit.when}, which an application cannot say")
    return {"client": _client(consumer.client, release), "config": config, "commit": commit}


def _timeout(transactions: Transactions) -> Raw:
    return {"transaction.timeout.ms": round(transactions.timeout * 1000)}


def _client(client: Client, release: str | None) -> str:
    if client.runtime == "confluent" and client.release is None and release:
        return f"confluent:{release}"
    return client.describe()
