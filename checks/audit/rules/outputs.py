"""Outputs of processors: missing_output, duplicate_output, unconsumed_output, wrong_count.

A processor writes one output for each input. With transactions, output and committed offset of its input become visible
together (KIP-98; KIP-447 fences members that lost their partitions). Without, a crash between the two leaves an output
of an input that is read again, or a committed input without output.

A processor with `state: count` writes with each output how many inputs of its key it has processed. The state is kept
by partition, and each partition is processed in the order of its offsets. So if each input takes effect exactly once,
the count of an output is the number of inputs of its key in the partition up to its input, from the first one that the
group got on. At-least-once processing may count an input again after a crash; all later counts of its key are then too
high, because the changelog has what was counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chaos.ledger.schemas import INPUT_COLUMNS
from checks.audit.arrays import NONE, Columns, Ints, Mask, nullable
from checks.audit.engine.group import sections
from checks.audit.engine.outputs import CountBlock
from checks.audit.engine.parts import Part
from checks.audit.engine.survey import RowRule, SurveyPlan
from checks.audit.engine.tally import Tally, total
from checks.audit.facts.epochs import Epoch
from checks.audit.facts.lineage import Lineage
from checks.audit.facts.ranges import ReadRange
from checks.audit.facts.readers import entry_of
from checks.audit.findings import CAP, NO_BEGIN, OPEN, SEVERAL_LIVES, UNREAD, Finding, Reason
from checks.audit.rules.partition_block import ReaderBlock
from checks.audit.rules.rule import READERS, Evidence, Rule, RunData, present

TWO_RECORDS = Reason("the group got two different records at their offsets")
INPUTS_GONE = Reason(
    "earlier inputs of their keys are not in the log that was read back",
    "keep retention of the input topic beyond the end of the run",
)
NO_INPUT = Reason("no input of their key is at the coordinates that they carry")
NO_COUNT = Reason("outputs carry no count")
PERHAPS_PASSED = Reason("whether the group committed past them is unknown")

TIMESTAMP_US = 1_000
"""Resolution of the timestamps of records."""


class Stretches:
    """The stretches of a group on a partition: each begins where something set the group back after it had committed.

    begins: by stretch, the turn and the offset at which it begins. passed: by stretch, the offset that it committed.
    """

    def __init__(self, r: ReaderBlock) -> None:
        self._r = r
        self._turns = r.facts.epochs.turns.get((r.name, r.block.topic, r.block.partition), [])
        self.begins, self.passed = [(0, 0)], [NONE]
        for e in self._turns:
            if e.moved and self.passed[-1] != NONE:
                self.begins.append((e.turn, e.start or 0))
                self.passed.append(NONE)
            self.passed[-1] = max(self.passed[-1], NONE if e.passed is None else e.passed)

    def of(self, outputs: Columns) -> Ints:
        """Return the stretch of each output: from the epoch in which its writer got the input, or else by time."""
        found = np.zeros(len(outputs["offset"]), np.int64)
        if len(self.begins) == 1:
            return found
        _, at, times = np.unique(outputs["offset"], return_inverse=True, return_counts=True)
        delivered = deliveries_of(self._r)
        for i in np.flatnonzero(times[at] > 1).tolist():
            key = (*self._r.facts.senders[int(outputs["sender"][i])], int(outputs["offset"][i]))
            until_us = int(outputs["timestamp_us"][i]) + TIMESTAMP_US
            turns = [turn for turn, at_us in delivered.get(key, []) if at_us < until_us]
            turns = turns or [e.turn for e in self._turns if e.begin_us < until_us]
            found[i] = sum(begin <= max(turns, default=0) for begin, _ in self.begins[1:])
        return found

    def legal(self, offset: Ints, stretch: Ints) -> Mask:
        """Return a mask: True for an output that only repeats its input because the reader was set back to the input.

        It is the first output of the input in its stretch, and that stretch began at or below the offset of the input
        after a commit past it. stretch: `NONE` for an output that readers do not see. Rows are sorted by offset and
        stretch.
        """
        found = np.zeros(len(offset), np.bool_)
        if len(self.begins) == 1:
            return found
        seen = np.flatnonzero(stretch != NONE)
        later = (offset[seen[1:]] == offset[seen[:-1]]) & (stretch[seen[1:]] > stretch[seen[:-1]])
        for before, i in zip(seen[:-1][later].tolist(), seen[1:][later].tolist(), strict=True):
            found[i] = self._set_back(int(offset[i]), int(stretch[before]), int(stretch[i]))
        return found

    def _set_back(self, offset: int, after: int, until: int) -> bool:
        """Return whether a stretch from `after + 1` to `until` began at or below `offset`, after a commit past it."""
        return any(
            self.begins[n][1] <= offset < max(self.passed[after:n], default=NONE) for n in range(after + 1, until + 1)
        )


def deliveries_of(r: ReaderBlock) -> dict[tuple[Any, ...], list[tuple[int, int]]]:
    """Return the turn and time of each delivery of a block, by consumer, incarnation and offset."""
    found: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    columns = (r.rows[name].tolist() for name in ("epoch", "offset", "processed_us"))
    for number, offset, at_us in zip(*columns, strict=True):
        epoch = r.facts.epochs.all[number]
        found.setdefault((*epoch.member, offset), []).append((epoch.turn, at_us))
    return found


def of_this_life(r: ReaderBlock, outputs: Columns) -> Mask:
    """Return the outputs of the life in force of a topic that was deleted: coordinates of two lives are the same.

    A processor writes the delivery row of an input before its output. An output without such a row in this life, of the
    same member and no later than itself, belongs to an earlier life.
    """
    first = {key: min(at_us for _, at_us in times) for key, times in deliveries_of(r).items()}
    kept = np.zeros(len(outputs["offset"]), np.bool_)
    columns = (outputs[name].tolist() for name in ("sender", "offset", "timestamp_us"))
    for i, (sender, offset, at_us) in enumerate(zip(*columns, strict=True)):
        delivered_us = first.get((*r.facts.senders[sender], offset))
        kept[i] = delivered_us is not None and delivered_us < at_us + TIMESTAMP_US
    return kept


INPUTS = total("inputs")
"""Inputs that were processed and committed past, or have a visible output, by reader."""
UNTRACED = total("untraced")
"""Records of a processor in the log that carry no coordinates of an input, by scenario entry."""


def outputs(r: ReaderBlock, tally: Tally) -> None:
    """Report the three anomalies of the outputs of a group of processors.

    An output is visible if read_committed readers of the final log see it. missing_output: an input that a member
    processed and the group committed past, without a visible output. An input that no member processed is skipped, lost
    or evicted, and reported as that. duplicate_output: each visible output of an input but the first, by partition and
    offset; legal: the first one after the group was set back to or below the input, which it had committed past.
    unconsumed_output: an input with a visible output that the group never committed past, so that it reads the
    input again.

    Undecided: whether an input without a visible output has one that may be committed (its transaction is open);
    anything about absent outputs where outputs may have been removed or carry no coordinates (`Lineage.lacking`); what
    belongs to an offset at which the group got two different records; whether an input was committed past if the last
    member that held the partition did not end in order, a commit has an unknown outcome, or another job or a fault set
    the committed offset.
    """
    group = r.facts.lineage.get(r.name)
    if group is None or r.block.topic in r.facts.lives.ended:
        return
    inputs, rows = _Inputs(r), _Outputs(r, group)
    seen, maybe = rows.seen, rows.maybe
    owed = inputs.processed & inputs.passed
    tally.add(INPUTS, r.name, value=int((owed | (seen > 0)).sum()))

    absent = owed & (seen == 0)
    certain = absent & (maybe == 0) & ~rows.unclear & inputs.visible & group.whole
    unsure = (absent & ~certain) | (owed & (seen > 0) & inputs.contested)
    contested = owed & (seen > 0) & inputs.contested
    open_ends = unsure & ~contested & ((maybe > 0) | ~inputs.visible)
    former = unsure & ~contested & ~open_ends & rows.unclear
    for reason, mask in ((TWO_RECORDS, contested), (OPEN, open_ends), (SEVERAL_LIVES, former)):
        tally.report_undecided("missing_output", r.name, int(mask.sum()), reason)
    if group.lacking is not None:
        rest = int((unsure & ~contested & ~open_ends & ~former).sum())
        tally.report_undecided("missing_output", r.name, rest, group.lacking)
    lacking = np.flatnonzero(certain)
    tally.report("missing_output", r.name, len(lacking), (_missing(r, rows, at) for at in lacking[:CAP].tolist()))

    possible = np.where(seen > 0, maybe, np.maximum(maybe - 1, 0))
    again = rows.again()
    clear = again[~inputs.contested[rows.at[again]]]
    if group.lacking is not None:
        tally.report_undecided("duplicate_output", r.name, int((owed | (seen > 0)).sum()), group.lacking)
    tally.report_undecided("duplicate_output", r.name, int(possible.sum()), OPEN)
    tally.report_undecided("duplicate_output", r.name, len(again) - len(clear), TWO_RECORDS)
    legal = rows.legal[clear]
    for split, chosen in (("legal", clear[legal]), ("illegal", clear[~legal])):
        shown = (_again(r, rows, i) for i in chosen[:CAP].tolist())
        tally.report("duplicate_output", r.name, len(chosen), shown, split)

    early = (seen > 0) & ~inputs.passed
    sure = early & ~inputs.contested & ~inputs.maybe_passed & _ended_in_order(r)
    if group.lacking is not None:
        unknown = inputs.processed & ~inputs.passed & (seen == 0)
        tally.report_undecided("unconsumed_output", r.name, int(unknown.sum()), group.lacking)
    unsure = early & ~sure
    tally.report_undecided("unconsumed_output", r.name, int((unsure & inputs.contested).sum()), TWO_RECORDS)
    tally.report_undecided("unconsumed_output", r.name, int((unsure & ~inputs.contested).sum()), PERHAPS_PASSED)
    repeated = np.flatnonzero(sure)
    tally.report("unconsumed_output", r.name, len(repeated), (_early(r, rows, at) for at in repeated[:CAP].tolist()))


class _Inputs:
    """What a group did with the offsets of a block; each attribute is by offset, less the base of the block.

    processed: whether a member delivered the record that the log has there, or one that was removed from the log since.
    visible: whether it is certain that the group sees that record. contested: whether members delivered two different
    records there, and outputs name their common coordinates. passed, maybe_passed: whether the group committed past
    it, and whether a commit with an unknown outcome, one of another job, or a fault may have done so.
    """

    def __init__(self, r: ReaderBlock) -> None:
        size, log = len(r.block.row), r.block.log
        self.processed, self.visible, self.contested = (np.zeros(size, np.bool_) for _ in range(3))
        offset = np.arange(size) + r.block.base
        at = log["offset"] - r.block.base
        here = np.zeros(size, np.bool_)
        here[at[r.visible()]] = True
        self.visible[at] = r.readable()
        self.processed[r.at[r.same & r.present]] = True
        self.processed &= here
        gone = ~r.present
        if r.block.topic not in r.facts.compacted:
            gone &= r.rows["offset"] < (r.range.log_start or 0)
        self.processed[r.at[gone]] = self.visible[r.at[gone]] = True
        self.contested[r.at[r.present & ~r.same]] = True
        named = np.flatnonzero(~r.present & r.named)
        identities = np.unique(np.stack([r.at[named], r.rows["sender"][named], r.rows["seq"][named]]), axis=1)
        self.contested |= np.bincount(identities[0].astype(np.int64), minlength=size) > 1
        self.passed = offset < (NONE if r.range.passed is None else r.range.passed)
        place = r.name, r.block.topic, r.block.partition
        self.maybe_passed = offset < r.facts.committed_by_any.get(place, NONE)
        if any(m.group == r.name and m.touches(*place[1:]) for m in r.facts.offset_changes):
            self.maybe_passed[:] = True


class _Outputs:
    """The outputs of a group from the inputs of a block, by input, stretch (`Stretches`), output partition and offset.

    legal: whether it is the first visible output of its input after the group was set back. at: offset of the input,
    less the base of the block. visible: whether read_committed readers see it. seen, maybe: by input, the number of
    visible outputs, and of those in transactions with an unknown end. unclear: by input, whether outputs with its
    coordinates belong to an earlier topic of the same name, as far as is known.
    """

    def __init__(self, r: ReaderBlock, group: Lineage) -> None:
        senders = [(name or "").rpartition("/")[0] in group.writers for name, _ in r.facts.senders]
        topics = [name in group.topics for name in r.facts.topics]
        found = r.block.outputs
        mine = np.flatnonzero(np.array([*senders, False])[found["sender"]] & np.array([*topics, False])[found["topic"]])
        size = len(r.block.row)
        self.unclear = np.zeros(size, np.bool_)
        if r.block.topic in r.facts.lives.of:
            here = of_this_life(r, {name: column[mine] for name, column in found.items()})
            self.unclear[found["offset"][mine[~here]] - r.block.base] = True
            mine = mine[here]
        stretches = Stretches(r)
        stretch = stretches.of({name: column[mine] for name, column in found.items()})
        keys = [found[name][mine] for name in ("output_offset", "output_partition", "topic")]
        order = np.lexsort([*keys, stretch, found["offset"][mine]])
        self.columns = {name: column[mine[order]] for name, column in found.items()}
        self.at = self.columns["offset"] - r.block.base
        self.visible: Mask = self.columns["committed"] == 1
        self.legal = stretches.legal(self.columns["offset"], np.where(self.visible, stretch[order], NONE))
        self.seen = np.bincount(self.at[self.visible], minlength=size)
        self.maybe = np.bincount(self.at[self.columns["committed"] == NONE], minlength=size)

    def again(self) -> Ints:
        """Return the visible outputs of inputs that have one at a lower position."""
        visible = np.flatnonzero(self.visible)
        at = self.at[visible]
        again: Ints = visible[1:][at[1:] == at[:-1]]
        return again

    def of(self, at: int) -> Ints:
        """Return the outputs of an input."""
        return np.arange(np.searchsorted(self.at, at), np.searchsorted(self.at, at, "right"))

    def place(self, r: ReaderBlock, i: int) -> str:
        """Return the position of an output."""
        topic = r.facts.topics[int(self.columns["topic"][i])]
        return f"{topic}/{self.columns['output_partition'][i]} at {self.columns['output_offset'][i]}"

    def writer(self, r: ReaderBlock, i: int) -> str:
        """Return the client and incarnation that wrote an output."""
        client, incarnation = r.facts.senders[int(self.columns["sender"][i])]
        return _member(client or "", incarnation)


def _ended_in_order(r: ReaderBlock) -> bool:
    """Return whether the last member that held the partition gave it up, so that its last commit is on record."""
    turns = r.facts.epochs.turns.get((r.name, r.block.topic, r.block.partition), [])
    return bool(turns) and turns[-1].end_reason in ("revoked", "stopped")


def _missing(r: ReaderBlock, rows: _Outputs, at: int) -> dict[str, Any]:
    delivery = int(np.flatnonzero(r.at == at)[-1])
    epoch = r.epoch(delivery)
    evidence = {
        "processed_by": _member(epoch.consumer, epoch.incarnation),
        "end_reason": epoch.end_reason,
        "committed_to": r.range.passed,
        "aborted_outputs": len(rows.of(at)),
    }
    if by := _set_forward(r, at + r.block.base):
        evidence |= {"went_to": by.start, "why": by.why}
    at_us = int(r.rows["processed_us"][delivery])
    return _input(r, at, at_us, evidence)


def _set_forward(r: ReaderBlock, offset: int) -> Epoch | None:
    """Return the epoch that something else began above an input that the group had not committed past."""
    for e in r.facts.epochs.turns.get((r.name, r.block.topic, r.block.partition), []):
        if e.moved and e.start is not None and e.start > offset:
            return e
        if e.passed is not None and e.passed > offset:
            return None
    return None


def _again(r: ReaderBlock, rows: _Outputs, i: int) -> dict[str, Any]:
    at = int(rows.at[i])
    first = next(j for j in rows.of(at).tolist() if rows.visible[j])
    evidence = {"output": rows.place(r, i), "writer": rows.writer(r, i)}
    evidence |= {"first_output": rows.place(r, first), "first_writer": rows.writer(r, first)}
    epochs = [r.epoch(j) for j in np.flatnonzero(r.at == at).tolist()]
    begins = [e for e in epochs if _member(e.consumer, e.incarnation) == evidence["writer"] and e.start is not None]
    if len(epochs) > 1 and begins:
        evidence |= present(began_at=begins[-1].start, why=begins[-1].why)
    return _input(r, at, nullable(rows.columns["timestamp_us"][i]), evidence)


def _early(r: ReaderBlock, rows: _Outputs, at: int) -> dict[str, Any]:
    i = next(j for j in rows.of(at).tolist() if rows.visible[j])
    evidence = {"output": rows.place(r, i), "writer": rows.writer(r, i), "committed_to": r.range.passed}
    return _input(r, at, nullable(rows.columns["timestamp_us"][i]), evidence)


def _member(client: str, incarnation: int) -> str:
    return f"{client} (incarnation {incarnation})"


def _input(r: ReaderBlock, at: int, at_us: int | None, evidence: Evidence) -> dict[str, Any]:
    """Return an input, with its identity where the log has it, as arguments of a finding."""
    row = int(r.block.row[at])
    if row >= 0:
        return r.block.record(r.block.log, row, at_us=at_us, evidence=evidence)
    place = {"topic": r.block.topic, "partition": r.block.partition, "offset": at + r.block.base}
    return place | {"at_us": at_us, "evidence": evidence}


def _without_input(part: Part, plan: SurveyPlan, tally: Tally) -> None:
    """Count the records of each processor that carry no coordinates: their input is unknown."""
    carried = part.codes("input_topic")[0] >= 0
    carried &= (part.ints("input_partition") >= 0) & (part.ints("input_offset") >= 0)
    codes, producers = part.codes("producer")
    rows = np.flatnonzero(part.own_records(plan.run_token) & ~carried)
    for code, count in zip(*np.unique(codes[rows], return_counts=True), strict=True):
        if entry_of(producers[code]) in plan.processors:
            tally.add(UNTRACED, entry_of(producers[code]), value=int(count))


def _explain_missing(f: Finding, e: Evidence, c: RunData) -> str:
    end = f"{e['processed_by']} processed it and {_ENDS.get(e['end_reason'], 'gave the partition up')}"
    output = "all its outputs are in aborted transactions" if e["aborted_outputs"] else "no output of it is in the log"
    if "went_to" in e:
        return f"{end}; {output}, and {f['scope']}, not yet committed past it, went on at {e['went_to']} ({e['why']})"
    return f"{end}, {f['scope']} committed {e['committed_to']}, and {output}"


def _explain_again(f: Finding, e: Evidence, c: RunData) -> str:
    wrote = f"{e['first_writer']} wrote {e['first_output']}, and {e['writer']} wrote {e['output']}"
    return f"{wrote}: it had begun at {e['began_at']} ({e['why']})" if "why" in e else wrote


def _explain_unconsumed(f: Finding, e: Evidence, c: RunData) -> str:
    committed = f"committed {e['committed_to']}" if "committed_to" in e else "committed nothing"
    return f"{e['writer']} wrote {e['output']}, but {f['scope']} {committed} and would process the input again"


def _has_processors(plan: SurveyPlan) -> bool:
    return bool(plan.processors)


_COUNTED = RowRule("log", _without_input, INPUT_COLUMNS, _has_processors)


def _rule(explain: Any) -> Rule:
    return Rule(
        examines=(INPUTS,),
        explain=explain,
        scopes=READERS.that(lambda r: r.processes, "no group consists of processors"),
        needs_log_times=True,
        rows=_COUNTED,
        reader=outputs,
    )


_ENDS = {
    "crashed": "crashed",
    "lost": "lost the partition",
    "stopped": "stopped",
    "revoked": "gave the partition up",
    "replaced": "read the partition again later",
    "open": "had the partition to the end",
}
"""The ends of epochs, as text."""


COUNTED = total("counted")
"""Visible outputs of processors that count, by reader."""


def wrong_count(b: CountBlock, tally: Tally) -> None:
    """Report visible outputs with a count other than the number of inputs of their key up to their input.

    Inputs count that the group gets: what read_committed readers of the final log see, or all if it reads
    uncommitted records, from the offset at which the group first began to read the partition. What the group processed
    again, or skipped after it was set to another offset, is no reason for another count.

    Undecided: outputs of inputs that are not in the log that was read back, or that may lack earlier inputs
    there; outputs without a count; and where a transaction is open that inputs or the output belong to.
    """
    for group in sorted(b.facts.counting):
        if (lineage := b.facts.lineage.get(group)) is None:
            continue
        writers = [(name or "").rpartition("/")[0] in lineage.writers for name, _ in b.facts.senders]
        topics = [name in lineage.topics for name in b.facts.topics]
        o = b.outputs
        mine = np.flatnonzero(np.array([*writers, False])[o["sender"]] & np.array([*topics, False])[o["topic"]])
        tally.add(COUNTED, group, value=int((o["committed"][mine] != 0).sum()))
        for (partition,), section in sections(o["partition"][mine]):
            ranges = b.facts.read_ranges.get((b.topic, partition), [])
            _judge(b, group, next((r for r in ranges if r.reader == group), None), mine[section.index], tally)


def _judge(b: CountBlock, group: str, here: ReadRange | None, rows: Ints, tally: Tally) -> None:
    """Judge the outputs of a group that were made from one partition."""
    outputs = {name: column[rows] for name, column in b.outputs.items()}
    reason = _undecidable(here)
    if here is None or reason is not None:
        unsure = int((outputs["committed"] != 0).sum())
        tally.report_undecided("wrong_count", group, unsure, reason or UNREAD)
        return
    at, expected, open_before = _expected(b.inputs, here, outputs)
    seen, maybe = outputs["committed"] == 1, outputs["committed"] == NONE
    unknown = {
        NO_INPUT: at == NONE,
        NO_COUNT: (at != NONE) & (outputs["count"] == NONE),
        OPEN: (at != NONE) & (outputs["count"] != NONE) & open_before,
    }
    for why, mask in unknown.items():
        tally.report_undecided("wrong_count", group, int((mask & (seen | maybe)).sum()), why)
    differs = (outputs["count"] != expected) & ~np.logical_or.reduce(list(unknown.values()))
    tally.report_undecided("wrong_count", group, int((differs & maybe).sum()), OPEN)
    wrong = np.flatnonzero(differs & seen)
    order = np.lexsort([outputs[name][wrong] for name in ("output_offset", "output_partition", "offset")])
    shown = (_shown(b, outputs, i, int(at[i]), int(expected[i])) for i in wrong[order[:CAP]].tolist())
    tally.report("wrong_count", group, len(wrong), shown)


def _undecidable(here: ReadRange | None) -> Reason | None:
    """Return why the counts of a partition cannot be judged, None if they can."""
    if here is None or here.log_start is None:
        return UNREAD
    if here.began_at is None:
        return NO_BEGIN
    return INPUTS_GONE if here.log_start > here.began_at else None


def _expected(inputs: Columns, here: ReadRange, outputs: Columns) -> tuple[Ints, Ints, Any]:
    """Return for each output the row of its input, how many inputs of the key there are up to it, and whether some of
    these belong to an open transaction. The row is NONE if there is no such input.
    """
    rows = np.flatnonzero((inputs["partition"] == here.partition) & (inputs["offset"] >= (here.began_at or 0)))
    rows = rows[np.lexsort((inputs["offset"][rows], inputs["key"][rows]))]
    key, offset, committed = (inputs[name][rows] for name in ("key", "offset", "committed"))
    counts = (committed == 1) | (not here.committed_only)
    is_open = (committed == NONE) & here.committed_only
    first = np.searchsorted(key, key)  # of each key
    number, opened = (np.cumsum(mask) for mask in (counts, is_open))
    number, opened = (c - (c[first] - m[first]) for c, m in ((number, counts), (opened, is_open)))
    merged = np.lexsort(
        (
            np.repeat([0, 1], [len(rows), len(outputs["key"])]),
            np.concatenate([offset, outputs["offset"]]),
            np.concatenate([key, outputs["key"]]),
        )
    )
    of_input = np.maximum.accumulate(np.where(merged < len(rows), merged, NONE))
    found = np.full(len(outputs["key"]), NONE, np.int64)
    found[merged[merged >= len(rows)] - len(rows)] = of_input[merged >= len(rows)]
    there = found != NONE
    there[there] = (key[found[there]] == outputs["key"][there]) & (offset[found[there]] == outputs["offset"][there])
    at, expected, unsure = (np.full(len(found), NONE, np.int64) for _ in range(3))
    at[there], expected[there], unsure[there] = rows[found[there]], number[found[there]], opened[found[there]]
    return at, expected, unsure > 0


def _shown(b: CountBlock, outputs: Columns, i: int, at: int, expected: int) -> dict[str, Any]:
    client, incarnation = b.facts.senders[int(outputs["sender"][i])]
    place = f"{b.facts.topics[int(outputs['topic'][i])]}/{outputs['output_partition'][i]}"
    evidence = {
        "output": f"{place} at {outputs['output_offset'][i]}",
        "writer": f"{client} (incarnation {incarnation})",
        "count": int(outputs["count"][i]),
        "expected": expected,
    }
    producer, life = b.facts.senders[int(b.inputs["sender"][at])]
    who = {"producer": producer, "incarnation": nullable(life), "seq": nullable(b.inputs["seq"][at])}
    where = {"topic": b.topic, "partition": int(outputs["partition"][i]), "offset": int(outputs["offset"][i])}
    return where | who | {"at_us": nullable(outputs["timestamp_us"][i]), "evidence": evidence}


RULES = {
    "missing_output": _rule(_explain_missing),
    "duplicate_output": _rule(_explain_again),
    "unconsumed_output": _rule(_explain_unconsumed),
    "wrong_count": Rule(
        examines=(COUNTED,),
        explain="{writer} wrote {output} with the count {count}; its input is number {expected} of its key in the "
        "partition",
        scopes=READERS.that(lambda r: r.counts, "no group consists of processors that count"),
        counts_undecided=True,
        counts=wrong_count,
    ),
}
