"""The program of an application: the scenario of its exploration, and the settings that it shows on the wire."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from chaos.anomalies.causes import LIBRARIES, library_of
from chaos.apps.trial import propose_id, with_address
from chaos.campaign.prove.entries import Raw
from chaos.campaign.subject import Subject
from chaos.errors import ScenarioError, UsageError
from chaos.guarantees.application import AppFile, Program, Traffic
from chaos.guarantees.values import Facts
from chaos.run.directory import Run
from chaos.run.proof import Announced
from chaos.scenario.load import of_mapping

SENDER = "traffic"
"""The producer of the inputs."""
OWN = {"samples", "id", "writes", "effects", "expect"}
"""The keys of a program that an application of a scenario does not have."""
NAMES = {"confluent": "librdkafka"}
"""The name of a client library in `LIBRARIES`, where it differs."""
TIMES = ("java", "librdkafka")
"""The libraries that send max.poll.interval.ms as the time-out of a rebalance."""


def subject_of(file: AppFile, raw: Raw, seed: int) -> Subject | None:
    """Return the program of an application for an exploration; None without one.

    raw: the scenario of the settings, for cluster and topics. Raises `UsageError` for what does not fit.
    """
    if (program := file.app.app) is None:
        return None
    where = str(file.path)
    try:
        scenario = of_mapping(_scenario(file, program, raw), where)
    except ScenarioError as e:
        reason = " ".join(str(e).partition(":\n")[2].split()) or str(e)
        raise UsageError(f"{where}: app: the program cannot be run here: {reason}") from None
    for app in scenario.apps:
        for place, message in app.missing():
            raise UsageError(f"{file.origin('app')}: app.{'.'.join(place)}: {message}")
    return Subject(f"{program.name}-program", where, scenario, seed)


def _scenario(file: AppFile, program: Program, raw: Raw) -> Raw:
    samples = file.located(program.samples).absolute()
    place = program.id or propose_id(samples)
    given = file.app.input or file.app.topic
    reads = program.reads or ([given.name] if given and given.name else [])
    if not reads:
        raise UsageError(f"{file.origin('app')}: app.reads: name the topics that the program reads")
    effects = [e.model_dump(mode="json", exclude_none=True, exclude_defaults=True) for e in program.effects]
    effects = effects or [{"name": name, "topic": name, "id": place, "of": reads[0]} for name in program.writes]
    written = [topic for effect in program.effects for topic in effect.topics] or program.writes
    traffic = file.app.traffic or Traffic()
    folder = (file.path or Path()).parent.absolute()
    app = program.placed_in(folder).model_dump(mode="json", exclude=OWN, exclude_none=True, exclude_defaults=True)
    app |= {"name": program.name, "reads": reads}
    if not program.external:
        app["env"] = with_address(program.env, [*(program.command or ()), *program.arguments])
    return {
        "title": f"{program.name} in a proof",
        "cluster": raw["cluster"],
        "topics": list(_topics(reads, written, raw["topics"])),
        "producers": [_sender(n, topic, traffic, samples, place) for n, topic in enumerate(reads, 1)],
        "apps": [app],
        "effects": effects,
        "expect": {"effects": {name: bound.model_dump(exclude_none=True) for name, bound in program.expect.items()}},
    }


def _topics(reads: list[str], writes: list[str], known: list[Raw]) -> Iterator[Raw]:
    """Yield the topics: what is read is like the first known topic, what is written like the last one."""
    by_name = {topic["name"]: topic for topic in known}
    for name in dict.fromkeys([*reads, *writes]):
        yield {**by_name.get(name, known[0] if name in reads else known[-1]), "name": name}


def _sender(number: int, topic: str, traffic: Traffic, samples: Path, place: str) -> Raw:
    return {
        "name": SENDER if number == 1 else f"{SENDER}-{number}",
        "topic": topic,
        "rate": f"{traffic.rate:g}/s",
        "records": traffic.records,
        "outlast_faults": True,
        "value": {"samples": str(samples), "id": place},
    }


def announced(run: Run, app: str, facts: Facts) -> list[Announced]:
    """Return the settings that a program shows on the wire, next to what app.yaml says. run: one of the program."""
    seen = dict(_seen(run, app))
    found = []
    for name, values in seen.items():
        fact = facts.get(name)
        if fact is None or not values:
            continue
        given = NAMES.get(fact.value, fact.value) if name.endswith(".client") else fact.value
        found.append(
            Announced(setting=name, given=given, origin=fact.origin, seen=sorted(values), differs=values != {given})
        )
    return found


def _seen(run: Run, app: str) -> Iterator[tuple[str, set[str]]]:
    """Yield the values of each setting that the frames of an application show, by the name of its fact."""
    libraries = {name for row in _rows(run, app, "connections", "library") if (name := library_of(row["library"]))}
    produced = list(_rows(run, app, "produced", "acks", "producer_id", "transactional_id"))
    fetched = list(_rows(run, app, "fetched", "isolation"))
    joined = [
        r for r in _rows(run, app, "membership", "call", "session_us", "rebalance_us") if r["call"] == "JoinGroup"
    ]
    for role, rows in (("producer", produced), ("consumer", fetched)):
        if rows and libraries <= LIBRARIES.keys():
            yield f"{role}.client", libraries
    yield "producer.acks", {"all" if row["acks"] == -1 else str(row["acks"]) for row in produced}
    yield "producer.enable.idempotence", {_truth(row["producer_id"] not in (None, -1)) for row in produced}
    yield "producer.transactional", {_truth(row["transactional_id"] is not None) for row in produced}
    levels = {0: "read_uncommitted", 1: "read_committed"}
    yield "consumer.isolation.level", {levels[row["isolation"]] for row in fetched if row["isolation"] in levels}
    yield "consumer.session.timeout.ms", {_ms(row["session_us"]) for row in joined if row["session_us"]}
    if libraries <= set(TIMES):
        yield "consumer.max.poll.interval.ms", {_ms(row["rebalance_us"]) for row in joined if row["rebalance_us"]}


def _truth(value: bool) -> str:
    return "true" if value else "false"


def _ms(us: int) -> str:
    return str(us // 1000)


def _rows(run: Run, app: str, table: str, *columns: str) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of an application in a table of the wire; none if the table is missing."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    folder = run.wire / f"{table}.parquet"
    if not folder.is_dir():
        return
    rows = pq.read_table(folder, columns=["instance", *columns])
    for row in rows.filter(pc.starts_with(rows["instance"], f"{app}/")).to_pylist():
        if row[columns[0]] is not None or len(columns) > 1:
            yield row
