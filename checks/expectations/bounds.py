"""The custom expectations of Great Expectations: a number in a table of the audit lies between two bounds.

| expectation | table | number |
|---|---|---|
| `ExpectFindingsToBeBetween` | `summary` | findings of a kind of anomaly, over all topics and readers |
| `ExpectTimeToBeBetween` | `metrics` | longest value of a statistic of a measured time, in microseconds |
| `ExpectEffectsToBeBetween` | `effects` | effects of a kind (missing, duplicate, ...), over all inputs |
| `ExpectTimeToEffectToBeBetween` | `effects` | percentile of the times from acknowledgement to effect, in us |
| `ExpectObservationToBeBetween` | `observations` | an observed value: sends, groups, errors, faults, the platform |

`effects` is the joined table of inputs and effects (`audit/effect_inputs`): a row for each input with what it has, and
for each id of an effect that no input has. GX sums its columns: a row of it may have several effects too many.

Rows that the audit could not decide make a number a range: the findings, up to the findings and these rows. An
expectation holds if the whole range lies between its bounds, and is violated if none of it does. A range across a bound
is neither, and no more is a number that the tables cannot give, for a reason in the parameter `unknown`; the details of
the result tell these cases apart. The severity says what a violation means: `critical` breaks the contract, `warning`
makes the run inconclusive.
"""

from __future__ import annotations

import html
from typing import Any, ClassVar

import numpy as np
from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.execution_engine import PandasExecutionEngine
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.metrics.metric_provider import metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider

from checks.effects.tables import JUDGED, OPEN, SPANS, STATISTICS, nearest_rank, span

Row = dict[str, Any]
Range = tuple[int, int] | None
"""The least and the greatest possible value; None if the table has no value."""
ROWS = "table.rows_of_a_term"
OF_EFFECT, TIMES = "table.numbers_of_an_effect", "table.times_to_an_effect"
UNLIMITED = 2**63


class RowsOfATerm(TableMetricProvider):  # type: ignore[misc]
    """The rows of a table that have the values of the parameters with the names of its columns."""

    metric_name = ROWS
    value_keys = ("check", "split", "scope", "metric", "stat")

    @metric_value(engine=PandasExecutionEngine)  # type: ignore[untyped-decorator]
    def _pandas(
        cls,
        execution_engine: PandasExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> list[Row]:
        frame, _, _ = execution_engine.get_compute_domain(metric_domain_kwargs, domain_type=MetricDomainTypes.TABLE)
        for column, value in metric_value_kwargs.items():
            if value is not None:
                frame = frame[frame[column].fillna("") == value]
        found: list[Row] = frame.to_dict("records")
        return found


def _of_effect(engine: PandasExecutionEngine, domain: dict[str, Any], effect: str) -> Any:
    """Return the rows of an effect in the joined table."""
    frame, _, _ = engine.get_compute_domain(domain, domain_type=MetricDomainTypes.TABLE)
    mine = frame["effect"] == effect
    return frame if mine.all() else frame[mine]  # without a copy of millions of rows


class NumbersOfAnEffect(TableMetricProvider):  # type: ignore[misc]
    """The sums of the columns of all kinds, and the number of inputs and other ids: one pass for all expectations."""

    metric_name = OF_EFFECT
    value_keys = ("effect",)

    @metric_value(engine=PandasExecutionEngine)  # type: ignore[untyped-decorator]
    def _pandas(
        cls,
        execution_engine: PandasExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> Row:
        rows = _of_effect(execution_engine, metric_domain_kwargs, metric_value_kwargs["effect"])
        return {"rows": len(rows)} | {name: int(rows[name].sum()) for name in JUDGED if name not in SPANS}


class TimesToAnEffect(TableMetricProvider):  # type: ignore[misc]
    """A percentile of the times to an effect, by nearest rank in whole ms: the least and the most that it may be."""

    metric_name = TIMES
    value_keys = ("effect", "stat")

    @metric_value(engine=PandasExecutionEngine)  # type: ignore[untyped-decorator]
    def _pandas(
        cls,
        execution_engine: PandasExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> list[int]:
        rows = _of_effect(execution_engine, metric_domain_kwargs, metric_value_kwargs["effect"])
        share = STATISTICS[metric_value_kwargs["stat"]]
        times = [-(-rows[name].dropna().to_numpy("int64") // 1000) * 1000 for name in SPANS]
        return [int(np.partition(of, rank)[rank]) for of in times if len(of) for rank in [nearest_rank(share, len(of))]]


class _Bounds(BatchExpectation):  # type: ignore[misc]
    """Bounds of a number; a subclass has the parameters that select its rows, and reads the number from them."""

    min_value: int = 0
    max_value: int | None = None
    unknown: str = ""

    metric_dependencies: ClassVar[tuple[str, ...]] = (ROWS,)
    success_keys: ClassVar[tuple[str, ...]] = (
        *(*RowsOfATerm.value_keys, "effect", "kind", "without_id"),
        *("min_value", "max_value", "unknown"),
    )

    def _validate(
        self, metrics: dict[str, Any], runtime_configuration: dict[str, Any] | None = None, execution_engine: Any = None
    ) -> dict[str, Any]:
        found = None if self.unknown else self.range_of(metrics[self.metric_dependencies[0]])
        details: dict[str, Any] = {"violated": False, "least": None}
        if found is None:
            text = html.escape(f"not known: {self.unknown or 'the table has no value'}")
            return {"success": False, "result": {"observed_value": text, "details": details}}
        least, most = found
        highest = UNLIMITED if self.max_value is None else self.max_value
        details = {"violated": most < self.min_value or highest < least, "least": least}
        value = least if least == most else f"{least:,} to {most:,}"
        holds = self.min_value <= least and most <= highest
        return {"success": holds, "result": {"observed_value": value, "details": details}}

    def range_of(self, rows: Any) -> Range:
        """Return the range of the number that the rows hold, or what else the metric has."""
        raise NotImplementedError


def _values(rows: list[Row], column: str) -> list[int]:
    """Return the values of a column, without the missing ones, which pandas has as NaN."""
    return [int(row[column]) for row in rows if row[column] == row[column]]


class ExpectFindingsToBeBetween(_Bounds):
    """Findings of a kind of anomaly (check, split) are between two numbers, over all topics and readers."""

    check: str
    split: str = ""

    def range_of(self, rows: list[Row]) -> Range:
        """Return the findings, up to the findings and the rows that could not be decided."""
        found = sum(int(row["count"]) for row in rows)
        return found, found + sum(int(row["undecided"]) for row in rows)


class ExpectTimeToBeBetween(_Bounds):
    """The longest value of a statistic (`max`, `p99`, ...) of a time is between two numbers of microseconds."""

    metric: str
    stat: str

    def range_of(self, rows: list[Row]) -> Range:
        """Return the longest value of all scopes and faults; None if nothing was measured."""
        values = _values(rows, "value_us")
        return (max(values), max(values)) if values else None


class ExpectEffectsToBeBetween(_Bounds):
    """Effects of a kind (`missing`, `duplicate`, `unexpected`, `wrong`) are between two numbers, over all inputs.

    without_id: rows of the source without an id, which may be any effect.
    """

    effect: str
    kind: str
    without_id: int = 0

    metric_dependencies: ClassVar[tuple[str, ...]] = (OF_EFFECT,)

    def range_of(self, numbers: Row) -> Range:
        """Return the number, up to the number and what could not be decided; None if the effect has no row."""
        if not numbers["rows"]:
            return None
        return span(self.kind, numbers[self.kind], numbers[f"{self.kind}{OPEN}"], self.without_id)


class ExpectTimeToEffectToBeBetween(_Bounds):
    """A percentile (`p50`, `p95`, `p99`, `max`) of the times to an effect is between two numbers of microseconds."""

    effect: str
    stat: str

    metric_dependencies: ClassVar[tuple[str, ...]] = (TIMES,)

    def range_of(self, times: list[int]) -> Range:
        """Return the least and the greatest possible value; None if nothing was measured."""
        return (times[0], times[1]) if len(times) == len(SPANS) else None


class ExpectObservationToBeBetween(_Bounds):
    """An observed value (check, split, scope) is between two numbers."""

    check: str
    split: str = ""
    scope: str = ""

    def range_of(self, rows: list[Row]) -> Range:
        """Return the value of the one row; None if it has none."""
        values = _values(rows, "value")
        return (values[0], values[0]) if len(values) == 1 else None
