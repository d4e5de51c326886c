"""What others are told of a DAG run: assets that say the verdict, and notifiers where it is not a pass.

**Assets.** Each scenario has two. `aftershock/<scenario>/verdict` gets an event at the end of every run, with the
verdict, its sentence and the run in `extra`: for a DAG that wants to know, whatever it is. `aftershock/<scenario>/pass`
gets one only when the verdict is a pass: for a DAG that may go on only then, and with
`schedule=[Asset("aftershock/leader-kill/pass")]` needs no look into `extra` and cannot forget it. An event for a pass
alone would leave the first waiting for ever; one for each verdict alone would start the second after a failure.

**Notifiers.** A DAG run that is not `success` calls `Notifier` once, as the DAG's `on_failure_callback`: a failed or an
inconclusive verdict fails the run, and so does a task that broke off. It writes a line to `notifications.jsonl` in the
folder of the runs, and calls every notifier that the Airflow variable `aftershock_notifiers` names (JSON), such as

    [{"notifier": "airflow.providers.smtp.notifications.smtp.SmtpNotifier", "to": "oncall@example.org",
      "from_email": "aftershock@example.org", "subject": "{{ headline }}", "html_content": "{{ message }}"}]

Any class of Airflow's `BaseNotifier` will do (Slack, Apprise, PagerDuty, ...); its templated arguments may use
`headline`, `message`, `verdict`, `sentence`, `report` and all of Airflow's. One that fails keeps none of the others
from being called.
"""

from __future__ import annotations

import html
import json
import os
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from airflow.sdk import Asset, BaseNotifier, Variable

VARIABLE = "aftershock_notifiers"
BEGAN = "began"
"""The XCom by which a task tells its run directory as soon as there is one: it may break off before it returns it."""
LOG = "notifications.jsonl"
LAST_WORDS = "the run broke off before its verdict; see the log of the task that failed"


def asset(scenario: str, what: str) -> Asset:
    """The asset of a scenario's verdicts (`verdict`), or of its passes (`pass`)."""
    # no URI of its own: another DAG's Asset(name) would then be another asset of this name, of which one gets inactive
    return Asset(f"aftershock/{scenario}/{what}")


def handed_on(ti: Any, first: str) -> str | None:
    """The run directory that the first task made; None if it made none."""
    # not as an argument of the task that asks: if the first one broke off, that would fail it as well
    found = ti.xcom_pull(task_ids=first) or ti.xcom_pull(task_ids=first, key=BEGAN)
    return str(found) if found else None


def told(run_dir: str | None) -> dict[str, Any]:
    """What there is to tell of a run, or of an A/B scenario's whole: without a result it is inconclusive."""
    from chaos.errors import RunDirError
    from chaos.run.directory import Run, read_json

    found: dict[str, Any] = {
        "verdict": "inconclusive",
        "sentence": LAST_WORDS,
        "run_id": "",
        "run_dir": "",
        "report": "",
    }
    if not run_dir:
        return found
    run = Run(Path(run_dir))
    found |= {"run_id": run.run_id, "run_dir": str(run.path)}
    try:
        of_gate = run.path / "gate.json"
        result = read_json(of_gate if of_gate.exists() else run.result, "result")
    except RunDirError:
        return found
    found |= {name: result[name] for name in ("verdict", "sentence", "seed", "command") if name in result}
    return found | {"report": str(run.report)}


class Notifier(BaseNotifier):  # type: ignore[misc] # Airflow is not typed for mypy here
    """Tells of a DAG run that is not a success. runs_dir: where its line is written, unless a param says otherwise."""

    def __init__(self, scenario: str, first: str, runs_dir: str) -> None:
        super().__init__()
        self.scenario, self.first, self.runs_dir = scenario, first, runs_dir

    def notify(self, context: Any) -> None:
        """Write the line, then call every notifier of the variable."""
        words = self._words(context)
        line = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "scenario": self.scenario, **words}
        ours = {name: html.escape(words[name]) for name in _OURS}
        trouble = []
        for one in self._others():
            try:
                _call(dict(one), {**context, **ours})
            except Exception as e:
                trouble.append(f"{one.get('notifier') if isinstance(one, dict) else one}: {type(e).__name__}: {e}")
                self.log.exception("a notifier failed")
        folder = Path(_params(context).get("runs_dir") or self.runs_dir)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / LOG).open("a", encoding="utf-8") as f:
            f.write(json.dumps({**line, "failed_notifiers": trouble} if trouble else line) + "\n")
        self.log.warning("%s", words["headline"])

    def _words(self, context: Any) -> dict[str, str]:
        found = told(self._run_dir(context))
        headline = f"{found['verdict']}: {self.scenario}"
        message = f"{headline}. {found['sentence']}" + (f" Report: {found['report']}" if found["report"] else "")
        run = {"dag_run": str(context.get("run_id", "")), "run_dir": found["run_dir"], "report": found["report"]}
        words = {"headline": headline, "message": message, "verdict": found["verdict"], "sentence": found["sentence"]}
        return {**words, **run}

    def _run_dir(self, context: Any) -> str | None:
        """What the first task handed on; None if it never did."""
        ti = context.get("ti")
        try:
            return handed_on(ti, self.first) if ti is not None else None
        except Exception:
            self.log.exception("the run directory is not known")
            return None

    def _others(self) -> list[Any]:
        try:
            given = Variable.get(VARIABLE, default="[]")
            others = json.loads(given) if isinstance(given, str) else given
            return others if isinstance(others, list) else [others]
        except Exception:
            self.log.exception("the variable %s is not a JSON list of notifiers", VARIABLE)
            return []


def _call(given: dict[str, Any], context: Any) -> None:
    """Make one notifier from its dotted path and arguments, and call it."""
    module, _, name = str(given.pop("notifier")).rpartition(".")
    getattr(import_module(module), name)(**given)(context)


_OURS = ("headline", "message", "verdict", "sentence", "report", "run_dir")
"""What a notifier's arguments may use beside what Airflow offers (`dag_run`, `ti`, ...). It is escaped, for names of
topics may hold markup, and mails and chats render it."""


def _params(context: Any) -> dict[str, Any]:
    """The params of the DAG run as far as they are given; a callback may get none."""
    run = context.get("dag_run")
    return dict(getattr(run, "conf", None) or {})


def default_runs_dir(project: Path) -> str:
    """Where run directories are made unless a param says so."""
    return os.environ.get("AFTERSHOCK_RUNS") or str(project / "runs")
