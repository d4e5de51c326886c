"""Rules about effects: each has inputs with ids, its bounds name it, and the topics and applications it names exist."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from chaos.errors import ScenarioError
from chaos.faults.base import Experiment
from chaos.scenario.expect import ZERO, EffectBound, Expect
from chaos.scenario.mistakes import Source
from chaos.setup.clients import Producer
from chaos.setup.effects import Avro, Effect, Format, Protobuf
from chaos.setup.model import Setup, unknown
from chaos.setup.names import PRIMARY, is_called

S = TypeVar("S", bound=Experiment)


def has_ids(producer: Producer) -> bool:
    """Return whether the records of a producer have ids, which effects lead back to."""
    return producer.value is not None and producer.value.has_id


def producers_with_ids(setup: Setup) -> list[Producer]:
    """Return the producers of inputs with ids."""
    return [producer for producer in setup.producers if has_ids(producer)]


def topics_with_ids(setup: Setup) -> list[str]:
    """Return the topics, and the producers of rows, with inputs that have ids, in the order of their producers."""
    return list(dict.fromkeys(name for p in producers_with_ids(setup) for name in p.inputs))


def input_topic(setup: Setup, effect: Effect) -> str:
    """Return the topic of the inputs of an effect, or their producer of rows, in a scenario without problems."""
    return _named(setup, effect) or topics_with_ids(setup)[0]


def _named(setup: Setup, effect: Effect) -> str | None:
    """Return what an effect names as its inputs. On an existing cluster only names of topics have a prefix."""
    rows = (p.name for p in setup.producers if p.rows and effect.of is not None and is_called(effect.of, p.name))
    return next(rows, effect.of)


def input_format(setup: Setup, effect: Effect) -> Format:
    """Return the format of the inputs of an effect, as its first producer writes them."""
    topic = input_topic(setup, effect)
    value = next(p.value for p in producers_with_ids(setup) if topic in p.inputs)
    if value is not None and value.avro:
        return Avro(avro=value.avro, registry=value.registry is not None)
    return Protobuf(protobuf=value.protobuf, message=value.message) if value and value.protobuf else "json"


def with_effect_files(scenario: S, folder: Path, source: Source, headline: str) -> S:
    """Return the scenario with the absolute paths of its effects.

    folder: what relative paths begin at. Raises `ScenarioError` with one line for each schema that cannot be read.
    """
    if not scenario.effects:
        return scenario
    effects, found = [effect.placed_in(folder) for effect in scenario.effects], []
    for i, effect in enumerate(effects):
        try:
            _check_schema(effect.format)
        except (OSError, ValueError, LookupError) as e:
            reason = getattr(e, "strerror", None) or str(e)
            found.append(f"{source.origin(('effects', i, 'format'))}: effects[{i}].format: {reason}")
    if found:
        raise ScenarioError("\n  ".join([f"{headline}:", *found]))
    return scenario.model_copy(update={"effects": effects})


def _check_schema(form: Format) -> None:
    """Raise an error if the schema of a format cannot be read."""
    from chaos.values import schemas

    if isinstance(form, Avro):
        schemas.Avro(form.avro)
    if isinstance(form, Protobuf):
        schemas.Protobuf(form.protobuf, form.message)


def effect_problems(setup: Setup, expect: Expect) -> Iterator[str]:
    """Yield every problem of the effects of a scenario and of their bounds."""
    if setup.effects and not topics_with_ids(setup):
        yield "effects: no producer writes inputs with ids; give value.id to the producer of the input topic"
    names = [effect.name for effect in setup.effects]
    for i, effect in enumerate(setup.effects):
        yield from _problems(setup, f"effects[{i}]", effect)
    for name, bound in expect.effects.items():
        where = f"expect.effects.{name}"
        yield from unknown(where, name, "effects", names)
        for effect in (effect for effect in setup.effects if effect.name == name):
            yield from _bound_problems(where, effect, bound)


def samples_of(setup: Setup, effect: Effect) -> int | None:
    """Return how many payloads the inputs of an effect are made of in turn; None if that differs, or is not known."""
    topic = input_topic(setup, effect)
    numbers = {p.value.number if p.value else None for p in producers_with_ids(setup) if topic in p.inputs}
    return numbers.pop() if len(numbers) == 1 else None


def sample_problems(setup: Setup) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield each effect with numbers for other samples than its inputs have, and the place of these numbers."""
    for i, effect in enumerate(setup.effects):
        given = len(effect.per.samples)
        if given and given != (found := samples_of(setup, effect)):
            have = "differ in their number" if found is None else f"are {found:,}"
            text = f"has {given:,} numbers, and the samples of its inputs {have}; give one number for each sample"
            yield ("effects", i, "per", "samples"), text


def database_problems(where: str, setup: Setup, app: str) -> Iterator[str]:
    """Yield that an application is no database of the run."""
    databases = [one.name for one in setup.apps if one.postgres]
    if app not in databases:
        known = f"; there are {', '.join(databases)}" if databases else "; give an application with postgres"
        yield f"{where}: no application {app!r} of the run is a database{known}"


def _bound_problems(where: str, effect: Effect, bound: EffectBound) -> Iterator[str]:
    if bound.wrong != ZERO and not effect.compares:
        yield f"{where}.wrong: no value of {effect.name} is compared; give equals or aggregate in effects"
    if effect.aggregate and bound.late:
        yield f"{where}.late: {effect.name} is an aggregate, which no single input ends; leave late out"
    if effect.aggregate and bound.behind:
        yield f"{where}.behind: {effect.name} is an aggregate, which no single input ends; leave behind out"
    for key in ("late", "behind"):
        if (effect.sql or "").startswith("jdbc:") and getattr(bound, key) and effect.at is None:
            yield f"{where}.{key}: the run does not look at a jdbc: database while it drives; give at in effects"


def _problems(setup: Setup, where: str, effect: Effect) -> Iterator[str]:
    topics = {topic.name for topic in setup.topics}
    own = {topic.name for topic in setup.topics if topic.cluster == PRIMARY}
    for topic in effect.own_topics:
        yield from unknown(f"{where}.topic", topic, "topics", own)
    if len(effect.topics) > len({*effect.topics}):
        yield f"{where}.topic: {', '.join(effect.topics)} has a topic twice; leave one out"
    if not (with_ids := topics_with_ids(setup)):
        return
    rows, of = {p.name for p in setup.producers if p.rows}, _named(setup, effect)
    if of is not None and of not in topics | rows:
        yield from unknown(f"{where}.of", of, "topics", topics | rows)
    elif of is not None and of not in with_ids:
        yield f"{where}.of: no producer writes inputs with ids to {of}; give value.id to its producer"
    elif of is None and len(with_ids) > 1:
        yield f"{where}.of: name the topic of the inputs, because several have ids ({', '.join(with_ids)})"
    elif (inputs := of or with_ids[0]) in effect.own_topics:
        yield f"{where}.topic: {inputs} is the topic of the inputs too; an effect is something else"
    if effect.app is not None:
        yield from database_problems(f"{where}.sql", setup, effect.app)
    if (of or with_ids[0]) in rows and (effect.equals or effect.aggregate):
        yield f"{where}: the values of rows are not compared; leave equals and aggregate out"
    apps = {app.name for app in getattr(setup, "apps", ())}
    if effect.log is not None and hasattr(setup, "apps"):
        yield from unknown(f"{where}.log.app", effect.log.app, "apps", apps)
