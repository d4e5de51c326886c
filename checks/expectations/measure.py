"""Observed values of the terms of the contract, from the tables of the audit and the small tables of the ledger.

If there is no value, the observation says why, and the term is inconclusive.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cached_property

from chaos.anomalies import ANOMALIES, PHRASES
from chaos.run.directory import Run, json_object
from chaos.run.events import read_events
from chaos.run.result import EFFECTS
from chaos.scenario.expect import EffectBound
from chaos.scenario.resolve import Resolved
from chaos.units import format_percent
from checks.audit.engine.counters import COMMITTED
from checks.audit.facts.starts import NOT_RESTORED
from checks.audit.facts.topic_lives import topic_of
from checks.audit.findings import COMMITS, STALLED, WIRE
from checks.audit.rules.registry import NEED_CLOCK, NEED_LOG_TIMES, RULES, nothing_to_examine
from checks.effects.findings import describe, sentence, undecided
from checks.effects.tables import BEHIND
from checks.evidence import Row, audit_rows, ledger_rows
from checks.expectations.conditions import Conditions
from checks.expectations.contract import Term, duration
from checks.expectations.judge import SAW_NOTHING, Observation, listed

CLIENT_FAULTS = "consumer."
"""Checks of what the readers left when the drain ended."""


REMOVED = ("superseded", "expired_tombstones")
"""Counts of records that compaction removed from a topic."""


class Measure:
    """Observed values of one run; `observe` returns the value of a term."""

    def __init__(self, run: Run, resolved: Resolved) -> None:
        self._run, self._resolved, self._scenario = run, resolved, resolved.scenario
        self._conditions = Conditions(run, resolved)
        self._summary = audit_rows(run, "summary")
        self._metrics = audit_rows(run, "metrics")
        self._undecided_rows = audit_rows(run, "undecided")
        self._distrust = self._conditions.distrust()

    def observe(self, term: Term) -> Observation:
        """Return the observed value of a term."""
        if term.condition:
            return self._conditions.observe(term)
        if term.check == "groups" and term.split == "members":
            return _most_members(self._run, term.scope)
        if term.check in ("send_failures", "send_success", *REMOVED) and self._distrust:
            return Observation.missing("not counted", self._distrust)
        if term.check == EFFECTS:
            return self._effects(term)
        if term.check == "send_failures":
            return failures(self._run, term.split)
        if term.check == "send_success":
            return self._send_success()
        if term.check in REMOVED:
            return self._conditions.removed(term.check, term.scope)
        if term.check == "client_errors":
            return _clients_with_error(self._run, term.scope, term.split)
        if term.check == "groups":
            return count_rebalances(self._run, self._resolved, term.scope)
        return self._count(term) if (term.check, term.split) in PHRASES else self._time(term)

    def _count(self, term: Term) -> Observation:
        if reason := self._uncountable(term.check):
            return Observation.missing("not counted", reason)
        if self._scenario.judged_on_wire and (hidden := ANOMALIES[term.check].hidden):
            expect = self._scenario.expect  # a bound that is not the usual one is a question of the scenario
            demanded = getattr(expect, term.check) != type(expect).model_fields[term.check].default
            unknown = f"`expect` bounds {term.check}, which is {hidden}"
            return Observation(None, "not decided", hidden, unknown=unknown, applies=demanded)
        rows = [r for r in self._summary if (r["check"], r["split"]) == (term.check, term.split)]
        if not rows and not nothing_to_examine(self._scenario, term.check):
            reason = f"the audit wrote no result of {term.check}; look at logs/checks.log and audit the run again"
            return Observation.missing("not checked", reason)
        count, examined = sum(r["count"] for r in rows), sum(r["examined"] for r in rows)
        undecided = sum(r.get("undecided", 0) for r in rows)  # Great Expectations reports a missing column
        if not (examined or count or undecided):
            return self._nothing_examined(term, listed([*dict.fromkeys(r["why"] for r in rows if r["why"])]))
        phrases = PHRASES[term.check, term.split]
        text, unsettled = f"{count:,} of {examined:,} {phrases.examined}", ""
        left_out = self._left_out(term.check)
        text += left_out and f", {left_out} left out"
        if undecided:
            text += f", {undecided:,} undecided"
            unsettled = f"{undecided:,} more could not be decided, and they may break the bound or meet it"
            unsettled += self._undecided(term.check)
        by_count = sorted(rows, key=lambda r: (-r["count"], r["scope"]))
        scopes = listed([f"{r['scope']}: {r['count']:,}" for r in by_count if r["count"]])
        reason = f"{phrases.describe(count)} ({scopes})" if scopes else f"none among {examined:,} {phrases.examined}"
        return Observation(None, text, reason, unsettled, proven=self._ignores_checkpoint(term.check))

    def _effects(self, term: Term) -> Observation:
        """Return a number of an effect, or a time to it."""
        read = self._conditions.effect(term.scope)
        if read.unknown:  # one condition says it for all terms of the effect
            return Observation.nothing(read.unknown)
        if self._distrust:
            return Observation.missing("not counted", self._distrust)
        kind, rows = term.split, audit_rows(self._run, "effect_totals")
        row = next((r for r in rows if (r["effect"], r["kind"]) == (term.scope, kind)), None)
        effect = next(e for e in self._scenario.effects if e.name == term.scope)
        if row is None and kind == "duplicate" and effect.aggregate and not effect.sql:
            return Observation.nothing("a later value of an aggregate replaces an earlier one")
        if row is None:
            return Observation.missing("not counted", "the audit did not count it; audit the run again")
        missing = next((r for r in rows if (r["effect"], r["kind"]) == (term.scope, "missing")), None)
        bound = self._scenario.expect.effects.get(term.scope, EffectBound()).missing
        if kind != "missing" and read.text == "0 rows" and missing and not bound.holds(missing["count"]):
            return Observation.nothing(f"there is no effect {term.scope}, and so all are missing")
        if kind.startswith("late"):
            return self._effect_time(term, row)
        if kind == BEHIND and (reason := (row["count"] is None and row["why"]) or self._conditions.clock()):
            return Observation.missing("not measured", reason)
        noun = "inputs" if kind in ("missing", BEHIND) else "effects"
        text = f"{row['count']:,} of {row['examined']:,} {noun}" + (f" {row['why']}" if kind == BEHIND else "")
        if not (row["examined"] or row["count"] or row["undecided"]):
            what = "no input was acknowledged" if kind == "missing" else f"there is no effect {term.scope}"
            return Observation.missing(f"0 of 0 {noun}", f"{SAW_NOTHING}: {what}")
        replaced = effect.aggregate is not None
        if _may_change(term, row["count"], replaced) and (reason := self._conditions.unsettled(term.scope)):
            return Observation.missing(text, reason)
        unsettled = ""
        if row["undecided"]:
            text += f", {row['undecided']:,} undecided"
            unsettled = undecided(kind, row["undecided"], read.reason if read.value else "")
        findings = self._findings(term.scope)
        reason = describe(kind, row["count"], row["examined"], term.scope, findings, self._began_us)
        return Observation(None, text, reason, unsettled, without_id=read.value or 0)

    def _effect_time(self, term: Term, row: Row) -> Observation:
        if row["count"] is None:
            return Observation.missing("not measured", row["why"])
        if reason := self._conditions.unsettled(term.scope) or self._conditions.clock():
            return Observation.missing("not measured", reason)
        least, most = row["count"], row["count"] + row["undecided"]
        text = duration(most) if duration(least) == duration(most) else f"{duration(least)} to {duration(most)}"
        unsettled = f"the run saw effects at intervals, so that the time is {text}; look more often (every), or give at"
        late = (f for f in self._findings(term.scope) if f["kind"] == "late")
        latest = next((sentence(f, self._began_us) for f in late), "")
        reason = f"{text} from acknowledgement to effect {term.scope}"
        return Observation(None, text, latest or reason, unsettled)

    @cached_property
    def _began_us(self) -> int:
        """When the run began."""
        return min((e["at_us"] for e in read_events(self._run)), default=0)

    def _findings(self, effect: str) -> list[Row]:
        """Return the findings of an effect."""
        return [f for f in audit_rows(self._run, "effect_findings") if f["effect"] == effect]

    def _ignores_checkpoint(self, check: str) -> bool:
        """Return whether a reader had a checkpoint, and left records out because it began beyond it all the same."""
        if check != "skipped_delivery":
            return False
        found = [json_object(r["evidence"]) for r in audit_rows(self._run, "anomalies") if r["check"] == check]
        return any(str(evidence.get("start_why", "")).startswith(NOT_RESTORED) for evidence in found)

    def _undecided(self, check: str) -> str:
        """Return why rows of a check could not be decided, and what decides them; empty for results of older audits."""
        counts: Counter[tuple[str, str]] = Counter()
        for row in self._undecided_rows:
            if row["check"] == check:
                counts[row["why"], row["advice"]] += row["count"]
        whys = [f"{why} ({count:,})" if len(counts) > 1 else why for (why, _), count in counts.most_common()]
        advice = dict.fromkeys(advice for (_, advice), _ in counts.most_common() if advice)
        return f": {'; '.join([*whys, *advice])}" if whys else ""

    def _left_out(self, check: str) -> str:
        """Return the number of commits of unknown outcome, if a check examines commits; empty if there are none."""
        if COMMITTED not in RULES[check].examines:
            return ""
        number = sum(r["count"] for r in self._undecided_rows if r["check"] == COMMITS)
        return f"{number:,} of unknown outcome" if number else ""

    def _uncountable(self, check: str) -> str:
        """Return why the counts of a check are unreliable; empty if they are reliable."""
        if self._distrust:
            return self._distrust
        if whys := [row["why"] for row in self._undecided_rows if row["check"] == WIRE]:
            return listed(whys)
        if check in NEED_CLOCK and (reason := self._conditions.clock()):
            return reason
        compares = check in NEED_LOG_TIMES and not nothing_to_examine(self._scenario, check)
        if compares and (reason := self._conditions.log_times()):
            return reason
        waits = check in STALLED and not nothing_to_examine(self._scenario, check)
        return self._conditions.undrained() if waits else ""

    def _nothing_examined(self, term: Term, left_out_for: str) -> Observation:
        """Return an observation without a value: not applicable if the scenario gives the check nothing to examine.

        What the contract demands applies in any case. left_out_for: why the audit left out all rows that there were.
        """
        reason = nothing_to_examine(self._scenario, term.check)
        if self._scenario.tapped:
            reason = reason or "nothing of the kind passed the tap"
        if not (reason or left_out_for):
            reason = RULES[term.check].vacant
        if reason and term.at_least == 0:
            return Observation.nothing(reason)
        text = f"0 of 0 {PHRASES[term.check, term.split].examined}"
        if left_out := self._left_out(term.check):
            unknown = f"{SAW_NOTHING}: it left out {left_out}{self._undecided(COMMITS)}"
            return Observation.missing(f"{text}, {left_out} left out", unknown)
        if why := self._conditions.emptied() or left_out_for:
            return Observation.missing(text, f"{SAW_NOTHING}: {why}")
        return Observation.missing(
            text,
            f"{SAW_NOTHING}: {reason or 'what it examines did not happen'}; "
            "change the scenario so that it does, or leave this out of `expect`",
        )

    def _send_success(self) -> Observation:
        if reason := self._conditions.clock():
            return Observation.missing("not measured", reason)
        assert self._scenario.expect.send_success is not None  # the term exists
        return lowest_success(self._run, round(self._scenario.expect.send_success.per * 1_000_000))

    def _time(self, term: Term) -> Observation:
        if reason := self._conditions.clock():
            return Observation.missing("not measured", reason)
        of_term = [r for r in self._metrics if (r["metric"], r["stat"]) == (term.check, term.split)]
        rows = [r for r in of_term if r["value_us"] is not None]
        if faults := self._unmeasured({r["fault"] for r in rows}, term.check):
            reason = f"none was measured for {listed(faults)}: keep the load running for longer, so that its end shows"
            return Observation.missing("not measured", reason)
        if not rows:
            reason = "nothing of the kind happened in this run: bound it in a scenario where it does"
            return Observation.missing("not measured", reason)
        worst = max(rows, key=lambda r: r["value_us"])
        value_us, text = worst["value_us"], duration(worst["value_us"])
        if value_us <= (term.at_most or 0) and (outages := self._unrecovered(term.check)):
            reason = f"{outages} when the drive ended, so the outage is longer: keep the load running for longer"
            return Observation.missing(f"more than {text}", reason)
        place = f"fault {worst['fault']}, {worst['scope']}" if worst["fault"] else worst["scope"]
        return Observation(None, text, f"{text} in {place}")

    def _unrecovered(self, metric: str) -> str:
        """Return the outages that lasted beyond the end of the drive: their measured time is too short."""
        rows = [r for r in audit_rows(self._run, "counts") if r["name"] == f"{metric}_unrecovered" and r["value"]]
        return listed([f"{r['value']:,} partitions of {r['scope']} had not recovered" for r in rows])

    def _unmeasured(self, measured: set[str], metric: str) -> list[str]:
        """Return the faults without a measurement, if the metric is measured for each fault.

        A fault of a consumer does not affect producers, so it may come after they have finished.
        """
        if not metric.endswith("_unavailability"):
            return []
        exempt = CLIENT_FAULTS if metric == "produce_unavailability" else "none"
        return [f.name for f in self._scenario.faults if f.name not in measured and not f.kind.startswith(exempt)]


def _may_change(term: Term, count: int, replaced: bool) -> bool:
    """Return whether effects that still come may change the verdict about a number: fewer are missing, others rise.

    replaced: whether a later value takes the place of an earlier one, so that what is wrong may become right.
    """
    if term.split == BEHIND:  # what comes now came after the fault
        return False
    if term.split == "missing":
        return count >= term.at_least > 0 or (term.at_most is not None and count > term.at_most)
    if term.split == "wrong" and replaced:
        return True
    return count <= term.at_most if term.at_most is not None else count < term.at_least


def _most_members(run: Run, group: str) -> Observation:
    """Return the highest number of members that the observer saw at one time."""
    rows = ledger_rows(run, "cluster", ["entity", "key", "value"])
    sizes = [_size(r["value"]) for r in rows if r["entity"] == f"group:{group}" and r["key"] == "members"]
    answers = [size for size in sizes if size is not None]
    if not answers:
        return Observation.missing(
            "not observed",
            f"the observer never got an answer about the members of group {group}: look at the rows `observer` and "
            f"`group:{group}` of ledger/cluster.parquet, and give the coordinator time between faults",
        )
    return Observation(max(answers), f"{max(answers):,}", f"over {len(answers):,} observed changes")


def _size(value: str) -> int | None:
    """Return the number of members from a JSON list or number; None for anything else."""
    try:
        members = json.loads(value)
    except (TypeError, ValueError):
        return None
    if isinstance(members, list):
        return len(members)
    return members if isinstance(members, int) else None


def _clients_with_error(run: Run, entry: str, text: str) -> Observation:
    """Count the clients of an entry that reported an error containing the text; repeated errors count once."""
    rows = ledger_rows(run, "lifecycle", ["client", "event", "detail"])
    of_entry = [r for r in rows if str(r["client"]).rpartition("/")[0] == entry]
    if not of_entry:
        reason = f"the ledger has no client of {entry}: see the stages of the drive in events.jsonl"
        return Observation.missing("not recorded", reason)
    reports = [r for r in of_entry if r["event"] == "error"]
    errors = [(str(r["client"]), str(json_object(r["detail"]).get("error", ""))) for r in reports]
    clients = sorted({client for client, error in errors if text in error})
    others = sorted({error for _, error in errors if text not in error})
    reason = f"reported by {listed(clients)}" if clients else "reported by no client"
    reason += f"; other errors: {listed(others)}" if others else ""
    return Observation(len(clients), f"{len(clients)}", reason)


def count_rebalances(run: Run, resolved: Resolved, group: str) -> Observation:
    """Count the generations between the forming of the group and the order to stop the clients.

    The count uses the numbers of the generations, so it includes generations that no member lived to report. Members
    report a generation without any reassignment (cooperative members kept their partitions) when they stop.
    """
    if all(c.mode == "assign" for c in resolved.scenario.readers if c.group == group):
        return Observation(0, "0", "assign-mode consumers are in no group, so they never rebalance")
    columns = ["consumer", "group", "mode", "generation", "event", "at_us"]
    subscribed = [r for r in ledger_rows(run, "assignments", columns) if r["mode"] == "subscribe"]
    assigned = [r for r in subscribed if r["group"] == group]
    rows = [r for r in assigned if r["generation"] is not None]
    if not rows:
        reason = f"no member of group {group} was assigned a partition: see the consumers' files in logs/"
        if assigned:
            reason = f"the members of group {group} report no generation: their client library does not give it"
        return Observation.missing("not observed", reason)
    events = [e for e in read_events(run) if e.get("kind") == "stage" and e.get("state") == "begin"]
    begins = {e["stage"]: e["at_us"] for e in events}
    began, ended = begins.get("load", 0), begins.get("stop", 2**62)
    before = [r["generation"] for r in rows if r["at_us"] < began]
    during = [r["generation"] for r in rows if began <= r["at_us"] <= ended]
    formed = max(before, default=min(r["generation"] for r in rows))
    last = max(formed, *during, _generation_at_stop([r for r in rows if r["at_us"] > ended]))
    count = last - formed
    return Observation(count, f"{count:,}", f"formed as generation {formed}, stopped as generation {last}")


def _generation_at_stop(after: list[Row]) -> int:
    """Return the generation at the order to stop, from the members that revoked their partitions after it; else 0.

    The first member to leave starts a new generation for the others. The result is therefore the lowest generation of
    the members that have no assignment as their first row after the order.
    """
    first: dict[str, Row] = {}
    for row in sorted(after, key=lambda r: r["at_us"]):
        first.setdefault(row["consumer"], row)
    return min((r["generation"] for r in first.values() if r["event"] != "assigned"), default=0)


AUDIT_AGAIN = "audit the run again"
_COUNTS = {"fail": "failed", "unknown": "unknown"}
_OUTCOMES = {"fail": "failed for good", "unknown": "have an unknown outcome"}


def failures(run: Run, outcome: str) -> Observation:
    """Return the number of sends with this outcome, over all topics.

    `unknown` includes records that are in the log although the row of their send was lost with the producer.
    """
    counts = [r for r in audit_rows(run, "counts") if r["name"] == _COUNTS[outcome]]
    if not counts:
        return Observation.missing("not counted", f"the audit counted no sends; {AUDIT_AGAIN}")
    total = sum(r["value"] for r in counts)
    text = ", ".join(f"{r['scope']}: {r['value']:,}" for r in counts if r["value"])
    return Observation(total, f"{total:,}", f"{total:,} sends {_OUTCOMES[outcome]} ({text})" if total else "no send")


def lowest_success(run: Run, window_us: int) -> Observation:
    """Return the lowest share of acknowledged sends in a window of a topic, in millionths, rounded down.

    A send belongs to the window of its call. The windows of a topic follow each other from its first send (rounded down
    to 250 ms); the last window counts with the sends that it has. Windows without sends do not count.
    """
    series = [(topic_of(r["scope"]), r) for r in audit_rows(run, "series") if r["series"] in ("called", "unacked")]
    first_us: dict[str, int] = {}
    for topic, row in series:
        first_us[topic] = min(row["at_us"], first_us.get(topic, row["at_us"]))
    if not first_us:
        return Observation.missing("not measured", f"no send is in the table `series` of the audit; {AUDIT_AGAIN}")
    sends = {"called": Counter[tuple[str, int]](), "unacked": Counter[tuple[str, int]]()}
    for topic, row in series:
        sends[row["series"]][topic, (row["at_us"] - first_us[topic]) // window_us] += row["value"]
    called, unacked = sends["called"], sends["unacked"]
    shares = [((n - unacked[key]) * 1_000_000 // n, -n, key[1], key[0]) for key, n in called.items()]
    share, negative, window, topic = min(shares)
    begin = duration(window * window_us)
    reason = f"{format_percent(share)} of {-negative:,} sends in the window {begin} after the first send to {topic}"
    return Observation(share, f"{format_percent(share)} of {-negative:,} sends", reason)
