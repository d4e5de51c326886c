"""Share groups: what each has to acquire, what came back, how deliveries are counted, and whose lock is in force."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from chaos.scenario.model import Scenario
from tests.checks.audit.oracle.facts import Case, Finding, Judgement, Row

OBSERVED_LATE_US = 10_000_000
GONE_SOON_US = 2_000_000
NOTICED_US = 10_500_000
ON_ITS_WAY_US = 1_000_000
NEVER = 10**18
CONNECTIONS = ("broker.", "coordinator.", "controller.", "cluster.", "link.", "wire.", "disk.", "log.", "election.")
OTHERS = ("partition.reassign", "consumer.pause", "client.quota")


@dataclass
class Held:
    """One acquisition, with its acknowledgement if there is a row of it."""

    row: Row
    ack: Row | None = None

    @property
    def at_us(self) -> int:
        return int(self.row["acquired_us"])

    @property
    def count(self) -> int:
        return int(self.row["delivery_count"])

    @property
    def refused(self) -> bool:
        return self.ack is not None and self.ack["error"] == "INVALID_RECORD_STATE"

    @property
    def misdirected(self) -> bool:
        return self.ack is not None and self.ack["error"] in ("NOT_LEADER_OR_FOLLOWER", "FENCED_LEADER_EPOCH")

    @property
    def member(self) -> tuple[str, int]:
        return self.row["consumer"], self.row["incarnation"]


@dataclass
class Group:
    """A share group on one partition: the records by offset, and who acquired them in order of time."""

    case: Case
    name: str
    topic: str
    partition: int
    settings: dict[str, Any]
    entries: set[str]
    held: dict[int, list[Held]] = field(default_factory=dict)

    @property
    def lock_us(self) -> int:
        return 1000 * int(self.settings.get("share.record.lock.duration.ms", 30_000))

    @property
    def limit(self) -> int:
        return int(self.settings.get("share.delivery.count.limit", 5))

    def seen(self, key: str) -> int | None:
        entity = f"group:{self.name}/{self.topic}/{self.partition}"
        rows = [r for r in self.case.rows["cluster"] if (r["entity"], r["key"]) == (entity, key)]
        return int(max(rows, key=lambda r: r["at_us"])["value"]) if rows else None

    def records(self) -> list[Row]:
        """The log records that the group sees."""
        committed = self.settings.get("share.isolation.level") == "read_committed"
        here = [r for r in self.case.rows["log"] if (r["topic"], r["partition"]) == (self.topic, self.partition)]
        return [r for r in here if not committed or r["committed"] is not False]

    def changes(self) -> list[int]:
        """When the observer saw another leader."""
        rows = [
            r
            for r in self.case.rows["cluster"]
            if (r["entity"], r["key"]) == (f"{self.topic}/{self.partition}", "leader_epoch")
        ]
        return sorted(r["at_us"] for r in rows)[1:]

    def led_anew(self, since_us: int, until_us: int) -> bool:
        return any(since_us <= at_us <= until_us + OBSERVED_LATE_US for at_us in self.changes())

    def gone(self, member: tuple[str, int], at_us: int) -> bool:
        """Whether the connection of a member may have ended by then."""
        own = [
            *(r["acquired_us"] for r in self.case.rows["acquisitions"] if _is_of(r, member, self.name)),
            *(r["requested_us"] for r in self.case.rows["acknowledgements"] if _is_of(r, member, self.name)),
        ]
        events = [r for r in self.case.rows["lifecycle"] if (r["client"], r["incarnation"]) == member]
        for kind in ("crashed", "stopped"):
            ends = [r["at_us"] for r in events if r["event"] == kind]
            if ends:
                return bool(max(own, default=0) <= at_us and min(ends) <= at_us + GONE_SOON_US)
        return False

    def ends(self, since_us: int, until_us: int) -> int:
        """How many members may have had a record of that age when they ended."""
        lives: dict[tuple[str, int], list[Row]] = {}
        for row in self.case.rows["lifecycle"]:
            if row["client"].partition("/")[0] in self.entries:
                lives.setdefault((row["client"], row["incarnation"]), []).append(row)
        number = 0
        for member, events in lives.items():
            if self.gone(member, until_us):
                crashes = [r["at_us"] for r in events if r["event"] == "crashed"]
                number += (
                    min(crashes or [r["at_us"] for r in events if r["event"] == "stopped"]) >= since_us - NOTICED_US
                )
        return number

    def reset(self, held: list[Held], until_us: int) -> bool:
        since = min(-1 if h.row["sent_us"] is None else h.row["sent_us"] for h in held)
        changed = self.led_anew(since, until_us) or self.set_to(since, until_us)
        return bool(changed) or any(self.gone(h.member, until_us) for h in held)

    def set_to(self, since_us: int, until_us: int) -> list[int]:
        """The start offsets that faults may have set within a time."""
        offsets = []
        rows = [r for r in self.case.rows["faults"] if r["kind"] == "share.reset_offsets"]
        for begun in (r for r in rows if r["phase"] == "injecting" and r["target"] == f"group {self.name}"):
            for done in (r for r in rows if r["phase"] != "injecting" and r["fault"] == begun["fault"]):
                if begun["at_us"] <= until_us and done["at_us"] >= since_us:
                    offsets.append(int(json.loads(done["evidence"])["offsets"][f"{self.topic}/{self.partition}"]))
        return offsets

    def disturbed(self, from_us: int, until_us: int) -> bool:
        faults = [f for f in self.case.rows["faults"] if f["kind"].startswith(CONNECTIONS) or f["kind"] in OTHERS]
        for name in {f["fault"] for f in faults if f["phase"] == "injecting"}:
            begin = min(f["at_us"] for f in faults if f["fault"] == name and f["phase"] == "injecting")
            heals = [f["at_us"] for f in faults if f["fault"] == name and f["phase"] == "healed"]
            if begin <= until_us and min(heals, default=NEVER) + OBSERVED_LATE_US >= from_us:
                return True
        return False

    def finding(self, check: str, held: Held) -> Finding:
        r = held.row
        who = r["producer"], r["producer_incarnation"], r["seq"]
        return Finding(check, "", self.name, self.topic, self.partition, r["offset"], *who, r["consumer"])


def _entries(scenario: Scenario, group: str) -> set[str]:
    return {entry.name for entry in scenario.shares if entry.group == group}


def _is_of(row: Row, member: tuple[str, int], group: str) -> bool:
    return (row["consumer"], row["incarnation"]) == member and row["group"] == group


def judge_sharing(case: Case, scenario: Scenario, verdict: Judgement) -> None:
    """All checks of share groups."""
    places = {(r["topic"], r["partition"]) for r in case.rows["log_range"]}
    for entry in scenario.shares:
        for topic, partition in sorted(p for p in places if p[0] in entry.topics):
            group = Group(case, entry.group, topic, partition, dict(entry.settings), _entries(scenario, entry.group))
            for row in case.rows["acquisitions"]:
                if (row["group"], row["topic"], row["partition"]) == (group.name, topic, partition):
                    group.held.setdefault(row["offset"], []).append(Held(row, _answer(case, row)))
            for held in group.held.values():
                held.sort(key=lambda h: (h.at_us, h.count))
            _unacquired(group, verdict)
            _aborted(group, verdict)
            for held in group.held.values():
                _redelivered(group, held, verdict)
                _counted(group, held, verdict)
                _locked(group, held, verdict)
                for h in held:
                    if h.count > group.limit:
                        verdict.findings[group.finding("overlimit_share", h)] += 1


def _answer(case: Case, row: Row) -> Row | None:
    same = ("consumer", "incarnation", "group", "ordinal", "topic", "partition", "offset")
    return next((a for a in case.rows["acknowledgements"] if all(a[name] == row[name] for name in same)), None)


def _unacquired(group: Group, verdict: Judgement) -> None:
    begin = 0
    if group.settings.get("share.auto.offset.reset", "latest") == "latest":
        begin = min(group.held, default=NEVER)
    past = NEVER if group.seen("share_lag") == 0 else group.seen("share_start") or 0
    for record in group.records():
        offset = record["offset"]
        for check in ("lost_share", "stalled_share"):
            verdict.examined[check, group.name] += 1
        if offset in group.held:
            continue
        check = "lost_share" if offset < past else "stalled_share"
        end_us, written_us = _end(group.case), record["timestamp_us"]
        archived = written_us is None or (
            end_us - written_us >= (group.limit - group.ends(written_us, end_us)) * group.lock_us
        )
        unclear = group.settings.get("share.isolation.level") == "read_committed" and record["committed"] is None
        if offset < begin or unclear or (check == "lost_share" and archived):
            verdict.undecided[check, group.name] += 1
            verdict.examined[check, group.name] -= 1
            continue
        who = record["producer"], record["incarnation"], record["seq"]
        found = Finding(check, "", group.name, group.topic, group.partition, offset, *who)
        verdict.findings[found] += 1


def _aborted(group: Group, verdict: Judgement) -> None:
    if group.settings.get("share.isolation.level") != "read_committed":
        return
    here = [r for r in group.case.rows["log"] if (r["topic"], r["partition"]) == (group.topic, group.partition)]
    hidden = {r["offset"]: (r["producer"], r["incarnation"], r["seq"]) for r in here if r["committed"] is False}
    for held in (h for all_held in group.held.values() for h in all_held):
        verdict.examined["aborted_share", group.name] += 1
        who = held.row["producer"], held.row["producer_incarnation"], held.row["seq"]
        if hidden.get(held.row["offset"]) == who:
            verdict.findings[group.finding("aborted_share", held)] += 1


def _end(case: Case) -> int:
    """The latest time that any row has."""
    columns = ("at_us", "ended_us", "completed_us", "processed_us", "acquired_us")
    tables = [rows for table, rows in case.rows.items() if table not in ("log", "log_range")]
    return max((r[c] for rows in tables for r in rows for c in columns if r.get(c) is not None), default=0)


def _redelivered(group: Group, held: list[Held], verdict: Judgement) -> None:
    ended = [h for h in held if h.ack and h.ack["type"] != "release" and h.ack["outcome"] == "ok" and not h.refused]
    verdict.examined["redelivered_share", group.name] += len(ended)
    if not ended:
        return
    first = ended[0]
    assert first.ack is not None
    for later in held:
        if later is first or later.at_us <= first.ack["completed_us"] or later.refused:
            continue
        if any(start <= first.row["offset"] for start in group.set_to(first.ack["completed_us"], later.at_us)):
            continue
        if later.count > first.count:
            verdict.findings[group.finding("redelivered_share", later)] += 1
        elif later.misdirected:
            continue
        elif group.reset(held, later.at_us) or group.disturbed(min(h.at_us for h in held), later.at_us):
            confirmed = later.ack is not None and later.ack["outcome"] == "ok"
            changes = [c for c in group.changes() if first.ack["completed_us"] + OBSERVED_LATE_US <= c <= later.at_us]
            if confirmed and changes:
                verdict.findings[group.finding("redelivered_share", later)] += 1
                continue
            verdict.undecided["redelivered_share", group.name] += 1
            verdict.examined["redelivered_share", group.name] -= 1
        elif not _polled_late(later, held):
            verdict.findings[group.finding("redelivered_share", later)] += 1


def _polled_late(late: Held, held: list[Held]) -> bool:
    """Whether others got the record later, and polled it earlier."""
    before = held[: next(n for n, h in enumerate(held) if h is late)]
    only = [h.count for h in held].count(late.count) == 1
    return late.refused or (only and any(h.count > late.count for h in before))


def _counted(group: Group, held: list[Held], verdict: Judgement) -> None:
    verdict.examined["miscounted_share", group.name] += len(held)
    if sorted(h.count for h in held) == list(range(1, len(held) + 1)):
        return
    before = 0
    for n, h in enumerate(held):
        check = ""
        if h.count <= before and (_polled_late(h, held) or h.misdirected):
            continue
        if h.count > before + 1:
            check = _unseen(group, h, h.count - before - 1, held[: n + 1])
        elif h.count <= before and not group.reset(held[:n], h.at_us):
            check = "undecided" if group.disturbed(min(x.at_us for x in held), h.at_us) else "found"
        if check == "found":
            verdict.findings[group.finding("miscounted_share", h)] += 1
        elif check:
            verdict.undecided["miscounted_share", group.name] += 1
            verdict.examined["miscounted_share", group.name] -= 1
        before = h.count


def _unseen(group: Group, held: Held, number: int, so_far: list[Held]) -> str:
    """Whether so many acquisitions can have come before one without a row."""
    sent_us = held.row["sent_us"]
    number -= group.ends(-1 if sent_us is None else sent_us, held.at_us)
    if number <= 0:
        return ""
    if sent_us is None or held.at_us - sent_us >= number * group.lock_us:
        return "undecided"
    excused = group.reset(so_far, held.at_us) or group.disturbed(sent_us, held.at_us)
    return "undecided" if excused else "found"


def _locked(group: Group, held: list[Held], verdict: Judgement) -> None:
    verdict.examined["lock_overrun", group.name] += len(held)
    verdict.examined["overlimit_share", group.name] += len(held)
    for n in range(1, len(held)):
        owner, other, before = held[n - 1], held[n], held[:n]
        given_up = owner.ack is not None and owner.ack["requested_us"] <= other.at_us
        confirmed = [h.ack for h in held[: n - 1] if h.ack and h.ack["outcome"] == "ok" and not h.refused]
        times = [ack["requested_us"] for ack in confirmed if ack["type"] == "release"]
        times += [owner.row["sent_us"]] if owner.row["sent_us"] is not None else []
        certain = bool(times) and other.at_us < max(times) + group.lock_us
        border_us = 0 if certain else min(ON_ITS_WAY_US, group.lock_us // 2)
        if given_up or _polled_late(other, held) or other.at_us >= owner.at_us + group.lock_us - border_us:
            continue
        if group.reset(before, other.at_us):
            continue
        if certain and not group.disturbed(min(h.at_us for h in held[: n + 1]), other.at_us):
            verdict.findings[group.finding("lock_overrun", other)] += 1
        else:
            verdict.undecided["lock_overrun", group.name] += 1
            verdict.examined["lock_overrun", group.name] -= 1
