"""The plugin of Airflow: the web pages as a nav entry, and the report of a run as a tab of its DAG run and its tasks.

Airflow finds it by the entry point of the package, or in this folder as its plugins folder. Every process of Airflow
loads plugins, but only the API server needs the pages; so they are imported with the first request.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from airflow.plugins_manager import AirflowPlugin

PROJECT = Path(__file__).resolve().parents[2]
PREFIX = "/aftershock"
URL = "AFTERSHOCK_RUNS_URL"
"""An environment variable: where the runs are, if not on a disk of the API server."""
RUN_KEYS = ("began", "return_value")
"""XCom keys of a task that makes a run directory, in the order of their begin."""
FIRST_TASKS = ("deploy", "prepare")
"""Tasks that return the directory of a DAG run."""


class Pages:
    """The ASGI application, made with the first request."""

    def __init__(self) -> None:
        self._app: Any = None
        self._making = asyncio.Lock()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle a request."""
        async with self._making:
            if self._app is None:  # in a thread: the imports take seconds, and Airflow has other requests
                self._app = await asyncio.to_thread(make_app)
        await self._app(scope, receive, send)


def make_app() -> Any:
    """Return the pages, for users of Airflow who may read DAG runs."""
    sys.path.insert(0, str(PROJECT))  # checkout only
    from chaos.pages.app import create_app
    from chaos.pages.local import open_folder
    from chaos.pages.site import Site
    from dags.provider.outcome import default_runs_dir

    runs = Path(default_runs_dir())
    site = Site(open_folder(os.environ.get(URL) or str(runs), runs), os.environ.get("AFTERSHOCK_HISTORY") or None)
    return create_app(site, [_access()], run_dir_of)


def _access() -> Any:
    """Return a dependency that refuses users who may not read DAG runs, in general and of the DAG in the address."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
    from airflow.api_fastapi.core_api.security import get_user
    from fastapi import Depends, HTTPException, Request

    def check(request: Request, user: Annotated[Any, Depends(get_user)]) -> None:
        dag_id = request.path_params.get("dag_id")  # never one of the query, which the user chooses
        allowed = get_auth_manager().is_authorized_dag(
            method="GET",
            access_entity=DagAccessEntity.RUN,
            details=DagDetails(id=dag_id) if dag_id else None,
            user=user,
        )
        if not allowed:
            raise HTTPException(403, "your role may not read DAG runs")

    return Depends(check)


def run_dir_of(dag_id: str, run_id: str, task_id: str) -> str | None:
    """Return the run directory of a DAG run; of its variant in a group of tasks. None if there is none yet."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    group = task_id.rpartition(".")[0]
    tasks = [task_id, *([f"{group}.deploy_side"] if group else FIRST_TASKS)]  # an operator makes its own directory
    query = XComModel.get_many(run_id=run_id, dag_ids=dag_id, task_ids=tasks)
    with create_session() as session:
        values = {(x.task_id, x.key): XComModel.deserialize_value(x) for x in session.scalars(query)}
    for key in RUN_KEYS:
        for task in tasks:
            if isinstance(found := values.get((task, key)), str):
                return found
    return None


def _view(destination: str, address: str, route: str, **more: Any) -> dict[str, Any]:
    return {"name": "Aftershock", "href": address, "destination": destination, "url_route": route, **more}


def _base() -> str:
    """Return the address of the pages below the base URL of Airflow."""
    from urllib.parse import urlsplit

    from airflow.configuration import conf

    path = urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")
    return quote(path) + PREFIX


_OF_RUN = f"{_base()}/of/{{DAG_ID}}/{{RUN_ID}}/"


class AftershockPlugin(AirflowPlugin):  # type: ignore[misc] # Airflow is not typed for mypy here
    """The pages of Aftershock in Airflow."""

    name = "aftershock"
    fastapi_apps = [{"app": Pages(), "url_prefix": PREFIX, "name": "Aftershock"}]
    external_views = [
        _view("nav", f"{_base()}/", "aftershock", nav_top_level=True),
        _view("dag_run", _OF_RUN, "aftershock-run"),
        _view("task_instance", f"{_OF_RUN}task/{{TASK_ID}}", "aftershock-task"),
    ]
