"""A sensor on the verdict of a run that somebody else started: another DAG, a nightly job, a person at a terminal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import BaseSensorOperator
from airflow.sdk.bases.sensor import PokeReturnValue
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowFailException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from dags.provider.outcome import default_runs_dir, summary

VERDICTS = ("pass", "fail", "inconclusive")


def judged(run_dir: str | None, scenario: str | None, runs_dir: str, since: str) -> str | None:
    """Return the directory of a judged run: the given one, or the newest one of a scenario since a time.

    since: ISO 8601, in UTC without a zone. Runs of a scenario come from the history of `runs_dir`.
    """
    from chaos.history.recording import database_url
    from chaos.history.store import RunFilter, Store
    from chaos.run.campaign import RESULT

    if run_dir:
        folder = Path(run_dir)
        return run_dir if any((folder / name).is_file() for name in (RESULT, "result.json")) else None
    store = Store(database_url(Path(runs_dir)))
    if not store.exists():
        return None
    began = datetime.fromisoformat(since)
    began = began if began.tzinfo else began.replace(tzinfo=UTC)
    wanted = RunFilter(scenario=scenario or "", since_us=int(began.timestamp() * 1e6))
    return next((run.run_dir for run in store.page(wanted, 1).runs), None)


class VerdictTrigger(BaseTrigger):  # type: ignore[misc] # Airflow is not typed for mypy here
    """Fires when the run of a sensor is judged. every: seconds between two looks; the rest as `judged`."""

    def __init__(self, run_dir: str | None, scenario: str | None, runs_dir: str, since: str, every: float) -> None:
        super().__init__()
        self.asked, self.every = (run_dir, scenario, runs_dir, since), every

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and its arguments, for the triggerer."""
        names = ("run_dir", "scenario", "runs_dir", "since")
        return f"{__name__}.VerdictTrigger", {**dict(zip(names, self.asked, strict=True)), "every": self.every}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: the directory of the run."""
        while not (found := await asyncio.to_thread(judged, *self.asked)):
            await asyncio.sleep(self.every)
        yield TriggerEvent({"run_dir": found})


class AftershockVerdictSensor(BaseSensorOperator):  # type: ignore[misc] # Airflow is not typed for mypy here
    """Waits for the verdict of a run, and succeeds with a pass.

    run_dir: the run, or the A/B comparison or campaign; else scenario: the newest run in the history of `runs_dir` that
    began after `since`, which is the time of the DAG run if left out. accept: the verdict or verdicts that succeed; any
    other one fails the task, because waiting longer does not change it. The XCom has the same fields as the XCom of an
    operator.
    """

    template_fields: Sequence[str] = ("run_dir", "scenario", "runs_dir", "since")

    def __init__(
        self,
        *,
        run_dir: str | None = None,
        scenario: str | None = None,
        runs_dir: str | None = None,
        since: str = "{{ dag_run.run_after.isoformat() }}",
        accept: str | Sequence[str] = "pass",
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if (run_dir is None) == (scenario is None):
            raise ValueError("name a run_dir or a scenario, and not both")
        self.accept = (accept,) if isinstance(accept, str) else tuple(accept)
        if not self.accept or not set(self.accept) <= set(VERDICTS):
            raise ValueError(f"accept is {accept!r}; it takes one or more of {', '.join(VERDICTS)}")
        self.run_dir, self.scenario, self.runs_dir, self.since = run_dir, scenario, runs_dir, since
        self.deferrable = deferrable

    def execute(self, context: Any) -> Any:
        """Wait in the worker, or defer."""
        if self.deferrable and not judged(*self._asked()):
            trigger = VerdictTrigger(*self._asked(), every=self.poke_interval)
            self.defer(trigger=trigger, method_name="finish", timeout=timedelta(seconds=self.timeout))
        return super().execute(context)

    def poke(self, context: Any) -> Any:
        """Look once."""
        found = judged(*self._asked())
        return PokeReturnValue(is_done=True, xcom_value=self.finish(context, {"run_dir": found})) if found else False

    def finish(self, context: Any, event: Any) -> dict[str, Any]:
        """Return the verdict; fail if it is not accepted."""
        found = summary(event["run_dir"])
        if found["verdict"] not in self.accept:
            raise AirflowFailException(
                f"{found['verdict']}: {found['sentence']} See {found['report'] or found['run_dir']}"
            )
        return found

    def _asked(self) -> tuple[str | None, str | None, str, str]:
        # a template of an XCom that nothing pushed
        if (self.run_dir or self.scenario) in (None, "", "None"):
            name = "scenario" if self.run_dir is None else "run_dir"
            raise AirflowFailException(f"{name} is empty: its template gave {getattr(self, name)!r}")
        return self.run_dir, self.scenario, self.runs_dir or default_runs_dir(), self.since
