"""Validation of a run against its contract, with Great Expectations on Spark, and its Data Docs.

All values are columns of one row, so that GX needs one Spark job for all rules. GX returns its results in another order
than the suite's; the column identifies the term.
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
from checks.expectations.observation import Observation
from checks.spark.session import tuned

SUITE = "contract"


def suite_for(resolved: Resolved) -> gx.ExpectationSuite:
    """Return the contract of a scenario as a GX suite, with one expectation for each term."""
    return gx.ExpectationSuite(name=SUITE, expectations=[_rule(term) for term in terms(resolved)])


def validate(spark: Any, run: Run, resolved: Resolved) -> list[Expectation]:
    """Evaluate the suite on the observed values, write the GX project with its Data Docs, and judge each term."""
    measure = Measure(run, resolved)
    observed = [(term, measure.observe(term)) for term in terms(resolved)]
    frame = _one_row(spark, observed)
    with tuned(spark):
        outcomes = _run_suite(run, suite_for(resolved), frame)
    missing = Outcome(success=False, observed=None, exception="GX returned no result for it")
    return judge([(term, value, outcomes.get(term.column, missing)) for term, value in observed])


def _rule(term: Term) -> Any:
    return CLASSES[term.gx_class](
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
    make_self_contained(run.gx)
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
