"""Rules for settings: a broker, a topic and a client have to know each name and take each value.

The tables of `chaos.settings` say what a release knows. What only a plugin reads is taken if there is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from chaos.clients.choice import Client
from chaos.clients.traits import OTHER_NAMES, Given, Role, number
from chaos.cluster.settings import ClusterSpec
from chaos.faults.base import FaultSpec
from chaos.faults.settings import BrokerConfigSpec, TopicConfigSpec
from chaos.kafka.settings import GROUP_RANGES, LOCK, Config, limit_names
from chaos.scenario.expect import Expect
from chaos.scenario.members import session_timeout
from chaos.settings import Source, setting_problem
from chaos.setup.clients import Entry, Processor, Producer, Subscribe, uses_kip_848
from chaos.setup.model import Setup
from chaos.setup.share import Share

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
        for kind in GROUP_RANGES:
            yield from _range_problems(kind, cluster.config, cluster.kafka)
    for i, topic in enumerate(setup.topics):
        yield from topic_setting_problems(setup, f"topics[{i}].config", topic.config)
    for i, fault in enumerate(faults):
        if isinstance(fault, TopicConfigSpec):
            yield from topic_setting_problems(setup, f"faults[{i}].settings", fault.settings)
        elif isinstance(fault, BrokerConfigSpec):
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


LEAST_SESSION, MOST_SESSION = "group.min.session.timeout.ms", "group.max.session.timeout.ms"
MOST_TRANSACTION = "transaction.max.timeout.ms"
LIMITS_MS = {LEAST_SESSION: 6_000, MOST_SESSION: 1_800_000, MOST_TRANSACTION: 900_000}
"""Limits of the brokers for time-outs of clients, with Kafka's defaults."""


def _beyond(name: str, value: float, kind: str, of_group: str, config: Config) -> Iterator[str]:
    """Yield the limit of the brokers that a setting for new groups is beyond, as a clause."""
    _, least, most = GROUP_RANGES[kind][of_group]
    for side, part, usual in (("below", "min", least), ("above", "max", most)):
        limit = f"group.{kind}.{part}.{of_group}"
        bound = _number(config, limit, usual)
        if value < bound if side == "below" else value > bound:
            default = "" if limit in config else " (its default)"
            yield f"{name}={value:.0f} is {side} {limit}={bound:.0f}{default}"


def _range_problems(kind: str, config: Config, kafka: str) -> Iterator[str]:
    """Yield settings for new groups with which a broker does not start."""
    if config.keys().isdisjoint(limit_names(kind)):
        return
    values = {}
    for of_group, (usual, _, _) in GROUP_RANGES[kind].items():
        name = f"group.{kind}.{of_group}"
        values[of_group] = _number(config, name, usual)
        for beyond in _beyond(name, values[of_group], kind, of_group, config):
            yield f"cluster.config: {beyond}, so a broker does not start; set both"
    beat, session = values["heartbeat.interval.ms"], values["session.timeout.ms"]
    if beat >= session and number(kafka) >= (4, 0, 0):
        yield (
            f"cluster.config: group.{kind}.heartbeat.interval.ms={beat:.0f} is not below "
            f"group.{kind}.session.timeout.ms={session:.0f}, so a broker does not start; set both"
        )


def _share_problems(setup: Setup) -> Iterator[str]:
    """Yield settings of share groups beyond the limits of the brokers, which refuse them (INVALID_CONFIG).

    Durations of locks are left to the brokers, which say what they take: the audit reads scenarios with any.
    """
    for i, entry in enumerate(setup.consumers):
        if not isinstance(entry, Share) or setup.unasked:
            continue
        for of_group, (usual, _, _) in GROUP_RANGES["share"].items():
            name = f"share.{of_group}"
            if name in entry.settings and of_group != LOCK:
                value = _number(entry.settings, name, usual)
                for beyond in _beyond(name, value, "share", of_group, setup.cluster.config):
                    yield f"consumers[{i}].settings: {beyond}, so the brokers refuse it (INVALID_CONFIG)"


def limit_problems(setup: Setup, expect: Expect) -> Iterator[str]:
    """Yield settings of clients and groups beyond a limit of the brokers, which then refuse them.

    The limits of an existing cluster are known after it was asked. `expect.client_errors` may name the refusal.
    """
    yield from _share_problems(setup)
    config = setup.cluster.config
    limits = {name: _number(config, name, ms) for name, ms in LIMITS_MS.items() if name in config or not setup.attached}
    members = {entry.name: entry for entry in setup.readers if isinstance(entry, Subscribe)}
    for where, entry in setup.placed_entries:
        found = []
        if isinstance(entry, Producer | Processor) and entry.transactions and entry.client.runtime != "streams":
            asked = f"{where}.transactions.timeout: transaction.timeout.ms", entry.transactions.timeout * 1000
            found.append((*asked, "above", MOST_TRANSACTION, "INVALID_TRANSACTION_TIMEOUT"))
        if (member := members.get(entry.name)) and not uses_kip_848(member.config):
            seconds, name = session_timeout(setup, member)
            asked = f"{where}.{'consumer_' * isinstance(entry, Processor)}config: {name}", seconds * 1000
            found.append((*asked, "below", LEAST_SESSION, "INVALID_SESSION_TIMEOUT"))
            found.append((*asked, "above", MOST_SESSION, "INVALID_SESSION_TIMEOUT"))
        for what, ms, side, limit, error in found:
            bound = limits.get(limit, ms)
            refused = ms < bound if side == "below" else ms > bound
            if refused and not any(error in text for text in expect.client_errors.get(entry.name, {})):
                yield f"{what}={ms:.0f} is {side} {limit}={bound:.0f}, so the brokers refuse the client ({error})"


def client_setting_problems(setup: Setup, where: str, entry: Entry) -> Iterator[str]:
    """Yield what is wrong with the settings of a client."""
    client = setup.client_of(entry)
    role: Role = "producer" if isinstance(entry, Producer | Processor) else "consumer"
    transactional = isinstance(entry, Producer | Processor) and entry.transactions is not None
    yield from _client_problems(f"{where}.config", client, role, entry.config, transactional)
    if isinstance(entry, Processor):
        yield from _client_problems(f"{where}.consumer_config", client, "consumer", entry.consumer_config)


def _client_problems(
    where: str, client: Client, role: Role, config: Config, transactional: bool = False
) -> Iterator[str]:
    traits, release = client.traits, client.release_used
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
    yield from _contradictions(where, client, role, config, transactional)


def _contradictions(where: str, client: Client, role: Role, config: Config, transactional: bool) -> Iterator[str]:
    """Yield settings with which the library does not start, though it takes each of them alone."""
    if role == "consumer" and uses_kip_848(client.traits.common(config)):
        return
    values = {OTHER_NAMES.get(name, name): value for name, value in client.traits.common(config).items()}
    given = Given(values, client.release_used, role == "producer", transactional)
    software = f"{client.traits.library} {given.release or ''}".strip()
    for problem in client.traits.contradictions(given):
        yield f"{where}: {problem}, so {software} does not start"


def _number(given: Config, name: str, default: float) -> float:
    """Return a number of a setting; the default if it is left out, or no number, which has its own message."""
    try:
        return float(given.get(name, default))
    except ValueError:
        return default
