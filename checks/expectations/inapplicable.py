"""Which checks have nothing to look at because of what the scenario is, and may therefore see nothing.

Any other check that examined nothing proves nothing.
"""

from __future__ import annotations

from chaos.anomalies import ANOMALIES
from chaos.scenario.consumers import Consumer, reads_committed
from chaos.scenario.model import Scenario
from checks.audit.routing import routes

_OF_COMMITS = ("overcommit", "commit_rewind", "lost_processing")
_OF_TRANSACTIONS = ("aborted_read", "precommitted_read", "torn_transaction", "hanging_transaction")
_OF_COMMITTED = ("aborted_read", "precommitted_read")
_OF_SUBSCRIBERS = ("double_ownership", "zombie_commit", "unbalanced_assignment")


def nothing_to_examine(s: Scenario, kind: str) -> str:
    """Why this kind has nothing to look at in this scenario; empty where it should have something."""
    if ANOMALIES[kind].path != "write" and not s.readers:
        return "the scenario has no consumers"
    if kind in _OF_COMMITS and not any(_commits(c) for c in s.readers):
        return "no consumer commits offsets"
    if kind == "foreign_commit" and not any(c.group and _commits(c) for c in s.readers):
        return "no consumer commits to a group"
    if kind in _OF_TRANSACTIONS and not s.transactional:
        return "no producer uses transactions"
    if kind in _OF_COMMITTED and not any(reads_committed(c) for c in s.readers):
        return "no consumer reads with isolation.level=read_committed"
    if kind in _OF_SUBSCRIBERS and not any(c.mode == "subscribe" for c in s.readers):
        return "no consumer subscribes"
    if kind == "zombie_commit" and not any(c.mode == "subscribe" and _commits(c) for c in s.readers):
        return "no subscribing consumer commits offsets"
    if kind == "misplaced_coordinator" and not any(c.group for c in s.readers):
        return "no consumer has a group id"
    if kind == "unbalanced_assignment" and all(_unseen(c) for c in s.readers):
        return "brokers show no classic members of groups with group.protocol=consumer"
    if kind == "offset_reuse" and not s.readers and all(_acks(p.config) == "0" for p in s.producers):
        return "with acks=0 no acknowledged offset is known, and nobody reads"
    if kind == "misplaced_write" and all(_acks(p.config) == "0" for p in s.producers):
        return "with acks=0 no acknowledged offset is known"
    if kind == "misrouted_write" and not routes(s, {t.name: t.partitions for t in s.topics}):
        return "no partitioner promises a partition"
    if kind == "unnoticed_failure" and all(p.mode != "fire_and_forget" for p in s.producers):
        return "every producer looks at its delivery reports"
    return ""


def _unseen(consumer: Consumer) -> bool:
    return consumer.mode != "subscribe" or str(consumer.config.get("group.protocol", "")).lower() == "consumer"


def _commits(consumer: Consumer) -> bool:
    return consumer.commit.when != "never" or consumer.commit.on_revoke


def _acks(config: dict[str, bool | int | float | str]) -> str:
    return str(config.get("acks", config.get("request.required.acks", "all")))
