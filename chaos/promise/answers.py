"""The answers of the table: what the facts of an application promise."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from chaos.promise.problems import Problems
from chaos.promise.settings import Facts
from chaos.promise.sources import Source, source
from chaos.promise.table import (
    ASPECTS,
    Condition,
    Question,
    Row,
    contradictions,
    facts_in,
    match,
    questions,
    requirements,
)
from chaos.setup.triggers import Strict

INPUT = "input."
"""Prefix of the facts of the input topic, if the output topic is another one."""
_HIDDEN = ("producer.client", "consumer.client")
_DERIVED = (".losable", ".spare", ".copies.beyond.leader")
_TEXT = re.compile(r"\{([a-z.]+)(?:\|([a-z]+))?\}")
_NEVER = str(2**63 - 1)
"""Kafka's largest number, which means that something never happens by itself."""
_MS = {"ms": 1, "minutes": 60_000}
_NUMBERS = {str(n): text for n, text in enumerate(("no", "one", "two", "three", "four", "five", "six"))}

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

    lifts: the facts that lift the limit, such as `producer.acks: all`, if the rules know them.
    """

    aspect: str
    id: str
    row: str = ""
    title: str
    level: str
    promise: str
    until: str = ""
    lift: str = ""
    lifts: dict[str, bool | int | str] = {}
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
    Without a client, the answers are those that a topic and a cluster give for every client. What a consumer may expect
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
    """Return the first row that holds. Where it depends on missing facts which one that is, the answer is unknown."""
    clients = any(fact.startswith(("producer.", "consumer.")) for fact in facts)
    missing = match(question.when, facts).missing if clients else ()
    for row in () if missing else question.rows:
        found = match(row.when, facts)
        if found.holds:
            return _filled(aspect, question, row, facts)
        if found.holds is None:
            missing = found.missing
            break
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


def _filled(aspect: str, question: Question, row: Row, facts: Facts) -> Answer:
    return Answer(
        aspect=aspect,
        id=question.id,
        row=row.id,
        title=question.title,
        level=row.level,
        promise=fill(row.promise, facts),
        until=fill(row.until, facts),
        lift=fill(row.lift, facts),
        lifts=row.lifts,
        by=_used([*facts_in(row.when), *row.by], facts),
        sources=[source(short) for short in row.sources],
        shown=row.shown,
    )


def _used(names: Iterable[str], facts: Facts) -> list[UsedSetting]:
    """Return the settings behind facts, each once; those that are derived from others are left out."""
    found = [facts[n] for n in dict.fromkeys(names) if n in facts and n not in _HIDDEN and not n.endswith(_DERIVED)]
    used = [UsedSetting(name=s.name, value=_shown(s.shown), origin=s.origin, given=s.given) for s in found]
    return list({(s.name, s.origin): s for s in used}.values())


def _shown(value: str) -> str:
    return f"{value} (never)" if value == _NEVER else value


def fill(text: str, facts: Facts) -> str:
    """Return a text with facts in place of `{fact}`, `{fact|broker}` (some brokers), `{fact|ms}`, `{fact|minutes}`."""

    def value(found: re.Match[str]) -> str:
        if found[1] not in facts:  # of a client, and none is given
            return found[1].partition(".")[2]
        shown, form = facts[found[1]].value, found[2]
        if form is None:
            return facts[found[1]].shown
        if form in _MS:
            return duration(int(shown) * _MS[form])
        return f"{_NUMBERS.get(shown, shown)} {form}{'' if shown == '1' else 's'}"

    return _TEXT.sub(value, text)


def duration(ms: int) -> str:
    """Return a time in the largest unit that divides it, such as `7 days`."""
    for unit, size in (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1000)):
        if ms >= size and ms % size == 0:
            count = ms // size
            return f"{count} {unit}" if count == 1 else f"{count} {unit}s"
    return f"{ms} ms"


def find_contradictions(facts: Facts, problems: Problems) -> None:
    """Add the settings that contradict each other."""
    for rule in contradictions():
        if match(rule.when, facts).holds:
            where = ", ".join(f"{s.name}={s.value} ({s.origin})" for s in _used(facts_in(rule.when), facts))
            (problems.refused if rule.refused else problems.notes).append(f"{fill(rule.text, facts)}: {where}")


def reliable(facts: Facts) -> Reliable:
    """Return whether the rule for an application that is reliable in every respect holds."""
    missing, unknown = list[str](), list[str]()
    for part in requirements():
        if part.only and not match(part.only, facts).holds:
            continue
        found = match(part.when, facts)
        if found.holds is False:
            missing.append(f"{part.wanted}: {part.why} (now {_now(part.when, facts)})")
        elif found.holds is None:
            unknown.append(part.wanted)
    return Reliable(holds=False if missing else None if unknown else True, missing=missing, unknown=unknown)


def _now(conditions: dict[str, Condition], facts: Facts) -> str:
    used = _used(facts_in(conditions), facts)
    return ", ".join(f"{s.name}={s.value}, {s.origin}" for s in used)
