"""The contract of a scenario: the anomalies that may, must and must not appear.

The contract is closed: an anomaly kind that is not named must be zero. `{min: 1}` requires at least one. With
`promised`, `chaos.guarantees.contract` derives the kinds that are not named from the settings and the faults. The
contracts of a published bug (`Bug`) say what shows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    create_model,
    model_serializer,
    model_validator,
)

from chaos.anomalies import ANOMALIES, METRICS
from chaos.setup.names import EntryName, GroupId, PlainName, Spelled, TopicName
from chaos.setup.triggers import Strict
from chaos.units import Duration, Percent


class Bound(Strict):
    """A closed range of counts. A plain number n means exactly n."""

    min: int = Field(0, ge=0)
    max: int | None = Field(None, ge=0, description="no upper bound if left out")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.max is not None and self.max < self.min:
            raise ValueError(f"max {self.max} is below min {self.min}")
        return self

    def holds(self, count: int) -> bool:
        """Return whether a count is within the range."""
        return self.min <= count and (self.max is None or count <= self.max)

    def describe(self) -> str:
        """Return the bound as text, such as `0`, `at least 1`, `1 to 5` or `any number`."""
        if self.max == self.min:
            return str(self.min)
        if self.max is None:
            return f"at least {self.min}" if self.min else "any number"
        return f"{self.min} to {self.max}" if self.min else f"at most {self.max}"


def _exactly(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return {"min": value, "max": value}
    return value


Count = Annotated[Bound, BeforeValidator(_exactly)]
ErrorText = Annotated[str, Field(min_length=1, max_length=200)]
WINDOW_STEP_US = 250_000
"""Resolution of the times of sends that the audit keeps; see `checks.audit.engine.time_buckets`."""
ZERO = Bound(min=0, max=0)
ANY = Bound(min=0, max=None)


class Duplicates(Strict):
    """Bounds for duplicates: legal ones, which the position of the group explains, and illegal ones."""

    legal: Count = ANY
    illegal: Count = ZERO


class TimeBound(Strict):
    """Upper bounds of a measured time, over all faults, groups or records."""

    p50: Duration | None = None
    p95: Duration | None = None
    p99: Duration | None = None
    max: Duration | None = None


class GroupBound(Strict):
    """Bounds for a group, sampled from its coordinator during the drive."""

    members: Count = Field(ANY, description="maximum number of members at a time")
    rebalances: Count = Field(ANY, description="rebalances after the group first formed")


class SendFailures(Strict):
    """Bounds for sends without an acknowledgement. Unbounded if left out: a refusal breaks no guarantee of Kafka."""

    fail: Count = Field(ANY, description="sends that definitely failed: the record was never appended")
    unknown: Count = Field(ANY, description="sends of unknown outcome")


class SendSuccess(Strict):
    """Lower bound of the share of sends that are acknowledged, in every window of every topic.

    A send belongs to the window of its call, whenever its outcome came. The windows of a topic follow each other from
    its first send. The last one ends with the last send and counts like the others. A window without sends does not
    count: for an application that waits, bound `produce_unavailability`.
    """

    min: Percent = Field(description="such as 99.9 %")
    per: Duration = Field(description="length of a window, such as 10s: a multiple of 250ms")

    @model_validator(mode="after")
    def _in_steps(self) -> Self:
        steps = self.per * 1_000_000 / WINDOW_STEP_US
        if steps < 1 or abs(steps - round(steps)) > 1e-6:
            raise ValueError("per must be a multiple of 250ms, such as 10s")
        return self


class EffectBound(Strict):
    """Bounds for an effect, over all inputs."""

    missing: Count = Field(ZERO, description="effects that acknowledged inputs lack")
    duplicate: Count = Field(ZERO, description="effects of an input beyond those that it is to have")
    unexpected: Count = Field(ZERO, description="effects without an input, or of one that was definitely not written")
    wrong: Count = Field(ZERO, description="effects with a value that is neither the input's nor the aggregate's")
    late: TimeBound | None = Field(
        None, description="time from the acknowledgement of an input to its effect, to the last one if it has several"
    )
    behind: Count | None = Field(
        None,
        description="inputs that were acknowledged when a fault came, and had no effect yet, at the fault with most of "
        "them: what would be lost if all ended there (RPO)",
    )
    at_least_once: bool = Field(
        False,
        description="whether work may be repeated where `explore` crashes the application or loses an answer: then any "
        "number of duplicates, or of wrong values of an aggregate, is allowed; the bounds beside it are for the faults "
        "of the scenario",
    )


def _duplicates(value: Any) -> Any:
    """A plain number bounds both parts: `duplicate_delivery: 0`."""
    return {"legal": value, "illegal": value} if isinstance(value, int) else value


_anomaly_fields: dict[str, Any] = {
    kind: (Count, Field(ZERO, description=anomaly.meaning)) for kind, anomaly in ANOMALIES.items() if not anomaly.splits
}
_anomaly_fields |= {
    kind: (
        Annotated[Duplicates, BeforeValidator(_duplicates)],
        Field(Duplicates(legal=ZERO, illegal=ZERO), description=anomaly.meaning),
    )
    for kind, anomaly in ANOMALIES.items()
    if anomaly.splits
}
_metric_fields: dict[str, Any] = {
    name: (TimeBound | None, Field(None, description=metric.meaning)) for name, metric in METRICS.items()
}


class _Contract(Strict):
    promised: bool = Field(
        False,
        description="derive each anomaly that is not named from the settings and the faults; `expect: promised` is "
        "short for it, and so is no `expect`",
    )
    groups: dict[GroupId, GroupBound] = Field({}, description="by group id")
    send_failures: SendFailures = Field(SendFailures(), description="sends of all producers, by outcome")
    send_success: SendSuccess | None = Field(None, description="share of acknowledged sends over time")
    client_errors: dict[EntryName, dict[ErrorText, Count]] = Field(
        {},
        description="by the name of an entry and a text such as GROUP_MAX_SIZE_REACHED: the number of its clients that "
        "reported an error with this text; with a minimum, a client may end with such an error",
    )

    effects: dict[PlainName, EffectBound] = Field(
        {}, description="by the name of an effect; one that is left out has no missing, duplicate, unexpected or wrong"
    )
    superseded: dict[TopicName, Count] = Field(
        {},
        description="by compacted topic: acknowledged records that are not in the log because a later record has their "
        "key; if left out, a run in which compaction removed nothing of a compacted topic is inconclusive",
    )
    expired_tombstones: dict[TopicName, Count] = Field(
        {},
        description="by compacted topic: acknowledged tombstones that are not in the log because delete.retention.ms "
        "was over; any number if left out",
    )

    def demands_error(self, entry: str, error: str) -> bool:
        """Return whether a client of an entry may end with this error; see `client_errors`."""
        return any(bound.min > 0 and text in error for text, bound in self.client_errors.get(entry, {}).items())

    def __eq__(self, other: object) -> bool:
        """Return whether both say the same. With `promised`, a named bound differs from one that is left out."""
        same = super().__eq__(other)
        if same is True and self.promised and isinstance(other, _Contract):
            return self.model_fields_set == other.model_fields_set
        return same

    __hash__ = Strict.__hash__

    @model_serializer(mode="wrap")
    def _only_named(self, serialize: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
        """Leave out what is not named together with `promised`: it is derived again, and a default would be a bound."""
        data: dict[str, Any] = serialize(self)
        if not self.promised:
            return data
        named = {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}
        return {
            name: data.get(name, value.model_dump(mode=info.mode) if isinstance(value, BaseModel) else value)
            for name, value in named.items()
            if value is not None
        } | {"promised": True}

    def counts(self) -> dict[tuple[str, str], Bound]:
        """Return the bound of every count by (kind, split), without derived ones: see `chaos.guarantees.contract`.

        The split is empty for a kind without splits.
        """
        limits, bounds = dict(self), dict[tuple[str, str], Bound]()
        for kind, anomaly in ANOMALIES.items():
            for split in anomaly.splits or ("",):
                bounds[kind, split] = dict(limits[kind])[split] if split else limits[kind]
        return bounds

    def effect_counts(self) -> dict[tuple[str, str], Bound]:
        """Return the bound of every count of a named effect by (effect, kind), such as `("invoices", "missing")`."""
        return {
            (name, kind): bound
            for name, bounds in self.effects.items()
            for kind, bound in bounds
            if isinstance(bound, Bound)
        }

    def times(self) -> dict[tuple[str, str], float]:
        """Return the bound in seconds of every bounded time by (metric, statistic)."""
        limits = dict(self)
        return {
            (metric, statistic): seconds
            for metric in METRICS
            for statistic, seconds in limits[metric] or ()
            if seconds is not None
        }


if TYPE_CHECKING:

    class Expect(_Contract):
        """The model below, for mypy."""

else:
    Expect = create_model("Expect", __base__=_Contract, __doc__=__doc__, **_anomaly_fields, **_metric_fields)
    """The model of `expect:`, with one field per anomaly kind and per bounded time."""


PROMISED = "promised"


def _promised(value: Any) -> Any:
    """Read `expect: promised`. Raises `ValueError` for another text, or for no value."""
    if value == PROMISED:
        return {PROMISED: True}
    if value is None or isinstance(value, str | int | float | list):
        what = "without a value" if value is None else f"{value!r} is not understood"
        raise ValueError(f"{what}; write promised, {{}} if no anomaly may appear, or anomalies with their bounds")
    return value


Expected = Annotated[Expect, BeforeValidator(_promised, json_schema_input_type=Expect | Literal["promised"])]
"""The value of `expect:`."""


AFFECTED, FIXED = "affected", "fixed"
"""The names of the variants of a bug."""


class Measured(Strict):
    """How often the runs of each variant showed the bug, on the given release of Kafka's brokers."""

    kafka: str
    runs: int = Field(ge=1, description="conclusive runs of each variant")
    affected: int = Field(ge=0, description="runs of the affected variant that show the bug")
    fixed: int | None = Field(None, ge=0, description="runs of the fixed variant that break its contract")
    day: Annotated[str, Spelled(r"^\d{4}-\d\d-\d\d$", "a day such as 2026-11-21")] = Field(
        description="the day of the last run"
    )


class Bug(Strict):
    """A published bug. The variant `affected` has to show it by its contract; the variant `fixed` must not."""

    id: str = Field(min_length=1, description="such as KAFKA-17754, or librdkafka 4249")
    affected: str = Field(description="the releases and settings that have it")
    fixed: str | None = Field(None, description="the releases or settings without it; none is known if left out")
    sources: list[Annotated[str, Field(min_length=1)]] = Field(min_length=1)
    measured: Measured | None = None
