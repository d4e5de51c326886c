"""The check reference: the rule of each anomaly, the settings that prevent it, and the scenarios that must show it."""

from __future__ import annotations

from chaos.anomalies import ANOMALIES, METRICS, Path
from chaos.anomalies.model import Anomaly
from chaos.reference.markdown import code, sentence, table
from chaos.reference.scenarios import link, shows

_CATALOGUE = "../../chaos/scenarios/CATALOGUE.md"
_HEAD = """# Checks

The anomalies that the audit finds. A scenario names them in its contract (`expect:`). The contract is closed: a kind
that it does not name must not appear. `lost_write: {min: 1}` requires at least one, `{max: 5}` allows up to five,
`duplicate_delivery: {illegal: 0}` limits one part of a kind.

Each kind has one rule, tested on a violating, a clean and a near-miss ledger. A vectorised rule is implemented twice:
in this folder, and as plain dicts and loops in the test oracle. A check that examined nothing, although the scenario
contains something to examine, is inconclusive. How the audit works: [`checks`](../README.md).
"""
_SHARES = """Counted per share group (KIP-932). Rules of the read path and of groups do not apply to it: its members
take records of one partition side by side, in no order, and commit no offsets. A share group goes with other consumers.

The range of a group begins at the start of the log with `share.auto.offset.reset=earliest`. With `latest`, Kafka's
default, the ledger shows it only from the first acquired record on; what was written before is undecided. A record of
an aborted transaction is outside of it with `share.isolation.level=read_committed`. A record that retention deleted is
not in the final log, so it is not lost. The group is past a record if the coordinator's start offset is above it, or if
the coordinator gives no lag (DescribeShareGroupOffsets, KIP-1226).

Kafka keeps locks and delivery counts in the memory of the partition's leader and stores a count when a delivery ends,
so a count is a best effort (KIP-932, `SharePartition`): it may fall back with another leader, or when the last
connection of the group to the leader ends. When the connection of a member ends, its locks end. The rules take both as
legal, as far as the observer or the ledger shows them. While a fault of brokers or of the network is in force, and 10 s
after, a connection may have ended unseen; what depends on that is undecided.

A row is written when a poll returns the record. The broker locked it earlier, and may have given it to a member that
never polled it. The end of a member explains one such acquisition of each record: the member may have fetched it, or
its last fetch was still waiting when it ended. Any other ends with its lock, so it takes the lock duration. What would
need more time than there was is wrong; what fits is undecided. An acquisition does not count, either, if the broker
refuses its acknowledgement (INVALID_RECORD_STATE): the member polled the record when its lock was over. A broker
confirms any acknowledgement below the start offset of the group, also of such a record, so a confirmation alone proves
no delivery.

The fault `share.reset_offsets` makes the group begin again at its offset: records that it accepted before come back by
right, and records before the offset that nobody had acquired are lost to it.

On real brokers, `lost_share` and `stalled_share` appear in shipped scenarios. `overlimit_share`, `lock_overrun`,
`redelivered_share` and `miscounted_share` appear when somebody else changes the groups of a run, which a test does
(`tests/system/test_share_groups.py`): it raises the delivery limit, shortens the lock, and initializes the state of the
share coordinator again. `aborted_share` was found in generated ledgers only.
"""
_PATHS: dict[Path, tuple[str, str]] = {
    "write": ("The write path", "Counted per topic. A record is (producer, seq), whichever incarnation sent it."),
    "read": (
        "The read path",
        "Counted per reader: a group of subscribe consumers, or one assign-mode consumer over all its incarnations.",
    ),
    "group": ("Groups", "Counted per group."),
    "share": ("Share groups", _SHARES),
    "quorum": (
        "The quorum of controllers",
        "Counted for all dedicated controllers together.",
    ),
}
_TIMES = """
## Times

A contract limits each of them by `p50`, `p95`, `p99` or `max`: `produce_unavailability: {max: 30s}`. If a limited time
could not be measured, the run is inconclusive.
"""
_MORE = """
## Other limits of a contract

- `groups: {billing: {members: 2, rebalances: {max: 3}}}`: members and rebalances of a group, from its coordinator.
- `send_failures: {fail: 40, unknown: 0}`: sends that definitely failed, and sends of unknown outcome. Unbounded if left
  out: faults cause both, and neither breaks a guarantee of Kafka. The sentence of a run always names them.
- `send_success: {min: 99.9 %, per: 10s}`: share of acknowledged sends in every window of every topic. A send belongs to
  the window of its call, whenever its outcome came. The windows of a topic follow each other from its first send
  (rounded down to 250 ms). The last one counts with the sends that it has. A window without sends does not count, so
  bound `produce_unavailability` for applications that wait.
- `client_errors: {billing: {GROUP_MAX_SIZE_REACHED: 1}}`: number of clients of an entry that reported such an error.
- `superseded: {prices: {min: 1}}`: acknowledged records of a compacted topic that are not in the log because a later
  record has their key. Without such a bound, a run in which compaction removed nothing of the topic is inconclusive.

- `expired_tombstones: {prices: {min: 1}}`: acknowledged tombstones of a compacted topic that are not in the log because
  `delete.retention.ms` was over.

Every run must meet these conditions, whatever its contract: each fault has its proof, no client ended unless a fault
killed it, the ledger is complete, the log was read back, and records moved while faults were in force.
"""


def page() -> str:
    """Return the page in Markdown."""
    parts = [_HEAD]
    for path, (title, scope) in _PATHS.items():
        kinds = [kind for kind, anomaly in ANOMALIES.items() if anomaly.path == path]
        parts += [f"\n## {title}\n", scope + "\n", *(_section(kind) for kind in kinds)]
    times = ((f"`{name}`", sentence(metric.meaning)) for name, metric in METRICS.items())
    parts += [_TIMES, table(["time", "meaning"], times), _MORE]
    return "\n".join(parts)


def _section(kind: str) -> str:
    anomaly = ANOMALIES[kind]
    facts = [f"- **What prevents it**: {_prevents(anomaly.prevents)}"]
    if anomaly.splits:
        facts += [f"- **Counted apart**: {code(anomaly.splits)}"]
    facts += [f"- **On the wire alone**: {_on_wire(anomaly)}"]
    shown = [link(name, _CATALOGUE) for name in shows(kind)]
    facts += [f"- **Must appear in**: {', '.join(shown) or 'no shipped scenario; tests plant it in ledgers'}"]
    return f"### {kind}\n\n{sentence(anomaly.meaning)}\n\n" + "\n".join(facts) + "\n"


def _on_wire(anomaly: Anomaly) -> str:
    """Return why a capture does not decide an anomaly, or how far its number may differ from the number of ledgers."""
    if anomaly.hidden:
        return anomaly.hidden
    differs = [f"perhaps {word}: {why}" for word, why in (("fewer", anomaly.fewer), ("more", anomaly.more)) if why]
    return "; ".join(["decided", *differs])


def _prevents(text: str) -> str:
    """Return text with settings as code: words that contain a dot or an equals sign."""
    return " ".join(_setting(word) for word in text.split())


def _setting(word: str) -> str:
    core = word.strip("(),:;.")
    if "=" in core or (core.count(".") and not core.endswith(".")):
        return word.replace(core, f"`{core}`")
    return word
