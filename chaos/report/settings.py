"""Relevant settings: settings that differ from the defaults, and settings that prevent an anomaly that was found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from chaos.anomalies import ANOMALIES
from chaos.clients.choice import DEFAULT
from chaos.kafka.settings import Scalar, as_text
from chaos.run.result import Result
from chaos.scenario.model import Scenario
from chaos.scenario.resolve import Resolved
from chaos.setup.clients import Assign, Consumer, Producer, Subscribe, settings_of
from chaos.setup.share import DEFAULTS as SHARE_DEFAULTS

Values = Mapping[str, Scalar]

_DEFAULTS = yaml.safe_load(Path(__file__).with_name("defaults.yaml").read_text(encoding="utf-8"))
_BROKER, _TOPIC, _PRODUCER, _CONSUMER = (_DEFAULTS[part] for part in ("broker", "topic", "producer", "consumer"))
_SYNONYMS: dict[str, str] = _DEFAULTS["synonyms"]
_KNOWN = {*_BROKER, *_TOPIC, *_PRODUCER, *_CONSUMER}
_COMMIT = {"(commit)": "auto, after poll"}


@dataclass(frozen=True)
class Setting:
    """One row of the table. named_by: the anomalies that the setting prevents."""

    part: str
    name: str
    value: str
    default: str
    named_by: list[str]

    @property
    def differs(self) -> bool:
        """Whether the value is not the default."""
        return self.value != self.default


def settings_that_mattered(result: Result, resolved: Resolved) -> list[Setting]:
    """Return the settings: first what prevents a finding, and changed settings before unchanged ones."""
    found = sorted({t.check for t in result.totals if t.count} | {f.check for f in result.findings})
    prevents = {check: _KNOWN & _names_in(ANOMALIES[check].prevents) for check in found if check in ANOMALIES}
    rows = []
    for part, config, defaults in _parts(resolved.scenario):
        own = {_SYNONYMS.get(name, name): value for name, value in config.items()}
        for name in sorted({*own, *defaults}):
            default = as_text(defaults[name]) if name in defaults else "unknown"
            value = as_text(own[name]) if name in own else default
            named_by = [check for check, names in prevents.items() if name in names]
            if named_by or _SYNONYMS.get(value, value) != _SYNONYMS.get(default, default):
                rows.append(Setting(part, name, value, default, named_by))
    return sorted(rows, key=lambda row: (not row.named_by, not row.differs))


def _parts(scenario: Scenario) -> Iterator[tuple[str, Values, Values]]:
    """Yield the name, the settings and the defaults of each part of the scenario."""
    config = scenario.cluster.config
    yield "cluster", _layout(scenario), {"(controllers)": "every broker", "(racks)": "none"}
    # settings of topics are listed with each topic, and with the brokers only if the brokers set them
    answered = config if scenario.cluster.asked else {}  # a value without a known default is no difference
    yield "brokers", config, {**answered, **{k: v for k, v in _BROKER.items() if k not in _TOPIC or k in config}}
    inherited = {k: v for k, v in config.items() if k in _TOPIC}  # they are the defaults of a topic
    for topic in scenario.topics:
        yield f"topic {topic.name}", {**inherited, **topic.config}, _TOPIC
    for producer in (p for p in scenario.producers if not p.rows):
        yield f"producer {producer.name}", settings_of(producer), _defaults(scenario, producer, _PRODUCER)
    for consumer in scenario.consumers:
        if consumer.mode == "share":
            yield f"share group {consumer.group}", {**consumer.settings, **consumer.config}, SHARE_DEFAULTS
            continue
        defaults = _defaults(scenario, consumer, _CONSUMER)
        rack: dict[str, Scalar] = {"client.rack": consumer.rack} if consumer.rack else {}
        own = {**settings_of(consumer), **_commits(consumer), **rack}
        yield f"consumer {consumer.name}", own, {**defaults, **_COMMIT}


def _layout(scenario: Scenario) -> dict[str, Scalar]:
    """Return the dedicated controllers, and the racks of the brokers, as far as the cluster has them."""
    cluster, found = scenario.cluster, dict[str, Scalar]()
    if cluster.controllers is not None:
        voters = f", {cluster.voters} of them voters of a dynamic quorum" if cluster.voters else ""
        found["(controllers)"] = f"{cluster.controllers} dedicated{voters}"
    if cluster.racks:
        found["(racks)"] = ", ".join(cluster.racks)
    return found


def _defaults(scenario: Scenario, entry: Producer | Consumer, librdkafka: Values) -> Values:
    """Return the known defaults of the settings of an entry: librdkafka's, or its library's."""
    library = scenario.client_of(entry)
    if library.runtime == DEFAULT:
        return librdkafka
    defaults = library.traits.defaults(library.release)
    return {name: value for name, value in defaults.items() if name in librdkafka}


def _commits(consumer: Subscribe | Assign) -> dict[str, Scalar]:
    """Return the commit mode of the scenario as settings of librdkafka."""
    kind, when = consumer.commit.kind, consumer.commit.when
    mode = "never" if when == "never" else f"{when.replace('_', ' ')}, {kind}"
    return {"enable.auto.commit": kind == "auto" and when != "never", "(commit)": mode}


def _names_in(text: str) -> set[str]:
    """Return the words of a text that may be names of settings, without the values after `=`."""
    return {word.partition("=")[0].strip("(),:;.") for word in text.split()}
