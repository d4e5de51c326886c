"""Run directories as the pipeline writes them, without a cluster: one failed, one passed, one aborted.

`python -m tests.chaos.report.synthetic DIR` writes them to look at.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from chaos.anomalies import ANOMALIES
from chaos.ledger.schemas import TABLES
from chaos.ledger.seal import part_name
from chaos.run.directory import Run
from chaos.run.result import (
    Count,
    Counts,
    EffectCount,
    EffectStory,
    Expectation,
    Finding,
    Frame,
    Metric,
    ReaderCount,
    Result,
)
from chaos.scenario.load import parse
from chaos.scenario.resolve import Resolved, save
from tests.chaos.report.story import BEGAN, SECONDS, Story, at

SCENARIO = """
title: The leader dies while producers write with acks=1
cluster: {brokers: 3, config: {offsets.topic.num.partitions: 10, replica.lag.time.max.ms: 20000}}
topics: [{name: orders, partitions: 6, replication_factor: 3, config: {min.insync.replicas: 1, segment.bytes: 1048576}}]
producers: [{name: shop, topic: orders, count: 2, rate: 1000/s, records: 50000, config: {acks: 1}}]
consumers:
  - {mode: subscribe, name: billing, group: billing, members: 3, topics: [orders],
     config: {auto.offset.reset: earliest, max.poll.interval.ms: 6000, session.timeout.ms: 6000}}
  - {mode: subscribe, name: ledger, group: ledger, members: 2, topics: [orders], config: {auto.offset.reset: earliest}}
  - {mode: assign, name: replay, group: replay, members: 2, topics: [orders]}
faults:
  - {name: kill, kind: broker.kill, target: {leader_of: orders/0}, when: {acked: 24000}, heal: {after: 9s}}
  - {name: coordinator, kind: coordinator.kill, target: {coordinator_of: billing},
     when: {after: kill.healed + 5s}, heal: {after: 6s}}
  - {name: slow, kind: consumer.slow, target: {member: billing/2},
     when: {after: coordinator.healed + 2s}, per_record: 300ms, heal: {after: 8s}}
expect:
  duplicate_delivery: {illegal: 0}
  produce_unavailability: {max: 20s}
"""


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write a table as Spark does: a directory with a part file and a marker."""
    path.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), path / "part-00000.parquet")
    (path / "_SUCCESS").touch()


def ledger(run: Run, table: str, rows: list[dict[str, Any]]) -> None:
    """Write a sealed table of the ledger."""
    whole = [{name: row.get(name) for name in TABLES[table].names} for row in rows]
    folder = run.ledger / f"{table}.parquet"
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(whole, schema=TABLES[table]), folder / part_name(0))


def start(directory: Path, name: str, scenario: str = SCENARIO) -> tuple[Run, Resolved]:
    """Create an empty run directory with its resolved scenario."""
    run = Run.create(directory, f"{name}-20260203-140312-4f1c")
    resolved = Resolved(
        run_id=run.run_id,
        name=name,
        seed=1729,
        scenario=parse(scenario, "synthetic"),
        versions={
            "aftershock": "0.1.0",
            "kafka": "4.3.1",
            "confluent-kafka": "2.16.0",
            "pyspark": "4.2.0",
            "python": "3.11.2",
        },
        created_us=BEGAN,
    )
    save(run, resolved)
    return run, resolved


def result(run: Run, resolved: Resolved, **fields: Any) -> Result:
    """Return a result with the fields of every run."""
    fields = {
        "stages_s": {"deploy": 8.4, "drive": 62.1, "readback": 3.2, "audit": 9.7, "validate": 4.9, "destroy": 1.1},
        "tolerated": ["unsent_at_stop: a send without answer at the stop of its producer is unknown, not lost"],
        **fields,
    }
    return Result(
        run_id=run.run_id,
        run_dir=str(run.path),
        scenario=resolved.name,
        title=resolved.scenario.title,
        seed=resolved.seed,
        command=resolved.command(),
        versions=resolved.versions,
        began_us=BEGAN,
        ended_us=at(SECONDS + 18),
        **fields,
    )


def expectations(lost: int) -> list[Expectation]:
    """Return an expectation for each kind of anomaly, for a bounded time, and for the platform."""
    found = []
    for kind, anomaly in ANOMALIES.items():
        for split in anomaly.splits or ("",):
            seen = {"lost_write": lost, "duplicate_delivery legal": 412 if lost else 0}.get(
                f"{kind} {split}".strip(), 0
            )
            free = split == "legal"
            verdict = "pass" if free or not seen else "fail"
            name = kind + (f" {split}" if split else "")
            expected = "any number" if free else "0"
            found.append(
                Expectation(name=name, check=kind, split=split, expected=expected, seen=f"{seen:,}", verdict=verdict)
            )
    found.append(
        Expectation(
            name="produce unavailability",
            check="produce_unavailability",
            expected="max at most 20 s",
            seen="2.91 s",
            verdict="pass",
        )
    )
    found.append(
        Expectation(
            name="faults proven", check="fault_proof", scope="kill", expected="all", seen="3 of 3", verdict="pass"
        )
    )
    found.append(
        Expectation(
            name="ledger complete", check="ledger_complete", expected="every row", seen="every row", verdict="pass"
        )
    )
    return found


def failed_run(directory: Path) -> tuple[Run, Result, Resolved]:
    """Write a run that loses 37 acked records with their leader, then a coordinator, and evicts a consumer."""
    run, resolved = start(directory, "acks1-leader-kill")
    story = Story()
    fill(run, story)
    readers = [
        ReaderCount(reader="billing", mode="subscribe", delivered=100_375, distinct=99_963),
        ReaderCount(reader="ledger", mode="subscribe", delivered=99_963, distinct=99_963),
        ReaderCount(reader="replay/1", mode="assign", delivered=99_963, distinct=99_963),
        ReaderCount(reader="replay/2", mode="assign", delivered=99_963, distinct=99_963),
    ]
    found = result(
        run,
        resolved,
        verdict="fail",
        sentence="37 acknowledged records of orders were lost when broker 2 died. 3 of 3 faults took effect. 412 "
        "records were delivered twice, all from the committed offset after billing/2 was evicted.",
        counts=Counts(
            sent=100_000,
            acked=99_996,
            unknown=4,
            in_log=99_963,
            readers=readers,
            rows_read=612_903,
            rows_audited=612_903,
        ),
        expectations=expectations(37),
        faults=story.faults(),
        totals=[Count(check="lost_write", scope="orders", count=37, examined=99_996)]
        + [Count(check="duplicate_delivery", split="legal", scope="billing", count=412, examined=100_375)]
        + [
            Count(check=k, scope="orders", count=0, examined=99_963)
            for k in ("duplicate_write", "reordered_write", "phantom_write")
        ],
        findings=story.findings(),
        effects=[fill_application(run)],
        metrics=metrics(),
    )
    return run, found, resolved


def fill_application(run: Run) -> EffectCount:
    """Write the tables of an application that loses an effect when an instance is killed, and return the effect."""
    lives = [("started", 1, 1, 2.0, {}), ("crashed", 1, 1, 12.5, {"asked": "kill"}), ("started", 1, 2, 13.6, {})]
    lives.append(("started", 2, 1, 2.0, {}))
    ledger(
        run,
        "apps",
        [
            {"app": "mailer", "instance": i, "incarnation": n, "event": e, "detail": json.dumps(d), "at_us": at(t)}
            for e, i, n, t, d in lives
        ],
    )
    held = [("mailer/1", 0, 3, 12.5), ("mailer/2", 1, 3, None), ("mailer/2", 0, 19, None)]
    own = {"group": "mailer", "topic": "orders", "incarnation": 1, "generation": 1, "end_reason": "revoked"}
    write(
        run.audit / "app_ownership",
        [
            own | {"consumer": who, "partition": n, "begin_us": at(begin), "end_us": end and at(end)}
            for who, n, begin, end in held
        ],
    )
    ticks = [(series, scope, at(t / 4)) for t in range(16, 200) for series, scope in (("commits", "mailer/2"),)]
    ticks += [("effects", "mails", at(t / 4)) for t in range(16, 200)]
    write(run.audit / "app_series", [{"series": s, "scope": n, "at_us": us, "value": 40.0} for s, n, us in ticks])
    (run.path / "wire").mkdir()
    said = {"library": "confluent-kafka-python", "library_version": "2.6.1", "client_id": "rdkafka"}
    write(run.path / "wire" / "connections.parquet", [{"instance": f"mailer/{i}"} | said for i in (1, 2)])
    frames = [
        (12.300, "mailer/1", "broker 1", "Fetch from 1,040"),
        (12.301, "broker 1", "mailer/1", "with 1,056"),
        (12.400, "mailer/1", "coordinator (broker 3)", "OffsetCommit 1,060"),
        (12.404, "coordinator (broker 3)", "mailer/1", "ok"),
        (12.500, "mailer/1", "", "was killed"),
    ]
    told = (
        "7f31 (orders/3 offset 1,056) has no mails: fetched by mailer/1 at 12.3 s, committed past at 12.4 s, mailer/1 "
        "was killed at 12.5 s, and no member fetched it again: offsets are committed before the work is done"
    )
    story = EffectStory(
        kind="missing",
        cause="offsets are committed before the work is done",
        number=3,
        sentence=told,
        prevents="commit an offset only when the work up to it is done",
        library="confluent-kafka-python 2.6.1",
        frames=[Frame(at_us=at(t), source=a, target=b, label=words) for t, a, b, words in frames],
    )
    counts = {"missing": 3, "duplicate": 0, "unexpected": 0}
    return EffectCount(
        **{"name": "mails", "source": "topic mails", "inputs": 900, "effects": 897, "counts": counts},
        findings={"missing": [told]},
        stories=[story],
    )


def metrics() -> list[Metric]:
    """Return measured times."""
    rows = [
        ("ack_latency", "orders", "", {"count": 99_996, "p50": 2_510, "p95": 5_900, "p99": 812_000, "max": 2_910_000}),
        (
            "end_to_end_latency",
            "billing",
            "",
            {"count": 99_963, "p50": 9_100, "p95": 2_400_000, "p99": 5_100_000, "max": 9_030_000},
        ),
        ("rebalance_duration", "billing", "", {"count": 3, "p50": 1_600_000, "max": 1_930_000}),
        ("produce_unavailability", "orders", "kill", {"count": 2, "p50": 2_700_000, "max": 2_910_000}),
    ]
    return [
        Metric(metric=m, scope=scope, fault=fault, stat=stat, value_us=value)
        for m, scope, fault, stats in rows
        for stat, value in stats.items()
    ]


def fill(run: Run, story: Story, calm: bool = False) -> None:
    """Write all tables of the report."""
    write(run.audit / "series", story.series())
    write(run.audit / "latency", story.latency())
    write(run.audit / "ownership", story.ownership())
    names = list(Finding.model_fields)
    rows = [f.model_dump() | {"evidence": json.dumps(f.evidence)} for f in ([] if calm else story.findings())]
    if rows:
        write(run.audit / "anomalies", rows)
    else:
        (run.audit / "anomalies").mkdir()
        pq.write_table(
            pa.table({n: pa.array([], pa.string()) for n in names}), run.audit / "anomalies" / "part-0.parquet"
        )
    ledger(run, "cluster", story.cluster())
    steps = []
    for f in [] if calm else story.faults():
        for phase, us, words in (
            ("injected", f.injected_us, f"hit {f.resolved}"),
            ("proven", f.proven_us, f.proof),
            ("healed", f.healed_us, ""),
        ):
            evidence = json.dumps({"words": words, "resolved": f.resolved})
            steps.append(
                {"fault": f.name, "kind": f.kind, "target": f.target, "phase": phase, "evidence": evidence, "at_us": us}
            )
    ledger(run, "faults", steps)
    clients = [
        (c, "producer" if c.startswith("shop") else "consumer")
        for c in ("shop/1", "shop/2", "billing/1", "billing/2", "billing/3")
    ]
    lives = [
        {"client": c, "role": role, "incarnation": 1, "event": "started", "detail": "{}", "at_us": at(2.4)}
        for c, role in clients
    ]
    if not calm:
        lives.append(
            lives[3] | {"event": "slowed", "detail": json.dumps({"per_record": "300ms"}), "at_us": at(story.slow)}
        )
    ledger(run, "lifecycle", lives)


def passed_run(directory: Path) -> tuple[Run, Result, Resolved]:
    """Write a run without a fault or a loss."""
    run, resolved = start(directory, "calm")
    fill(run, Story(calm=True), calm=True)
    readers = [ReaderCount(reader="billing", mode="subscribe", delivered=100_000, distinct=100_000)]
    found = result(
        run,
        resolved,
        verdict="pass",
        sentence="No acknowledged record was lost. Every record reached every reader once.",
        counts=Counts(
            sent=100_000, acked=100_000, in_log=100_000, readers=readers, rows_read=412_000, rows_audited=412_000
        ),
        expectations=expectations(0),
        totals=[Count(check=k, scope="orders", count=0, examined=100_000) for k in ("lost_write", "duplicate_write")],
        metrics=metrics(),
    )
    return run, found, resolved


def cut_short_run(directory: Path) -> tuple[Run, Result, Resolved]:
    """Write a run with a fault without effect, and no audit: most tables are missing."""
    run, resolved = start(directory, "cut-short")
    story = Story()
    ledger(run, "cluster", [row for row in story.cluster() if row["at_us"] < at(14)])
    fault = story.faults()[0].model_copy(
        update={"proven_us": None, "healed_us": None, "proof": "orders/0 is still led by broker 2"}
    )
    unproven = Expectation(
        name="fault kill took effect",
        check="fault_proof",
        scope="kill",
        expected="proof within 30 s",
        seen="none",
        verdict="inconclusive",
        why="fault kill was injected on broker 2, but no effect was seen from outside; raise limits.proof",
    )
    found = result(
        run,
        resolved,
        verdict="inconclusive",
        sentence="The run cannot tell: fault kill showed no effect within 30 s, and the audit did not run.",
        counts=Counts(sent=24_100, acked=24_010, unknown=90),
        expectations=[unproven],
        faults=[fault],
        stages_s={"deploy": 8.2, "drive": 180.0},
        problems=["the drive ended at limits.drive (180 s) while fault kill still waited for its proof"],
        tolerated=[],
    )
    return run, found, resolved


RUNS = (failed_run, passed_run, cut_short_run)

if __name__ == "__main__":
    from chaos.report.html import write_report

    for build in RUNS:
        print(write_report(*build(Path(sys.argv[1]))))
