"""The platform's own conditions: whether the run is able to prove anything."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePosixPath

from chaos.errors import RunDirError
from chaos.ledger.seal import Seal, read_seal
from chaos.ledger.writer import SUFFIX
from chaos.run.directory import Run
from chaos.run.events import read_events, stages_broken_off
from chaos.run.stage_times import DRIVING, notes
from chaos.scenario.resolve import Resolved
from checks.evidence.faults import fault_outcomes, missing_proof
from checks.evidence.tables import audit_rows, json_object, ledger_rows
from checks.expectations.contract import Term, partitions, planned_sends, readers
from checks.expectations.phrases import listed
from checks.expectations.seen import Seen, unseen

RECORDS = ("sends", "deliveries", "commits", "assignments")
"""The tables that the audit has to take in to the last row."""
AUDIT_AGAIN = "audit the run again, and report it if it stays"


class Conditions:
    """The conditions of one run; `seen` gives what was seen of a term."""

    def __init__(self, run: Run, resolved: Resolved) -> None:
        self._run, self._scenario = run, resolved.scenario
        self._events = read_events(run)
        self._faults = {f.name: f for f in fault_outcomes(run, resolved)}
        self._lifecycle = ledger_rows(run, "lifecycle", ["client", "incarnation", "event", "detail"])
        # every client names its files so: see chaos.clients
        self._ended_on_purpose = {
            f"{str(row['client']).replace('/', '-')}.{row['incarnation']}{SUFFIX}"
            for row in self._lifecycle
            if row["event"] == "crashed" and not json_object(row["detail"]).get("unexpected")
        }
        self._counts: dict[str, dict[str, int]] = {}
        for row in audit_rows(run, "counts"):
            self._counts.setdefault(row["name"], {})[row["scope"]] = row["value"]
        try:
            self._seal: Seal | None = read_seal(run.ledger)
        except RunDirError:
            self._seal = None

    def seen(self, term: Term) -> Seen:
        """What was seen of one of the platform's terms."""
        if term.check == "fault_proof":
            return self._fault(term.scope)
        measures = {
            "StagesBrokenOff": self._stages,
            "RowsMissingFromAudit": self._rows,
            "UnexplainedTornBytes": self._torn,
            "UnexpectedClientDeaths": self._deaths,
            "DoubledIncarnations": self._doubled,
            "PartitionsReadBack": self._log,
            "RecordsSent": self._sent,
            "RecordsAcknowledged": self._acked,
            "RecordsDelivered": self._delivered,
        }
        return measures[term.rule]()

    def distrust(self) -> str:
        """Why no anomaly count of this run can be relied on; empty where they can.

        A log or a ledger of which a part was not read makes every record of that part look lost.
        """
        if self._log().value != partitions(self._scenario):
            return "the final log was not read back whole, so what is missing in it may be there"
        if holes := self._holes():
            return f"the log that was read back has holes ({holes}), and records may stand there; read it back again"
        if self._rows().value != 0:
            return "the audit did not take in every row of the ledger, so what it misses may be there"
        return ""

    def undrained(self) -> str:
        """Why what was not delivered may have had no chance to be; empty where consumers were waited for."""
        drained = any(e.get("stage") == "drain" and e.get("state") == "end" for e in self._events)
        if stages_broken_off(self._events, DRIVING) and not drained:
            return "the drive broke off before its drain, so nobody waited for consumers to reach the end of the log"
        return ""

    def _holes(self) -> str:
        """Offsets without a record in topics that keep every record, and nothing but records.

        The end of a transaction leaves a marker in each partition it wrote to, which takes an offset, and how many
        there are cannot be had from the ledger: a coordinator that is loaded anew, or whose request was answered and
        the answer lost, has a marker written again (KAFKA-19999); a partition may belong to a transaction of which no
        record arrived; and rows of a producer that was killed are missing. So topics with transactions are left out
        here; an acknowledged record that is not in what was read back counts as lost there, by its identity.
        """
        cluster = str(self._scenario.cluster.config.get("log.cleanup.policy", "delete"))
        whole = {t.name for t in self._scenario.topics if "compact" not in str(t.config.get("cleanup.policy", cluster))}
        whole -= {p.topic for p in self._scenario.producers if p.transactions}
        whole -= {p.to for p in self._scenario.processors}
        gaps = self._counts.get("log_gaps", {})
        return listed([f"{topic}: {n:,} offsets" for topic, n in sorted(gaps.items()) if n and topic in whole])

    def _fault(self, name: str) -> Seen:
        fault = self._faults[name]
        if reason := missing_proof(fault):
            return Seen(0, "failed" if fault.error else "no proof", reason)
        return Seen(1, fault.proof or "proven", fault.proof)

    def _stages(self) -> Seen:
        if not any(e.get("kind") == "stage" and e.get("stage") in DRIVING for e in self._events):
            return unseen("not recorded", "events.jsonl tells nothing of the drive: copy the whole run directory")
        broken = stages_broken_off(self._events, DRIVING)
        words = listed([f"{stage}: {reason}" for stage, reason in broken.items()])
        return Seen(len(broken), f"{len(broken)}", f"the drive ended early ({words}); mend that and run again")

    def _rows(self) -> Seen:
        read, audited = self._counts.get("rows_read", {}), self._counts.get("rows_audited", {})
        if self._seal is None or not read:
            return unseen("not counted", f"the ledger has no seal or the audit counted no rows; {AUDIT_AGAIN}")
        expected = dict(read)
        for table in RECORDS:  # the seal counted them before Spark did
            expected[table] = max(
                read.get(table, 0), self._seal.tables[table].rows if table in self._seal.tables else 0
            )
        missing = {t: abs(rows - audited.get(t, 0)) for t, rows in expected.items() if rows != audited.get(t, 0)}
        why = listed([f"{table}: {rows:,}" for table, rows in missing.items()])
        total = sum(expected.values())
        return Seen(
            sum(missing.values()),
            f"{sum(missing.values()):,} of {total:,} rows",
            f"rows not audited ({why}); {AUDIT_AGAIN}",
        )

    def _torn(self) -> Seen:
        if self._seal is None:
            return unseen("not counted", "the ledger was never sealed; run again")
        torn = [(t.file, t.bytes) for table in self._seal.tables.values() for t in table.torn]
        unexplained = [(file, size) for file, size in torn if not self._killed_on_purpose(file)]
        size, explained = sum(s for _, s in unexplained), sum(s for _, s in torn) - sum(s for _, s in unexplained)
        words = f"{size:,} bytes" + (f" (and {explained:,} of clients killed on purpose)" if explained else "")
        files = listed([file for file, _ in unexplained])
        return Seen(
            size, words, f"torn at the end: {files}; see why its writer died in logs/, or whether the disk was full"
        )

    def _killed_on_purpose(self, file: str) -> bool:
        return PurePosixPath(file).name in self._ended_on_purpose

    def _deaths(self) -> Seen:
        if not self._lifecycle:
            return unseen("not recorded", "the ledger knows of no client; see the drive's stages in events.jsonl")
        dead = [
            str(r["client"])
            for r in self._lifecycle
            if r["event"] == "crashed" and json_object(r["detail"]).get("unexpected")
        ]
        why = f"{listed(dead)} died, though no fault asked for it; see its file in logs/ and run again"
        return Seen(len(dead), f"{len(dead)}", why)

    def _doubled(self) -> Seen:
        """Rows of two processes under one name and incarnation cannot be told apart."""
        if not self._lifecycle:
            return unseen("not recorded", "the ledger knows of no client; see the drive's stages in events.jsonl")
        started = Counter((r["client"], r["incarnation"]) for r in self._lifecycle if r["event"] == "started")
        doubled = listed([f"{client} incarnation {n}" for (client, n), times in sorted(started.items()) if times > 1])
        count = sum(times > 1 for times in started.values())
        why = f"{doubled} was started more than once, so its rows are of two processes; give each its own and run again"
        return Seen(count, f"{count}", why)

    def clock(self) -> str:
        """Whose clock ran backwards, and in which rows; empty if none did. No time of the run can be relied on then."""
        steps = self._counts.get("clock_backwards", {})
        rows = listed([f"{n:,} rows of {scope}" for scope, n in sorted(steps.items())])
        return (
            f"a clock ran backwards ({rows} end before they begin): stop time from being set during a run"
            if rows
            else ""
        )

    def _log(self) -> Seen:
        wanted = {(topic, p) for topic, n in self._scenario.partitions_at_end().items() for p in range(n)}
        rows = ledger_rows(self._run, "log_range", ["topic", "partition"])
        missing = sorted(wanted - {(r["topic"], r["partition"]) for r in rows})
        names = listed([f"{topic}/{p}" for topic, p in missing])
        count = len(wanted) - len(missing)
        why = f"not read back: {names}; run `readback` again while the cluster is up, or run the scenario again"
        return Seen(count, f"{count:,} of {len(wanted):,} partitions", why)

    def _sent(self) -> Seen:
        planned = planned_sends(self._scenario)
        if "sent" not in self._counts:
            return unseen("not counted", f"the audit counted no sends; {AUDIT_AGAIN}")
        sent = sum(self._counts["sent"].values())
        said = listed(notes(self._events)) or "the producers did not finish"
        return Seen(
            sent, f"{sent:,}", f"{sent:,} of {planned:,} records were sent: {said}; raise limits.drive or send fewer"
        )

    def _acked(self) -> Seen:
        acked = self._counts.get("acked", {})
        topics = sorted({p.topic for p in self._scenario.producers})
        none = [t for t in topics if not acked.get(t)]
        why = f"nothing was acknowledged in {listed(none)}; see the producers' files in logs/ for their errors"
        return Seen(min(acked.get(t, 0) for t in topics), _each(acked, topics), why)

    def _delivered(self) -> Seen:
        delivered = self._counts.get("delivered", {})
        names = sorted(readers(self._scenario))
        none = [r for r in names if not delivered.get(r)]
        why = f"nothing was delivered to {listed(none)}; see its file in logs/, raise limits.drain, or start it earlier"
        return Seen(min(delivered.get(r, 0) for r in names), _each(delivered, names), why)


def _each(counts: dict[str, int], names: list[str]) -> str:
    return listed([f"{name}: {counts.get(name, 0):,}" for name in names])
