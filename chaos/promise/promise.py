"""`promise`: from the inputs to the answers."""

from __future__ import annotations

import re

from chaos.errors import UsageError
from chaos.kafka.security import Security
from chaos.promise.answers import INPUT, Promises, ReadSetting, answer_all, find_contradictions, reliable
from chaos.promise.app import AppFile
from chaos.promise.client_settings import READ, ClientPart
from chaos.promise.cluster_facts import ClusterPart, cluster_facts
from chaos.promise.consumer_facts import consumer_facts
from chaos.promise.inputs import Options, Parts, read_parts
from chaos.promise.names import common_name, known
from chaos.promise.problems import Problems, unique
from chaos.promise.producer_facts import producer_facts
from chaos.promise.settings import Facts, Setting


def promise(options: Options) -> Promises:
    """Return what the settings promise. Raises as `read_application` and `answers`."""
    problems = Problems()
    parts, _ = read_application(options, problems)
    if not parts.clients:
        problems.notes.append("no client is given; --client java, for example, means one with default settings")
    return answers(parts, facts_of(parts, problems), problems)


def read_application(options: Options, problems: Problems) -> tuple[Parts, AppFile]:
    """Return the parts of an application, with those that a cluster knows.

    Raises `UsageError` if they cannot be read, and `ClusterError` if the cluster that is to be asked does not answer.
    """
    parts, file = read_parts(options, problems)
    _ask_cluster(options, file, parts, problems)
    if not parts.clients and parts.topic is None and not (parts.cluster and parts.cluster.given):
        raise UsageError("nothing is given; give an app.yaml, or at least one properties file (see --help)")
    return parts, file


def answers(parts: Parts, facts: Facts, problems: Problems) -> Promises:
    """Return what the facts promise. Raises `UsageError` if a client or a broker refuses the settings."""
    find_contradictions(facts, problems)
    problems.raise_refused()
    return Promises(
        application=_described(parts),
        read=_read(parts),
        answers=answer_all(facts, [client.role for client in parts.clients]),
        reliable=reliable(facts),
        notes=unique(problems.notes),
    )


def _ask_cluster(options: Options, file: AppFile, parts: Parts, problems: Problems) -> None:
    """Add the settings of a cluster, if one is given."""
    cluster, (_, topic) = file.app.cluster, file.app.written
    bootstrap = options.bootstrap or (cluster.bootstrap if cluster else None)
    if bootstrap is None:
        if options.topic:
            raise UsageError("--topic names a topic of a cluster; give --bootstrap too")
        return
    from chaos.promise.from_cluster import add_cluster  # on use: the connections to brokers are heavy to import

    parts.cluster = parts.cluster or ClusterPart()
    if options.topic and file.app.transforms:
        raise UsageError("--topic names one topic, and app.yaml has two, input and output; give their names there")
    name = options.topic or (topic.name if topic else "")
    security = cluster.security if cluster else Security()
    parts.topic = add_cluster(bootstrap, security, name, parts.topic, parts.cluster, problems)
    if parts.input is not None and file.app.input is not None:
        parts.input = add_cluster(bootstrap, security, file.app.input.name, parts.input, parts.cluster, problems)


def facts_of(parts: Parts, problems: Problems) -> Facts:
    """Return the facts of all parts."""
    facts: Facts = {}
    if parts.producer:
        facts |= producer_facts(parts.producer, problems)
    if parts.consumer:
        facts |= consumer_facts(parts.consumer, problems)
    if parts.topic and parts.cluster and not parts.cluster.given:
        problems.notes.append(
            "the settings of the brokers are not given, so Kafka's defaults are assumed where the topic says nothing; "
            "--server-properties or --bootstrap gives them"
        )
    if parts.cluster:
        facts |= cluster_facts(parts.topic, parts.cluster, problems)
    if parts.cluster and parts.input:
        own = cluster_facts(parts.input, parts.cluster, problems)
        facts |= {f"{INPUT}{name}": found for name, found in own.items() if name.startswith("topic.")}
    return facts


def _described(parts: Parts) -> dict[str, str]:
    found: dict[str, str] = {client.role: _client(client) for client in parts.clients}
    if parts.cluster and parts.cluster.given:
        found["cluster"] = parts.cluster.asked or parts.cluster.software
    return found


def _read(parts: Parts) -> list[ReadSetting]:
    """Return the settings that files give: of clients the ones on which a promise depends, else numbers and words."""
    found = list[tuple[str, str, Setting]]()
    for client in parts.clients:
        runtime = client.client.runtime
        for own, given in client.settings.items():
            name = common_name(runtime, own, given.value)[0]
            if name in READ[client.role]:
                found.append((client.role, own, given))
        if client.commit is not None:
            found.append((client.role, client.commit.name, client.commit))
    cluster = parts.cluster
    topics = {"output": parts.topic, "input": parts.input} if parts.input else {"topic": parts.topic}
    for part, one in topics.items():
        if one is not None:
            found += [(part, name, s) for name, s in one.settings.items() if _is_plain(name, s)]
            found += [(part, s.name, s) for s in (one.partitions, one.replicas) if s is not None]
    if cluster is not None and not cluster.asked:
        found += [("cluster", name, s) for name, s in cluster.settings.items() if _is_plain(name, s)]
        found += [("cluster", "brokers", cluster.brokers)] if cluster.brokers else []
    return [
        ReadSetting(part=part, kafka=kafka, name=s.name, value=s.shown, origin=s.origin, given=s.given)
        for part, kafka, s in found
        if s.given and not s.origin.startswith(("default of", "set by"))
    ]


def _is_plain(name: str, given: Setting) -> bool:
    """Return whether a setting of a topic or broker can be shown: a number or a word, and no secret."""
    words = re.fullmatch(r"-?[\d.]+|true|false", given.value) or name.endswith((".policy", ".type", ".roles"))
    return (
        bool(words)
        and name in known("topic") | known("broker")
        and not re.search(r"password|secret|jaas|key|token", name)
    )


def _client(part: ClientPart) -> str:
    return f"{part.library} ({part.why})"
