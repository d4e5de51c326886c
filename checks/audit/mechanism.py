"""From the evidence of a finding to one sentence that a person understands, where the evidence says it.

Works on the capped findings only, so plain Python on the driver. A sentence states what was seen, never what is likely.
"""

from __future__ import annotations

from collections.abc import Callable

from checks.audit.context import Context, Evidence, Finding, present
from checks.audit.read_mechanism import READ_RULES

UNKNOWN = "not determined"


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
    e |= present(leader=leader.broker, leader_epoch=leader.epoch, isr=leader.isr)
    if after:
        e |= present(next_leader=after.broker, next_leader_epoch=after.epoch, next_leader_seen_us=after.at_us)
    fault = c.faults.last_before(after.at_us if after else e["completed_us"])
    e |= present(fault=fault or None)
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
    e |= present(leader=before.broker, leader_epoch=before.epoch, isr=before.isr)
    words = f"offset {f['offset']} was {first}, and also {second}"
    if after is None or after.broker is None:
        return f"{words}; no later leader was seen"
    fault = c.faults.last_before(after.at_us)
    e |= present(next_leader=after.broker, next_leader_epoch=after.epoch, fault=fault or None)
    return f"{words}; broker {after.broker} became leader in epoch {after.epoch} in between or since" + (
        f", after fault {fault}" if fault else ""
    )


def _torn_transaction(f: Finding, e: Evidence, c: Context) -> str:
    return f"its transaction was {e['why']} by read_committed readers of the final log"


def _hanging_transaction(f: Finding, e: Evidence, c: Context) -> str:
    e |= present(fault=c.faults.last_before(e["stood_from_us"]) or None)
    stood = f"the last stable offset stood at {f['offset']} for {e['unexplained_for_us'] / 1e6:.1f} s"
    stood += f" below the end {e['end_offset']} with no transaction on record that was still going on"
    after = f"; the last fault before was {e['fault']}" if "fault" in e else ""
    return stood + (", to the end of the drive" if e["at_the_end"] else ", then it moved on") + after


def _zombie_commit(f: Finding, e: Evidence, c: Context) -> str:
    late = (e["requested_us"] - e["owner_since_us"]) / 1e3
    generation = f" in generation {e['owner_generation']}" if "owner_generation" in e else ""
    own = f" of generation {e['generation']}" if "generation" in e else ""
    e |= present(fault=c.faults.last_before(e["requested_us"]) or None)
    words = (
        f"{f['consumer']}{own} asked to commit {f['offset']} ({e['kind']}) {late:.1f} ms after {e['owner']} had begun"
    )
    return f"{words}{generation}, and it was accepted; its own epoch ended as {e['end_reason']}"


def _unbalanced_assignment(f: Finding, e: Evidence, c: Context) -> str:
    return f"{e['why']}, though the assignor is {e['assignor']}"


def _misplaced_coordinator(f: Finding, e: Evidence, c: Context) -> str:
    seconds = (e["until_us"] - e["from_us"]) / 1e6
    e |= present(fault=c.faults.last_before(e["from_us"]) or None)
    leader = f"broker {e['leader']} led {e['coordinated_in']}"
    return f"broker {e['coordinator']} coordinated it for {seconds:.1f} s while {leader}"


_RULES: dict[str, Callable[[Finding, Evidence, Context], str]] = {
    **READ_RULES,
    "lost_write": _lost_write,
    "duplicate_write": _duplicate_write,
    "reordered_write": _reordered_write,
    "misplaced_write": _misplaced_write,
    "misrouted_write": _misrouted_write,
    "unnoticed_failure": _unnoticed_failure,
    "phantom_write": lambda f, e, c: str(e["why"]),
    "corrupt_record": lambda f, e, c: "",
    "overcommit": _overcommit,
    "commit_rewind": _commit_rewind,
    "double_ownership": _double_ownership,
    "foreign_commit": _foreign_commit,
    "resurrected_write": _resurrected_write,
    "offset_reuse": _offset_reuse,
    "torn_transaction": _torn_transaction,
    "hanging_transaction": _hanging_transaction,
    "zombie_commit": _zombie_commit,
    "unbalanced_assignment": _unbalanced_assignment,
    "misplaced_coordinator": _misplaced_coordinator,
}
