"""The DAG `prove`: whether the promises of an application hold, under the faults that could break them.

    prepare -> run -> verdict

`prepare` checks the application and writes the plan into a new folder, or opens the folder of a proof that goes on.
`run` runs the sets of faults within the budget, in a child process that Airflow can kill. It takes a slot of the pool
and of AFTERSHOCK_CLUSTERS (see `provider.slots`). `verdict` judges all stored runs, writes campaign.json, report.html
and the card, and fails unless every tested promise held. Airflow tries nothing again: trigger the DAG with `resume` to
continue.
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

from dags.provider.forms import folder_params, seed_param  # noqa: E402
from dags.provider.outcome import (  # noqa: E402
    Notifier,
    add_links,
    default_runs_dir,
    task_failure,
)
from dags.provider.slots import slot_for_task, slot_task  # noqa: E402
from dags.provider.workers import queue_arguments  # noqa: E402

RUNS = default_runs_dir()
PARAMS = {
    "app": Param(
        None,
        type=["null", "string"],
        minLength=1,
        title="Application",
        description="The app.yaml of the application. Leave it out to continue a proof.",
    ),
    "budget": Param(
        "30m",
        type=["null", "string"],
        title="Budget",
        examples=["10m", "30m", "2h"],
        description="Begin no other run after this time. Without it, there is no limit.",
    ),
    "most": Param(2, type="integer", enum=[1, 2], title="Faults of a set", description="The number of faults at most."),
    "seed": seed_param(),
    "baseline": Param(None, type=["null", "string"], title="Earlier proof", description="Its campaign.json."),
    "resume": Param(
        None, type=["null", "string"], title="Continue", description="The folder of a proof that is continued."
    ),
    **folder_params(RUNS, "proof"),
}


def request(params: dict[str, Any], folder: str | None = None) -> Any:
    """Return the request of a DAG run's params. folder: of the proof, once it is prepared."""
    from chaos.campaign.prove.prove import ProofRequest

    def path(text: str | None) -> Path | None:
        return None if text is None else Path(text)

    runs_dir = Path(params["runs_dir"]).absolute()
    into = runs_dir / params["run_id"] if params["run_id"] and not params["resume"] else None
    return ProofRequest(
        runs_dir=runs_dir,
        app=path(params["app"]),
        budget=params["budget"],
        seed=params["seed"],
        most=params["most"],
        resume=path(folder or params["resume"]),
        into=None if folder else into,
        baseline=path(params["baseline"]),
    )


@task(retries=0)
def prepare(params: dict[str, Any]) -> str:
    """Check everything, write the plan into a new folder or open an earlier one, and return the folder."""
    from chaos.campaign.prove.prove import open_proof, plan_proof

    with task_failure():
        return str(open_proof(*plan_proof(request(params))).folder.path)


@slot_task(retries=0)
def run(folder: str, params: dict[str, Any], dag_run: Any = None) -> None:
    """Run the sets of faults. Fails only if they cannot be run."""
    from chaos.lab.child_call import call
    from chaos.run.proof import ProofResult

    with slot_for_task(dag_run, "proof"), task_failure():
        call("chaos.campaign.prove.prove:prove", request(params, folder), ProofResult)


@task(retries=0, trigger_rule="all_done")
def verdict(folder: str, params: dict[str, Any]) -> str:
    """Judge the stored runs and write the result. Fails unless every tested promise held."""
    from chaos.campaign.prove.prove import judge_proof, open_proof, plan_proof

    with task_failure():
        result = judge_proof(open_proof(*plan_proof(request(params, folder))))
    if result.verdict != "pass":
        raise AirflowFailException(f"{result.verdict}: {result.sentence} See {folder}/report.html")
    return folder


with DAG(
    "prove",
    description="Whether the promises of an application hold, under the faults that could break them",
    schedule=None,
    catchup=False,
    dag_display_name="Prove: whether the promises of an application hold",
    doc_md=__doc__,
    default_args=queue_arguments(),
    params=PARAMS,
    tags=["prove"],
    on_failure_callback=Notifier("prove", "prepare", RUNS),
) as dag:
    where = prepare()
    run(where) >> verdict(where)
add_links(dag, RUNS, "prepare")
