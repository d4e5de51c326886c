"""What a client library can do, its defaults, settings that contradict each other, and errors that prove a refusal.

A refusal proves that a send or a commit did not happen; every other error of a library is `unknown`.
`Traits.contradictions` of a library is `contradictions`, or a function of the library that calls the parts here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from chaos.kafka.settings import Config, Scalar, as_text
from chaos.settings import Source
from chaos.units import parse_duration

Ability = Literal[
    "produce",
    "transactions",
    "library partitioner",
    "sticky partitioner",
    "tombstones",
    "values of the user",
    "arrivals",
    "timestamps of the application",
    "ignore reports",
    "resending",
    "waiting for answers",
    "several topics",
    "parallel writing",
    "transactions of a size",
    "fencing",
    "throttle times",
    "wrong clock",
    "process",
    "plain processing",
    "commits before outputs",
    "batches of a size",
    "threads of a processor",
    "state of a processor",
    "subscribe",
    "pattern",
    "static membership",
    "poll interval",
    "assignment by the application",
    "cooperative",
    "KIP-848",
    "share groups",
    "rack",
    "threads",
    "workers",
    "assign",
    "seek",
    "resume",
    "assignments in turn",
    "checkpoint",
    "checkpoint interval",
    "checkpoints of a producer",
    "savepoints",
    "session clusters",
    "group offsets",
    "commits after processing",
    "idempotent results",
    "records per poll",
    "fixed partitions",
    "transaction markers",
    "deleted topics",
    "reset to none",
    "assignment without group.id",
    "asynchronous commits",
    "automatic commits in assign mode",
    "commits on checkpoints",
    "encrypted keys",
    "tokens",
    "send outcomes",
    "definite errors",
    "commit outcomes",
    "automatic commit outcomes",
]
"""Something that a scenario can ask of a client."""

OWN_POSITIONS: tuple[Ability, ...] = (
    "group offsets",
    "records per poll",
    "fixed partitions",
    "transaction markers",
    "deleted topics",
)
"""Abilities of a consumer in assign mode if its program holds the positions; with Spark, the library holds them."""

SENDING: tuple[Ability, ...] = (
    "send outcomes",
    "resending",
    "waiting for answers",
    "several topics",
    "transactions of a size",
    "fencing",
)
"""Abilities of a producer with a program that gets the answer to each record; with Flink, only the library gets it."""

REASONS: Mapping[Ability, str] = {
    "assignment by the application": "the client looks up committed offsets itself; leave assign_by out",
    "automatic commit outcomes": "an automatic commit that fails reaches nobody",
    "checkpoint interval": "its programs store offsets with each result",
    "idempotent results": "its programs write a result for each record that they read",
    "KIP-848": "it has only the classic group protocol",
    "process": "it has no program that reads and writes",
    "rack": "its consumers read from leaders",
    "share groups": "only the Java client has KafkaShareConsumer",
    "threads": "each client is a process",
    "throttle times": "its programs do not report them, so the proof of the fault would be missing",
    "timestamps of the application": "its programs leave them to the library",
    "tokens": "its programs get none from an issuer; choose SCRAM-SHA-512",
    "tombstones": "its programs do not write or read the header with their identity",
    "arrivals": "its programs send at a steady rate",
    "values of the user": "its programs write and read only Aftershock's own values",
    "wrong clock": "its programs take times from the clock that they see, so their rows would be wrong too",
}
"""Why a library usually lacks an ability; `Traits.lacks` has other reasons for one library."""

Role = Literal["producer", "consumer"]


ERROR_CODES = {
    **dict(enumerate(("OFFSET_OUT_OF_RANGE", "CORRUPT_MESSAGE", "UNKNOWN_TOPIC_OR_PARTITION"), 1)),
    **dict(enumerate(("LEADER_NOT_AVAILABLE", "NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT"), 5)),
    **dict(enumerate(("MESSAGE_TOO_LARGE", "STALE_CONTROLLER_EPOCH", "OFFSET_METADATA_TOO_LARGE"), 10)),
    **dict(enumerate(("NETWORK_EXCEPTION", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE"), 13)),
    **dict(enumerate(("NOT_COORDINATOR", "INVALID_TOPIC_EXCEPTION", "RECORD_LIST_TOO_LARGE"), 16)),
    **dict(enumerate(("NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "INVALID_REQUIRED_ACKS"), 19)),
    **dict(enumerate(("ILLEGAL_GENERATION", "INCONSISTENT_GROUP_PROTOCOL", "INVALID_GROUP_ID"), 22)),
    **dict(enumerate(("UNKNOWN_MEMBER_ID", "INVALID_SESSION_TIMEOUT", "REBALANCE_IN_PROGRESS"), 25)),
    **dict(enumerate(("INVALID_COMMIT_OFFSET_SIZE", "TOPIC_AUTHORIZATION_FAILED"), 28)),
    **dict(enumerate(("GROUP_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "INVALID_TIMESTAMP"), 30)),
    **dict(enumerate(("POLICY_VIOLATION", "OUT_OF_ORDER_SEQUENCE_NUMBER", "DUPLICATE_SEQUENCE_NUMBER"), 44)),
    **dict(enumerate(("INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE", "INVALID_PRODUCER_ID_MAPPING"), 47)),
    **dict(enumerate(("INVALID_TRANSACTION_TIMEOUT", "CONCURRENT_TRANSACTIONS"), 50)),
    **dict(enumerate(("TRANSACTION_COORDINATOR_FENCED", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"), 52)),
    **{-1: "UNKNOWN_SERVER_ERROR", 35: "UNSUPPORTED_VERSION", 56: "KAFKA_STORAGE_ERROR"},
    **{58: "SASL_AUTHENTICATION_FAILED", 59: "UNKNOWN_PRODUCER_ID"},
    **dict(enumerate(("FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "UNSUPPORTED_COMPRESSION_TYPE"), 74)),
    **{79: "MEMBER_ID_REQUIRED", 81: "GROUP_MAX_SIZE_REACHED", 82: "FENCED_INSTANCE_ID", 87: "INVALID_RECORD"},
    **{88: "UNSTABLE_OFFSET_COMMIT", 89: "THROTTLING_QUOTA_EXCEEDED", 90: "PRODUCER_FENCED"},
    **{69: "GROUP_ID_NOT_FOUND", 78: "OFFSET_NOT_AVAILABLE", 100: "UNKNOWN_TOPIC_ID", 110: "FENCED_MEMBER_EPOCH"},
    **{112: "UNSUPPORTED_ASSIGNOR", 113: "STALE_MEMBER_EPOCH", 120: "TRANSACTION_ABORTABLE"},
}
"""Names of the error codes in the protocol (`org.apache.kafka.common.protocol.Errors`)."""


@dataclass(frozen=True)
class Refusal:
    """An error that proves a refusal, if all attempts have in common what it needs.

    needs: attempt (there is only one), batch (each carries the same records), settings, limits (of the topic and the
    brokers), rights, timestamps (within the limits of brokers). Nothing if any attempt proves it. why: what the proof
    rests on.
    """

    needs: frozenset[str]
    why: str


Refusals = Mapping[str, Refusal]
"""By the name of the error in the protocol (`org.apache.kafka.common.protocol.Errors`)."""


def refusals(needs: Iterable[str], **why: str) -> dict[str, Refusal]:
    """Return refusals with the same needs, by error."""
    return {name: Refusal(frozenset(needs), text) for name, text in why.items()}


COMMITS = refusals(
    ("attempt",),
    ILLEGAL_GENERATION="the group has moved on to another generation",
    UNKNOWN_MEMBER_ID="the coordinator has removed this member",
    REBALANCE_IN_PROGRESS="commits are refused until the member has joined again",
    FENCED_INSTANCE_ID="another process has replaced this static member",
    FENCED_MEMBER_EPOCH="the member's epoch was fenced (KIP-848)",
    STALE_MEMBER_EPOCH="the member's epoch is not the current one (KIP-848)",
    GROUP_AUTHORIZATION_FAILED="checked before anything is written",
    TOPIC_AUTHORIZATION_FAILED="checked before anything is written",
    OFFSET_METADATA_TOO_LARGE="checked before anything is written",
    INVALID_COMMIT_OFFSET_SIZE="checked before anything is written",
    INVALID_GROUP_ID="checked before anything is written",
    COORDINATOR_LOAD_IN_PROGRESS="a coordinator writes nothing while it loads",
    UNKNOWN_TOPIC_OR_PARTITION="the broker has no such partition, so it took no offset",
)
"""Refusals of commits, if it is the only attempt.

NOT_COORDINATOR is none: a coordinator that steps down answers so to commits that it has appended, and the next one may
have them (`CoordinatorRuntime.unload` in Apache Kafka).
"""


IN_FLIGHT = "max.in.flight.requests.per.connection"
OTHER_NAMES = {
    "request.required.acks": "acks",
    "message.send.max.retries": "retries",
    "max.in.flight": IN_FLIGHT,
    "Net.MaxOpenRequests": IN_FLIGHT,
    "message.timeout.ms": "delivery.timeout.ms",
    "queue.buffering.max.ms": "linger.ms",
}
"""Names of settings that `Traits.common` leaves as they are, with the common ones."""


@dataclass(frozen=True)
class Given:
    """The settings of a producer or a consumer. values: by common names. release: None if it is not known."""

    values: Mapping[str, Scalar]
    release: str | None
    producer: bool
    transactional: bool

    def number(self, name: str, default: float) -> float:
        """Return a number of a setting; the default if it is left out, or no number, which has its own message."""
        try:
            return float(self.values.get(name, default))
        except ValueError:
            return default

    @property
    def idempotent(self) -> bool:
        """Whether the settings ask for idempotence."""
        return as_text(self.values.get("enable.idempotence", False)).lower() in ("true", "t", "1")


def contradictions(given: Given) -> Iterator[str]:
    """Yield what contradicts idempotence in each library."""
    if given.producer and given.idempotent:
        yield from _acks(given)


def idempotence(given: Given, on: bool, most: int = 5) -> Iterator[str]:
    """Yield what contradicts idempotence in libraries that also ask for retries and limit requests in flight."""
    if not on:
        return
    yield from _acks(given)
    if given.number("retries", 1) == 0:
        yield "retries=0 contradicts enable.idempotence, which needs retries"
    if (found := given.number(IN_FLIGHT, most)) > most:
        yield f"{found:g} requests in flight contradict enable.idempotence, which allows {most}"


def heartbeats(given: Given) -> Iterator[str]:
    """Yield heartbeats that are no shorter than the session."""
    heartbeat, session = given.number("heartbeat.interval.ms", 3000), given.number("session.timeout.ms", 0)
    if session and heartbeat >= session:
        yield f"heartbeat.interval.ms={heartbeat:g} is not below session.timeout.ms={session:g}"


def _acks(given: Given) -> Iterator[str]:
    if as_text(given.values.get("acks", "all")).lower() not in ("all", "-1"):
        yield f"acks={given.values['acks']} contradicts enable.idempotence, which needs acks=all"


@dataclass(frozen=True)
class Traits:
    """What a runtime can do.

    name: as in a scenario; also the folder of its programs in `chaos.clients`.
    library: the package, as in the versions of a result.
    reported: keys of the detail of the event `started` that hold a release, with the packages that they name.
    releases: the oldest and the newest release that was tried; None if any release is tried at run time.
    abilities: what it can do, with the first release that can; empty for all releases.
    lacks: why it cannot do something else, where a reason helps the user.
    auto_commits: the values of `commit.when` that an automatic commit supports.
    reserved: settings that its programs set. reserved_parts: the beginnings of names of such settings.
    misnamed: settings of another library by the name that this one has for them; empty if it has none.
    settings: the settings that it takes, by role. plugins: settings that name classes of an application, which may read
        settings that the library does not know.
    unknown: returns why a name is no setting of the library; empty if it may be one.
    since: settings, by their common names, that only later releases have, with the first of these.
    common: returns settings by their common names and with common values, which the rules and the audit know.
    contradictions: returns settings with which it does not start, though it takes each of them alone, as clauses.
    long_sessions_since: first release with sessions of 45 s by default (KIP-735); empty if `defaults` has the time-out.
    sticky: the settings that make its partitioner sticky, if it is not so by default.
    careful: the settings of a producer that keep an open bug of the library away, besides acks=all and idempotence.
    starts_reset: whether the start of a consumer in assign mode replaces auto.offset.reset.
    sends, commits: the errors that prove a refusal.
    defaults: returns the values of settings that the scenario leaves out, by common names and by release (None: the
        installed one).
    heap: whether its programs have a heap of a size that can be set.
    least_heap: the smallest heap of its programs, in bytes.
    stores_offsets: whether an automatic commit has the offsets that the programs stored, not the consumer's positions.
    checkpoint_every: seconds between its checkpoints if a scenario does not say it; None if it stores offsets with each
        result.
    isolates: whether a processor with transactions reads committed records only, whatever its settings are.
    rack: the name that its setting client.rack has; empty if no consumer of it reads from followers.
    mixed_assignors: whether eager and cooperative assignors can be given together.
    """

    name: str
    library: str
    reported: Mapping[str, str]
    abilities: Mapping[Ability, str]
    auto_commits: frozenset[str]
    defaults: Callable[[str | None], Config]
    releases: tuple[str, str] | None = None
    lacks: Mapping[Ability, str] = field(default_factory=dict)
    reserved: frozenset[str] = frozenset()
    reserved_parts: tuple[str, ...] = ()
    misnamed: Mapping[str, str] = field(default_factory=dict)
    heap: bool = False
    least_heap: int = 0
    stores_offsets: bool = False
    checkpoint_every: float | None = None
    isolates: bool = False
    rack: str = ""
    mixed_assignors: bool = False
    settings: Mapping[Role, Sequence[Source]] = field(default_factory=dict)
    plugins: frozenset[str] = frozenset()
    unknown: Callable[[str], str] = lambda name: ""
    since: Mapping[str, str] = field(default_factory=dict)
    common: Callable[[Config], Config] = lambda config: config
    contradictions: Callable[[Given], Iterator[str]] = contradictions
    long_sessions_since: str = ""
    sticky: Config = field(default_factory=dict)
    careful: Config = field(default_factory=dict)
    starts_reset: bool = False
    sends: Refusals = field(default_factory=dict)
    commits: Refusals = field(default_factory=dict)

    @property
    def newest(self) -> str | None:
        """The release of an entry that names none; None means the installed one."""
        return self.releases[1] if self.releases else None

    def missing(self, ability: Ability, release: str | None) -> str:
        """Return why a release cannot do something; empty if it can."""
        if ability not in self.abilities:
            return self.lacks.get(ability, REASONS.get(ability, f"{self.library} cannot do it"))
        return self._too_old(self.abilities[ability], release)

    def missing_setting(self, name: str, release: str | None) -> str:
        """Return why a release has no setting with this common name; empty if it may have it."""
        return self._too_old(self.since.get(name, ""), release)

    def _too_old(self, since: str, release: str | None) -> str:
        if since and release is not None and number(release) < number(since):
            return f"{self.library} has it from {since} on, not in {release}"
        return ""

    def release_problem(self, release: str) -> str:
        """Return why a release cannot be chosen; empty if it can."""
        if self.releases and not number(self.releases[0]) <= number(release) <= number(self.releases[1]):
            return f"{self.library} {release} is not supported; choose {self.releases[0]} to {self.releases[1]}"
        return ""


def in_all_releases(*abilities: Ability) -> dict[Ability, str]:
    """Return abilities that every release has, for `Traits.abilities`."""
    return dict.fromkeys(abilities, "")


def number(release: str) -> tuple[int, ...]:
    """Return a release as a tuple of integers, for comparisons."""
    return tuple(int(part) for part in release.split("."))


def by_common_names(config: Config, names: Mapping[str, str], values: Mapping[str, Mapping[str, str]]) -> Config:
    """Return settings by their common names and values; those without one as they are.

    names: common name by the library's name. values: common value by the library's value in lower case, by common
    name. A duration becomes milliseconds, as the common names have them.
    """
    return {names.get(name, name): _value(names.get(name, name), value, values) for name, value in config.items()}


def _value(name: str, value: Scalar, values: Mapping[str, Mapping[str, str]]) -> Scalar:
    text = as_text(value).lower()
    if name in values:
        return values[name].get(text, text)
    if name.endswith(".ms") and isinstance(value, str):
        try:
            return round(parse_duration(value) * 1000)
        except ValueError:
            return value
    return value
