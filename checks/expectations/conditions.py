"""Conditions of the platform: whether the run can prove anything."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from chaos.errors import RunDirError
from chaos.ledger.schemas import EFFECT_READS
from chaos.ledger.seal import Seal, read_seal
from chaos.run.directory import Run, json_object
from chaos.run.events import DRIVING, UNDRAINED, UNSETTLED, Event, notes, read_events, stages_broken_off
from chaos.run.result import EFFECT_READ, NO_INPUT_ID
from chaos.scenario.cluster_rules import wrong_times
from chaos.scenario.expect import ZERO, EffectBound
from chaos.scenario.resolve import Resolved
from checks.audit.facts.readers import entry_of
from checks.audit.facts.topic_lives import topic_of
from checks.evidence import (
    audit_rows,
    fault_outcomes,
    last_send_error,
    ledger_rows,
)
from checks.expectations.contract import Term, partition_count, planned_rows, planned_sends, readers
from checks.expectations.judge import NOTHING_ACKED, Observation, listed

RECORDS = ("sends", "deliveries", "commits", "assignments")
"""Tables that the audit must read to the last row."""
AUDIT_AGAIN = "audit the run again, and report a bug if the result is the same"
LEAST_FETCHES = 5
"""Fetch requests from which on their share in a rack counts: the first go to leaders, which name replicas (KIP-392)."""
REPORTED = " reported: "
"""What stands between a client and its last error, in the reason of a condition."""
NO_CLIENTS = "the ledger has no client; see the stages of the drive in events.jsonl"


OF_DRIVE = ("progress", "fault")
"""Kinds of events that only the drive writes."""
SET_BACK_US = 100_000
"""Time between events in the wrong order above which the clock was set back; threads may write out of order."""


class Conditions:
    """Conditions of one run; `observe` returns the value of a term."""

    def __init__(self, run: Run, resolved: Resolved) -> None:
        self._run, self._scenario = run, resolved.scenario
        self._events = read_events(run)
        self._faults = {f.name: f for f in fault_outcomes(run, resolved)}
        self._lifecycle = ledger_rows(run, "lifecycle", ["client", "incarnation", "event", "detail"])
        # the names of the ledger files of each client, without suffix: see chaos.clients
        self._ended_on_purpose = {
            f"{str(row['client']).replace('/', '-')}.{row['incarnation']}"
            for row in self._lifecycle
            if row["event"] == "crashed" and not json_object(row["detail"]).get("unexpected")
        }
        self._counts: dict[str, dict[str, int]] = {}
        for row in audit_rows(run, "counts"):
            self._counts.setdefault(row["name"], {})[row["scope"]] = row["value"]
        self._seal = _seal(run.ledger)
        """Of the clients' ledger."""

    def observe(self, term: Term) -> Observation:
        """Return the observed value of a term of the platform."""
        if term.check == "fault_proof":
            return self._fault(term.scope)
        if term.check == EFFECT_READ:
            return self.effect(term.scope)
        if term.check == "rack_fetches":
            return self._fetches(term.scope)
        if term.check == "superseded":
            return self.removed(term.check, term.scope)
        measures = {
            ("drive_completed", ""): self._stages,
            ("ledger_complete", "rows"): self._rows,
            ("ledger_complete", "torn"): self._torn,
            ("clients_lived", ""): self._deaths,
            ("ledger_complete", "incarnations"): self._doubled,
            ("log_read_back", ""): self._log,
            ("something_happened", "sent"): self._sent,
            ("something_happened", "inserted"): self._inserted,
            ("something_happened", "acked"): self._acked,
            ("something_happened", "delivered"): self._delivered,
        }
        return measures[term.check, term.split]()

    def distrust(self) -> str:
        """Return why the anomaly counts of this run are unreliable; empty if they are reliable.

        If a part of the log or the ledger was not read, every record of that part looks lost.
        """
        if self._log().value != partition_count(self._scenario):
            return "the final log was not read back completely, so records that look lost may be in it"
        if holes := self._gaps():
            return f"the log that was read back has gaps ({holes}), which may hold records; read it back again"
        if self._rows().value != 0:
            return "the audit did not read every row of the ledger, so records that look lost may be in it"
        return ""

    def undrained(self) -> str:
        """Return why undelivered records prove nothing; empty if the drive waited until no reader went on."""
        drained = any(e.get("stage") == "drain" and e.get("state") == "end" for e in self._events)
        if stages_broken_off(self._events, DRIVING) and not drained:
            return "the drive broke off before its drain, so consumers had no time to reach the end of the log"
        for event in self._events:
            if event.get("kind") == UNDRAINED:
                readers, limit = listed(event.get("readers", [])), event.get("limit")
                return f"{readers} still made progress when the drain ended, after {limit}; raise the limit"
        return ""

    def _gaps(self) -> str:
        """Return the offsets without a record, by topic, in topics where every offset has a record.

        Topics with transactions are left out: each transaction writes a marker, which takes an offset, to each of its
        partitions, and the ledger does not contain the number of markers. A coordinator that is loaded again, or that
        loses a response, writes a marker twice (KAFKA-19999); a transaction may include a partition without records;
        and rows of a killed producer are missing. In these topics, an acknowledged record that was not read back
        counts as lost by its identity.
        """
        scenario = self._scenario
        complete = {t.name for t in scenario.topics} - scenario.compacted - scenario.topics_with_markers
        gaps = self._counts.get("log_gaps", {})
        return listed([f"{topic}: {n:,} offsets" for topic, n in sorted(gaps.items()) if n and topic in complete])

    def _fault(self, name: str) -> Observation:
        fault = self._faults[name]
        if reason := fault.shortcoming:
            seen = "proven, not healed" if fault.proven_us is not None else "no proof"
            return Observation(0, "failed" if fault.error else seen, reason)
        return Observation(1, fault.proof_text or "proven", fault.proof_text)

    def effect(self, name: str) -> Observation:
        """Return the number of rows of an effect without an id."""
        row = next((r for r in ledger_rows(self._run, "effect_reads", EFFECT_READS.names) if r["effect"] == name), None)
        if row is None:
            reason = f"effect {name} was never read: see the stage `effects` in events.jsonl"
            return Observation.missing("not read", reason)
        if row["error"]:
            return Observation.missing("not read", row["error"])
        if reason := self._untraced(name, row["rows"], row["unreadable"]):
            return Observation.missing(NO_INPUT_ID, reason)
        text = f"{row['rows']:,} rows"
        if not row["unreadable"]:
            return Observation(0, text, text)
        reason = f"{row['unreadable']:,} of {row['rows']:,} rows of effect {name} have no id ({row['example']})"
        if row["unreadable"] == row["rows"]:
            reason += f"; say where it is: `id` of the effect {name} in the scenario"
        return Observation(row["unreadable"], f"{row['unreadable']:,} without an id", reason)

    def _untraced(self, name: str, rows: int, unreadable: int) -> str:
        """Return why effects prove nothing if about as many as the inputs are there, and none has the id of an input.

        Then the place of the id is wrong, or the application writes others: what is missing is not known.
        """
        if self._scenario.expect.effects.get(name, EffectBound()).unexpected != ZERO:
            return ""
        of_effect = {r["kind"]: r for r in audit_rows(self._run, "effect_totals") if r["effect"] == name}
        traced = of_effect.get("wrong") or of_effect.get("duplicate")
        if not traced or traced["examined"]:
            return ""
        inputs, foreign = of_effect["missing"]["examined"], of_effect["unexpected"]
        if not inputs or foreign["count"] + foreign["undecided"] - unreadable < max(1, inputs // 2):
            return ""
        found = audit_rows(self._run, "effect_findings")
        example = next((r["id"] for r in found if (r["effect"], r["kind"]) == (name, "unexpected")), None)
        shown = f", such as {example!r}" if example and not self._scenario.hides_payloads else ""
        return (
            f"none of {rows:,} rows of effect {name} has the id of an input{shown}: effects[{name}].id names another "
            "place, or the application writes another id"
        )

    def unsettled(self, name: str) -> str:
        """Return why a missing effect proves nothing; empty if the drive waited until none came any more."""
        for event in self._events:
            if event.get("kind") == UNSETTLED and name in event.get("effects", []):
                if name in event.get("open", []):
                    return (
                        f"the topic of effect {name} has a transaction that is still open after {event.get('limit')}, "
                        "which hides what is behind it; raise the limit above its transaction.timeout.ms"
                    )
                unchanged_s, needed_s = event["unchanged"][name]
                return (
                    f"effect {name} is complete when it has not changed for {needed_s:g} s, and when the drive ended "
                    f"its wait after {event.get('limit')}, it was known not to have changed for {unchanged_s:g} s; "
                    "raise the limit"
                )
        settled = any(e.get("stage") == "settle" and e.get("state") == "end" for e in self._events)
        return "" if settled else "the drive broke off before effects were complete"

    def _fetches(self, entry: str) -> Observation:
        """Return the share in percent of the fetches of an entry at brokers in its rack, as the wire proxy counted.

        It counted before the first fault and at the end; the greater share counts, because the rack may be down later.
        """
        rows = ledger_rows(self._run, "cluster", ["entity", "key", "value"])
        found = [json_object(r["value"]) for r in rows if r["entity"] == f"client:{entry}" and r["key"] == "fetches"]
        rack = next(str(c.rack) for c in self._scenario.readers if c.name == entry)
        brokers = {str(broker) for broker in self._scenario.brokers_in(rack)}
        counts = [(sum(n for b, n in row.items() if b in brokers), sum(row.values()), row) for row in found]
        if not counts:
            return Observation.missing("not counted", "the wire proxy counted no fetch; see logs/proxy.log")
        enough = [count for count in counts if count[1] >= LEAST_FETCHES]
        own, total, row = max(enough or counts, key=lambda count: count[0] / max(1, count[1]))
        places = ", ".join(f"{n:,} to broker {broker}" for broker, n in sorted(row.items()) if n)
        text = f"{own:,} of {total:,} fetches went to rack {rack}" + (f" ({places})" if places else "")
        if not enough:
            reason = (
                f"{text}, too few to tell: a fetch brings up to max.partition.fetch.bytes of each partition, so lower "
                f"that setting of {entry}, and it fetches more often"
            )
            return Observation.missing(text, reason)
        reason = (
            f"{text}, so it read from leaders in other racks: give the topics a replica in rack {rack}, and keep a "
            "broker there alive for longer"
        )
        return Observation(-(-100 * own // total), text, reason)  # rounded up: more than half is at least 51

    def removed(self, check: str, topic: str) -> Observation:
        """Return the number of acknowledged records of a topic that compaction removed: superseded, or expired."""
        counts = self._counts.get(check, {})
        if topic not in counts:
            return Observation.missing("not counted", f"the audit did not count {check} of {topic}; {AUDIT_AGAIN}")
        settings = "segment.ms or segment.bytes, min.cleanable.dirty.ratio and the brokers' log.cleaner.backoff.ms"
        settings += ", and delete.retention.ms" * (check == "expired_tombstones")
        reason = f"compaction removed nothing of {topic}, so its promise was not tested: lower {settings}"
        n = counts[topic]
        return Observation(n, f"{n:,}", f"compaction removed {n:,} records of {topic}" if n else reason)

    def _stages(self) -> Observation:
        if not any(e.get("kind") == "stage" and e.get("stage") in DRIVING for e in self._events):
            reason = "events.jsonl has no stage of the drive: copy the complete run directory"
            return Observation.missing("not recorded", reason)
        broken = stages_broken_off(self._events, DRIVING)
        stages = listed([f"{stage}: {reason}" for stage, reason in broken.items()])
        reason = f"the drive ended early ({stages}); fix the cause and run again"
        return Observation(len(broken), f"{len(broken)}", reason)

    def _rows(self) -> Observation:
        read, audited = self._counts.get("rows_read", {}), self._counts.get("rows_audited", {})
        seal = self._audited_seal()
        if seal is None or not read:
            reason = f"the ledger has no seal or the audit counted no rows; {AUDIT_AGAIN}"
            return Observation.missing("not counted", reason)
        # the seal counted the rows before Spark did
        sealed = {table: sealed.rows for table, sealed in seal.tables.items()}
        expected = {**read, **{table: max(read.get(table, 0), sealed.get(table, 0)) for table in RECORDS}}
        missing = {t: abs(rows - audited.get(t, 0)) for t, rows in expected.items() if rows != audited.get(t, 0)}
        tables = listed([f"{table}: {rows:,}" for table, rows in missing.items()])
        count, total = sum(missing.values()), sum(expected.values())
        return Observation(count, f"{count:,} of {total:,} rows", f"rows not audited ({tables}); {AUDIT_AGAIN}")

    def _audited_seal(self) -> Seal | None:
        """Return the seal of the ledger that was audited: the wire's has other rows than the clients'."""
        if not self._scenario.judged_on_wire:
            return self._seal
        from checks.wire.ledger import folder_of  # on use: it imports Spark

        return _seal(folder_of(self._run))

    def _torn(self) -> Observation:
        if self._seal is None:
            return Observation.missing("not counted", "the ledger was never sealed; run again")
        torn = [t for table in self._seal.tables.values() for t in table.torn]
        unexplained = [t for t in torn if t.refused or PurePosixPath(t.file).stem not in self._ended_on_purpose]
        size = sum(t.bytes for t in unexplained)
        explained = sum(t.bytes for t in torn) - size
        text = f"{size:,} bytes" + (f" (and {explained:,} of clients killed on purpose)" if explained else "")
        if refused := [f"{t.file}, {t.reason}" for t in unexplained if t.refused]:
            reason = f"not readable to the end: {listed(refused)}; the client program breaks the rules of the ledger"
            return Observation(size, text, reason)
        files = listed([t.file for t in unexplained])
        reason = f"torn at the end: {files}; look in logs/ for why the writer died, and check for a full disk"
        return Observation(size, text, reason)

    def _deaths(self) -> Observation:
        if not self._lifecycle:
            return Observation.missing("not recorded", NO_CLIENTS)
        crashed = [r for r in self._lifecycle if r["event"] == "crashed"]
        unexpected = [r for r in crashed if json_object(r["detail"]).get("unexpected")]
        dead = [r for r in unexpected if not self._ended_as_demanded(r)]
        by_error: dict[str, list[str]] = defaultdict(list)
        for row in dead:
            by_error[_own_error(row)].append(str(row["client"]))
        causes = [f"{listed(clients)} died: {error}" for error, clients in by_error.items()]
        logs = sorted({f"logs/{str(row['client']).replace('/', '-')}.log" for row in dead})
        reason = f"{'; '.join(causes[:3])}; see {listed(logs)}"
        return Observation(len(dead), f"{len(dead)}", reason)

    def _ended_as_demanded(self, crash: dict[str, Any]) -> bool:
        """Return whether the last error of an incarnation before its end is one that the contract demands."""
        life = [r for r in self._lifecycle if all(r[name] == crash[name] for name in ("client", "incarnation"))]
        errors = [str(json_object(r["detail"]).get("error", "")) for r in life if r["event"] == "error"]
        return bool(errors) and self._scenario.expect.demands_error(entry_of(str(crash["client"])), errors[-1])

    def _doubled(self) -> Observation:
        """Count incarnations with more than one process: their rows cannot be distinguished."""
        if not self._lifecycle:
            return Observation.missing("not recorded", NO_CLIENTS)
        started = Counter((r["client"], r["incarnation"]) for r in self._lifecycle if r["event"] == "started")
        doubled = listed([f"{client} incarnation {n}" for (client, n), times in sorted(started.items()) if times > 1])
        count = sum(times > 1 for times in started.values())
        reason = f"{doubled} was started more than once, so its rows mix two processes; run again"
        return Observation(count, f"{count}", reason)

    def clock(self) -> str:
        """Return why times are unreliable, because a clock ran backwards; empty if they are reliable."""
        steps = self._counts.get("clock_backwards", {})
        rows = listed([f"{n:,} rows of {scope}" for scope, n in sorted(steps.items())])
        remedy = "prevent changes of the clock during a run"
        if rows:
            return f"a clock ran backwards ({rows} end before they begin): {remedy}"
        back_us = set_back_us(self._events)
        return f"the clock of the machine was set back by {back_us / 1e6:.2f} s: {remedy}" if back_us else ""

    def log_times(self) -> str:
        """Return which records have wrong times, by a fault of a clock or by their producer; empty if none do."""
        topics, clocks = wrong_times(self._scenario, self._scenario.faults)
        if not topics:
            return ""
        return (
            f"{listed(clocks)} changed the times of the records of {listed(topics)}: judge them in a run with right "
            "times"
        )

    def emptied(self) -> str:
        """Return that the log was empty because retention deleted every acknowledged record; empty if it was not."""
        total = {name: sum(self._counts.get(name, {}).values()) for name in ("evicted", "in_log")}
        if total["in_log"] or not total["evicted"]:
            return ""
        return (
            f"retention, or a fault, deleted all {total['evicted']:,} acknowledged records before the log was read back"
        )

    def _log(self) -> Observation:
        expected = {(topic, p) for topic, n in self._scenario.partitions_at_end().items() for p in range(n)}
        rows = ledger_rows(self._run, "log_range", ["topic", "partition"])
        missing = sorted(expected - {(r["topic"], r["partition"]) for r in rows})
        names = listed([f"{topic}/{p}" for topic, p in missing])
        count = len(expected) - len(missing)
        reason = f"not read back: {names}; run `readback` again while the cluster is up, or run the scenario again"
        return Observation(count, f"{count:,} of {len(expected):,} partitions", reason)

    def _sent(self) -> Observation:
        planned = planned_sends(self._scenario)
        if "sent" not in self._counts:
            return Observation.missing("not counted", f"the audit counted no sends; {AUDIT_AGAIN}")
        sent = sum(self._counts["sent"].values())
        cause = listed(notes(self._events)) or "the producers did not finish"
        reason = f"{sent:,} of {planned:,} records were sent: {cause}; raise limits.drive or send fewer"
        written = {topic for p in self._scenario.producers for topic in p.written}
        return Observation(sent, f"{sent:,}", self._undecided(written) or reason)

    def _inserted(self) -> Observation:
        rows = ledger_rows(self._run, "inserts", ["outcome", "error"])
        outcomes = Counter(row["outcome"] for row in rows)
        there, planned = outcomes["ok"], planned_rows(self._scenario)
        error = next((row["error"] for row in rows if row["error"]), "")
        cause = error or listed(notes(self._events)) or "the producers did not finish"
        return Observation(there, f"{there:,}", f"{there:,} of {planned:,} rows were written: {cause}")

    def _undecided(self, topics: set[str]) -> str:
        """Return that the wire shows no record of some of the topics, as they are compacted; empty if it does."""
        hidden = sorted(topics & self._scenario.compacted) if self._scenario.judged_on_wire else []
        if not hidden:
            return ""
        return (
            f"the wire does not show which records a compacted topic keeps, so nothing of {listed(hidden)} is decided; "
            "let clients of Aftershock write and read it, without capture.judged: wire, or do not compact it"
        )

    def _acked(self) -> Observation:
        acked: dict[str, int] = defaultdict(int)
        for scope, count in self._counts.get("acked", {}).items():
            acked[topic_of(scope)] += count  # also before the topic was created again
        topics = sorted({topic for p in self._scenario.producers for topic in p.written})
        none = [t for t in topics if not acked.get(t)]
        reported = self._reported([p.name for p in self._scenario.producers if set(p.written) & set(none)])
        reason = f"{NOTHING_ACKED}; " if none == topics else f"nothing was acknowledged in {listed(none)}; "
        if not reported and (failed := last_send_error(self._run, none)):
            reported = f"{failed[0]}{REPORTED}{failed[1]} (its last send)"
        reason += reported or "see the producers' files in logs/ for their errors"
        reason = self._undecided(set(none)) or reason
        return Observation(min(acked.get(t, 0) for t in topics), _each(acked, topics), reason)

    def _delivered(self) -> Observation:
        delivered = self._counts.get("delivered", {})
        names = sorted(readers(self._scenario))
        none = [r for r in names if not delivered.get(r)]
        entries = [c.name for c in (*self._scenario.readers, *self._scenario.shares)]
        entries = [name for name in entries if self._names_of(name) & set(none)]
        reason = f"nothing was delivered to {listed(none)}; "
        reason += self._reported(entries) or "see its file in logs/, raise limits.drain, or start it earlier"
        reason = self._undecided({t for c in self._scenario.readers if c.name in entries for t in c.topics}) or reason
        return Observation(min(delivered.get(r, 0) for r in names), _each(delivered, names), reason)

    def _names_of(self, entry: str) -> set[str]:
        """Return the names of the readers that an entry is or belongs to: its group, or its clients."""
        found = next(c for c in (*self._scenario.readers, *self._scenario.shares) if c.name == entry)
        return {f"{entry}/{n}" for n in range(1, found.members + 1)} if found.mode == "assign" else {str(found.group)}

    def _reported(self, entries: list[str]) -> str:
        """Return the last error that a client of these entries reported; empty if none did."""
        errors = [r for r in self._lifecycle if r["event"] == "error" and entry_of(str(r["client"])) in entries]
        if not errors:
            return ""
        text = " ".join(str(json_object(errors[-1]["detail"]).get("error", "")).split())
        return f"{errors[-1]['client']}{REPORTED}{text}"


def _seal(ledger: Path) -> Seal | None:
    try:
        return read_seal(ledger)
    except RunDirError:
        return None


def _own_error(crash: dict[str, Any]) -> str:
    """Return the client's own error of a row `crashed`."""
    return str(json_object(crash["detail"]).get("error") or "no fault killed it, and it said nothing")


def _each(counts: dict[str, int], names: list[str]) -> str:
    return listed([f"{name}: {counts.get(name, 0):,}" for name in names])


def set_back_us(events: Iterable[Event]) -> int:
    """Return by how much the clock of the machine was set back during the drive, 0 if it was not.

    The drive appends its events in order; events of several threads may be some milliseconds apart.
    """
    latest = most = 0
    for event in events:
        if event["kind"] in OF_DRIVE or (event["kind"] == "stage" and event["stage"] in DRIVING):
            most, latest = max(most, latest - event["at_us"]), max(latest, event["at_us"])
    return most if most > SET_BACK_US else 0
