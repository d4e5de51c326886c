"""What a read_committed reader got that it must not see: records of transactions that were aborted, or still open."""

from __future__ import annotations

from typing import Any

import numpy as np

from checks.audit.large.case import ABORTED, NO_TXN
from checks.audit.large.columns import NONE, Ints
from checks.audit.large.pack import Columns
from checks.audit.large.tally import Tally
from checks.audit.read_block import Reader


def isolation(r: Reader, acks: Columns, tally: Tally) -> None:
    """Both rules, for a read_committed reader."""
    if not r.owed.committed_only or not len(r.at):
        return
    ack = _acked(r, acks)
    aborted_read(r, acks, ack, tally)
    precommitted_read(r, acks, ack, tally)


def aborted_read(r: Reader, acks: Columns, ack: Ints, tally: Tally) -> None:
    """Delivered to a read_committed reader, though the record's transaction was aborted: its producer was told so, or
    a read_committed reader of the final log does not see the record."""
    end = np.where(ack >= 0, acks["end"][ack], NO_TXN) if len(acks["offset"]) else np.full(len(r.at), NO_TXN)
    hidden = (r.place.committed(r.at) == 0) & r.same
    tally.add("sum", "read_of_transactions", r.name, value=int(((end != NO_TXN) | hidden).sum()))

    def told(i: int) -> dict[str, Any]:
        return {
            "told_aborted": bool(end[i] == ABORTED),
            "hidden_in_log": bool(hidden[i]),
            "assignment": r.epoch(i).assignment,
            "polled_us": _time(r.rows["polled_us"][i]),
        }

    r.find("aborted_read", np.flatnonzero(hidden | (end == ABORTED)), told, tally)


def precommitted_read(r: Reader, acks: Columns, ack: Ints, tally: Tally) -> None:
    """Polled by a read_committed reader before the last send of the record's transaction was invoked: its commit cannot
    have been requested then. Polled between that and the client's learning of the end is as it should be, for brokers
    know before the client does. What was aborted is an `aborted_read`."""
    if not len(acks["offset"]):
        return
    early = (ack >= 0) & (r.rows["polled_us"] < acks["last_us"][ack]) & (r.rows["polled_us"] != NONE)
    early &= (acks["end"][ack] != NO_TXN) & (acks["end"][ack] != ABORTED)
    early &= ~((r.place.committed(r.at) == 0) & r.same)

    def told(i: int) -> dict[str, Any]:
        return {
            "polled_us": _time(r.rows["polled_us"][i]),
            "still_sent_us": int(acks["last_us"][ack[i]]),
            "assignment": r.epoch(i).assignment,
        }

    r.find("precommitted_read", np.flatnonzero(early), told, tally)


def _acked(r: Reader, acks: Columns) -> Ints:
    """For each delivery the acknowledgement of that record at that offset; NONE where there is none, or where no
    acknowledgement of the block is of a transaction."""
    if not (acks["end"] != NO_TXN).any():  # nothing was sent in a transaction: it makes no difference
        return np.full(len(r.at), NONE, np.int64)
    order = np.lexsort((acks["last_us"], acks["end"], acks["seq"], acks["who"], acks["offset"]))
    keys = [acks[n][order] for n in ("offset", "who", "seq")]
    count = len(order)
    sides = [np.concatenate([key, r.rows[n]]) for key, n in zip(keys, ("offset", "who", "seq"), strict=True)]
    whole = np.lexsort((np.arange(len(sides[0])), sides[2], sides[1], sides[0]))
    same = np.ones(len(whole), np.bool_)
    for side in sides:
        same[1:] &= side[whole][1:] == side[whole][:-1]
    same[0] = False
    group = np.cumsum(~same)
    first = np.full(int(group[-1]) + 1, NONE, np.int64)
    is_ack = whole < count
    first[group[is_ack][::-1]] = order[whole[is_ack]][::-1]
    found = np.empty(len(r.at), np.int64)
    found[whole[~is_ack] - count] = first[group[~is_ack]]
    found[~r.named] = NONE
    return found


def _time(value: int) -> int | None:
    return None if value == NONE else int(value)
