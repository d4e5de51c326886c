"""The Docker engine: the connection to it, and what runs have there. Everything of a run carries labels:

aftershock.run      run id
aftershock.run_dir  absolute path of the run directory
aftershock.role     broker-1, keeper, network, ...
aftershock.owner    <pid>:<start time> of the process that answers for it; empty if it is to outlive its starter
aftershock.pids     the pid namespace in which that pid is meant; what was made from another one is not ours to judge
"""

from __future__ import annotations

import contextlib
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
from chaos.processes.process import ProcessId, pid_namespace
from chaos.run.directory import Run

LABEL = "aftershock.run_dir"
TIMEOUT_S = 60
_SOCKET = Path("/var/run/docker.sock")


def connect() -> DockerClient:
    """The engine of DOCKER_HOST or the usual socket. Raises `MachineError` where none answers, or it refuses us."""
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
def asking(what: str) -> Iterator[None]:
    """Turn what the engine says no to into a `ClusterError`: one line with what was asked and the engine's reason."""
    try:
        yield
    except APIError as e:
        raise ClusterError(f"{what}: the Docker engine says {reason(e)}") from None
    except (DockerException, requests.RequestException) as e:
        raise ClusterError(f"{what}: the Docker engine does not answer any more ({type(e).__name__})") from None


def execute(container: Any, argv: Sequence[str], user: str = "") -> tuple[int, str]:
    """Run a command in a container: its exit code, and what it said. Raises `ClusterError` where it cannot be run."""
    with asking(f"{argv[0]} cannot be run in {container.name}"):
        code, output = container.exec_run(list(argv), user=user)
    return code, output.decode(errors="replace").strip()


def reason(error: APIError) -> str:
    """The engine's own words, on one line."""
    return " ".join(str(error.explanation or error).split())


def labels(run: Run, role: str, owner: ProcessId | None) -> dict[str, str]:
    """The labels of something that belongs to a run."""
    return {
        "aftershock.run": run.run_id,
        LABEL: str(run.path),
        "aftershock.role": role,
        "aftershock.owner": str(owner) if owner else "",
        "aftershock.pids": pid_namespace(),
    }


@dataclass(frozen=True)
class Labelled:
    """A container, network or volume that belongs to a run. `pid`: of a running container, on this machine."""

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
    """What runs have on this engine, containers first; of one run if `run_dir` is given. Raises `ClusterError`."""
    wanted = {"label": [LABEL if run_dir is None else f"{LABEL}={run_dir}", f"aftershock.pids={pid_namespace()}"]}
    with asking("what runs have left there cannot be listed"):
        containers = client.containers.list(all=True, filters=wanted, ignore_removed=True)
        networks = client.networks.list(filters=wanted)
        volumes = client.volumes.list(filters=wanted)
    found = [_labelled("container", c, c.labels, c.status, c.attrs["State"].get("Pid")) for c in containers]
    found += [_labelled("network", n, n.attrs.get("Labels") or {}, "") for n in networks]
    return found + [_labelled("volume", v, v.attrs.get("Labels") or {}, "") for v in volumes]


def find_everywhere() -> list[Labelled]:
    """What all runs have there; nothing where there is no engine, or none that we may ask."""
    if not _SOCKET.exists() and "DOCKER_HOST" not in os.environ:
        return []
    try:
        return find_labelled(connect())
    except AftershockError:
        return []


def _labelled(kind: str, thing: Any, said: dict[str, str], state: str, pid: int | None = None) -> Labelled:
    try:
        owner = ProcessId.parse(said.get("aftershock.owner", ""))
    except ValueError:
        owner = None
    role, run_id = said.get("aftershock.role", ""), said.get("aftershock.run", "")
    return Labelled(kind, thing.name, role, run_id, Path(said.get(LABEL, "")), owner, state, pid or None, thing)


def remove(found: list[Labelled]) -> None:
    """Remove these, whatever state they are in; in the order of `find_labelled`. Raises `ClusterError`."""
    for one in found:
        with asking(f"{one.kind} {one.name} cannot be removed"), contextlib.suppress(NotFound):
            if one.kind == "container":
                try:
                    one.thing.remove(force=True, v=True)
                except APIError as e:
                    if "already in progress" not in reason(e):
                        raise
            else:
                one.thing.remove()
