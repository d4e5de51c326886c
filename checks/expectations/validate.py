"""Holding a run against its contract: Great Expectations on Spark, with Data Docs for a person to read.

All numbers stand in one row, a column each, so that GX needs one Spark job for all rules together. GX's results come in
another order than the suite's; the column tells whose each is.
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

from chaos.run.directory import Run
from chaos.run.result import Expectation
from chaos.scenario.resolve import Resolved
from checks.expectations.classes import CLASSES
from checks.expectations.contract import Term, terms
from checks.expectations.datadocs import make_self_contained
from checks.expectations.judge import Outcome, judge
from checks.expectations.measure import Measure
from checks.expectations.seen import Seen
from checks.spark.session import tuned

SUITE = "contract"


def suite_for(resolved: Resolved) -> gx.ExpectationSuite:
    """The contract of a scenario as a GX suite, one named expectation for each term."""
    return gx.ExpectationSuite(name=SUITE, expectations=[_rule(term) for term in terms(resolved)])


def validate(spark: Any, run: Run, resolved: Resolved) -> list[Expectation]:
    """Run the suite over the run's numbers, write the GX project with its Data Docs, and judge each term."""
    measure = Measure(run, resolved)
    agreed = [(term, measure.seen(term)) for term in terms(resolved)]
    frame = _one_row(spark, agreed)
    with tuned(spark):
        outcomes = _run_suite(run, suite_for(resolved), frame)
    missing = Outcome(success=False, observed=None, exception="GX returned no result for it")
    return judge([(term, seen, outcomes.get(term.column, missing)) for term, seen in agreed])


def _rule(term: Term) -> Any:
    return CLASSES[term.gx_class](
        column=term.column,
        min_value=term.at_least,
        max_value=term.at_most,
        # GX shows it through string.Template and unescaped, and a group id may hold anything
        description=html.escape(f"{term.name}: {term.expected}").replace("$", "$$"),
        meta={"check": term.check, "split": term.split, "scope": term.scope, "condition": term.condition},
    )


def _one_row(spark: Any, agreed: Iterable[tuple[Term, Seen]]) -> Any:
    from pyspark.sql.types import LongType, StructField, StructType

    values = {term.column: seen.value for term, seen in agreed}
    schema = StructType([StructField(column, LongType()) for column in values])
    return spark.createDataFrame([tuple(values.values())], schema).coalesce(1)


def _run_suite(run: Run, suite: gx.ExpectationSuite, frame: Any) -> dict[str, Outcome]:
    """Run it in a GX project of the run's own, made anew, and return each column's outcome."""
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
    make_self_contained(run.gx)
    (validation,) = result.run_results.values()
    return {r.expectation_config.kwargs["column"]: _outcome(r) for r in validation.results}


def _outcome(result: Any) -> Outcome:
    return Outcome(bool(result.success), result.result.get("observed_value"), _exception(result.exception_info or {}))


def _exception(info: dict[str, Any]) -> str:
    """The message of an exception; GX nests them by metric where the metric failed."""
    if "raised_exception" in info:
        return str(info["exception_message"] or "an exception without a message") if info["raised_exception"] else ""
    messages = [_exception(inner) for inner in info.values() if isinstance(inner, dict)]
    return next((m.splitlines()[0] for m in messages if m), "")
