"""Epochs in a topic that was deleted and created again: why they begin where they begin."""

from __future__ import annotations

import pytest

from checks.audit.facts.epochs import Epoch
from checks.audit.facts.readers import Reader
from checks.audit.facts.recreated_topics import judge_after_deletion
from checks.audit.facts.topic_lives import RECREATED


def why(first: int, reset: str) -> str:
    """Return why a reader at 1037 of the deleted topic delivers `first` of the new one, which has 0 to 499."""
    reader = Reader("billing", "subscribe", "billing", ("orders",), 1, reset, "", commits=True)
    epoch = Epoch("billing", "billing/1", 1, 1, "orders", 0, "subscribe", "billing", "m", 1, RECREATED, None, 0)
    epoch.former, epoch.first = 1037, first
    judge_after_deletion(epoch, [], {1037}, reader, (0, 500))
    assert (epoch.start, epoch.legal) == (first, True)
    return epoch.why


@pytest.mark.parametrize(
    ("first", "reset", "reason"),
    [
        (12, "earliest", "auto.offset.reset=earliest did not apply: its position 1037 of the deleted topic was beyond"),
        (0, "earliest", "auto.offset.reset=earliest, because its position 1037 of the deleted topic was out of range"),
        (12, "latest", "auto.offset.reset=latest, because its position 1037 of the deleted topic was out of range"),
    ],
)
def test_a_client_that_detects_truncation_is_not_one_that_resets_its_position(first, reset, reason):
    assert why(first, reset).startswith(reason)
