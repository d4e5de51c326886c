"""The first look at every row: sums, curves, latencies, and what can be judged from one row or its neighbours.

Each function takes one part of a table and adds to a `Tally`. What they leave behind says who read what from when to
when, which is what the second look (`blocks`) needs to know before it can judge.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from checks.audit.findings import finding
from checks.audit.large.columns import NONE, Ints, Part
from checks.audit.large.group import Rows, counted, grouped, runs, sections
from checks.audit.large.tally import Tally, histogram
from checks.audit.large.times import BUCKET_US, bucket, heat, moments

BLOCK_BITS = 20
"""A block spans 2^20 offsets of a partition, or 2^20 seqs of a producer."""

NEEDED = {
    "sends": ("producer", "incarnation", "topic", "partition", "offset", "outcome", "invoked_us", "completed_us"),
    "log": ("topic", "partition", "offset", "timestamp", "run", "producer", "incarnation", "seq", "crc_ok"),
    "deliveries": (
        *("consumer", "incarnation", "group", "mode", "assignment", "ordinal", "topic", "partition", "offset"),
        *("producer", "producer_incarnation", "seq", "polled_us", "processed_us"),
    ),
}
"""The columns that are read of each table."""


@dataclass(frozen=True)
class Wanted:
    """What a survey has to know. run: the run's token. injected: fault -> us. cell_us: columns of the heat map."""

    run: str
    injected: dict[str, int] = field(default_factory=dict)
    cell_us: int = 500_000


def survey(part: Part, wanted: Wanted, tally: Tally) -> None:
    """Add one part of any table."""
    tally.add("sum", "rows", part.table, value=part.rows)
    if part.rows:
        {"sends": _sends, "log": _log, "deliveries": _deliveries}[part.table](part, wanted, tally)


def _who(part: Part, producer: str, incarnation: str, tally: Tally) -> tuple[Ints, list[str]]:
    """Take note of every incarnation of a producer that is seen; returns the producers' codes and names."""
    codes, names = part.codes(producer)
    numbers = part.ints(incarnation)
    starts = runs(codes, numbers)
    pairs = set(zip(codes[starts].tolist(), numbers[starts].tolist(), strict=True))
    tally.add("set", "who", value={(names[c] if c >= 0 else None, n) for c, n in pairs})
    return codes, names


def _sends(part: Part, wanted: Wanted, tally: Tally) -> None:
    _who(part, "producer", "incarnation", tally)
    topics, names = part.codes("topic")
    outcomes, words = part.codes("outcome")
    partition, offset = part.ints("partition"), part.ints("offset")
    invoked, completed = part.ints("invoked_us"), part.ints("completed_us")
    tally.add("max", "drive_end_us", value=int(completed.max()))
    of = {word: outcomes == code for code, word in enumerate(words)}
    for (code,), mine in sections(topics):
        topic = names[code]
        tally.add("set", "topics", value={topic})
        for word, mask in of.items():
            name = {"ok": "acked", "fail": "failed"}.get(word, word)
            tally.add("sum", name, topic, value=int(mask[mine].sum()))
        tally.add("sum", "sent", topic, value=len(topics[mine]))
        ok = of.get("ok", topics < NONE)[mine]
        places, done, began = partition[mine], completed[mine], invoked[mine]
        located = ok & (offset[mine] >= 0)
        tally.add("sum", "located", topic, value=int(located.sum()))
        moments(tally, "produce", topic, places[ok], done[ok], began[ok], wanted.injected)
        _invoked_after(tally, topic, places, began, ok, wanted.injected)
        if not ok.any():
            continue
        took = np.maximum(done[ok] - began[ok], 0)
        tally.add("counts", "ack_latency", topic, value=histogram(took))
        heat(tally, "ack", topic, done[ok], took, wanted.cell_us)
        tally.add("counts", "acked_curve", topic, value=counted(bucket(done[ok])))
        _reached(tally, "acked_reached", (topic,), places[located], done[located], offset[mine][located])


def _invoked_after(
    tally: Tally, topic: str, partition: Ints, invoked: Ints, ok: np.ndarray, injected: dict[str, int]
) -> None:
    for fault, at_us in injected.items():
        late = invoked >= at_us
        if late.any():
            tally.add("counts", "sent_after", fault, topic, value=counted(partition[late]))
            tally.add("counts", "acked_after", fault, topic, value=counted(partition[late & ok]))


def _reached(tally: Tally, name: str, key: tuple[str, ...], partition: Ints, at_us: Ints, offset: Ints) -> None:
    """The highest offset + 1 in each partition and bucket of time; partition and bucket number in one key."""
    if len(offset):
        slots, (highest,) = grouped((partition << 36) | (at_us // BUCKET_US), (np.maximum, offset))
        tally.add("highest", name, *key, value=(slots, highest + 1))


def _log(part: Part, wanted: Wanted, tally: Tally) -> None:
    codes, producers = _who(part, "producer", "incarnation", tally)
    topics, names = part.codes("topic")
    carried, tokens = part.codes("run")
    partition, offset, timestamp = part.ints("partition"), part.ints("offset"), part.ints("timestamp")
    incarnation, seq = part.ints("incarnation"), part.ints("seq")
    crc_ok, crc_known = part.flags("crc_ok")
    ours = tokens.index(wanted.run) if wanted.run in tokens else NONE - 1
    own = (carried == ours) & (codes >= 0) & (incarnation >= 0) & (seq >= 0)
    for (code,), mine in sections(topics):
        topic = names[code]
        tally.add("set", "topics", value={topic})
        for name, mask in (("in_log", topics >= 0), ("own", own), ("checked", crc_known)):
            tally.add("sum", name, topic, value=int(mask[mine].sum()))
    for check, wrong in (("corrupt_record", crc_known & ~crc_ok), ("phantom_write", ~own)):
        for (code,), mine in sections(topics[found := np.flatnonzero(wrong)]):
            rows = found[mine]
            shown = rows[np.lexsort((offset[rows], partition[rows]))[:200]]
            tally.find(
                (
                    finding(
                        check,
                        names[code],
                        topic=names[code],
                        partition=int(partition[i]),
                        offset=int(offset[i]),
                        producer=producers[codes[i]] if codes[i] >= 0 else None,
                        incarnation=_number(incarnation[i]),
                        seq=_number(seq[i]),
                        at_us=_number(timestamp[i]),
                        evidence={
                            "why": None
                            if check == "corrupt_record"
                            else "no identity"
                            if codes[i] < 0
                            else "identity of another run",
                            "carried_run": tokens[carried[i]] if carried[i] >= 0 else None,
                        },
                    )
                    for i in shown.tolist()
                ),
                check,
                "",
                names[code],
                len(rows),
            )
    for (code, place), mine in sections(topics, partition):
        tally.add("max", "log_end", names[code], place, value=int(offset[mine].max()) + 1)
    rows = np.flatnonzero(own)
    _lowest(tally, names, producers, *(c[rows] for c in (topics, partition, codes, incarnation, seq, offset)))


def _lowest(
    tally: Tally,
    names: list[str],
    producers: list[str],
    topics: Ints,
    partition: Ints,
    codes: Ints,
    incarnation: Ints,
    seq: Ints,
    offset: Ints,
) -> None:
    """The lowest offset at which a record of each block of seqs stands, by partition and incarnation."""
    for (topic, place, code, life), mine in sections(topics, partition, codes, incarnation):
        blocks, offsets = seq[mine] >> BLOCK_BITS, offset[mine]
        distinct, (lowest,) = grouped(blocks, (np.minimum, offsets))
        tally.add("lowest", "lowest", producers[code], life, names[topic], place, value=(distinct, lowest))


def _deliveries(part: Part, wanted: Wanted, tally: Tally) -> None:
    who = _who(part, "producer", "producer_incarnation", tally)
    (topics, names), (groups, group_names) = part.codes("topic"), part.codes("group")
    (consumers, clients), (modes, mode_names) = part.codes("consumer"), part.codes("mode")
    incarnation, assignment, partition = part.ints("incarnation"), part.ints("assignment"), part.ints("partition")
    ordinal, offset, processed = part.ints("ordinal"), part.ints("offset"), part.ints("processed_us")
    polled = part.ints("polled_us")
    tally.add("max", "drive_end_us", value=int(processed.max()))
    for (c, life, number, topic, place, g, m), mine in sections(
        consumers, incarnation, assignment, topics, partition, groups, modes
    ):
        group, mode = (group_names[g] if g >= 0 else None), mode_names[m]
        reader = (group if mode == "subscribe" else clients[c]) or ""
        segment = _segment(part, mine, who, ordinal, offset, processed, polled)
        segment |= {"mode": mode, "group": group, "path": part.path}
        key = clients[c], life, number, names[topic], place
        tally.add("all", "segments", *key, value=[segment])
        tally.add("sum", "delivered", reader, value=segment["rows"])
        places = partition[mine]
        _reached(tally, "delivered_reached", (reader, names[topic]), places, processed[mine], offset[mine])
        tally.add("counts", "delivered_curve", reader, value=counted(bucket(processed[mine])))


def _segment(
    part: Part,
    mine: Rows,
    who: tuple[Ints, list[str]],
    ordinal: Ints,
    offset: Ints,
    processed: Ints,
    polled: Ints,
) -> dict[str, object]:
    """What one epoch delivered in this part, in the order of processing, and where that order fell back."""
    order, offsets = ordinal[mine], offset[mine]
    rows = np.arange(part.rows)[mine]
    if (order[1:] < order[:-1]).any():
        again = np.argsort(order, kind="stable")
        order, offsets, rows = order[again], offsets[again], rows[again]
    falls = np.flatnonzero(offsets[1:] <= offsets[:-1]) + 1
    incarnations, seqs = part.ints("producer_incarnation"), part.ints("seq")

    def told(i: int, before: int | None) -> dict[str, int | str | None]:
        row = int(rows[i])
        code = int(who[0][row])
        return {
            "offset": int(offsets[i]),
            "ordinal": int(order[i]),
            "processed_us": int(processed[row]),
            "producer": who[1][code] if code >= 0 else None,
            "incarnation": _number(incarnations[row]),
            "seq": _number(seqs[row]),
            "before": before,
        }

    return {
        "rows": len(rows),
        "low": int(offsets.min()),
        "high": int(offsets.max()),
        "last": int(offsets[-1]),
        "first": told(0, None),
        "end_ordinal": int(order[-1]),
        "polled_us": int(polled[mine].min()),
        "falls": len(falls),
        "fallen": [told(int(i), int(offsets[i - 1])) for i in falls[np.argsort(offsets[falls], kind="stable")[:200]]],
    }


def _number(value: np.int64) -> int | None:
    return None if value == NONE else int(value)
