"""The table of rules: its models, its loading, and the comparison of a row with facts.

A condition is `fact: value`, `fact: [value, …]` (any of them) or `fact: "<= other"`, with an operator and a number or
another fact. All conditions of a row have to hold. `given fact` is about what the user wrote, not about a default.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field

from chaos.guarantees.names import Role
from chaos.guarantees.values import Facts
from chaos.setup.triggers import Strict

RULES = Path(__file__).parent / "rules"
PREFIX = "fault."
_TEXT = re.compile(r"\{([a-z.]+)(?:\|([a-z]+))?\}")
_MS = {"ms": 1, "minutes": 60_000}
_NUMBERS = {str(n): text for n, text in enumerate(("no", "one", "two", "three", "four", "five", "six"))}
ASPECTS = ("durability", "duplication", "order", "delivery", "isolation", "availability")
_OPERATORS = {"<=": operator.le, ">=": operator.ge, "!=": operator.ne, "<": operator.lt, ">": operator.gt}
_GIVEN = "given "
Condition = bool | int | str | list[bool | int | str]
Level = Literal["full", "limited", "none"]
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
State = Literal["allowed", "not decided", "forbidden"]
FAMILIES = ("write", "read", "share", "quorum")
MISSING = {"topic.evicts": "the retention of the topic on an existing cluster"}
"""Facts that are not settings, for a reason that says they are not known."""


class Row(Strict):
    """An answer, for the settings in `when`.

    level: full, if it is promised under the faults that settings can cover; limited, if a common fault ends it; none.
    promise, until, lift: texts with facts in braces. lifts: the facts with which the limit is lifted, if they are few
    and common to all clients. by: further settings that the answer rests on. shown: scenarios, each with `/` and a
    variant if it has variants. mute: why no scenario shows it.
    """

    id: str
    when: dict[str, Condition]
    level: Level
    promise: str
    until: str
    lift: str = ""
    lifts: dict[str, bool | int | str] = {}
    by: list[str] = []
    sources: list[str] = Field(min_length=1)
    shown: list[str] = []
    mute: str = ""


class Question(Strict):
    """A question about an aspect. It is asked if the application has a client with the role `about`."""

    id: str
    title: str
    about: Role
    when: dict[str, Condition] = {}
    rows: list[Row]


class Contradiction(Strict):
    """Settings that contradict each other. refused: a client or a broker does not work with them."""

    id: str
    when: dict[str, Condition]
    refused: bool = False
    text: str
    sources: list[str] = Field(min_length=1)


class Requirement(Strict):
    """A part of the rule for an application that is reliable in every respect. only: when it is a part of it."""

    when: dict[str, Condition]
    only: dict[str, Condition] = {}
    wanted: str
    why: str
    sources: list[str] = Field(min_length=1)


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
    return value in [_text(choice) for choice in (wanted if isinstance(wanted, list) else [wanted])]


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


def _text(value: bool | int | str) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read(name: str) -> Any:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load((RULES / "promises" / f"{name}.yaml").read_text(encoding="utf-8"), Loader=loader)


@cache
def questions(aspect: str) -> list[Question]:
    """Return the questions of an aspect."""
    return [Question.model_validate(question) for question in _read(aspect)]


@cache
def contradictions() -> list[Contradiction]:
    """Return the settings that contradict each other."""
    return [Contradiction.model_validate(item) for item in _read("problems")]


@cache
def requirements() -> list[Requirement]:
    """Return the parts of the rule for an application that is reliable in every respect."""
    return [Requirement.model_validate(item) for item in _read("reliable")]


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


class LineRow(Strict):
    """What holds for a line under some conditions, and why."""

    state: State
    when: dict[str, Condition]
    why: str


class LineRules(Strict):
    """The rows of one line. only: the situations that it is about. promised: why it is forbidden without a row.

    by: the settings that the promise rests on.
    """

    only: dict[str, Condition] = {}
    promised: str
    by: list[str] = []
    rows: list[LineRow] = Field([])


@dataclass(frozen=True)
class Outcome:
    """What a line is in one situation, why, and the settings and faults behind it."""

    state: State
    why: str
    settings: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


@cache
def lines(family: str) -> dict[tuple[str, str], LineRules]:
    """Return the lines of a family by (kind, split)."""
    raw = yaml.safe_load((RULES / "contracts" / f"{family}.yaml").read_text(encoding="utf-8"))
    shared = yaml.safe_load((RULES / "contracts" / "shared.yaml").read_text(encoding="utf-8"))
    found: dict[tuple[str, str], LineRules] = {}
    for name, line in raw.items():
        rows = [expanded for row in line.get("rows", []) for expanded in _expanded(row, shared)]
        kind, _, split = name.partition(".")
        found[kind, split] = LineRules.model_validate({**line, "rows": rows})
    return found


def _expanded(row: dict[str, Any], shared: dict[str, list[dict[str, Any]]]) -> Iterable[dict[str, Any]]:
    if "like" not in row:
        yield row
        return
    for other in shared[row["like"]]:
        for inner in _expanded(other, shared):
            when = {**row.get("when", {}), **inner["when"]}
            yield {"when": when, "state": row.get("as", inner["state"]), "why": row.get("why") or inner["why"]}


def judge(line: LineRules, facts: Facts) -> Outcome | None:
    """Return what a line is in a situation; None if it is not about it."""
    if match(line.only, facts).holds is False:
        return None
    open_: Outcome | None = None
    for row in line.rows:
        found = match(row.when, facts)
        if found.holds:
            if row.state == "allowed" or open_ is None:
                return _outcome(row.state, fill(row.why, facts), row.when, facts)
        elif found.holds is None and row.state != "forbidden" and open_ is None:
            missing = ", ".join(MISSING.get(name) or name.partition(".")[2] for name in found.missing)
            open_ = _outcome("not decided", f"it depends on {missing}, which is not known", row.when, facts)
    return open_ or _outcome("forbidden", fill(line.promised, facts), dict.fromkeys(line.by, True), facts)


def _outcome(state: State, why: str, conditions: dict[str, Condition], facts: Facts) -> Outcome:
    read = [name.removeprefix("given ") for name in facts_in(conditions)]
    known = {name: facts[name] for name in read if name in facts}
    settings = [
        f"{s.name}={s.shown}" + ("" if s.given else f" ({s.origin})")
        for name, s in known.items()
        if not name.startswith((PREFIX, "reads.", "writes.", "run.")) and s.name != "client"
    ]
    faults = [s.origin for name, s in known.items() if name.startswith(PREFIX) and s.given]
    return Outcome(state, why, tuple(dict.fromkeys(settings)), tuple(dict.fromkeys(faults)))


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
