"""The contract of a scenario: what may, must and must not appear.

The contract is closed: an anomaly kind that is not named must be zero. `{min: 1}` says that it has to appear.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BeforeValidator, Field, create_model, model_validator

from chaos.anomalies import ANOMALIES, METRICS
from chaos.scenario.names import ClientName, GroupId
from chaos.scenario.triggers import Strict
from chaos.units import Duration


class Bound(Strict):
    """A closed range of counts. A plain number n means exactly n."""

    min: int = Field(0, ge=0)
    max: int | None = Field(None, ge=0, description="no upper bound when left out")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.max is not None and self.max < self.min:
            raise ValueError(f"max {self.max} is below min {self.min}")
        return self

    def holds(self, count: int) -> bool:
        """Whether a count is within."""
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
ErrorWords = Annotated[str, Field(min_length=1, max_length=200)]
ZERO = Bound(min=0, max=0)
ANY = Bound(min=0, max=None)


class DuplicateDelivery(Strict):
    """Redeliveries, counted apart: from a legal start position, or not."""

    legal: Count = ANY
    illegal: Count = ZERO


class TimeBound(Strict):
    """Upper bounds of a measured time over all faults, groups or records."""

    p50: Duration | None = None
    p95: Duration | None = None
    p99: Duration | None = None
    max: Duration | None = None


class GroupBound(Strict):
    """What the group coordinator showed of a group, sampled all through the drive."""

    members: Count = Field(ANY, description="the most members at once")
    rebalances: Count = Field(ANY, description="rebalances after the group had first formed")


def _duplicates(value: Any) -> Any:
    """A plain number bounds both parts: `duplicate_delivery: 0`."""
    return {"legal": value, "illegal": value} if isinstance(value, int) else value


_anomaly_fields: dict[str, Any] = {
    kind: (Count, Field(ZERO, description=anomaly.meaning)) for kind, anomaly in ANOMALIES.items() if not anomaly.splits
}
_anomaly_fields["duplicate_delivery"] = (
    Annotated[DuplicateDelivery, BeforeValidator(_duplicates)],
    Field(DuplicateDelivery(legal=ZERO, illegal=ZERO), description=ANOMALIES["duplicate_delivery"].meaning),
)
_metric_fields: dict[str, Any] = {
    name: (TimeBound | None, Field(None, description=metric.meaning)) for name, metric in METRICS.items()
}


class _Contract(Strict):
    groups: dict[GroupId, GroupBound] = Field({}, description="by group id")
    client_errors: dict[ClientName, dict[ErrorWords, Count]] = Field(
        {},
        description="by the name of an entry, and by words such as GROUP_MAX_SIZE_REACHED: how many of its clients "
        "reported an error with these words",
    )

    def counts(self) -> dict[tuple[str, str], Bound]:
        """Every anomaly count that is bounded: (kind, split) -> bound; split is empty for a kind without splits."""
        bounds: dict[tuple[str, str], Bound] = {}
        for kind, anomaly in ANOMALIES.items():
            value = getattr(self, kind)
            for split in anomaly.splits or ("",):
                bounds[kind, split] = getattr(value, split) if split else value
        return bounds

    def times(self) -> dict[tuple[str, str], float]:
        """Every time that is bounded: (metric, statistic) -> seconds."""
        return {
            (metric, stat): limit
            for metric in METRICS
            if (bound := getattr(self, metric)) is not None
            for stat in ("p50", "p95", "p99", "max")
            if (limit := getattr(bound, stat)) is not None
        }


if TYPE_CHECKING:

    class Expect(_Contract):
        """What mypy sees of the model below."""

else:
    Expect = create_model(
        "Expect", __base__=_Contract, __doc__="What must hold. " + __doc__, **_anomaly_fields, **_metric_fields
    )
    """The model of `expect:`, with one field per anomaly kind and per bounded time."""
