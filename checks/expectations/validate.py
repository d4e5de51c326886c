"""Validation of a run against its contract, with Great Expectations on Spark, and its Data Docs.

Each GX class bounds one column of a row that has all values: the maximum of a column of one row is its value, and GX
computes all column aggregates of a batch in one Spark job. The audit holds the logic; GX states, runs and publishes the
rules. GX returns its results in another order than the suite's; the column identifies the term.
"""

from __future__ import annotations

import html
import logging
import os
import shutil
from collections.abc import Iterable
from typing import Any

os.environ["GX_ANALYTICS_ENABLED"] = "False"  # read when the package is imported

import great_expectations as gx
from great_expectations.expectations.core import ExpectColumnMaxToBeBetween

from chaos.anomalies import ANOMALIES, METRICS, PHRASES
from chaos.run.directory import Run
from chaos.run.result import Expectation
from chaos.scenario.resolve import Resolved
from checks.expectations.contract import Term, terms
from checks.expectations.datadocs import make_self_contained
from checks.expectations.judge import Observation, Outcome, judge
from checks.expectations.measure import Measure
from checks.spark.session import tuned

SUITE = "contract"
_MEANINGS = {
    **{phrases.rule: f"Number of findings: {ANOMALIES[check].meaning}." for (check, _), phrases in PHRASES.items()},
    **{metric.rule: f"Time {metric.meaning}." for metric in METRICS.values()},
    "SendFailures": "Sends of all producers with the given outcome.",
    "SendSuccess": "Lowest share of acknowledged sends in a window of a topic, in millionths.",
    "GroupMembers": "Highest number of members that the coordinator reported at one time.",
    "Rebalances": "Generations of a group after it had first formed.",
    "ClientErrors": "Clients of an entry that reported an error with the given text.",
    "SupersededRecords": "Acknowledged records of a compacted topic that compaction removed.",
    "ExpiredTombstones": "Acknowledged tombstones of a compacted topic that compaction removed after their time.",
    "RackFetches": "Share in percent of the Fetch requests of a consumer that went to brokers in its rack.",
    "FaultProofs": "A fault took effect: a change was observed from outside the injector.",
    "StagesBrokenOff": "Stages of the drive that failed or never ended.",
    "RowsMissingFromAudit": "Rows of the ledger that the audit did not read.",
    "UnexplainedTornBytes": "Torn bytes in ledger files of clients that were not killed on purpose.",
    "UnexpectedClientDeaths": "Clients that died although no fault killed them.",
    "DoubledIncarnations": "Incarnations of a client that were started more than once.",
    "PartitionsReadBack": "Partitions of the final log that were read back.",
    "RecordsSent": "Records that the producers sent, whatever their outcome.",
    "RecordsAcknowledged": "Acknowledged records of the topic with the fewest.",
    "RecordsDelivered": "Delivered records of the reader with the fewest.",
}


CLASSES: dict[str, Any] = {
    rule: type(f"Expect{rule}ToBeBetween", (ExpectColumnMaxToBeBetween,), {"__module__": __name__, "__doc__": meaning})
    for rule, meaning in _MEANINGS.items()
}
"""The GX classes by `Term.rule`: one for each kind of term, so that a suite and its Data Docs read as the contract."""


def suite_of(contract: Iterable[Term]) -> gx.ExpectationSuite:
    """Return terms of a contract as a GX suite, with one expectation for each."""
    return gx.ExpectationSuite(name=SUITE, expectations=[_rule(term) for term in contract])


def validate(spark: Any, run: Run, resolved: Resolved) -> list[Expectation]:
    """Evaluate the suite on the observed values, write the GX project with its Data Docs, and judge each term.

    Terms that are not applicable are no part of the suite, so that no page counts them; the Data Docs list them.
    """
    measure = Measure(run, resolved)
    observed = [(term, measure.observe(term)) for term in terms(resolved)]
    applying = [(term, value) for term, value in observed if value.applies]
    frame = _one_row(spark, applying)
    with tuned(spark):
        outcomes = _run_suite(run, suite_of(term for term, _ in applying), frame)
    make_self_contained(run.gx, {term.name: value.reason for term, value in observed if not value.applies})
    missing = Outcome(success=False, observed=None, exception="GX returned no result for it")
    return judge([(term, value, outcomes.get(term.column, missing)) for term, value in observed])


def _rule(term: Term) -> Any:
    return CLASSES[term.rule](
        column=term.column,
        min_value=term.at_least,
        max_value=term.at_most,
        # GX renders it with string.Template and without escaping, and a group id may contain any character
        description=html.escape(f"{term.name}: {term.expected}").replace("$", "$$"),
        meta={"check": term.check, "split": term.split, "scope": term.scope, "condition": term.condition},
    )


def _one_row(spark: Any, observed: Iterable[tuple[Term, Observation]]) -> Any:
    from pyspark.sql.types import LongType, StructField, StructType

    values = {term.column: observation.value for term, observation in observed}
    schema = StructType([StructField(column, LongType()) for column in values])
    return spark.createDataFrame([tuple(values.values())], schema).coalesce(1)


def _run_suite(run: Run, suite: gx.ExpectationSuite, frame: Any) -> dict[str, Outcome]:
    """Run the suite in a new GX project in the run directory, and return the outcome of each column."""
    shutil.rmtree(run.gx, ignore_errors=True)
    logging.getLogger("great_expectations").setLevel(logging.ERROR)
    context = gx.get_context(mode="file", project_root_dir=run.path)
    context.variables.progress_bars = {"globally": False}
    asset = context.data_sources.add_spark("audit", persist=False).add_dataframe_asset("summary")
    batch = asset.add_batch_definition_whole_dataframe("run")
    definition = gx.ValidationDefinition(name=SUITE, data=batch, suite=context.suites.add(suite))
    checkpoint = gx.Checkpoint(
        name=SUITE,
        validation_definitions=[context.validation_definitions.add(definition)],
        actions=[gx.checkpoint.UpdateDataDocsAction(name="data_docs")],
        result_format="BASIC",
    )
    result = context.checkpoints.add(checkpoint).run(
        batch_parameters={"dataframe": frame}, run_id=gx.RunIdentifier(run_name=run.run_id)
    )
    (validation,) = result.run_results.values()
    return {r.expectation_config.kwargs["column"]: _outcome(r) for r in validation.results}


def _outcome(result: Any) -> Outcome:
    return Outcome(bool(result.success), result.result.get("observed_value"), _exception(result.exception_info or {}))


def _exception(info: dict[str, Any]) -> str:
    """Return the message of the exception, if any; GX nests them by metric if a metric failed."""
    if "raised_exception" in info:
        return str(info["exception_message"] or "an exception without a message") if info["raised_exception"] else ""
    messages = [_exception(inner) for inner in info.values() if isinstance(inner, dict)]
    return next((m.splitlines()[0] for m in messages if m), "")
