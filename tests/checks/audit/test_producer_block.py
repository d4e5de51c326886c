"""Acknowledged sends that are absent from the log: evicted, undecided with a reason, or neither."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from checks.audit.arrays import NONE
from checks.audit.engine.blocks import KINDS, OK
from checks.audit.facts.epochs import Epochs
from checks.audit.facts.retention import Backdated
from checks.audit.facts.run_facts import NO_TXN, RunFacts
from checks.audit.findings import UNREAD
from checks.audit.rules.producer_block import LOG_CUT, PERHAPS_EARLY, ProducerBlock

START = 10
ANOTHER_CUT = {("orders", 0): 0, ("orders", 1): START}
BEHIND = Backdated({"p": [(100, 200)]}, {0: 4})
"""Of records below offset START, retention deletes those of 100 to 200 us; a fault deleted those below offset 4."""


def block(*sent: dict[str, int], **facts: Any) -> ProducerBlock:
    """Return sends without a record in the log: by default to partition 0 at 150 us."""
    row = dict.fromkeys(KINDS["sends"], 0) | {"incarnation": 1, "outcome": OK, "end": NO_TXN, "txn": NONE}
    row |= {"invoked_us": 150, "completed_us": 151}
    rows = [row | {"seq": seq} | one for seq, one in enumerate(sent)]
    columns = {name: np.array([one[name] for one in rows], np.int64) for name in row}
    nothing = dict.fromkeys(KINDS["log"], np.zeros(0, np.int64))
    known: dict[str, Any] = {"due_starts": {("orders", 0): START}} | facts
    of_run = RunFacts("x", ["orders"], [("p/1", 1)], Epochs([]), **known)
    return ProducerBlock("p/1", 0, of_run, {"sends": columns, "log": nothing})


def absent(sent: dict[str, int], **facts: Any) -> str:
    """Return what became of a send: evicted, the name of the reason why that is unknown, or lost."""
    evicted, unsure = block(sent, **facts).absent(np.array([0]))
    names = {UNREAD: "unread", LOG_CUT: "cut", PERHAPS_EARLY: "perhaps early"}
    found = ["evicted"] * int(evicted[0]) + [names[why] for why, mask in unsure.items() if mask[0]]
    return " and ".join(found) or "lost"


@pytest.mark.parametrize(
    ("sent", "facts", "what"),
    [
        ({"offset": START - 1}, {}, "evicted"),
        ({"offset": START}, {}, "lost"),
        ({"offset": NONE}, {}, "cut"),  # with acks=0 it may have been before the start
        ({"offset": NONE}, {"due_starts": {("orders", 0): 0}}, "lost"),  # nothing was deleted
        ({"offset": NONE, "partition": NONE}, {}, "cut"),
        ({"offset": NONE, "partition": NONE}, {"due_starts": {("orders", 0): 0}}, "lost"),
        ({"offset": NONE}, {"due_starts": ANOTHER_CUT}, "lost"),
        ({"offset": NONE, "partition": NONE}, {"due_starts": ANOTHER_CUT}, "cut"),
        ({"offset": 5, "partition": 1}, {}, "unread"),
        ({"offset": 5, "partition": NONE}, {"due_starts": {("orders", 0): None}}, "unread"),
        ({"offset": START - 1}, {"perhaps_early": {"orders"}}, "perhaps early"),
        ({"offset": START}, {"perhaps_early": {"orders"}}, "lost"),
        ({"offset": START - 1}, {"perhaps_early": {"bills"}}, "evicted"),
    ],
)
def test_a_send_that_is_absent_is_lost_unless_it_was_or_may_have_been_before_the_start(sent, facts, what):
    assert absent(sent, **facts) == what


@pytest.mark.parametrize(
    ("sent", "what"),
    [
        ({"offset": 5}, "evicted"),  # its timestamp was behind
        ({"offset": 5, "invoked_us": 201, "completed_us": 202}, "lost"),  # and here no longer
        ({"offset": 5, "invoked_us": 50, "completed_us": 99}, "lost"),
        ({"offset": 5, "invoked_us": 50, "completed_us": 100}, "evicted"),
        ({"offset": 3, "invoked_us": 201, "completed_us": 202}, "evicted"),  # by the fault
        ({"offset": 4, "invoked_us": 201, "completed_us": 202}, "lost"),
        ({"offset": START}, "lost"),
    ],
)
def test_where_retention_deletes_by_timestamps_that_are_behind_only_records_with_one_are_evicted(sent, what):
    assert absent(sent, backdated={"orders": BEHIND}) == what


def test_sends_of_two_incarnations_have_identities_of_their_own():
    one = block({"incarnation": 1}, {"incarnation": 2}, {"incarnation": 1, "seq": 1}, {"incarnation": 3, "seq": 0})
    assert len(set(one.sent.tolist())) == 4
