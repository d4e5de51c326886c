"""The DAG `release_gate`: a matrix of scenarios, releases and settings, a task for each cell, and one answer.

    prepare -> plan -> run_cell (mapped: one task for each cell) -> verdict

`prepare` checks the gate, its baseline and every cell before anything starts, and fixes the seed. Each `run_cell` runs
all repetitions of its cell on a cluster, and is deferred meanwhile. It waits for a slot of the pool and of
AFTERSHOCK_CLUSTERS (see `provider.slots`), and fails if its cell broke a contract or is inconclusive. `verdict`
judges all stored runs including times, writes campaign.json, summary.md, junit.xml and report.html, and fails unless
the gate passes; a missing cell makes it inconclusive. No run is tried again.

Here, cells run one after another or in parallel, so their times are measured at different moments. `python -m chaos
gate` goes through all cells in each repetition, which compares them more fairly.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
# Airflow puts the DAG folder on the path, if anything: not when it only looks into a bag of DAGs
sys.path.insert(0, str(PROJECT))  # checkout only

from airflow.sdk import DAG, Param, task  # noqa: E402
from airflow.sdk.exceptions import AirflowFailException  # noqa: E402

from chaos.scenario.shipped import gates  # noqa: E402
from dags.provider.forms import folder_params, seed_param  # noqa: E402
from dags.provider.operators import AftershockGateOperator  # noqa: E402
from dags.provider.outcome import Notifier, add_links, default_runs_dir, task_failure  # noqa: E402
from dags.provider.slots import POOL  # noqa: E402
from dags.provider.workers import queue_arguments  # noqa: E402

RUNS = default_runs_dir()
PARAMS = {
    "gate": Param(
        "upgrade-3.9-to-4.3",
        type="string",
        minLength=1,
        title="Gate",
        examples=list(gates()),
        description="The name of a shipped gate, or a YAML file.",
    ),
    "baseline": Param(
        None, type=["null", "string"], title="Baseline", description="A stored campaign.json of the same matrix."
    ),
    "repeat": Param(
        None,
        type=["null", "integer"],
        minimum=1,
        maximum=1000,
        title="Runs of each cell",
        description="The number of the gate when left out.",
    ),
    "seed": seed_param(),
    **folder_params(RUNS, "gate"),
}


def request(params: dict[str, Any], *, into: Path | None = None, resume: Path | None = None) -> Any:
    """Return the request of a DAG run's params. into, resume: the folder of the gate, new or prepared."""
    from chaos.campaign.gate.gate import GateRequest

    baseline = Path(params["baseline"]) if params["baseline"] is not None else None
    return GateRequest(
        runs_dir=Path(params["runs_dir"]),
        gate=params["gate"],
        baseline=baseline,
        repeat=params["repeat"],
        seed=params["seed"],
        into=into,
        resume=resume,
    )


@task(retries=0)
def prepare(params: dict[str, Any]) -> str:
    """Check everything, write the plan into a new folder, and return the folder."""
    from chaos.campaign.gate.gate import open_folder, plan_gate
    from chaos.run.directory import new_run_id

    folder = Path(params["runs_dir"]).absolute() / (params["run_id"] or new_run_id("gate"))
    with task_failure():
        open_folder(*plan_gate(request(params, into=folder)))
    return str(folder)


@task(retries=0)
def plan(folder: str) -> list[dict[str, Any]]:
    """Return the number and the name of each cell; each becomes a task."""
    from chaos.campaign.folder import Folder

    axes = ("scenario", "kafka", "client", "settings")
    cells = Folder.open(Path(folder), "gate").plan.parts
    return [{"cell": n, "cell_name": ", ".join(cell[axis] for axis in axes)} for n, cell in enumerate(cells, start=1)]


@task(retries=0, trigger_rule="all_done")
def verdict(folder: str, params: dict[str, Any]) -> str:
    """Judge the stored runs and write the result. Fails unless the gate passes."""
    from chaos.campaign.folder import Folder
    from chaos.campaign.gate.gate import judge_gate, plan_gate

    with task_failure():
        judge, _ = plan_gate(request(params, resume=Path(folder)))
        result = judge_gate(judge, Folder.open(Path(folder), "gate"))
    if result.verdict != "pass":
        raise AirflowFailException(f"{result.verdict}: {result.sentence} See {folder}/report.html")
    return folder


with DAG(
    "release_gate",
    description="A matrix of scenarios, releases and settings, compared with a reference",
    schedule=None,
    catchup=False,
    dag_display_name="Release gate: a matrix of scenarios, releases and settings",
    doc_md=__doc__,
    default_args=queue_arguments(),
    params=PARAMS,
    tags=["gate"],
    on_failure_callback=Notifier("release_gate", "prepare", RUNS),
) as dag:
    where = prepare()
    cells = AftershockGateOperator.partial(
        task_id="run_cell",
        options={"resume": where},
        runs_dir="{{ params.runs_dir }}",
        deferrable=True,
        map_index_template="{{ task.cell_name }}",
        retries=0,
        **POOL,  # the scheduler sees no argument that the operator adds to itself when it is mapped
    ).expand_kwargs(plan(where))
    cells >> verdict(where)
add_links(dag, RUNS, "prepare")
