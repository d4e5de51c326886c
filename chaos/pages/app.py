"""The pages over HTTP, read-only: an ASGI application for `serve` and for the plugin of Airflow."""

from __future__ import annotations

import contextlib
import logging
import socket
import tempfile
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from sqlalchemy.exc import OperationalError
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from chaos.errors import AftershockError, MachineError
from chaos.history.store import RunFilter
from chaos.incident.bundle import SUFFIX, pack
from chaos.pages.folder import REPORT, Found, PageError, RunsFolder
from chaos.pages.site import Site, address, allowed_scripts
from chaos.run.directory import Run

RunDirOf = Callable[[str, str, str], str | None]
"""Returns the run directory of a DAG run or a task (DAG, run, task or empty); None for none yet."""
HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": "no-store"}
_PACKING = threading.Semaphore(1)
log = logging.getLogger(__name__)


def create_app(site: Site, dependencies: Sequence[Any] = (), run_dir_of: RunDirOf | None = None) -> FastAPI:
    """Return the application. dependencies: of FastAPI, for each request; they refuse users without access."""
    app = FastAPI(title="Aftershock", docs_url=None, redoc_url=None, openapi_url=None, dependencies=list(dependencies))
    app.middleware("http")(_with_headers)
    app.exception_handler(PageError)(partial(_problem, site))
    app.exception_handler(HTTPException)(partial(_http_problem, site))
    app.exception_handler(RequestValidationError)(partial(_invalid, site))
    app.exception_handler(OperationalError)(partial(_no_database, site))
    app.exception_handler(Exception)(partial(_crash, site))
    _add_lists(app, site)
    _add_runs(app, site)
    if run_dir_of is not None:
        _add_dag_runs(app, site, run_dir_of)
    _add_rest(app)
    return app


def _add_rest(app: FastAPI) -> None:
    """Refuse every other address and method, after the dependencies: without access, each of them is the same."""

    @app.api_route("/{path:path}", methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
    def rest(request: Request, path: str) -> Response:
        if request.method not in ("GET", "HEAD"):
            raise PageError(405, "Not allowed", "These pages only read.")
        raise PageError(404, "Not found", f"There is no page at {path[:200]!r}.", "The list has all runs.")


def _add_lists(app: FastAPI, site: Site) -> None:
    @app.get("/", include_in_schema=False)
    @app.get("/index.html")
    def runs(
        scenario: str = "", verdict: str = "", kafka: str = "", since: str = "", until: str = "", page: str = "1"
    ) -> HTMLResponse:
        wanted = RunFilter(
            scenario=scenario,
            verdict=verdict,
            kafka=kafka,
            since_us=_day(since, "From"),
            until_us=_day(until, "To", days=1),
        )
        if not page.isdecimal() or not int(page[:9]) >= 1:
            raise PageError(400, "No such page", f"{page[:40]!r} is not the number of a page.")
        values = {"scenario": scenario, "verdict": verdict, "kafka": kafka, "since": since, "until": until}
        query = {name: value for name, value in values.items() if value}
        return HTMLResponse(
            site.runs(wanted, int(page[:9]), pager=lambda number: f"index.html?{urlencode({**query, 'page': number})}")
        )

    @app.get("/campaigns.html")
    def campaigns() -> HTMLResponse:
        return HTMLResponse(site.campaigns())

    @app.get("/runs/trends.html")
    def trends() -> HTMLResponse:
        return HTMLResponse(site.trends())


def _add_runs(app: FastAPI, site: Site) -> None:
    @app.get("/runs/{path:path}/live.json")
    def live(path: str) -> JSONResponse:
        return JSONResponse(site.live(site.folder.directory(path)).model_dump(mode="json"))

    @app.get("/runs/{path:path}/bundle")
    def bundle(path: str) -> FileResponse:
        found = site.folder.directory(path)
        if found.kind != "run":
            raise PageError(404, "No bundle", f"{path} is a {found.kind}; only a run has a bundle.")
        return _bundle(site.folder, found)

    @app.get("/runs/{path:path}")
    def file(request: Request, path: str) -> Response:
        if path.endswith("/" + REPORT) or path == REPORT:
            found = site.folder.directory(path.removesuffix(REPORT).rstrip("/"))
            if REPORT not in site.folder.names(found):
                return HTMLResponse(site.without_report(found))
        try:
            served = site.folder.file(path)
        except PageError:  # the address of a directory, without its report
            found = site.folder.directory(path.rstrip("/"))
            return RedirectResponse(f"{_root(request)}runs/{address(found.path)}/{REPORT}", status_code=303)
        if served.is_report:
            return HTMLResponse(site.report(served))
        return FileResponse(served.path, media_type=served.type)


def _add_dag_runs(app: FastAPI, site: Site, run_dir_of: RunDirOf) -> None:
    """Add the pages that Airflow shows on a DAG run and on a task: the report of the run that it made."""

    @app.get("/of/{dag_id}/{run_id:path}/task/{task_id}")
    def of_task(request: Request, dag_id: str, run_id: str, task_id: str) -> Response:
        return _report_of(request, site, run_dir_of(dag_id, run_id, task_id))

    @app.get("/of/{dag_id}/{run_id:path}/")
    def of_run(request: Request, dag_id: str, run_id: str) -> Response:
        return _report_of(request, site, run_dir_of(dag_id, run_id, ""))


def _report_of(request: Request, site: Site, run_dir: str | None) -> Response:
    if run_dir is None:
        raise PageError(
            404, "No run yet", "This DAG run has made no run directory yet.", "Open this page again when deploy runs."
        )
    path = site.folder.path_of(run_dir)
    if path is None:
        raise PageError(
            404,
            "Not in the folder of the runs",
            f"The run is in {run_dir}, and these pages serve {site.folder.name}.",
            "Use the default runs_dir, or set AFTERSHOCK_RUNS of the API server to its folder.",
        )
    found = site.folder.directory(path)
    return RedirectResponse(f"{_root(request)}runs/{address(found.path)}/{REPORT}", status_code=303)


def _bundle(folder: RunsFolder, found: Found) -> FileResponse:
    """Pack a run into a temporary file, which is removed after it was sent. One at a time: a run may be large."""
    if "result.json" not in folder.names(found):
        raise PageError(409, "No bundle yet", f"{found.name} has no result yet.", "Wait for its verdict.")
    with _PACKING, tempfile.NamedTemporaryFile(prefix="aftershock-", suffix=SUFFIX, delete=False) as file:
        path = Path(file.name)
        try:
            with folder.whole(found) as directory:
                pack(Run(directory), path)
        except (AftershockError, OSError) as e:
            path.unlink(missing_ok=True)
            raise PageError(500, "The bundle cannot be packed", f"{e}.") from None
        except PageError:
            path.unlink(missing_ok=True)
            raise
    name = f"{found.name}{SUFFIX}"
    return FileResponse(path, media_type="application/gzip", filename=name, background=BackgroundTask(path.unlink))


def _day(text: str, label: str, days: int = 0) -> int | None:
    """Return the begin of a day, UTC, plus days, in microseconds; None for an empty text. Raises `PageError`."""
    if not text:
        return None
    try:
        day = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC) + timedelta(days=days)
    except (ValueError, OverflowError):
        raise PageError(400, "No such day", f"{label}: {text[:40]!r} is not a day such as 2026-11-25.") from None
    return int(day.timestamp()) * 1_000_000


async def _with_headers(request: Request, call_next: Callable[[Request], Any]) -> Response:
    response: Response = await call_next(request)
    for name, value in {**HEADERS, "Content-Security-Policy": _policy()}.items():
        response.headers.setdefault(name, value)
    return response


def _policy() -> str:
    """Return the content security policy: only the scripts of this release run, and only these pages frame a page."""
    scripts = " ".join(f"'sha256-{digest}'" for digest in allowed_scripts())
    return (
        f"default-src 'none'; style-src 'self' 'unsafe-inline'; script-src {scripts}; connect-src 'self'; "
        "img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'self'"
    )


def _root(request: Request) -> str:
    """Return the path at which the application is mounted, with a slash at its end."""
    return str(request.scope.get("root_path", "")).rstrip("/") + "/"


def _up(request: Request) -> str:
    """Return the relative path from a request to the root of the pages."""
    path = request.url.path.removeprefix(_root(request).rstrip("/"))
    return "../" * max(0, path.count("/") - 1)


def _page(site: Site, request: Request, error: PageError) -> HTMLResponse:
    return HTMLResponse(site.problem(error, _up(request)), status_code=error.status)


def _problem(site: Site, request: Request, error: Exception) -> Response:
    assert isinstance(error, PageError)
    return _page(site, request, error)


def _http_problem(site: Site, request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code in (401, 403):
        text = "Log in to Airflow, then open this page again." if error.status_code == 401 else "You have no access."
        return JSONResponse({"detail": text}, error.status_code, headers=error.headers)
    titles = {404: "Not found", 405: "Not allowed"}
    title = titles.get(error.status_code, "The page cannot be shown")
    return _page(site, request, PageError(error.status_code, title, f"{request.url.path[:200]}: {error.detail}."))


def _invalid(site: Site, request: Request, error: Exception) -> Response:
    return _page(site, request, PageError(400, "Not understood", f"{request.url.path[:200]} has an invalid value."))


def _no_database(site: Site, request: Request, error: Exception) -> Response:
    """Return the page for Airflow's database, with which it checks each login. The history raises other errors."""
    log.error("the page %s needs the database of Airflow, which cannot be used: %s", request.url.path, error)
    title = "The database of Airflow cannot be used"
    text = "Without it, Airflow cannot check your login. Nothing in the runs has changed."
    return _page(site, request, PageError(503, title, text, "Open this page again when Airflow works."))


def _crash(site: Site, request: Request, error: Exception) -> Response:
    log.error("the page %s failed", request.url.path, exc_info=error)
    text = f"An error inside the pages ({type(error).__name__}). Nothing in the runs has changed."
    return _page(site, request, PageError(500, "The page cannot be shown", text, "The log has the details."))


LOOPBACK = "127.0.0.1"
_LOCAL_NAMES = [LOOPBACK, "localhost", "testserver"]


def serve(site: Site, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve the pages until Ctrl-C or SIGTERM. port: 0 for a free one. ready: called with the URL.

    On the loopback address, only requests to that name are answered, so that no web page of another host can read the
    pages through the page's host name (DNS rebinding). Raises `MachineError` if the address cannot be used.
    """
    listener = _listen(host, port)
    with contextlib.closing(listener):
        app = create_app(site)
        if host == LOOPBACK:
            app.add_middleware(TrustedHostMiddleware, allowed_hosts=_LOCAL_NAMES)
        ready(f"http://{host}:{listener.getsockname()[1]}/")
        config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=3)
        with contextlib.suppress(KeyboardInterrupt):  # uvicorn passes the signal on after it has ended
            uvicorn.Server(config).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as e:
        raise MachineError(f"{host} is no address of this machine ({e.strerror}); leave --host out") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as e:
        listener.close()
        raise MachineError(
            f"cannot listen on {host} port {port}: {e.strerror}; choose another with --port, or leave it out"
        ) from None
    return listener
