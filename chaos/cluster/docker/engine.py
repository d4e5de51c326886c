"""The connection to the Docker engine, the image of a Kafka release, and the objects of runs.

Every object of a run has these labels:

aftershock.run      run ID
aftershock.run_dir  absolute path of the run directory
aftershock.role     broker-1, keeper, network, ...
aftershock.owner    <pid>:<start time> of the owner process; empty if the object outlives its starter
aftershock.pids     the PID namespace of that PID; objects from another namespace are ignored
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import requests
from docker import DockerClient
from docker.errors import APIError, DockerException, NotFound

from chaos.errors import AftershockError, ClusterError, MachineError
from chaos.install.cache import Progress
from chaos.processes.process import ProcessId, pid_namespace
from chaos.run.directory import Run

LABEL = "aftershock.run_dir"
TIMEOUT_S = 60
_SOCKET = Path("/var/run/docker.sock")


def connect() -> DockerClient:
    """Connect to the engine of DOCKER_HOST or the default socket. Raises `MachineError` if none answers."""
    where = os.environ.get("DOCKER_HOST", str(_SOCKET))
    try:
        client = docker.from_env(timeout=TIMEOUT_S)
        client.ping()
    except (DockerException, requests.RequestException) as e:
        if "PermissionError" in repr(e):
            raise MachineError(
                f"no permission on the Docker engine's socket {where}; add your user to the group docker, or be root"
            ) from None
        raise MachineError(
            f"no Docker engine answers at {where}; start one, point DOCKER_HOST at one, or choose --driver process"
        ) from None
    return client


@contextlib.contextmanager
def engine_errors(message: str) -> Iterator[None]:
    """Turn an error of the engine into a `ClusterError` of one line: the message and the reason of the engine."""
    try:
        yield
    except APIError as e:
        raise ClusterError(f"{message}: the Docker engine says {reason(e)}") from None
    except (DockerException, requests.RequestException) as e:
        raise ClusterError(f"{message}: the Docker engine does not answer any more ({type(e).__name__})") from None


def execute(container: Any, argv: Sequence[str], user: str = "") -> tuple[int, str]:
    """Run a command in a container; return its exit code and output. Raises `ClusterError` if it cannot run."""
    with engine_errors(f"{argv[0]} cannot be run in {container.name}"):
        code, output = container.exec_run(list(argv), user=user)
    return code, output.decode(errors="replace").strip()


def reason(error: APIError) -> str:
    """Return the explanation of the engine, on one line."""
    return " ".join(str(error.explanation or error).split())


def labels(run: Run, role: str, owner: ProcessId | None) -> dict[str, str]:
    """Return the labels for an object of a run."""
    return {
        "aftershock.run": run.run_id,
        LABEL: str(run.path),
        "aftershock.role": role,
        "aftershock.owner": str(owner) if owner else "",
        "aftershock.pids": pid_namespace(),
    }


@dataclass(frozen=True)
class Labelled:
    """A container, network or volume of a run. `pid` is the process of a running container, on this machine."""

    kind: str
    name: str
    role: str
    run_id: str
    run_dir: Path
    owner: ProcessId | None
    state: str
    pid: int | None
    thing: Any


def find_labelled(client: DockerClient, run_dir: Path | None = None) -> list[Labelled]:
    """Return the objects of all runs, or of one run directory; containers first. Raises `ClusterError`."""
    filters = {"label": [LABEL if run_dir is None else f"{LABEL}={run_dir}", f"aftershock.pids={pid_namespace()}"]}
    with engine_errors("the containers, networks and volumes of runs cannot be listed"):
        containers = client.containers.list(all=True, filters=filters, ignore_removed=True)
        networks = client.networks.list(filters=filters)
        volumes = client.volumes.list(filters=filters)
    return [
        *(_labelled("container", c, c.labels, c.status, c.attrs["State"].get("Pid")) for c in containers),
        *(_labelled("network", n, n.attrs.get("Labels") or {}, "") for n in networks),
        *(_labelled("volume", v, v.attrs.get("Labels") or {}, "") for v in volumes),
    ]


def find_everywhere() -> list[Labelled]:
    """Return the objects of all runs; none if there is no engine, or no permission to use it."""
    if not _SOCKET.exists() and "DOCKER_HOST" not in os.environ:
        return []
    try:
        return find_labelled(connect())
    except AftershockError:
        return []


def _labelled(kind: str, thing: Any, values: dict[str, str], state: str, pid: int | None = None) -> Labelled:
    owner = ProcessId.parse_or_none(values.get("aftershock.owner", ""))
    role, run_id = values.get("aftershock.role", ""), values.get("aftershock.run", "")
    return Labelled(kind, thing.name, role, run_id, Path(values.get(LABEL, "")), owner, state, pid or None, thing)


def remove(items: list[Labelled]) -> None:
    """Remove objects in any state, in the order of `find_labelled`. Raises `ClusterError`."""
    for item in items:
        with engine_errors(f"{item.kind} {item.name} cannot be removed"), contextlib.suppress(NotFound):
            if item.kind == "container":
                try:
                    item.thing.remove(force=True, v=True)
                except APIError as e:
                    if "already in progress" not in reason(e):
                        raise
            else:
                item.thing.remove()


DOCKERFILE = Path(__file__).resolve().parent / "Dockerfile"
LOCAL_BASE, PUBLIC_BASE = "aftershock-base:bookworm", "debian:bookworm-slim"
_BUILD_TIMEOUT_S = 900


def image_of(client: DockerClient, version: str, jars: Path, on_progress: Progress) -> str:
    """Return the name of the image of a release; build the image if it does not exist.

    Its base is AFTERSHOCK_BASE_IMAGE, else the image that `docker/base-image` makes, else a slim Debian. Raises
    `MachineError` if the base is not available, `ClusterError` if the build fails.
    """
    base = _base(client, on_progress)
    with engine_errors(f"image {base} cannot be inspected"):
        facts = (DOCKERFILE.read_text(encoding="utf-8"), client.images.get(base).id, jars.name)
    name = f"aftershock-kafka:{version}-{hashlib.sha256(repr(facts).encode()).hexdigest()[:12]}"
    if not _exists(client, name):
        on_progress(f"building the image of Kafka {version} on {base}, once")
        _build(client, name, base, jars)
    return name


def _exists(client: DockerClient, name: str) -> bool:
    with engine_errors(f"image {name} cannot be inspected"):
        return bool(client.images.list(name))


def _build(client: DockerClient, name: str, base: str, jars: Path) -> None:
    output: list[str] = []
    with engine_errors(f"image {name} cannot be built"):
        lines = client.api.build(
            path=str(jars),
            dockerfile=str(DOCKERFILE),
            tag=name,
            buildargs={"BASE": base},
            rm=True,
            forcerm=True,
            decode=True,
            timeout=_BUILD_TIMEOUT_S,
        )
        for line in lines:
            output += [text for text in str(line.get("stream", "")).splitlines() if text.strip()]
            if error := line.get("error"):
                last = "\n  ".join(text[:300] for text in output[-8:])
                raise ClusterError(f"image {name} cannot be built: {error}\n  {last}")


def _base(client: DockerClient, on_progress: Progress) -> str:
    configured = os.environ.get("AFTERSHOCK_BASE_IMAGE")
    candidates = [configured] if configured else [LOCAL_BASE, PUBLIC_BASE]
    for name in candidates:
        if _exists(client, name):
            return name
    base = candidates[-1]
    on_progress(f"pulling {base}, once")
    try:
        client.images.pull(base)
    except (DockerException, requests.RequestException) as e:
        why = reason(e) if isinstance(e, APIError) else type(e).__name__
        raise MachineError(
            f"the base image {base} is not there and cannot be pulled ({why[:200]}); make one with "
            "docker/base-image of the source tree, or name one of yours in AFTERSHOCK_BASE_IMAGE"
        ) from None
    return base
