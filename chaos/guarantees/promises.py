"""What settings promise: from the parts of an application to the answers of the table."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from chaos.errors import UsageError
from chaos.guarantees.application import AppFile, Options, Parts, read_parts
from chaos.guarantees.facts import READ, ClientPart, ClusterPart, cluster_facts, consumer_facts, producer_facts
from chaos.guarantees.names import common_name, known
from chaos.guarantees.table import (
    ASPECTS,
    Conditions,
    PromiseRule,
    Question,
    Source,
    contradictions,
    decide,
    facts_in,
    fill,
    match,
    questions,
    requirements,
    source,
)
from chaos.guarantees.values import Facts, Problems, Setting, unique
from chaos.kafka.security import Security
from chaos.setup.triggers import Strict

INPUT = "input."
"""Prefix of the facts of the input topic, if the output topic is another one."""
_HIDDEN = ("producer.client", "consumer.client")
_DERIVED = (".losable", ".spare", ".followers")
_NEVER = str(2**63 - 1)
"""Kafka's largest number, which means that something never happens by itself."""
WHERE = {
    "producer": "the producer's settings",
    "consumer": "the consumer's settings",
    "topic": "the topic's settings",
    "cluster": "the settings of the brokers",
}
HOW = {
    "topic.replication.factor": "the number of replicas (replication_factor in app.yaml, --replication-factor, or "
    "--bootstrap with --topic)",
    "producer.transactional": "the producer's settings (whether it has a transactional.id)",
    "consumer.commit": "when the application commits (commit in app.yaml, or --commit)",
}
"""How to give a fact that is often missing."""


class UsedSetting(Strict):
    """A setting that an answer rests on."""

    name: str
    value: str
    origin: str
    given: bool


class Answer(Strict):
    """The answer to one question. level: full, limited, none, or unknown; then `promise` says what is missing.

    remedy_settings: the facts that lift the limit, such as `producer.acks: all`, if the rules know them.
    """

    aspect: str
    id: str
    row: str = ""
    title: str
    level: str
    promise: str
    until: str = ""
    remedy: str = ""
    remedy_settings: dict[str, bool | int | str] = {}
    by: list[UsedSetting] = []
    sources: list[Source] = []
    shown: list[str] = []


class Reliable(Strict):
    """Whether the application is reliable in every respect. missing: what it lacks; unknown: what is not known."""

    holds: bool | None
    missing: list[str]
    unknown: list[str]


class ReadSetting(UsedSetting):
    """A setting that was read from a file. kafka: its name in Kafka or in the client library."""

    part: str
    kafka: str


class Promises(Strict):
    """All that the settings of an application promise. read: the settings that files give, without secrets."""

    application: dict[str, str]
    read: list[ReadSetting] = []
    answers: list[Answer]
    reliable: Reliable
    notes: list[str]


def answer_all(facts: Facts, roles: Collection[str]) -> list[Answer]:
    """Return the answers to the questions about these roles: producer, consumer.

    What depends on a part that is not given is answered by Kafka's defaults, or is not known; it is never left out.
    Without a client, the answers are what a topic and a cluster give for every client. What a consumer may expect
    depends on its input topic, if that is another one.
    """
    read = {name.removeprefix(INPUT): found for name, found in facts.items() if name.startswith(INPUT)}
    known = {"producer": facts, "consumer": {**facts, **read}}
    found = [
        _answer(aspect, question, known[question.about])
        for aspect in ASPECTS
        for question in questions(aspect)
        if (question.about in roles or not roles) and match(question.when, known[question.about]).holds is not False
    ]
    return found if roles else [answer for answer in found if answer.level != "unknown"]


def _answer(aspect: str, question: Question, facts: Facts) -> Answer:
    """Return the answer of the first rule that holds, or `unknown` if missing facts decide which rule holds."""
    clients = any(fact.startswith(("producer.", "consumer.")) for fact in facts)
    missing = match(question.when, facts).missing if clients else ()
    if not missing:
        found = decide(question.rules, facts)
        if found.rule is not None and not found.missing:
            return _filled(aspect, question, found.rule, facts)
        missing = found.missing
    return Answer(
        aspect=aspect,
        id=question.id,
        title=question.title,
        level="unknown",
        promise=f"Not known: give {_needed(missing)}.",
    )


def _needed(missing: Iterable[str]) -> str:
    """Return how to give missing facts."""
    texts = [HOW.get(fact) or f"{fact.partition('.')[2]} ({WHERE[fact.partition('.')[0]]})" for fact in missing]
    return "; ".join(dict.fromkeys(texts)) or "more settings"


def _filled(aspect: str, question: Question, rule: PromiseRule, facts: Facts) -> Answer:
    return Answer(
        aspect=aspect,
        id=question.id,
        row=rule.id,
        title=question.title,
        level=rule.then,
        promise=fill(rule.because, facts),
        until=fill(rule.until, facts),
        remedy=fill(rule.remedy, facts),
        remedy_settings=rule.remedy_settings,
        by=_used([*facts_in(rule.when), *rule.by], facts),
        sources=[source(short) for short in rule.sources],
        shown=rule.shown,
    )


def _used(names: Iterable[str], facts: Facts) -> list[UsedSetting]:
    """Return the settings behind facts, each once; derived facts are left out."""
    found = [facts[n] for n in dict.fromkeys(names) if n in facts and n not in _HIDDEN and not n.endswith(_DERIVED)]
    used = [UsedSetting(name=s.name, value=_shown(s.shown), origin=s.origin, given=s.given) for s in found]
    return list({(s.name, s.origin): s for s in used}.values())


def _shown(value: str) -> str:
    return f"{value} (never)" if value == _NEVER else value


def find_contradictions(facts: Facts, problems: Problems) -> None:
    """Add the settings that contradict each other."""
    for rule in contradictions():
        if match(rule.when, facts).holds:
            where = ", ".join(f"{s.name}={s.value} ({s.origin})" for s in _used(facts_in(rule.when), facts))
            found = problems.refused if rule.then == "refused" else problems.notes
            found.append(f"{fill(rule.because, facts)}: {where}")


def reliable(facts: Facts) -> Reliable:
    """Return whether the rule for an application that is reliable in every respect holds."""
    missing, unknown = list[str](), list[str]()
    for part in requirements():
        if part.only and not match(part.only, facts).holds:
            continue
        found = match(part.when, facts)
        if found.holds is False:
            missing.append(f"{part.then}: {part.because} (now {_now(part.when, facts)})")
        elif found.holds is None:
            unknown.append(part.then)
    return Reliable(holds=False if missing else None if unknown else True, missing=missing, unknown=unknown)


def _now(conditions: Conditions, facts: Facts) -> str:
    used = _used(facts_in(conditions), facts)
    return ", ".join(f"{s.name}={s.value}, {s.origin}" for s in used)


def promise(options: Options) -> Promises:
    """Return what the settings promise. Raises as `read_application` and `answers`."""
    problems = Problems()
    parts, _ = read_application(options, problems)
    if not parts.clients:
        problems.notes.append("no client is given; --client java, for example, means one with default settings")
    return answers(parts, facts_of(parts, problems), problems)


def read_application(options: Options, problems: Problems) -> tuple[Parts, AppFile]:
    """Return the parts of an application, with the parts that a cluster knows.

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
    from chaos.guarantees.from_cluster import add_cluster  # on use: the connections to brokers are heavy to import

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
    """Return the settings in files: settings of clients on which a promise depends, else numbers and words."""
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
