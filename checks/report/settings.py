"""Relevant settings: those that differ from the defaults, and those that prevent an anomaly that was found."""

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
class ConfiguredPart:
    """A part of the scenario with settings. derived: settings that follow from other fields of the scenario."""

    name: str
    config: Mapping[str, Scalar]
    defaults: Mapping[str, Scalar]
    derived: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True)
class Setting:
    """One row of the table. named_by: the anomalies that the setting prevents."""

    part: str
    name: str
    value: str
    default: str
    named_by: tuple[str, ...] = ()

    @property
    def differs(self) -> bool:
        """Whether the value is not the default."""
        return self.value != self.default


def settings_that_mattered(result: Result, resolved: Resolved) -> list[Setting]:
    """Return the settings: those that prevent a finding first, and changed settings before unchanged ones."""
    named = _named_by_findings(result)
    rows = [row for part in _parts(resolved.scenario) for row in _rows(part, named)]
    return sorted(rows, key=lambda row: (not row.named_by, not row.differs))


def _rows(part: ConfiguredPart, named: Mapping[str, tuple[str, ...]]) -> Iterator[Setting]:
    own = {defaults.SYNONYMS.get(name, name): value for name, value in part.config.items()} | dict(part.derived)
    for name in sorted(own.keys() | (named.keys() & part.defaults.keys())):
        default = as_text(part.defaults[name]) if name in part.defaults else "unknown"
        row = Setting(part.name, name, as_text(own[name]) if name in own else default, default, named.get(name, ()))
        if row.named_by or not _same(row.value, default):
            yield row


def _parts(scenario: Scenario) -> Iterator[ConfiguredPart]:
    cluster = scenario.cluster
    # settings of topics are listed with each topic, and with the brokers only if the brokers set them
    broker_defaults = {k: v for k, v in defaults.BROKER.items() if k not in defaults.TOPIC or k in cluster.config}
    yield ConfiguredPart("brokers", cluster.config, broker_defaults)
    for topic in scenario.topics:
        # a setting of the brokers is the default of a topic
        inherited = {k: v for k, v in cluster.config.items() if k in defaults.TOPIC}
        yield ConfiguredPart(f"topic {topic.name}", {**inherited, **topic.config}, defaults.TOPIC)
    for producer in scenario.producers:
        yield ConfiguredPart(f"producer {producer.name}", producer.config, defaults.PRODUCER)
    for consumer in scenario.consumers:
        yield ConfiguredPart(f"consumer {consumer.name}", consumer.config, _CONSUMER, _commits(consumer))


_CONSUMER: dict[str, Scalar] = {**defaults.CONSUMER, "(commit)": "auto, after poll"}


def _commits(consumer: Subscribe | Assign) -> dict[str, Scalar]:
    """Return the commit mode of the scenario as settings of librdkafka."""
    auto = consumer.commit.kind == "auto" and consumer.commit.when != "never"
    mode = (
        "never"
        if consumer.commit.when == "never"
        else f"{consumer.commit.when.replace('_', ' ')}, {consumer.commit.kind}"
    )
    return {"enable.auto.commit": auto, "(commit)": mode}


def _named_by_findings(result: Result) -> dict[str, tuple[str, ...]]:
    """Return the kinds of anomalies that were found and that a setting prevents, by setting."""
    checks = sorted({t.check for t in result.totals if t.count} | {f.check for f in result.findings})
    names = {*defaults.BROKER, *defaults.TOPIC, *defaults.PRODUCER, *defaults.CONSUMER}
    return {name: kinds for name in names if (kinds := tuple(c for c in checks if _mentions(c, name)))}


def _mentions(check: str, name: str) -> bool:
    prevents = ANOMALIES[check].prevents if check in ANOMALIES else ""
    return name in _tokens(prevents)


def _tokens(text: str) -> Iterable[str]:
    return {word.partition("=")[0].strip("(),:;.") for word in text.split()}


def _same(value: str, default: str) -> bool:
    return defaults.SYNONYMS.get(value, value) == defaults.SYNONYMS.get(default, default)
