"""Sentences about findings of the read path; see `mechanism`."""

from __future__ import annotations

from collections.abc import Callable

from checks.audit.context import Context, Evidence, Finding, present
from checks.audit.epochs import Epoch


def _duplicate_delivery(f: Finding, e: Evidence, c: Context) -> str:
    before = c.by_key.get(
        (e["first_consumer"], e["first_consumer_incarnation"], e["first_assignment"], f["topic"], f["partition"])
    )
    if before is None or before.high is None:
        return ""
    if e["turn"] == e["first_turn"]:
        return f"{f['consumer']} delivered it twice within one assignment"
    committed = before.committed if before.committed is not None else before.start
    e |= present(
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
    turns = c.by_place.get((f["scope"], f["topic"], f["partition"]), [])
    if "partition_seen_us" in e and turns and turns[0].start is not None and turns[0].start > offset:
        return _added_and_reset(f, e, turns[0])
    for epoch in turns:
        if epoch.low is not None and epoch.high is not None and epoch.low <= offset <= epoch.high:
            return f"{epoch.consumer} left it out within one assignment (it delivered {epoch.low} to {epoch.high})"
        if epoch.start is not None and epoch.start > offset and reached is not None:
            e |= present(epoch_start=epoch.start, reached_before=reached)
            return f"{epoch.consumer} began at {epoch.start} ({epoch.why}), though only {reached} had been reached"
        if epoch.high is not None and epoch.high < offset:
            reached = max(reached or 0, epoch.high + 1)
        elif epoch.start is not None and reached is None and epoch.start <= offset:
            reached = epoch.start
    return ""


def _added_and_reset(f: Finding, e: Evidence, first: Epoch) -> str:
    e |= present(epoch_start=first.start)
    place, later = f"{f['topic']}/{f['partition']}", (e["partition_seen_us"] - e["reader_began_us"]) / 1e6
    found = max(first.begin_us - e["partition_seen_us"], 0) / 1e6
    return (
        f"partition added, auto.offset.reset=latest: {place} was made when {f['scope']} had been reading for"
        f" {later:.1f} s, and {first.consumer}, which found it {found:.1f} s later, began at its end, {first.start};"
        " auto.offset.reset=earliest prevents that, a smaller metadata.max.age.ms only leaves out less"
    )


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
    e |= present(next_leader=after.broker, next_leader_epoch=after.epoch)
    return f"delivered before broker {after.broker} became leader in epoch {after.epoch}; {place}"


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


READ_RULES: dict[str, Callable[[Finding, Evidence, Context], str]] = {
    "skipped_delivery": _skipped_delivery,
    "stalled_delivery": _stalled_delivery,
    "lost_processing": _lost_processing,
    "duplicate_delivery": _duplicate_delivery,
    "dirty_read": _dirty_read,
    "evicted_delivery": _evicted_delivery,
    "aborted_read": _aborted_read,
    "precommitted_read": _precommitted_read,
    "nonmonotonic_poll": lambda f, e, c: f"{f['consumer']} delivered {f['offset']} after {e['previous_offset']}",
    "poll_skip": lambda f, e, c: (
        f"{f['consumer']} went on at {e['delivered_instead']} instead of {e['expected_offset']}"
    ),
}
