"""What a ledger row has to contain, beyond the types of `schemas`: required columns, and columns with known values."""

from __future__ import annotations

REQUIRED: dict[str, tuple[str, ...]] = {
    "sends": ("producer", "incarnation", "seq", "topic", "outcome", "invoked_us", "completed_us"),
    "transactions": ("producer", "incarnation", "txn", "outcome", "began_us", "ended_us"),
    "deliveries": (
        *("consumer", "incarnation", "mode", "ordinal", "topic", "partition", "offset"),
        *("polled_us", "processed_us"),
    ),
    "commits": (
        *("consumer", "incarnation", "mode", "topic", "partition", "offset", "kind", "outcome"),
        *("requested_us", "completed_us"),
    ),
    "assignments": ("consumer", "incarnation", "mode", "event", "assignment", "topic", "partition", "at_us"),
    "acquisitions": (
        *("consumer", "incarnation", "group", "ordinal", "topic", "partition", "offset", "delivery_count"),
        "acquired_us",
    ),
    "acknowledgements": (
        *("consumer", "incarnation", "group", "ordinal", "topic", "partition", "offset", "type", "outcome"),
        *("requested_us", "completed_us"),
    ),
    "lifecycle": ("client", "role", "incarnation", "event", "detail", "at_us"),
}
"""Columns that are never null, for the tables that clients write. All other columns may be null."""

OUTCOMES = ("ok", "fail", "unknown")
MODES = ("subscribe", "assign")

VALUES: dict[str, dict[str, tuple[str, ...]]] = {
    "sends": {"outcome": OUTCOMES},
    "transactions": {"outcome": ("committed", "aborted", "unknown")},
    "deliveries": {"mode": MODES},
    "commits": {"mode": MODES, "outcome": OUTCOMES, "kind": ("sync", "async", "auto", "transaction")},
    "assignments": {
        "mode": MODES,
        "event": ("assigned", "revoked", "lost", "seek", "position", "checkpoint"),
        "source": ("committed", "reset", "start", "checkpoint", "seek"),
    },
    "acquisitions": {},
    "acknowledgements": {"type": ("accept", "release", "reject"), "outcome": OUTCOMES},
    "lifecycle": {
        "role": ("producer", "consumer"),
        "event": ("started", "stopped", "crashed", "error", "slowed", "resumed"),
    },
}
"""Columns with a closed set of values, null aside where the column may be null."""
