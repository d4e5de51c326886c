"""Validation of a run against its contract: a checkpoint of Great Expectations over the tables of the audit.

The project in the folder `gx` of a run is one as the documentation of Great Expectations builds it: a data source and a
suite for each table (a Parquet file), and a checkpoint that runs the suites and updates the Data Docs. `bounds` has the
custom expectations; with `checks.expectations.bounds` imported, `gx.get_context(mode="file", ...)` opens the project,
and its checkpoint runs again. The tables are small, and pandas reads them: with Spark, each of some fifty expectations
is a job (1.2 s of CPU time became more than a minute). The one that may be large, of inputs and effects, is a folder;
its columns of numbers are read, and summed once for all expectations of an effect.
"""

from __future__ import annotations

import html
import logging
import shutil
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import great_expectations as gx
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from chaos.run.directory import Run
from chaos.run.result import Expectation
from chaos.scenario.resolve import Resolved
from checks.effects.tables import INPUTS, JUDGED
from checks.expectations import bounds
from checks.expectations.contract import Key, Table, Term, terms
from checks.expectations.judge import Observation, Outcome, judge
from checks.expectations.measure import Measure
from checks.expectations.pages import Page, write_index

NAME = "contract"
"""The name of the checkpoint."""
PROJECT = "great_expectations.yml"
"""The file with the settings of a project, here for all runs."""
TABLES: tuple[Table, ...] = get_args(Table)
OBSERVATIONS = pa.schema(
    [("check", pa.string()), ("split", pa.string()), ("scope", pa.string()), ("value", pa.int64())]
)
OF_JOIN = " The table has a row for each input, and for each id of an effect that is of no input."
Observed = list[tuple[Term, Observation]]


def validate(run: Run, resolved: Resolved) -> list[Expectation]:
    """Run the checkpoint, write the project with its Data Docs, and return each expectation with its verdict.

    Terms that are not applicable are no part of a suite, so that no page counts them; the Data Docs list them.
    """
    measure = Measure(run, resolved)
    observed = [(term, measure.observe(term)) for term in terms(resolved)]
    applying = [(term, seen) for term, seen in observed if seen.applies]
    outcomes = _run_checkpoint(run, applying)
    write_index(run.gx, {term.name: seen.reason for term, seen in observed if not seen.applies})
    missing = Outcome(exception="Great Expectations returned no result for it")
    return judge([(term, seen, outcomes.get(term.key, missing)) for term, seen in observed])


def suite_of(table: Table, observed: Iterable[tuple[Term, Observation]]) -> gx.ExpectationSuite:
    """Return the terms about a table as a suite, with one expectation for each."""
    expectations = [expectation_of(term, seen) for term, seen in observed if term.table == table]
    return gx.ExpectationSuite(name=table, expectations=expectations)


def expectation_of(term: Term, seen: Observation) -> Any:
    """Return the expectation of a term."""
    name = f"{term.meaning.rstrip('.')}, for {term.scope}" if term.table == "effects" else term.name
    common = {
        "min_value": term.at_least,
        "max_value": term.at_most,
        "unknown": seen.unknown,
        "severity": "critical" if term.decides(seen.proven) else "warning",
        # GX renders it with string.Template and without escaping, and a group id may contain any character
        "description": html.escape(f"{name}: {term.expected}").replace("$", "$$"),
        "notes": html.escape(f"{term.meaning}{OF_JOIN if term.table == 'effects' else ''}"),
        "meta": {"term": list(term.key)},
    }
    match term.table:
        case "summary":
            return bounds.ExpectFindingsToBeBetween(check=term.check, split=term.split, **common)
        case "metrics":
            return bounds.ExpectTimeToBeBetween(metric=term.check, stat=term.split, **common)
        case "effects":
            if stat := term.split.removeprefix("late ") if term.split.startswith("late ") else "":
                return bounds.ExpectTimeToEffectToBeBetween(effect=term.scope, stat=stat, **common)
            of_kind = {"effect": term.scope, "kind": term.split, "without_id": seen.without_id}
            return bounds.ExpectEffectsToBeBetween(**of_kind, **common)
        case "observations":
            return bounds.ExpectObservationToBeBetween(check=term.check, split=term.split, scope=term.scope, **common)


def _run_checkpoint(run: Run, observed: Observed) -> dict[Key, Outcome]:
    """Make a new project in the run directory, run its checkpoint, and return the outcome of each expectation."""
    shutil.rmtree(run.gx, ignore_errors=True)
    logging.getLogger("great_expectations").setLevel(logging.ERROR)
    run.gx.mkdir()
    project = Path(__file__).with_name(PROJECT).read_text(encoding="utf-8")
    (run.gx / PROJECT).write_text(project.replace("{pages}", Page.__module__), encoding="utf-8")
    context = gx.get_context(mode="file", project_root_dir=run.path)
    context.variables.progress_bars = {"globally": False}
    files = {
        "summary": run.audit / "summary" / "part-0.parquet",
        "metrics": run.audit / "metrics" / "part-0.parquet",
        "effects": run.audit / INPUTS,
        "observations": _write_observations(run.gx / "observations.parquet", observed),
    }
    checkpoint = gx.Checkpoint(
        name=NAME,
        validation_definitions=[
            _definition(context, table, files[table], suite)
            for table in TABLES
            if (suite := suite_of(table, observed)).expectations and _is_readable(files[table])
        ],
        actions=[gx.checkpoint.UpdateDataDocsAction(name="data_docs")],
        result_format="BASIC",
    )
    # without a time, GX takes one from the name if it reads as one, such as `st-20261130-072715-5250`
    run_id = gx.RunIdentifier(run_name=run.run_id, run_time=datetime.now(UTC))
    result = context.checkpoints.add(checkpoint).run(run_id=run_id)
    found = (outcome for validation in result.run_results.values() for outcome in validation.results)
    return {tuple(r.expectation_config.meta["term"]): _outcome(r) for r in found}


def _definition(context: Any, table: Table, file: Path, suite: gx.ExpectationSuite) -> gx.ValidationDefinition:
    if table == "effects":
        source = context.data_sources.add_pandas(table)
        asset = source.add_parquet_asset(table, path=file, columns=["effect", *JUDGED], dtype_backend="pyarrow")
        batch = asset.add_batch_definition_whole_dataframe("run")
    else:
        source = context.data_sources.add_pandas_filesystem(table, base_directory=file.parent)
        batch = source.add_parquet_asset(table).add_batch_definition_path("run", path=file.name)
    definition = gx.ValidationDefinition(name=table, data=batch, suite=context.suites.add(suite))
    return context.validation_definitions.add(definition)


def _write_observations(file: Path, observed: Observed) -> Path:
    """Write the observed values that no table of the audit has."""
    rows = [
        {"check": term.check, "split": term.split, "scope": term.scope, "value": seen.value}
        for term, seen in observed
        if term.table == "observations"
    ]
    pq.write_table(pa.Table.from_pylist(rows, OBSERVATIONS), file)
    return file


def _is_readable(file: Path) -> bool:
    """Return whether a file can be read; an unreadable one must not hide what the other tables show."""
    try:
        ds.dataset(file, format="parquet").count_rows() if file.is_dir() else pq.read_table(file)
    except (pa.ArrowException, OSError):
        return False
    return True


def _outcome(result: Any) -> Outcome:
    details = result.result.get("details") or {}
    return Outcome(
        success=bool(result.success),
        violated=bool(details.get("violated")),
        breaks=result.expectation_config.severity == "critical",
        least=details.get("least"),
        exception=_exception(result.exception_info or {}),
    )


def _exception(info: dict[str, Any]) -> str:
    """Return the message of the exception, if any; GX nests them by metric if a metric failed."""
    if "raised_exception" in info:
        return str(info["exception_message"] or "an exception without a message") if info["raised_exception"] else ""
    messages = [_exception(inner) for inner in info.values() if isinstance(inner, dict)]
    return next((m.splitlines()[0] for m in messages if m), "")
