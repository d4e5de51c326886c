"""The settings that mattered: those that differ from the defaults, and those that the findings name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from chaos.anomalies import ANOMALIES
from chaos.kafka.settings import Scalar, as_text
from chaos.run.result import Result
from chaos.scenario.consumers import Assign, Subscribe
from chaos.scenario.model import Scenario
from chaos.scenario.resolve import Resolved
from checks.report import defaults


@dataclass(frozen=True)
class Place:
    """A thing that has settings: what is set, and what holds where nothing is set."""

    name: str
    config: Mapping[str, Scalar]
    known: Mapping[str, Scalar]
    derived: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True)
class Setting:
    """One row: where, what, its value, the default, and the anomalies that it prevents or that it let through."""

    place: str
    name: str
    value: str
    default: str
    named_by: tuple[str, ...] = ()

    @property
    def differs(self) -> bool:
        """Whether it was set to something else than the default."""
        return self.value != self.default


def settings_that_mattered(result: Result, resolved: Resolved) -> list[Setting]:
    """Rows, those that findings name first, and among them those that were changed."""
    named = _named_by_findings(result)
    rows = [row for place in _places(resolved.scenario) for row in _rows(place, named)]
    return sorted(rows, key=lambda row: (not row.named_by, not row.differs))


def _rows(place: Place, named: Mapping[str, tuple[str, ...]]) -> Iterator[Setting]:
    own = {defaults.SYNONYMS.get(name, name): value for name, value in place.config.items()} | dict(place.derived)
    for name in sorted(own.keys() | (named.keys() & place.known.keys())):
        default = as_text(place.known[name]) if name in place.known else "not known here"
        row = Setting(place.name, name, as_text(own[name]) if name in own else default, default, named.get(name, ()))
        if row.named_by or not _same(row.value, default):
            yield row


def _places(scenario: Scenario) -> Iterator[Place]:
    cluster = scenario.cluster
    # a topic tells its own value, so the brokers speak of it only where they set it
    known = {k: v for k, v in defaults.BROKER.items() if k not in defaults.TOPIC or k in cluster.config}
    yield Place("brokers", cluster.config, known)
    for topic in scenario.topics:
        # a topic's default is what the brokers say, where they say anything
        inherited = {k: v for k, v in cluster.config.items() if k in defaults.TOPIC}
        yield Place(f"topic {topic.name}", {**inherited, **topic.config}, defaults.TOPIC)
    for producer in scenario.producers:
        yield Place(f"producer {producer.name}", producer.config, defaults.PRODUCER)
    for consumer in scenario.consumers:
        yield Place(f"consumer {consumer.name}", consumer.config, _CONSUMER, _commits(consumer))


_CONSUMER: dict[str, Scalar] = {**defaults.CONSUMER, "(commit)": "auto, after poll"}


def _commits(consumer: Subscribe | Assign) -> dict[str, Scalar]:
    """What the scenario's commit mode means in librdkafka's own words."""
    auto = consumer.commit.kind == "auto" and consumer.commit.when != "never"
    words = (
        "never"
        if consumer.commit.when == "never"
        else f"{consumer.commit.when.replace('_', ' ')}, {consumer.commit.kind}"
    )
    return {"enable.auto.commit": auto, "(commit)": words}


def _named_by_findings(result: Result) -> dict[str, tuple[str, ...]]:
    """Setting -> the kinds found whose prevention names it."""
    checks = sorted({t.check for t in result.totals if t.count} | {f.check for f in result.findings})
    names = {*defaults.BROKER, *defaults.TOPIC, *defaults.PRODUCER, *defaults.CONSUMER}
    return {name: kinds for name in names if (kinds := tuple(c for c in checks if _mentions(c, name)))}


def _mentions(check: str, name: str) -> bool:
    words = ANOMALIES[check].prevents if check in ANOMALIES else ""
    return name in _tokens(words)


def _tokens(words: str) -> Iterable[str]:
    return {word.partition("=")[0].strip("(),:;.") for word in words.split()}


def _same(value: str, default: str) -> bool:
    return defaults.SYNONYMS.get(value, value) == defaults.SYNONYMS.get(default, default)
