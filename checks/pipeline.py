"""The stages of the checks, each callable on its own: the command line and the DAGs call the same ones.

    readback -> audit -> validate -> report -> verdict

Results pass from one to the next in the run directory only. A stage that begins removes what later ones had made of
its old results, so that no verdict outlives what it was based on. In one process the stages share one Spark session.
"""

from __future__ import annotations

import socket
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from chaos.errors import AftershockError, ClusterError, RunDirError
from chaos.run.directory import Run, read_json, write_atomically
from chaos.run.events import Event, EventLog
from chaos.run.result import Expectation, Result
from chaos.scenario.resolve import read as read_resolved
from checks.report.junit import junit
from checks.spark import progress
from checks.verdict.decision import collect

Listener = Callable[[Event], None]
CONNECT_TIMEOUT_S = 3.0
_EXPECTATIONS = TypeAdapter(list[Expectation])


def readback(run: Run, *, master: str | None = None, listener: Listener | None = None) -> None:
    """Read the final log from the healed cluster into the ledger; nothing to do where that was done."""
    with _stage(run, "readback", listener):
        if (run.ledger / "log_range.parquet").exists() and (run.ledger / "log").is_dir():
            return
        if run.where != str(run.path):
            raise RunDirError(f"the log of {run.where} was never read back; that is done where the cluster runs")
        _forget(run, _validation(run))
        bootstrap = _bootstrap(run)
        from checks.readback.stage import read_back

        read_back(_spark(master), run, read_resolved(run), bootstrap)


def audit(run: Run, *, master: str | None = None, listener: Listener | None = None) -> None:
    """Derive the findings from the ledger."""
    with _stage(run, "audit", listener):
        _forget(run, _validation(run))
        from checks import audit as auditing

        spark = _spark(master)
        with progress.told(spark, "audit", listener):
            auditing.audit(spark, run, read_resolved(run))


def validate(run: Run, *, master: str | None = None, listener: Listener | None = None) -> list[Expectation]:
    """Hold the findings against the scenario's contract and keep the outcome in `validation.json`."""
    with _stage(run, "validate", listener):
        _forget(run, _validation(run))
        from checks.expectations import validate as validating

        expectations = validating.validate(_spark(master), run, read_resolved(run))
        write_atomically(_validation(run), _EXPECTATIONS.dump_json(expectations, indent=1).decode())
    return expectations


def report(run: Run, *, listener: Listener | None = None) -> Result:
    """Write result.json, junit.xml and report.html from whatever the earlier stages left."""
    with _stage(run, "report", listener):
        _forget(run)
        resolved = read_resolved(run)
        result = collect(run, resolved, _validated(run))
        _save(run, result)
        from checks.report.html import write_report

        write_report(run, result, resolved)
    return result


def verdict(run: Run) -> Result:
    """The result that `report` wrote."""
    raw = read_json(run.result, "result of the checks")
    try:
        return Result.model_validate(raw)
    except ValidationError as e:
        raise RunDirError(f"{run.result} is not one of this version ({e.error_count()} errors); report again") from None


@contextmanager
def _stage(run: Run, name: str, listener: Listener | None) -> Iterator[None]:
    """Record a stage. A failure becomes an inconclusive result.json and one line; its traceback is logged."""
    try:
        with EventLog(run, listener).stage(name):
            try:
                yield
            except AftershockError as e:
                _log(run, name)
                raise type(e)(_where(run, str(e))) from e
            except Exception as e:
                _log(run, name)
                if known := _cluster_trouble(run, e):
                    raise ClusterError(known) from e
                first = (str(e).strip() or "no message").splitlines()[0][:300]
                words = f"{name} crashed ({type(e).__name__}: {first}); the traceback is in {run.logs / 'checks.log'}"
                raise AftershockError(words) from e
    except AftershockError:
        if name != "report":
            _save_failure(run)
        raise


def _where(run: Run, words: str) -> str:
    """Words of a run that is elsewhere name its place, not that of the working copy."""
    return words.replace(str(run.path), run.where)


def _cluster_trouble(run: Run, error: Exception) -> str:
    """What a Spark cluster can do to a stage, in one line; empty for anything else."""
    from checks.spark import executors

    return executors.trouble(run, error)


def _save_failure(run: Run) -> None:
    """An inconclusive result that names the stage, from whatever can be read of the run."""
    _forget(run)
    try:
        _save(run, collect(run, read_resolved(run), []))
    except Exception:  # noqa: BLE001 - the stage's own failure is what the caller has to see
        _log(run, "result of the failure")


def _save(run: Run, result: Result) -> None:
    write_atomically(run.result, result.model_dump_json(indent=1))
    write_atomically(run.junit, junit(result))


def _forget(run: Run, *more: Path) -> None:
    for path in (run.result, run.junit, run.report, *more):
        path.unlink(missing_ok=True)


def _validation(run: Run) -> Path:
    return run.path / "validation.json"


def _validated(run: Run) -> list[Expectation]:
    if not _validation(run).exists():
        return []
    return _EXPECTATIONS.validate_python(read_json(_validation(run), "outcome of the validation"))


def _bootstrap(run: Run) -> str:
    """Where the cluster answers. Raises `RunDirError` if it does not any more: the log cannot be had then."""
    cluster = read_json(run.cluster, "description of the cluster") if run.cluster.exists() else {}
    bootstrap = str(cluster.get("bootstrap") or "") if isinstance(cluster, dict) else ""
    if not any(_answers(address) for address in bootstrap.split(",")):
        raise RunDirError(
            f"the log of {run.path} was never read back, and its cluster is gone ({bootstrap or 'no address'} does not "
            "answer): run the scenario again, or copy ledger/log and ledger/log_range.parquet of the same run"
        )
    return bootstrap


def _answers(address: str) -> bool:
    host, _, port = address.strip().rpartition(":")
    if not port.isdigit():
        return False
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_TIMEOUT_S):
            return True
    except OSError:
        return False


def _spark(master: str | None) -> Any:
    """The one session of this process."""
    from checks.spark.session import spark_session

    return spark_session(master)


def _log(run: Run, stage: str) -> None:
    run.logs.mkdir(exist_ok=True)
    with (run.logs / "checks.log").open("a", encoding="utf-8") as f:
        f.write(f"{stage}\n{traceback.format_exc()}\n")
