"""The DAG `release_gate`: a matrix of scenarios, releases and settings, a task for each cell, and one answer.

    prepare -> plan -> run_cell (one for each cell, mapped when the gate is known) -> verdict

`prepare` checks the gate, its baseline and every cell before anything starts, and fixes the seed. Each `run_cell` runs
all repetitions of its cell on a cluster of its own: it takes a slot of the pool for as long, and a place, so that the
clusters of all DAGs together stay within AFTERSHOCK_CLUSTERS (see `aftershock_places`). It is red if its cell broke a
contract or could not tell. `verdict` judges whatever was run, times included, writes gate.json, summary.md, junit.xml
and report.html, and raises unless it is a pass; a cell that is missing makes it inconclusive. No run is tried again.

Cells run one after another here, or beside each other: their times meet another moment of the machine each. `python -m
chaos gate` goes through all cells in each repetition, which is fairer to all of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
# Airflow puts the DAG folder on the path, if anything: not when it only looks into a bag of DAGs
sys.path[:0] = [str(PROJECT), str(PROJECT / "dags")]

from aftershock_outcome import Notifier, default_runs_dir  # noqa: E402
from aftershock_places import POOL, place_for_task  # noqa: E402
from airflow.sdk import DAG, Param, task  # noqa: E402
from airflow.sdk.exceptions import AirflowFailException  # noqa: E402

RUNS = default_runs_dir(PROJECT)
PARAMS = {
    "gate": Param("upgrade-3.9-to-4.3", type="string", minLength=1, description="a shipped gate's name or a YAML file"),
    "baseline": Param(None, type=["null", "string"], description="a stored gate.json of the same matrix"),
    "repeat": Param(
        None, type=["null", "integer"], minimum=1, maximum=1000, description="the gate's own when left out"
    ),
    "seed": Param(None, type=["null", "integer"], minimum=0, description="drawn when left out"),
    "runs_dir": Param(RUNS, type="string", description="where the gate's folder is made"),
    "run_id": Param(None, type=["null", "string"], pattern=r"^[A-Za-z0-9._-]+$", description="made when left out"),
}

MAPPED: dict[str, Any] = {"map_index_template": "{{ name }}", **POOL}


def gate(params: dict[str, Any], folder: str, *asked: str) -> subprocess.CompletedProcess[str]:
    """Run the command; its progress is in the task's log."""
    options = [f"--{name}={params[name]}" for name in ("baseline", "repeat", "seed") if params[name] is not None]
    argv = [sys.executable, "-m", "chaos", "gate", params["gate"], *options, f"--into={folder}", "--json", *asked]
    return subprocess.run(argv, cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)


@task(retries=0)
def prepare(params: dict[str, Any]) -> str:
    """Check everything, note cells and seed in a new folder, and hand that on."""
    from chaos.run.directory import new_run_id

    folder = str(Path(params["runs_dir"]).absolute() / (params["run_id"] or new_run_id("gate")))
    if (done := gate(params, folder, "--plan")).returncode:
        raise AirflowFailException(f"the gate was refused with {done.returncode}; the reason is above, in this log")
    return folder


@task(retries=0)
def plan(folder: str) -> list[int]:
    """The numbers of the cells, each of which becomes a task."""
    noted = json.loads((Path(folder) / "plan.json").read_text(encoding="utf-8"))
    return list(range(1, len(noted["cells"]) + 1))


@task(retries=0, **MAPPED)
def run_cell(cell: int, folder: str, params: dict[str, Any], dag_run: Any = None) -> int:
    """Run every repetition of one cell; the exit code of what its records say."""
    from airflow.sdk import get_current_context

    noted = json.loads((Path(folder) / "plan.json").read_text(encoding="utf-8"))["cells"][cell - 1]
    get_current_context()["name"] = ", ".join(noted[axis] for axis in ("scenario", "kafka", "client", "settings"))
    with place_for_task(dag_run, f"cell {cell}"):
        done = gate(params, folder, f"--cell={cell}")
    if done.returncode:
        raise AirflowFailException(f"cell {cell}: {_sentence(done.stdout)}")
    return done.returncode


@task(retries=0, trigger_rule="all_done")
def verdict(folder: str, params: dict[str, Any]) -> str:
    """Judge what was run, write its files, and raise unless it is a pass."""
    done = gate(params, folder, "--judge")
    if done.returncode:
        raise AirflowFailException(f"{_sentence(done.stdout)} See {folder}/report.html")
    return folder


def _sentence(said: str) -> str:
    try:
        found = json.loads(said)
        return f"{found['verdict']}: {found['sentence']}"
    except (ValueError, KeyError, TypeError):
        return "it broke off; the reason is above, in this log"


with DAG(
    "release_gate",
    description="A matrix of scenarios, releases and settings against what there is now",
    schedule=None,
    catchup=False,
    params=PARAMS,
    tags=["gate"],
    on_failure_callback=Notifier("release_gate", "prepare", RUNS),
) as dag:
    where = prepare()
    cells = run_cell.partial(folder=where).expand(cell=plan(where))
    cells >> verdict(where)
