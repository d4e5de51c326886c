"""The DAG `prove`: whether the promises of an application hold, under the faults that could break them.

Its task runs the sets of faults within the budget, and is deferred meanwhile. It waits for a slot of the pool and of
AFTERSHOCK_CLUSTERS (see `provider.slots`), and fails unless every tested promise held. The folder has campaign.json,
report.html and the card. Airflow tries nothing again: trigger the DAG with `resume` to continue.
"""

from __future__ import annotations

import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
# Airflow puts the DAG folder on the path, if anything: not when it only looks into a bag of DAGs
sys.path.insert(0, str(PROJECT))  # checkout only

from airflow.sdk import DAG, Param  # noqa: E402

from dags.provider.forms import folder_params, seed_param  # noqa: E402
from dags.provider.operators import AftershockProveOperator  # noqa: E402
from dags.provider.outcome import Notifier, default_runs_dir  # noqa: E402

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

with DAG(
    "prove",
    description="Whether the promises of an application hold, under the faults that could break them",
    schedule=None,
    catchup=False,
    dag_display_name="Prove: whether the promises of an application hold",
    doc_md=__doc__,
    params=PARAMS,
    tags=["prove"],
    on_failure_callback=Notifier("prove", "prove", RUNS),
    render_template_as_native_obj=True,
) as dag:
    AftershockProveOperator(
        task_id="prove",
        app="{{ params.app }}",
        runs_dir="{{ params.runs_dir }}",
        run_id="{{ params.run_id }}",
        options={
            "for": "{{ params.budget }}",
            **{name: f"{{{{ params.{name} }}}}" for name in ("most", "seed", "baseline", "resume")},
        },
        deferrable=True,
    )
