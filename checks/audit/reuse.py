"""Offsets that were given to two records."""

from __future__ import annotations

import numpy as np

from checks.audit.findings import CAP, Finding, finding
from checks.audit.large.columns import known
from checks.audit.large.pack import Columns
from checks.audit.large.tally import Tally
from checks.audit.read_block import Place

SIGHTS = ("acknowledged", "delivered", "in the log")
TOLD = 4
"""Records named in the evidence of one offset."""


def offset_reuse(place: Place, deliveries: Columns, acks: Columns, tally: Tally) -> None:
    """Two different records seen at one offset of a partition: acknowledged there, delivered there, or in the log.

    Records without an identity cannot be told apart and are left out. One finding for each such offset.
    """
    log = place.log
    sides = [(acks, "completed_us"), (deliveries, "processed_us"), (log, "timestamp")]
    odd = [_unlike_the_log(place, side["offset"], side["who"], side["seq"]) for side, _ in sides[:2]]
    suspects = np.unique(np.concatenate(odd))
    if not len(suspects):
        return
    offset, who, seq, at_us = (np.concatenate([s[n or t] for s, t in sides]) for n in ("offset", "who", "seq", ""))
    sight = np.repeat(np.arange(3), [len(side["offset"]) for side, _ in sides])
    rows = np.flatnonzero(np.isin(offset, suspects) & place.named[who])
    rows = rows[np.lexsort((sight[rows], at_us[rows], seq[rows], who[rows], offset[rows]))]
    new = np.ones(len(rows), np.bool_)
    new[1:] = (offset[rows][1:] != offset[rows][:-1]) | (who[rows][1:] != who[rows][:-1])
    new[1:] |= seq[rows][1:] != seq[rows][:-1]
    firsts = rows[new]
    distinct, counts = np.unique(offset[firsts], return_counts=True)
    reused = distinct[counts > 1]
    shown = [
        _reused(place, int(at), {"who": who, "seq": seq, "at_us": at_us, "sight": sight}, rows[offset[rows] == at])
        for at in reused[:CAP]
    ]
    tally.find(shown, "offset_reuse", "", place.topic, len(reused))


def _unlike_the_log(place: Place, offset: np.ndarray, who: np.ndarray, seq: np.ndarray) -> np.ndarray:
    """The offsets at which a named record is said to be that is not the one in the log."""
    named = place.named[who]
    if not len(place.log["offset"]):
        return np.asarray(offset[named])
    row = place.row[offset - place.base]
    same = (row >= 0) & (place.log["who"][row] == who) & (place.log["seq"][row] == seq)
    return np.asarray(offset[named & ~same])


def _reused(place: Place, at: int, columns: Columns, rows: np.ndarray) -> Finding:
    """One offset, with the records seen there in the order in which they were."""
    records: dict[tuple[int, int], dict[str, object]] = {}
    for i in rows[np.argsort(columns["at_us"][rows], kind="stable")].tolist():
        producer, incarnation = place.case.who[int(columns["who"][i])]
        told = {"producer": producer, "incarnation": known(incarnation), "seq": known(columns["seq"][i])}
        first = told | {"first_us": int(columns["at_us"][i]), "seen": []}
        seen = records.setdefault((int(columns["who"][i]), int(columns["seq"][i])), first)["seen"]
        word = SIGHTS[int(columns["sight"][i])]
        if isinstance(seen, list) and word not in seen:
            seen.append(word)
    listed = list(records.values())
    return finding(
        "offset_reuse",
        place.topic,
        topic=place.topic,
        partition=place.partition,
        offset=at,
        at_us=listed[1]["first_us"],
        evidence={"records": listed[:TOLD], "how_many": len(listed)},
    )
