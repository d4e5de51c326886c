"""What the runtimes `kafka-python` and `aiokafka` share: abilities, names of settings, and errors that prove a refusal.

Both libraries have the names of the Java client with underscores, such as auto_offset_reset. A scenario may also give
them with dots.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches

from chaos.clients.java.traits import ASSIGNORS
from chaos.clients.java.traits import MISNAMED as LIBRDKAFKA_TO_JAVA
from chaos.clients.sarama.traits import SENDS as REFUSED_SENDS
from chaos.clients.traits import COMMITS as REFUSED_COMMITS
from chaos.clients.traits import OWN_POSITIONS, SENDING, Ability, refusals
from chaos.kafka.settings import Config, Scalar, as_text

ASSIGNOR_CLASSES = {
    "RangePartitionAssignor": "range",
    "RoundRobinPartitionAssignor": "roundrobin",
    "StickyPartitionAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
"""The assignors by the names of their classes, with the names that they have in the group protocol."""

_PROGRAM = (
    *("bootstrap_servers", "client_id", "group_id", "group_instance_id", "enable_auto_commit", "max_poll_records"),
    *("transactional_id", "transaction_timeout_ms", "consumer_timeout_ms", "default_offset_commit_callback", "loop"),
    *("key_serializer", "value_serializer", "key_deserializer", "value_deserializer", "security_protocol"),
)
RESERVED = frozenset(form for name in _PROGRAM for form in (name, name.replace("_", ".")))
RESERVED_PARTS = ("ssl_", "sasl_", "ssl.", "sasl.")

SENDS = {
    **REFUSED_SENDS,
    **refusals(
        ("limits",),
        MESSAGE_TOO_LARGE="each attempt carried this batch, or a larger one that was split",
        RECORD_LIST_TOO_LARGE="as MESSAGE_TOO_LARGE, against the segment size",
    ),
}
"""Refusals of sends. Both libraries put a batch back as it was (`reenqueue`), and report the last error."""

COMMITS = {
    **REFUSED_COMMITS,
    **refusals(("attempt",), CommitFailedError="the coordinator refused the member or its generation, or nobody asked"),
}
"""Refusals of commits. The libraries repeat a commit after `retry_backoff_ms`, so a refusal within that time answers
the only attempt. CommitFailedError stands for refusals of a member; later releases name the one."""

ABILITIES: tuple[Ability, ...] = (
    "produce",
    "tombstones",
    "values of the user",
    "arrivals",
    "ignore reports",
    "timestamps of the application",
    *SENDING,
    "subscribe",
    "pattern",
    "poll interval",
    "assign",
    "seek",
    "wrong clock",
    "checkpoint",
    "checkpoint interval",
    "commits after processing",
    "asynchronous commits",
    "commit outcomes",
    "encrypted keys",
    *OWN_POSITIONS,
)
"""What the programs do with either library, in all its releases."""

LACKS: dict[Ability, str] = {
    "sticky partitioner": "records without a key go to random partitions",
    "library partitioner": "the names are librdkafka's; use round_robin or by_key_number",
    "workers": "its group consumer processes in one thread",
    "reset to none": "its programs end with the error; leave it out",
    "assignment without group.id": "that is what each of its consumers in assign mode without a group has",
}
"""Why neither can do something."""


def common(config: Config) -> Config:
    """Return settings by their common names and values; those without one as they are."""
    return {(shared := name.replace("_", ".")): _value(shared, value) for name, value in config.items()}


def _value(name: str, value: Scalar) -> Scalar:
    if name == "acks":
        return "all" if as_text(value) == "-1" else as_text(value)
    if name == "partition.assignment.strategy":
        return ",".join(_assignor(part.strip()) for part in as_text(value).split(","))
    return value


def _assignor(name: str) -> str:
    """Return the protocol name of an assignor, also of one that is given as a class of Python or of Java."""
    short = name.rpartition(".")[2]
    return ASSIGNOR_CLASSES.get(short) or ASSIGNORS.get(short, name)


def misnamed(own: frozenset[str]) -> dict[str, str]:
    """Return settings of librdkafka and Java that a library with the settings `own` has under another name, or not."""
    names = {name: java.replace(".", "_") for name, java in LIBRDKAFKA_TO_JAVA.items()}
    names |= {"partitioner": "", "partitioner.class": "", "group.protocol": ""}
    return {name: new if new in own else "" for name, new in names.items() if name.replace(".", "_") not in own}


def unknown_among(own: frozenset[str]) -> Callable[[str], str]:
    """Return the function that says why a name is none of the settings `own`."""

    def unknown(name: str) -> str:
        plain = name.replace(".", "_")
        if plain in own:
            return ""
        near = get_close_matches(plain, own, 1, 0.8)
        return f"did you mean {near[0]}?" if near else "see the settings of its producer and its consumer"

    return unknown
