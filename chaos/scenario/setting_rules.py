"""Rules for settings: a broker, a topic and a client have to know each name and take each value.

The tables of `chaos.settings` say what a release knows. What only a plugin reads is taken if there is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version

from chaos.cluster.settings import ClusterSpec
from chaos.kafka.settings import Config
from chaos.scenario.clients import Entry, Processor, Producer
from chaos.scenario.faults.admin import BrokerConfig, TopicConfig
from chaos.scenario.faults.base import FaultSpec
from chaos.scenario.runtimes.choice import Client
from chaos.scenario.runtimes.traits import Role
from chaos.scenario.setup import Setup
from chaos.settings import Source, setting_problem

BROKER = (
    Source("broker"),
    # what parts of Kafka read that are no part of KafkaConfig: listeners, StandardAuthorizer, reporters, tiered storage
    *(Source(prefix=prefix) for prefix in ("listener.name.", "super.users", "allow.everyone.if.no.acl.found")),
    *(Source(prefix=prefix) for prefix in ("kafka.metrics.", "kafka.csv.metrics.", "rsm.config.", "rlmm.config.")),
)
TOPIC = (Source("topic"),)
_PLUGIN = re.compile(r"(class|class\.name|classes|reporters|providers)$")
"""The end of the names of settings that name classes of an application, which see all settings."""


def cluster_setting_problems(setup: Setup, faults: Sequence[FaultSpec]) -> Iterator[str]:
    """Yield what is wrong with the settings of the brokers and of the topics."""
    cluster = setup.cluster
    if not setup.attached:
        switch = cluster.driver == "process" and any("isolate" in fault.needs for fault in faults)
        spec = ClusterSpec(
            brokers=cluster.brokers,
            kafka=cluster.kafka,
            config=cluster.config,
            metadata=cluster.metadata,
            controllers=cluster.controllers or 0,
            switch=switch,
        )
        yield from spec.config_problems()
        plugin = any(_PLUGIN.search(name) for name in cluster.config)
        software = f"a broker of Kafka {cluster.kafka}"
        for name, value in sorted(cluster.config.items()):
            if problem := setting_problem(BROKER, cluster.kafka, software, name, value, plugin):
                yield f"cluster.config: {name} {problem}"
    for i, topic in enumerate(setup.topics):
        yield from topic_setting_problems(setup, f"topics[{i}].config", topic.config)
    for i, fault in enumerate(faults):
        if isinstance(fault, TopicConfig):
            yield from topic_setting_problems(setup, f"faults[{i}].settings", fault.settings)
        elif isinstance(fault, BrokerConfig):
            release = None if setup.attached else cluster.kafka
            for name, value in sorted(fault.settings.items()):  # the fault itself checks the names
                if problem := setting_problem(BROKER, release, "a broker", name, value, passed=True):
                    yield f"faults[{i}].settings: {name} {problem}"


def topic_setting_problems(setup: Setup, where: str, config: Config) -> Iterator[str]:
    """Yield what is wrong with settings of topics; an existing cluster may have others."""
    release = None if setup.attached else setup.cluster.kafka
    software = f"a topic of Kafka {release}" if release else "a topic"
    for name, value in sorted(config.items()):
        if problem := setting_problem(TOPIC, release, software, name, value, setup.attached):
            of_broker = name.startswith("log.") and name.removeprefix("log.") in set(TOPIC[0].names())
            hint = f"; for a topic it is called {name.removeprefix('log.')}" if of_broker else ""
            yield f"{where}: {name} {problem.partition(' (')[0] if hint else problem}{hint}"


def client_setting_problems(setup: Setup, where: str, entry: Entry) -> Iterator[str]:
    """Yield what is wrong with the settings of a client."""
    client = setup.client_of(entry)
    role: Role = "producer" if isinstance(entry, Producer | Processor) else "consumer"
    yield from _client_problems(f"{where}.config", client, role, entry.config)
    if isinstance(entry, Processor):
        yield from _client_problems(f"{where}.consumer_config", client, "consumer", entry.consumer_config)


def _client_problems(where: str, client: Client, role: Role, config: Config) -> Iterator[str]:
    traits, release = client.traits, _release(client)
    plugin = not traits.plugins.isdisjoint(config)
    software = f"{traits.library} {release or ''}".strip()
    for name in sorted(config):
        if name in traits.reserved or name.startswith(traits.reserved_parts):
            yield f"{where}: {name} is set by the programs of the runtime {traits.name}"
        elif name in traits.misnamed:
            own = traits.misnamed[name]
            hint = f"its name there is {own}" if own else f"{traits.library} has nothing like it"
            yield f"{where}: {name} is no setting of {traits.library}: {hint}"
        elif reason := traits.unknown(name):
            yield f"{where}: {name} is no setting of {traits.library}: {reason}"
        elif role in traits.settings and (
            problem := setting_problem(traits.settings[role], release, software, name, config[name], plugin)
        ):
            yield f"{where}: {name} {problem}"
        if name not in (common := traits.common({name: config[name]})) and not config.keys().isdisjoint(common):
            yield f"{where}: {name} is also given as {', '.join(common)}; give it once"


def _release(client: Client) -> str | None:
    """Return the release of a client; of confluent-kafka the installed one, if the entry names none."""
    if client.release is not None or client.traits.newest:
        return client.release
    try:
        return version(client.traits.library)
    except PackageNotFoundError:
        return None
