"""From the evidence of a finding to one sentence that a person understands, where the evidence says it.

Works on the capped findings only, so plain Python on the driver. A sentence states what was seen, never what is likely.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from chaos.scenario import Producer, Scenario
from chaos.scenario.settings import as_text
from checks.audit.epochs import Epoch, Epochs, Key
from checks.audit.history import Faults, Leadership

UNKNOWN = "not determined"
Finding = dict[str, Any]
Evidence = dict[str, Any]


@dataclass
class Context:
    """What a mechanism is read from."""

    scenario: Scenario
    leadership: Leadership
    faults: Faults
    epochs: Epochs

    def __post_init__(self) -> None:
        self.by_key: dict[Key, Epoch] = {e.key: e for e in self.epochs.all}
        self.by_place = self.epochs.by_place()

    def producer(self, client: str | None) -> Producer | None:
        """The scenario's entry of a producer client such as `shop/1`."""
        name = (client or "").rpartition("/")[0]
        return next((p for p in self.scenario.producers if p.name == name), None)

    def setting(self, client: str | None, name: str, default: str) -> str:
        """A setting of a producer as the scenario gives it, else the client's default."""
        producer = self.producer(client)
        value = producer.config.get(name, default) if producer else default
        return as_text(value)


def explain(finding: Finding, evidence: Evidence, context: Context) -> str:
    """The mechanism of a finding. May add to `evidence` what it found on the way."""
    rule = _RULES.get(finding["check"])
    return (rule(finding, evidence, context) if rule else "") or UNKNOWN


def _lost_write(f: Finding, e: Evidence, c: Context) -> str:
    acks = {"-1": "all"}.get(found := c.setting(f["producer"], "acks", "all"), found)
    e["acks"] = acks
    if f["partition"] is None:
        return ""
    leader = c.leadership.at(f["topic"], f["partition"], e["completed_us"])
    after = c.leadership.next(f["topic"], f["partition"], e["completed_us"])
    e |= _present(leader=leader.broker, leader_epoch=leader.epoch, isr=leader.isr)
    if after:
        e |= _present(next_leader=after.broker, next_leader_epoch=after.epoch, next_leader_seen_us=after.at_us)
    fault = c.faults.last_before(after.at_us if after else e["completed_us"])
    e |= _present(fault=fault or None)
    if leader.broker is None or leader.epoch is None:
        return ""
    if acks == "0":
        words = (
            f"handed to broker {leader.broker} in leader epoch {leader.epoch} with acks=0: no broker ever confirmed it"
        )
    else:
        words = f"acked by broker {leader.broker} in leader epoch {leader.epoch} (acks={acks})"
    if after and after.broker is not None:
        if acks == "0":
            words += f"; not in the log of broker {after.broker}, leader from epoch {after.epoch}"
        else:
            words += f" and cut off when broker {after.broker} became leader in epoch {after.epoch}"
        words += f" after fault {fault}" if fault else ""
    elif not after:
        words += "; no later leader was seen" + (f"; the last fault before was {fault}" if fault else "")
    return words


def _duplicate_write(f: Finding, e: Evidence, c: Context) -> str:
    first = f"{e['first_topic']}/{e['first_partition']} offset {e['first_offset']}"
    if e["first_incarnation"] != f["incarnation"]:
        again = f"again by incarnation {f['incarnation']} after the restart"
        return f"written at {first} by incarnation {e['first_incarnation']}, and {again}"
    idempotence = c.setting(f["producer"], "enable.idempotence", "false")
    return f"written at {first}, and again by a retry of the same producer (enable.idempotence={idempotence})"


def _reordered_write(f: Finding, e: Evidence, c: Context) -> str:
    idempotence = c.setting(f["producer"], "enable.idempotence", "false")
    whose = f"seq {e['after_seq']}" if "after_seq" in e else "another"
    later = f"{whose} (offset {e['after_offset']}), which was sent later"
    return f"seq {f['seq']} stands behind {later} (enable.idempotence={idempotence})"


def _misplaced_write(f: Finding, e: Evidence, c: Context) -> str:
    found = f"{e['found_topic']}/{e['found_partition']} offset {e['found_offset']}"
    return f"acked at {f['topic']}/{f['partition']} offset {e['acked_offset']}, found at {found}"


def _misrouted_write(f: Finding, e: Evidence, c: Context) -> str:
    of = f"key {e['key']}" if "key" in e else f"seq {f['seq']}"
    return f"acked in {f['topic']}/{f['partition']}, though {of} belongs to partition {e['promised']} by {e['by']}"


def _unnoticed_failure(f: Finding, e: Evidence, c: Context) -> str:
    why = "the local queue refused it or every attempt failed" if e["outcome"] == "fail" else "no answer came in time"
    return (
        f"seq {f['seq']} was given to the client library and is not in the log: {why}, and the application never asked"
    )


def _duplicate_delivery(f: Finding, e: Evidence, c: Context) -> str:
    before = c.by_key.get(
        (e["first_consumer"], e["first_consumer_incarnation"], e["first_assignment"], f["topic"], f["partition"])
    )
    if before is None or before.high is None:
        return ""
    if e["turn"] == e["first_turn"]:
        return f"{f['consumer']} delivered it twice within one assignment"
    committed = before.committed if before.committed is not None else before.start
    e |= _present(
        earlier_processed_to=before.high + 1, earlier_committed=before.committed, earlier_end=before.end_reason
    )
    if committed is not None:
        e["uncommitted_bound"] = max(before.high + 1 - committed, 0)
    first = f"{before.consumer} had processed to {before.high + 1}"
    first += f" and committed {before.committed}" if before.committed is not None else " and committed nothing"
    began = f"{f['consumer']} began at {e.get('epoch_start')}: {e['start_why']}"
    return f"{began}; {first} when its epoch ended ({before.end_reason})"


def _skipped_delivery(f: Finding, e: Evidence, c: Context) -> str:
    offset, reached = f["offset"], None
    for epoch in c.by_place.get((f["scope"], f["topic"], f["partition"]), []):
        if epoch.low is not None and epoch.high is not None and epoch.low <= offset <= epoch.high:
            return f"{epoch.consumer} left it out within one assignment (it delivered {epoch.low} to {epoch.high})"
        if epoch.start is not None and epoch.start > offset and reached is not None:
            e |= _present(epoch_start=epoch.start, reached_before=reached)
            return f"{epoch.consumer} began at {epoch.start} ({epoch.why}), though only {reached} had been reached"
        if epoch.high is not None and epoch.high < offset:
            reached = max(reached or 0, epoch.high + 1)
        elif epoch.start is not None and reached is None and epoch.start <= offset:
            reached = epoch.start
    return ""


def _lost_processing(f: Finding, e: Evidence, c: Context) -> str:
    past = e["past"]
    done = past.get("processed_to")
    processed = f"had processed only to {done + 1}" if done is not None else "had processed nothing"
    return f"{past['consumer']} committed {past['end']} but {processed} when its epoch ended ({past['end_reason']})"


def _stalled_delivery(f: Finding, e: Evidence, c: Context) -> str:
    turns = c.by_place.get((f["scope"], f["topic"], f["partition"]), [])
    if not turns:
        return f"no consumer of {f['scope']} ever held {f['topic']}/{f['partition']}"
    last = turns[-1]
    reached = f"delivered to {last.high}" if last.high is not None else f"begun at {last.start} and delivered nothing"
    return f"{last.consumer}, the last to hold the partition, had {reached} when its epoch ended ({last.end_reason})"


def _dirty_read(f: Finding, e: Evidence, c: Context) -> str:
    after = c.leadership.next(f["topic"], f["partition"], f["at_us"])
    place = "another record stands there now" if e.get("in_log") else "the log has no record there now"
    if after is None or after.broker is None:
        return f"delivered, but {place}"
    e |= _present(next_leader=after.broker, next_leader_epoch=after.epoch)
    return f"delivered before broker {after.broker} became leader in epoch {after.epoch}; {place}"


def _overcommit(f: Finding, e: Evidence, c: Context) -> str:
    return f"{f['consumer']} committed {e['committed']} ({e['kind']}) when it had processed to {e['processed_to']}"


def _commit_rewind(f: Finding, e: Evidence, c: Context) -> str:
    in_force = f"{e['in_force']}, committed by {e['committed_by']}"
    return f"{f['consumer']} committed {f['offset']} ({e['kind']}) while {in_force}, was in force"


def _double_ownership(f: Finding, e: Evidence, c: Context) -> str:
    return f"{e['other']} and {f['consumer']} held {f['topic']}/{f['partition']} {e['how']}"


def _foreign_commit(f: Finding, e: Evidence, c: Context) -> str:
    own = e.get("own_last_commit")
    mine = f"its own last commit was {own}" if own is not None else "it had committed nothing itself"
    return f"{f['consumer']} resumed at {e['resumed_at']}, committed by {', '.join(e['committed_by'])}; {mine}"


def _resurrected_write(f: Finding, e: Evidence, c: Context) -> str:
    return f"its send had been reported as failed, yet it stands at {f['topic']}/{f['partition']} offset {f['offset']}"


def _offset_reuse(f: Finding, e: Evidence, c: Context) -> str:
    first, second = (
        f"seq {r['seq']} of {r['producer']} incarnation {r['incarnation']} ({', '.join(r['seen'])})"
        for r in e["records"][:2]
    )
    began = e["records"][0]["first_us"]
    before, after = (
        c.leadership.at(f["topic"], f["partition"], began),
        c.leadership.next(f["topic"], f["partition"], began),
    )
    e |= _present(leader=before.broker, leader_epoch=before.epoch, isr=before.isr)
    words = f"offset {f['offset']} was {first}, and also {second}"
    if after is None or after.broker is None:
        return f"{words}; no later leader was seen"
    fault = c.faults.last_before(after.at_us)
    e |= _present(next_leader=after.broker, next_leader_epoch=after.epoch, fault=fault or None)
    return f"{words}; broker {after.broker} became leader in epoch {after.epoch} in between or since" + (
        f", after fault {fault}" if fault else ""
    )


def _torn_transaction(f: Finding, e: Evidence, c: Context) -> str:
    return f"its transaction was {e['why']} by read_committed readers of the final log"


def _hanging_transaction(f: Finding, e: Evidence, c: Context) -> str:
    e |= _present(fault=c.faults.last_before(e["stood_from_us"]) or None)
    stood = f"the last stable offset stood at {f['offset']} for {e['unexplained_for_us'] / 1e6:.1f} s"
    stood += f" below the end {e['end_offset']} with no transaction on record that was still going on"
    after = f"; the last fault before was {e['fault']}" if "fault" in e else ""
    return stood + (", to the end of the drive" if e["at_the_end"] else ", then it moved on") + after


def _evicted_delivery(f: Finding, e: Evidence, c: Context) -> str:
    turns = [t for t in c.by_place.get((f["scope"], f["topic"], f["partition"]), []) if t.rows]
    behind = max((t.high for t in turns if t.high is not None and t.high < f["offset"]), default=None)
    reached = f"had delivered to {behind}" if behind is not None else f"had begun at {e['begun_at']}"
    went_on = min((t.low for t in turns if t.low is not None and t.low > f["offset"]), default=None)
    more = f" and went on at {went_on}" if went_on is not None else ""
    return f"{f['scope']} {reached}{more}; the log now begins at {e['log_start']} (retention or delete-records)"


def _aborted_read(f: Finding, e: Evidence, c: Context) -> str:
    how = [
        *["the producer was told that its transaction was aborted"] * e["told_aborted"],
        *["a read_committed reader of the final log does not see it"] * e["hidden_in_log"],
    ]
    return f"{f['consumer']} delivered it under read_committed, though {' and '.join(how)}"


def _precommitted_read(f: Finding, e: Evidence, c: Context) -> str:
    early = (e["still_sent_us"] - e["polled_us"]) / 1e3
    return f"{f['consumer']} polled it {early:.1f} ms before the last send to its transaction"


def _zombie_commit(f: Finding, e: Evidence, c: Context) -> str:
    late = (e["requested_us"] - e["owner_since_us"]) / 1e3
    generation = f" in generation {e['owner_generation']}" if "owner_generation" in e else ""
    own = f" of generation {e['generation']}" if "generation" in e else ""
    e |= _present(fault=c.faults.last_before(e["requested_us"]) or None)
    words = (
        f"{f['consumer']}{own} asked to commit {f['offset']} ({e['kind']}) {late:.1f} ms after {e['owner']} had begun"
    )
    return f"{words}{generation}, and it was accepted; its own epoch ended as {e['end_reason']}"


def _unbalanced_assignment(f: Finding, e: Evidence, c: Context) -> str:
    return f"{e['why']}, though the assignor is {e['assignor']}"


def _misplaced_coordinator(f: Finding, e: Evidence, c: Context) -> str:
    seconds = (e["until_us"] - e["from_us"]) / 1e6
    e |= _present(fault=c.faults.last_before(e["from_us"]) or None)
    leader = f"broker {e['leader']} led {e['coordinated_in']}"
    return f"broker {e['coordinator']} coordinated it for {seconds:.1f} s while {leader}"


def _present(**values: Any) -> Evidence:
    return {name: value for name, value in values.items() if value is not None}


_RULES: dict[str, Callable[[Finding, Evidence, Context], str]] = {
    "lost_write": _lost_write,
    "duplicate_write": _duplicate_write,
    "reordered_write": _reordered_write,
    "misplaced_write": _misplaced_write,
    "misrouted_write": _misrouted_write,
    "unnoticed_failure": _unnoticed_failure,
    "phantom_write": lambda f, e, c: str(e["why"]),
    "corrupt_record": lambda f, e, c: "",
    "skipped_delivery": _skipped_delivery,
    "stalled_delivery": _stalled_delivery,
    "lost_processing": _lost_processing,
    "duplicate_delivery": _duplicate_delivery,
    "dirty_read": _dirty_read,
    "nonmonotonic_poll": lambda f, e, c: f"{f['consumer']} delivered {f['offset']} after {e['previous_offset']}",
    "poll_skip": lambda f, e, c: (
        f"{f['consumer']} went on at {e['delivered_instead']} instead of {e['expected_offset']}"
    ),
    "overcommit": _overcommit,
    "commit_rewind": _commit_rewind,
    "double_ownership": _double_ownership,
    "foreign_commit": _foreign_commit,
    "resurrected_write": _resurrected_write,
    "offset_reuse": _offset_reuse,
    "torn_transaction": _torn_transaction,
    "hanging_transaction": _hanging_transaction,
    "evicted_delivery": _evicted_delivery,
    "aborted_read": _aborted_read,
    "precommitted_read": _precommitted_read,
    "zombie_commit": _zombie_commit,
    "unbalanced_assignment": _unbalanced_assignment,
    "misplaced_coordinator": _misplaced_coordinator,
}
