"""The verdict of a run, and its result: the source of every report."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from chaos.anomalies import ANOMALIES
from chaos.errors import AftershockError
from chaos.guarantees.contract import unpromised
from chaos.ledger.seal import SEAL
from chaos.run.directory import Run, json_object
from chaos.run.events import (
    CHECKING,
    DRIVING,
    REMARK,
    UNSEEN,
    Event,
    killed_while,
    read_events,
    stage_times,
    stages_broken_off,
)
from chaos.run.result import (
    EFFECT_READ,
    EFFECTS,
    FOLLOWS,
    NO_INPUT_ID,
    NOT_APPLICABLE,
    Count,
    Counts,
    EffectCount,
    EntryKind,
    EntryUsage,
    Expectation,
    FaultOutcome,
    Finding,
    Load,
    Metric,
    ReaderCount,
    Result,
    Verdict,
    merge,
)
from chaos.run.tap import tapped
from chaos.scenario import retention
from chaos.scenario.resolve import Resolved
from chaos.scenario.retention import OFFSETS_TOPIC
from chaos.setup.clients import Entry, Processor, Producer
from checks.audit.facts.topic_lives import topic_of
from checks.audit.findings import COMMITS
from checks.audit.rules.cleanup import behind_by
from checks.effects.findings import effect_counts
from checks.evidence import audit_rows, fault_outcomes, ledger_rows
from checks.expectations.conditions import REPORTED
from checks.expectations.contract import readers
from checks.expectations.judge import COMPLETED, LIVED, NOTHING_ACKED, PLATFORM, listed
from checks.expectations.measure import count_rebalances
from checks.verdict.sentence import NOTHING, longest_outages, sentence, tolerated

NOTHING_APPLIES = (
    "no expectation about records is applicable, so nothing was examined: add clients, or expectations about these ones"
)


_RECEIVED = ("fetched", "acquired")
"""The tables of the wire with what brokers sent; a row with records has `last_offset`."""


@dataclass(frozen=True)
class Decision:
    """The verdict, its sentence, and the reasons why it is inconclusive, if it is."""

    verdict: Verdict
    sentence: str
    reasons: list[str]


def decide(
    expectations: list[Expectation],
    faults: list[FaultOutcome],
    totals: Sequence[Count] = (),
    findings: Sequence[Finding] = (),
    problems: Sequence[str] = (),
    counts: Counts | None = None,
    unpromised: Mapping[tuple[str, str], str] = NOTHING,
    remarks: Sequence[str] = (),
    effects: Sequence[EffectCount] = (),
    of_drive: Sequence[str] = (),
) -> Decision:
    """Return the verdict: fail > inconclusive > pass.

    A failed expectation fails the run, whatever else is missing. A fault without proof, an inconclusive expectation and
    a problem (a failed stage) make it inconclusive. So does the absence of expectations about records that apply.
    Of the reasons, one from which others follow comes first: the last words of clients with a death that ended the
    drive, or why all sends failed. What follows from it comes last, in one line. A drive that broke off otherwise, and
    readers without a record that reported an error, come before faults that were not injected or not healed for that.

    of_drive: problems that the drive recorded. They count if nothing else is a reason: most cause one that says more.
    """
    unmet = [e for e in expectations if e.verdict == "inconclusive"]
    follows = [e.name for e in unmet if e.follows]
    unproven = [reason for f in faults if (reason := f.shortcoming) and FOLLOWS not in reason]
    undecided = {e.why or e.name: e.check for e in unmet if e.name not in follows}
    broken_off = [why for why, check in undecided.items() if check == COMPLETED]
    begun = (
        not broken_off or counts is None or counts.sent + counts.inserted > 0
    )  # else no producer has an error to show
    died = [w for w, c in undecided.items() if follows and (c == LIVED or (begun and w.startswith(NOTHING_ACKED)))]
    starved = [why for why, check in undecided.items() if check == "something_happened" and REPORTED in why]
    of_records = [e for e in expectations if e.check in ANOMALIES or e.check == EFFECTS]
    nothing = [NOTHING_APPLIES] if of_records and not any(e.applies for e in of_records) else []
    reasons = list(dict.fromkeys([*died, *problems, *broken_off, *starved, *unproven, *undecided, *nothing]))
    reasons = reasons or list(dict.fromkeys(of_drive))
    verdict = merge([e.verdict for e in expectations if e.verdict != NOT_APPLICABLE])
    if reasons:
        verdict = merge([verdict, "inconclusive"])
    text = sentence(
        verdict, expectations, faults, list(totals), list(findings), reasons, counts, unpromised, remarks, effects
    )
    return Decision(verdict, text, [*reasons, *_consequences([e for e in unmet if e.name in follows])])


def _consequences(follow: list[Expectation]) -> list[str]:
    """Return what follows from the first cause as one line; none if nothing does."""
    conditions = [e.name for e in follow if e.check in PLATFORM and e.check != COMPLETED]
    others = len([e for e in follow if e.check not in PLATFORM])
    parts = [f"not met: {listed(conditions, 6)}"] if conditions else []
    parts += [f"not decided: {others} expectation{'s' * (others > 1)}"] if others else []
    return [f"this {follow[0].why}: {'; '.join(parts)}"] if parts else []


def collect(run: Run, resolved: Resolved, expectations: list[Expectation]) -> Result:
    """Return the result of a run from its available tables; without expectations it is inconclusive."""
    events = read_events(run)
    faults = fault_outcomes(run, resolved)
    for fault in faults:
        proof = next((e for e in expectations if e.check == "fault_proof" and e.scope == fault.name), None)
        fault.left_out = proof.why if proof and proof.follows else ""
    totals = [
        Count(check=r["check"], split=r["split"] or "", scope=r["scope"], count=r["count"], examined=r["examined"])
        for r in audit_rows(run, "summary")
    ]
    findings = _findings(run)
    problems = _problems(run, resolved, events, expectations, faults)
    counts = _counts(run, resolved)
    metrics = [
        Metric(metric=r["metric"], scope=r["scope"], fault=r["fault"] or "", stat=r["stat"], value_us=r["value_us"])
        for r in audit_rows(run, "metrics")
        if r["value_us"] is not None
    ]
    remarks = [*_outages(run, faults, metrics), *_endings(run, events), *_of_tap(run)]
    remarks += [event["words"] for event in events if event["kind"] == REMARK]
    began_us = min((e["at_us"] for e in events), default=resolved.created_us)
    not_promised = unpromised(resolved.scenario)
    effects = _traced(effect_counts(run, resolved, began_us), expectations)
    of_drive = [event["words"] for event in events if event["kind"] == "problem"]
    decision = decide(
        expectations, faults, totals, findings, problems, counts, not_promised, remarks, effects, of_drive
    )
    return Result(
        run_id=resolved.run_id,
        run_dir=run.where,
        scenario=resolved.name,
        title=resolved.scenario.title,
        verdict=decision.verdict,
        sentence=decision.sentence + (_by_wire(expectations) if resolved.scenario.judged_on_wire else ""),
        seed=resolved.seed,
        command=resolved.command(),
        versions=resolved.versions,
        began_us=began_us,
        ended_us=max((e["at_us"] for e in events), default=resolved.created_us),
        stages_s=stage_times(events),
        counts=counts,
        expectations=expectations,
        faults=faults,
        totals=totals,
        findings=findings,
        effects=effects,
        metrics=metrics,
        load=measure_load(run, resolved, counts),
        tolerated=tolerated(resolved.scenario, totals, counts),
        problems=decision.reasons,
    )


def _traced(effects: list[EffectCount], expectations: list[Expectation]) -> list[EffectCount]:
    """Return the effects; if no row leads to an input, without findings and stories: they would be about nothing."""
    lost = {e.scope for e in expectations if e.check == EFFECT_READ and e.seen == NO_INPUT_ID}
    return [e.model_copy(update={"findings": {}, "stories": []}) if e.name in lost else e for e in effects]


def _by_wire(expectations: list[Expectation]) -> str:
    """Return that the run was judged by the wire alone, and how many expectations that leaves open, as a sentence."""
    hidden = sum(e.check in ANOMALIES and bool(ANOMALIES[e.check].hidden) for e in expectations)
    return f" Judged by what passed on the wire alone, which does not decide {hidden} of these expectations."


def _problems(
    run: Run, resolved: Resolved, events: list[Event], expectations: list[Expectation], faults: Sequence[FaultOutcome]
) -> list[str]:
    """Return the end of a drive that was killed, the failed stages, and applications that nothing was seen of.

    Stages of the drive are included only without expectations, which cover them.
    """
    stages = CHECKING if expectations else (*DRIVING, *CHECKING)
    broken = stages_broken_off(events, stages)
    problems = []
    if killed := "" if expectations else killed_while(events):
        during = [f"fault {f.name} was in progress ({state})" for f in faults if (state := f.in_progress)]
        problems.append(
            f"the drive ended early, {' and '.join([f'its process was killed while {killed}', *during])}; run again"
        )
        broken = {stage: reason for stage, reason in broken.items() if stage not in DRIVING}
    problems += [
        reason if reason.startswith(stage) else f"{stage} failed: {reason}" for stage, reason in broken.items()
    ]
    if not killed and "deploy" not in broken and not (run.ledger / SEAL).is_file():
        problems.append("the ledger was never sealed, so the drive ended early: see logs/, fix the cause and run again")
    unseen = [event["words"] for event in events if event["kind"] == UNSEEN]
    return [*problems, *(unseen or (_idle(run, resolved) if _loaded(events) else ()))]


def _loaded(events: list[Event]) -> bool:
    """Return whether the drive came to its load: before it, no application has anything to read."""
    return any(e["kind"] == "stage" and e["stage"] == "load" for e in events)


def _idle(run: Run, resolved: Resolved) -> Iterator[str]:
    """Yield that an application which reads got no record from any broker, as far as its frames were captured."""
    from checks.wire.tables import capture_failure, has_capture, table_path  # on use: it imports Spark

    idle = {app.name: app for app in resolved.scenario.apps if app.reads}
    tables = [path for name in _RECEIVED if (path := table_path(run, name)).exists()]
    if not idle or not tables or (has_capture(run) and capture_failure(run)):  # what is not there may have passed
        return
    for path in tables:
        got = ds.dataset(path, format="parquet").scanner(columns=["instance"], filter=ds.field("last_offset") >= 0)
        for batch in got.to_batches():
            for name in pc.unique(batch["instance"]).to_pylist():
                idle.pop(str(name).rpartition("/")[0], None)
    for app in idle.values():
        yield (
            f"no instance of {app.name} got a record of {', '.join(app.reads)} from a broker, so the run proves "
            "nothing about it; does it read these topics, and from their beginning?"
        )


def _outages(run: Run, faults: list[FaultOutcome], metrics: list[Metric]) -> list[str]:
    """Return the longest times without writes and reads as sentences; none if a clock ran backwards."""
    counts = audit_rows(run, "counts")
    if any(r["name"] == "clock_backwards" and r["value"] for r in counts):
        return []
    return longest_outages(faults, metrics, {(r["name"], r["scope"]): r["value"] for r in counts})


def _of_tap(run: Run) -> Iterator[str]:
    """Yield what a tap did not record, or does not judge, as sentences."""
    if (record := tapped(run)) is None:
        return
    if record.stopped and record.sittings[-1].ended_us:
        at = time.strftime("%H:%M:%S UTC", time.gmtime(record.sittings[-1].ended_us / 1e6))
        yield f"The recording ended at {at}: {record.stopped}."
    for what, why in record.unjudged.items():
        yield f"Not judged is {what}: {why}."


def _endings(run: Run, events: list[Event]) -> Iterator[str]:
    """Yield that instances of an application ended under load without being asked, with what to do, as sentences."""
    if not _loaded(events):  # then the failed drive says it
        return
    found: dict[tuple[str, str, str], list[str]] = {}
    for row in ledger_rows(run, "apps", ["app", "instance", "event", "detail"]):
        detail = json_object(row["detail"])
        if row["event"] in ("stopped", "crashed") and not detail.get("asked"):
            key = row["app"], str(detail.get("how") or ""), str(detail.get("hint") or "")
            found.setdefault(key, []).append(f"{row['app']}/{row['instance']}")
    for (_, how, hint), names in found.items():
        times = "" if len(names) == 1 else f" {len(names)} times"
        yield f"{listed(sorted(set(names)))} ended{times} without being asked, with {how}{hint and f': {hint}'}."


def _findings(run: Run) -> list[Finding]:
    findings = []
    for row in audit_rows(run, "anomalies"):
        values = {name: row[name] for name in Finding.model_fields if name in row and row[name] is not None}
        findings.append(Finding.model_validate(values | {"evidence": json_object(row["evidence"])}))
    return findings


def _rebalances(run: Run, resolved: Resolved) -> dict[str, int]:
    """Return the number of rebalances of each group with subscribe members, as far as its members reported any."""
    groups = sorted({c.group for c in resolved.scenario.readers if c.mode == "subscribe"})
    found = {group: count_rebalances(run, resolved, group).value for group in groups}
    return {group: value for group, value in found.items() if value is not None}


def _counts(run: Run, resolved: Resolved) -> Counts:
    by_name: dict[str, dict[str, int]] = {}
    for row in audit_rows(run, "counts"):
        if row["scope"] != OFFSETS_TOPIC:
            by_name.setdefault(row["name"], {})[row["scope"]] = row["value"]
    total = {name: sum(scopes.values()) for name, scopes in by_name.items() if name in Counts.model_fields}
    delivered, distinct = by_name.get("delivered", {}), by_name.get("distinct", {})
    modes = readers(resolved.scenario)
    left_out = Counter[str]()
    for row in audit_rows(run, "undecided"):
        if row["check"] == COMMITS:
            left_out[row["why"]] += row["count"]
    scenario = resolved.scenario
    topics = retention.refused_topics(scenario, scenario.faults)
    total["refused_timestamps"] = sum(
        n for topic, n in by_name.get("refused_timestamps", {}).items() if topic_of(topic) in topics
    )
    pairs = [(p.name, topic) for p in scenario.producers for topic in p.written] if total.get("evicted") else []
    causes = (behind_by(scenario, f"{name}/1", topic) for name, topic in pairs)
    rows = ledger_rows(run, "inserts", ["outcome"]) if any(p.rows for p in scenario.producers) else []
    return Counts(
        **total,
        inserted=sum(row["outcome"] == "ok" for row in rows),
        evicted_by="; ".join(dict.fromkeys(filter(None, causes))),
        commits_left_out=dict(left_out),
        readers=[
            ReaderCount(reader=r, mode=modes.get(r, ""), delivered=n, distinct=distinct.get(r, 0))
            for r, n in sorted(delivered.items())
        ],
        rebalances=_rebalances(run, resolved),
    )


def measure_load(run: Run, resolved: Resolved, counts: Counts) -> Load:
    """Return the load of a run. Ledgers without rows `usage` give no entries."""
    return Load(
        acked_per_s=_rate(counts.acked, _span_us(run, "sends", "completed_us")),
        delivered_per_s=_rate(
            sum(reader.delivered for reader in counts.readers),
            _span_us(run, "deliveries", "processed_us"),
        ),
        entries=_entries(run, resolved),
    )


def _rate(records: int, span_us: int) -> float | None:
    return records / span_us * 1e6 if span_us > 0 else None


def _span_us(run: Run, table: str, column: str) -> int:
    """Return the time from the first to the last row of a sealed table, from the footers of its parts; 0 if unknown."""
    bounds: list[int] = []
    try:
        for groups in map(pq.read_metadata, (run.ledger / f"{table}.parquet").glob("*.parquet")):
            place = groups.schema.names.index(column)
            for i in range(groups.num_row_groups):
                if (found := groups.row_group(i).column(place).statistics) and found.has_min_max:
                    bounds += [found.min, found.max]
    except (AftershockError, pa.ArrowException, OSError, ValueError):
        return 0
    return max(bounds) - min(bounds) if bounds else 0


def _entries(run: Run, resolved: Resolved) -> list[EntryUsage]:
    found = {entry.name: EntryUsage(entry=entry.name, kind=_kind(entry)) for entry in resolved.scenario.entries}
    for row in ledger_rows(run, "lifecycle", ["client", "event", "detail"]):
        usage = found.get(str(row["client"]).rpartition("/")[0])
        if row["event"] == "usage" and usage is not None:
            detail = json_object(row["detail"])
            start_us = int(detail.get("start_us", 0))
            usage.processes += 1
            usage.records += int(detail.get("acked" if usage.kind == "producer" else "delivered", 0))
            usage.start_cpu_us += start_us
            usage.cpu_us += int(detail.get("user_us", 0)) + int(detail.get("system_us", 0)) - start_us
            usage.peak_rss_bytes = max(usage.peak_rss_bytes, int(detail.get("peak_rss_bytes", 0)))
    return [usage for usage in found.values() if usage.processes]


def _kind(entry: Entry) -> EntryKind:
    return "producer" if isinstance(entry, Producer) else "processor" if isinstance(entry, Processor) else "consumer"
