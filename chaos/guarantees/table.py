"""The table of guarantees: the models of its rules, its loading, and its three-valued evaluator.

A rule has `when`, `then`, `because` and sources.

| file in `rules/` | section | what a rule says |
|---|---|---|
| one for each aspect, such as `durability` | `promises` | what settings promise |
| the same | `anomalies` | what is left of it under faults |
| the same | `supports` | what keeps it, as elements that faults cut (`supports.py`) |
| `settings` | `contradictions`, `reliable` | what settings are together |
| `attacks` | | the faults that `prove` injects, and what they cut (`supports.py`) |

What a kind of fault may break stands at the fault, as `effects` (`chaos.faults`).

A condition is `fact: value`, `fact: [value, …]` (any of them) or `fact: "<= other"`, with an operator and a number
or another fact. All conditions of a rule have to hold. `given fact` is about what the user wrote, not about a default.
`fault.elections: true` is about faults with this effect; `fault: [elections, cut]` is one rule for each effect. `like`
names the rules in `shared`, with further conditions or another conclusion.

A comparison has three values: true, false, and unknown if a fact is missing. See `decide`.

Sources are short:

- `producer:acks`, `consumer:…`, `topic:…`, `broker:…`: a setting in Apache Kafka's documentation.
- `docs:semantics`: a section of it. `javadoc:KafkaConsumer`: a class of the Java client.
- `KIP-679`, `KAFKA-13598`: a proposal, an issue of Kafka.
- `librdkafka:acks`: a setting in CONFIGURATION.md. `librdkafka#1092`, `sarama#2619`: an issue.
- `page:NAME`: a page in `_PAGES`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from pydantic import Field

from chaos.guarantees.names import Role
from chaos.guarantees.values import Facts
from chaos.kafka.settings import as_text
from chaos.scenario.shipped import unchecked
from chaos.setup.triggers import Strict

RULES = Path(__file__).parent / "rules"
ASPECTS = ("durability", "duplication", "order", "delivery", "isolation", "availability", "log")
PREFIX = "fault."
FAULT_FACTS = frozenset(
    {
        # brokers and topics: see `faults.topic_faults`, and `situations` for clocks and retention
        *("any", "outage", "crash", "wipes", "disk", "everywhere", "hits", "elections", "unclean", "reassigns", "late"),
        *("recreates", "deletes", "adds", "ages", "backdates", "misdates", "isolates"),
        # clients and groups: see `faults.client_faults` and `faults.group_facts`
        *("cut", "crashes", "restarts", "ends", "hands_over", "seeks", "disturbs", "deserts"),
        *("resets", "sets_back", "sets_forward", "forgets", "repeats"),
    }
)
"""The facts about faults, without their prefix. A rule that names another one is refused."""
MISSING = {"topic.evicts": "the retention of the topic on an existing cluster"}
"""Facts that are not settings, for a reason that says they are not known."""

Condition = bool | int | str | list[bool | int | str]
Conditions = dict[str, Condition]
Level = Literal["full", "limited", "none"]
State = Literal["allowed", "not decided", "forbidden"]
Family = Literal["write", "read", "share", "quorum"]

_GIVEN = "given "
_OPERATORS = {"<=": operator.le, ">=": operator.ge, "!=": operator.ne, "<": operator.lt, ">": operator.gt}
_TEXT = re.compile(r"\{([a-z.]+)(?:\|([a-z]+))?\}")
_MS = {"ms": 1, "minutes": 60_000}
_NUMBERS = {str(n): text for n, text in enumerate(("no", "one", "two", "three", "four", "five", "six"))}
WEIGHT = (
    *("record", "once", "transaction", "waiting", "control", "commit", "position", "processing", "redelivery"),
    *("repetition", "ownership", "log"),
)
"""The promises that `prove` tests, in the order of their weight."""
_KAFKA = "https://kafka.apache.org/documentation/"
_LIBRDKAFKA = "https://github.com/confluentinc/librdkafka/"
_PAGES = {
    "librdkafka-introduction": ("librdkafka, INTRODUCTION.md", f"{_LIBRDKAFKA}blob/master/INTRODUCTION.md"),
    "sarama-config": ("sarama, config.go", "https://github.com/IBM/sarama/blob/main/config.go"),
    "sarama-group": ("sarama, consumer_group.go", "https://github.com/IBM/sarama/blob/main/consumer_group.go"),
    "flink-kafka": (
        "Flink, Apache Kafka Connector",
        "https://nightlies.apache.org/flink/flink-docs-stable/docs/connectors/datastream/kafka/",
    ),
    "franz-go-config": (
        "franz-go, package kgo, config.go",
        "https://github.com/twmb/franz-go/blob/master/pkg/kgo/config.go",
    ),
    "kafka-python-consumer": (
        "kafka-python, KafkaConsumer",
        "https://kafka-python.readthedocs.io/en/master/apidoc/KafkaConsumer.html",
    ),
    "limits": ("Aftershock, chaos/README.md, Limits", ""),
}
_SECTIONS = {
    "appvsosflush": "Application vs. OS Flush Management",
    "basic_ops_modify_topic": "Modifying topics",
    "compaction": "Log Compaction",
    "design_ha": "Availability and Durability Guarantees",
    "design_uncleanleader": "Unclean leader election",
    "impl_offsettracking": "Consumer Offset Tracking",
    "replication": "Replication",
    "semantics": "Message Delivery Semantics",
}


class Rule(Strict):
    """A rule: with these settings and faults, then this, because of that. only: the cases that the rule is about."""

    when: Conditions
    only: Conditions = {}
    then: str
    because: str
    sources: list[str] = []


class PromiseRule(Rule):
    """An answer to a question. because: what is promised.

    then: full, if it is promised under the faults that settings can cover; limited, if a common fault ends it; none.
    because, until, remedy: texts with facts in braces. remedy_settings: facts that lift the limit, if they are few
    and common to all clients. by: further settings that the answer rests on. shown: scenarios, each with `/` and a
    variant if it has variants. not_shown: why no scenario shows it.
    """

    id: str
    then: Level
    until: str
    remedy: str = ""
    remedy_settings: dict[str, bool | int | str] = {}
    by: list[str] = []
    sources: list[str] = Field(min_length=1)
    shown: list[str] = []
    not_shown: str = ""


class AnomalyRule(Rule):
    """What holds for an anomaly under some conditions."""

    then: State


class Contradiction(Rule):
    """Settings that contradict each other. refused: a client or a broker does not work with them."""

    id: str
    then: Literal["refused", "noted"]
    sources: list[str] = Field(min_length=1)


class Requirement(Rule):
    """A part of the rule for an application that is reliable in every respect. then: the part as text."""

    sources: list[str] = Field(min_length=1)


class Question(Strict):
    """A question about an aspect. It is asked if the application has a client with the role `about`."""

    id: str
    title: str
    about: Role
    when: Conditions = {}
    rules: list[PromiseRule]


class Anomaly(Strict):
    """The rules of an anomaly, or of a part of it. of: the situations that it appears in. only: those it is about.

    promised: why it is forbidden if no rule says more. by: the settings that this rests on.
    """

    of: Family
    only: Conditions = {}
    promised: str
    by: list[str] = []
    sources: list[str] = Field(min_length=1)
    rules: list[AnomalyRule] = []


class Element(Strict):
    """An element that a support needs. when: the settings with which it does."""

    element: str
    when: Conditions = {}


class SupportRule(Strict):
    """A support, or one for each further replica. each: the fact with their number."""

    what: str
    when: Conditions = {}
    each: str = ""
    needs: list[str | Element]


class OutcomeRule(Strict):
    """A promise with its supports. answers: its questions, as aspect/id. shows: the anomalies with which it breaks."""

    title: str
    breaks: str
    when: Conditions
    answers: list[str]
    shows: list[str]
    supports: list[SupportRule]


def read_rules(name: str) -> Any:
    """Return a file of the table as plain data."""
    return unchecked(RULES / f"{name}.yaml")


_aspect = cache(read_rules)


@cache
def questions(aspect: str) -> list[Question]:
    """Return the questions about an aspect."""
    return [Question.model_validate({"id": name, **raw}) for name, raw in _aspect(aspect).get("promises", {}).items()]


@cache
def anomalies() -> dict[tuple[str, str], Anomaly]:
    """Return the rules of all anomalies by (kind, split). Raises `ValueError` for a fact that no fault has."""
    shared = {name: rules for aspect in ASPECTS for name, rules in _aspect(aspect).get("shared", {}).items()}
    found: dict[tuple[str, str], Anomaly] = {}
    for aspect in ASPECTS:
        for name, raw in _aspect(aspect)["anomalies"].items():
            rules = [rule for one in raw.get("rules", []) for rule in _expanded(one, shared)]
            kind, _, split = name.partition(".")
            found[kind, split] = Anomaly.model_validate({**raw, "rules": rules})
            _check_faults(f"{aspect}.yaml: {name}", found[kind, split])
    return found


def _expanded(raw: dict[str, Any], shared: Mapping[str, list[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """Yield the rules that an entry stands for: the rules that it is `like`, one for each effect, or itself."""
    when = raw.get("when", {})
    if "like" in raw:
        for other in shared[raw["like"]]:
            for rule in _expanded(other, shared):
                yield {**rule, "when": {**when, **rule["when"]}, "then": raw.get("then", rule["then"])}
    elif "fault" in when:
        for effect in when["fault"]:
            own = {"fault": (f"{PREFIX}{effect}", True)}
            yield {**raw, "when": dict(own.get(fact, (fact, wanted)) for fact, wanted in when.items())}
    else:
        yield raw


def _check_faults(where: str, anomaly: Anomaly) -> None:
    for rule in anomaly.rules:
        for name in facts_in(rule.when):
            if name.startswith(PREFIX) and name.removeprefix(PREFIX) not in FAULT_FACTS:
                raise ValueError(f"{where}: no fault has the effect {name}; there are {', '.join(sorted(FAULT_FACTS))}")


@cache
def supported() -> dict[str, OutcomeRule]:
    """Return the promises with supports by their id, in the order of their weight."""
    raw = {name: rule for aspect in ASPECTS for name, rule in _aspect(aspect).get("supports", {}).items()}
    return {name: OutcomeRule.model_validate(raw[name]) for name in sorted(raw, key=WEIGHT.index)}


@cache
def contradictions() -> list[Contradiction]:
    """Return the settings that contradict each other."""
    return [Contradiction.model_validate(item) for item in read_rules("settings")["contradictions"]]


@cache
def requirements() -> list[Requirement]:
    """Return the parts of the rule for an application that is reliable in every respect."""
    return [Requirement.model_validate(item) for item in read_rules("settings")["reliable"]]


@dataclass(frozen=True)
class Match:
    """Whether conditions hold; None if that depends on facts in `missing`."""

    holds: bool | None
    missing: tuple[str, ...] = ()


def match(conditions: Mapping[str, Condition], facts: Facts) -> Match:
    """Compare conditions with facts. One that does not hold decides, whatever is missing."""
    missing: list[str] = []
    for fact, wanted in conditions.items():
        holds = _holds(fact, wanted, facts, missing)
        if holds is False:
            return Match(False)
    return Match(None, tuple(missing)) if missing else Match(True)


def _holds(fact: str, wanted: Condition, facts: Facts, missing: list[str]) -> bool | None:
    if fact.startswith(_GIVEN):
        found = facts.get(fact.removeprefix(_GIVEN))
        if found is None or not found.given:
            return False
        fact = fact.removeprefix(_GIVEN)
    if fact not in facts:
        missing.append(fact)
        return None
    value = facts[fact].value
    if isinstance(wanted, str) and (sign := next((s for s in _OPERATORS if wanted.startswith(s)), "")):
        other = wanted.removeprefix(sign).strip()
        if not _is_number(other):
            if other not in facts:
                missing.append(other)
                return None
            other = facts[other].value
        return bool(_OPERATORS[sign](int(value), int(other)))
    return value in [as_text(choice) for choice in (wanted if isinstance(wanted, list) else [wanted])]


def facts_in(conditions: Mapping[str, Condition]) -> list[str]:
    """Return the names of all facts that conditions read."""
    found: list[str] = []
    for fact, wanted in conditions.items():
        found.append(fact.removeprefix(_GIVEN))
        if isinstance(wanted, str) and wanted.startswith(tuple(_OPERATORS)):
            other = wanted.lstrip("<>=!").strip()
            found += [] if _is_number(other) else [other]
    return list(dict.fromkeys(found))


def _is_number(text: str) -> bool:
    return text.lstrip("-").isdigit()


R = TypeVar("R", bound=Rule)


@dataclass(frozen=True)
class Decision(Generic[R]):
    """The rule that decides; None if no rule holds. missing: the facts without which it is unknown whether it holds."""

    rule: R | None
    missing: tuple[str, ...] = ()


def decide(rules: Iterable[R], facts: Facts) -> Decision[R]:
    """Return the first rule that holds. If a rule before it may hold, for lack of facts, that rule is unknown.

    What is allowed for certain is not in doubt: a rule that allows decides also behind an unknown one. An unknown
    exception, with `forbidden`, is passed over: no more than what the rules behind it allow is ever allowed.
    """
    doubt = Decision[R](None)
    for rule in rules:
        found = match(rule.when, facts)
        if found.holds:  # what stands behind it is not reached
            return Decision(rule) if doubt.rule is None or rule.then == "allowed" else doubt
        if found.holds is None and doubt.rule is None and rule.then != "forbidden":
            doubt = Decision(rule, found.missing)
    return doubt


@dataclass(frozen=True)
class Judged:
    """What an anomaly is in one situation, why, and the settings and faults behind it."""

    state: State
    why: str
    settings: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


def judge(anomaly: Anomaly, facts: Facts) -> Judged | None:
    """Return what an anomaly is in a situation; None if it is not about it."""
    if match(anomaly.only, facts).holds is False:
        return None
    found = decide(anomaly.rules, facts)
    if found.rule is None:
        return _judged("forbidden", fill(anomaly.promised, facts), dict.fromkeys(anomaly.by, True), facts)
    if found.missing:
        missing = ", ".join(MISSING.get(name) or name.partition(".")[2] for name in found.missing)
        return _judged("not decided", f"it depends on {missing}, which is not known", found.rule.when, facts)
    return _judged(found.rule.then, fill(found.rule.because, facts), found.rule.when, facts)


def _judged(state: State, why: str, conditions: Conditions, facts: Facts) -> Judged:
    known = {name: facts[name] for name in facts_in(conditions) if name in facts}
    settings = [
        f"{s.name}={s.shown}" + ("" if s.given else f" ({s.origin})")
        for name, s in known.items()
        if not name.startswith((PREFIX, "reads.", "writes.", "run.")) and s.name != "client"
    ]
    faults = [s.origin for name, s in known.items() if name.startswith(PREFIX) and s.given]
    return Judged(state, why, tuple(dict.fromkeys(settings)), tuple(dict.fromkeys(faults)))


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


class Source(Strict):
    """A source with its address, which may be empty."""

    name: str
    url: str


def _section(section: str, anchor: str) -> Callable[[str], Source]:
    return lambda name: Source(name=f"Kafka, {section}, {name}", url=f"{_KAFKA}#{anchor}_{name}")


_KINDS: dict[str, Callable[[str], Source]] = {
    "producer": _section("Producer Configs", "producerconfigs"),
    "consumer": _section("Consumer Configs", "consumerconfigs"),
    "topic": _section("Topic Configs", "topicconfigs"),
    "broker": _section("Broker Configs", "brokerconfigs"),
    "docs": lambda part: Source(name=f"Kafka, {_SECTIONS[part]}", url=f"{_KAFKA}#{part}"),
    "javadoc": lambda name: Source(
        name=f"Java client, {name}",
        url="https://kafka.apache.org/43/javadoc/org/apache/kafka/clients/"
        f"{'producer' if 'Producer' in name else 'consumer'}/{name}.html",
    ),
    "librdkafka": lambda name: Source(
        name=f"librdkafka, CONFIGURATION.md, {name}", url=f"{_LIBRDKAFKA}blob/master/CONFIGURATION.md"
    ),
    "page": lambda name: Source(name=_PAGES[name][0], url=_PAGES[name][1]),
}


def source(short: str) -> Source:
    """Return the source of a short form. Raises `ValueError` for another text."""
    if re.fullmatch(r"KIP-\d+", short):
        return Source(name=short, url=f"https://cwiki.apache.org/confluence/display/KAFKA/{short}")
    if re.fullmatch(r"KAFKA-\d+", short):
        return Source(name=short, url=f"https://issues.apache.org/jira/browse/{short}")
    if issue := re.fullmatch(r"(librdkafka|sarama)#(\d+)", short):
        project = "confluentinc/librdkafka" if issue[1] == "librdkafka" else "IBM/sarama"
        return Source(name=f"{issue[1]} issue {issue[2]}", url=f"https://github.com/{project}/issues/{issue[2]}")
    kind, _, name = short.partition(":")
    if kind not in _KINDS or not name:
        raise ValueError(f"{short!r} is no source")
    return _KINDS[kind](name)
