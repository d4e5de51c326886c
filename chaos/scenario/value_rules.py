"""What a scenario must not ask of payloads of the user's form, and what their files must have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from chaos.clients.choice import DEFAULT
from chaos.errors import ScenarioError
from chaos.faults.base import Experiment, FaultSpec
from chaos.ledger.ids import NUMBER_BITS
from chaos.scenario.mistakes import Source, as_key
from chaos.scenario.retention import compresses
from chaos.setup.clients import Producer
from chaos.setup.model import Setup

S = TypeVar("S", bound=Experiment)

RECORD_BYTES = 100
"""About what a batch of one record has besides key, value and headers of the user."""
BROKER_BYTES, LIBRDKAFKA_BYTES = 1_048_588, 1_000_000
"""Defaults of message.max.bytes of brokers (and max.message.bytes of topics), and of librdkafka."""
_LIMITS = ("message.max.bytes", "max.request.size", "max_request_size")
"""The setting by which client libraries limit a record."""


def problems(setup: Setup, faults: Sequence[FaultSpec]) -> Iterator[str]:
    """Yield values that do not go with what else the scenario has; files are not read."""
    for i, p in enumerate(setup.producers):
        where = f"producers[{i}]"
        if p.value and p.partitioner == "by_key_number":
            yield f"{where}.partitioner: by_key_number needs keys, and value has its own"
        for fault in faults if p.unmarked else ():
            starts = "restarts" in fault.effects and not getattr(fault, "for_good", False)
            name = str(fault.target.selector[1]).partition("/")[0]
            if starts and fault.kind.startswith("producer.") and name == p.name:
                yield (
                    f"{where}.value.mark: with none, no record says which incarnation of {p.name} sent it, and "
                    f"{fault.name} starts another one; use mark: header"
                )


def with_files(scenario: S, folder: Path, source: Source, headline: str) -> S:
    """Return the scenario with the absolute paths of its files and the types of its ids.

    folder: what relative paths begin at. Raises `ScenarioError` with one line for each mistake in them.
    """
    if not any(p.value for p in scenario.producers):
        return scenario
    from chaos.values.model import FORMS
    from chaos.values.payloads import Payloads, ValueProblem

    found: list[tuple[tuple[str | int, ...], str]] = []
    producers = list(scenario.producers)
    for i, p in enumerate(scenario.producers):
        if p.value is None:
            continue
        value = p.value.placed_in(folder)
        try:
            payloads = Payloads(value, 0)
            value = value.model_copy(update={"id_type": payloads.id_type})
            producers[i] = p.model_copy(update={"value": value})
            if too_large := _too_large(scenario, p, *payloads.largest):
                raise ValueProblem(next(name for name in ("sizes", *FORMS) if getattr(value, name)), too_large)
        except ValueProblem as e:
            found.append((("producers", i, "value", *e.key.split(".")), e.text))
    scenario = scenario.model_copy(update={"producers": producers})
    most = sum(p.count * p.most_records(scenario.limits.drive) for p in producers if p.value and p.value.has_id)
    numbered = [i for i, p in enumerate(producers) if p.value and p.value.id_type == "number"]
    if not found and numbered and most > 2**NUMBER_BITS:
        text = f"{most:,} records have ids, and at most {2**NUMBER_BITS:,} do if some are numbers; send fewer"
        found.append((("producers", numbered[0], "records"), text))
    if found:
        lines = [f"{source.origin(path)}: {as_key(path)}: {text}" for path, text in found]
        raise ScenarioError("\n  ".join([f"{headline}:", *lines]))
    return scenario


def _too_large(scenario: Experiment, p: Producer, size: int, where: str) -> str:
    """Return that a payload is larger than its topic or its client takes, empty if it is not."""
    if compresses(p):
        return ""
    limits: dict[str, int] = {}
    for topic in map(scenario.topic, p.written):
        if "max.message.bytes" in topic.config or not scenario.unasked:
            broker = scenario.cluster.config.get("message.max.bytes", BROKER_BYTES)
            limits[f"topic {topic.name} (max.message.bytes)"] = int(topic.config.get("max.message.bytes", broker))
    own = next((p.config[name] for name in _LIMITS if name in p.config), None)
    if own is not None:
        limits["its client library"] = int(own)
    elif p.client.runtime == DEFAULT:
        limits["librdkafka (message.max.bytes)"] = LIBRDKAFKA_BYTES
    for who, limit in limits.items():
        if size + RECORD_BYTES > limit:
            return f"a payload has {size:,} bytes ({where}), and {who} takes records of {limit:,} bytes"
    return ""
