"""The first steps of a deployment: is the machine fit, who watches over the run, where does each broker listen."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import Iterator, Sequence

from chaos.cluster import state
from chaos.cluster.brokers import broker
from chaos.cluster.brokers.jvm import log_of
from chaos.cluster.brokers.release import Release
from chaos.cluster.brokers.storage import new_id
from chaos.cluster.lifecycle.gc import end_all
from chaos.cluster.process import zookeeper
from chaos.cluster.settings import ClusterSpec, Place, broker_settings
from chaos.cluster.state import BrokerState, ClusterState, DriverName, ProcessState
from chaos.errors import ClusterError, MachineError, RunDirError
from chaos.processes.ports import HOST, free_ports, is_free
from chaos.processes.process import ProcessId, Spawned, spawn
from chaos.processes.process_table import REAPER, find_marked
from chaos.run.directory import Run

NEEDED_DISK_BYTES = 2**30


def check_disk(run: Run) -> None:
    """Raise `MachineError` if the run's data might not fit."""
    free = shutil.disk_usage(run.path).free
    if free < NEEDED_DISK_BYTES:
        raise MachineError(
            f"only {free / 2**20:.0f} MiB are free at {run.path}, and a run needs {NEEDED_DISK_BYTES / 2**20:.0f}; "
            "make room, or choose another --runs-dir"
        )


@contextlib.contextmanager
def all_or_nothing(run: Run) -> Iterator[None]:
    """Remove all that a deployment has started and written if it fails, or is interrupted."""
    try:
        yield
    except BaseException:
        end_all(run.path)
        run.cluster.unlink(missing_ok=True)
        raise


def start_reaper(run: Run, owner: ProcessId | None, deadline_s: float) -> Spawned:
    """Start the process that ends everything of the run if nobody else does; see `chaos.cluster.lifecycle.reaper`."""
    argv = [sys.executable, "-m", "chaos.cluster.lifecycle.reaper", str(run.path), "--deadline", str(deadline_s)]
    if owner is not None:
        argv += ["--owner", str(owner)]
    return spawn(argv, run=run, role=REAPER, owner=owner, log=log_of(run, REAPER))


def check_reaper(run: Run, reaper: ProcessId) -> None:
    """Raise `ClusterError` if nobody watches over the run any more."""
    if not reaper.alive():
        raise ClusterError(f"the run's reaper ended too early; {run.logs / 'reaper.log'} says why")


def lay_out(
    run: Run,
    spec: ClusterSpec,
    release: Release,
    owner: ProcessId | None,
    reaper: ProcessId,
    deadline_s: float,
    places: Sequence[Place],
    driver: DriverName = "process",
    data: str = "data",
    zookeeper_port: int | None = None,
) -> ClusterState:
    """Write every broker's files and `cluster.json`; with a port for it, those of a ZooKeeper server too."""
    # ZooKeeper's clusters draw their id themselves, when the first broker comes
    cluster_id = new_id() if zookeeper_port is None else ""
    server = None if zookeeper_port is None else zookeeper.lay_out(run, zookeeper_port)
    brokers = []
    for i, place in enumerate(places, start=1):
        settings = broker_settings(spec, i, places, data, server.address if server else None)
        broker.lay_out(run, i, settings, release, cluster_id)
        brokers.append(
            BrokerState(
                id=i,
                host=place.host,
                port=place.port,
                log=str(log_of(run, broker.role(i)).relative_to(run.path)),
                data=str((broker.home(run, i) / "data").relative_to(run.path)),
            )
        )
    laid_out = ClusterState(
        driver=driver,
        kafka=spec.kafka,
        cluster_id=cluster_id,
        bootstrap=",".join(b.address for b in brokers),
        heap_bytes=spec.heap_bytes,
        owner=None if owner is None else ProcessState.of(owner),
        reaper=ProcessState.of(reaper),
        deadline_at=time.time() + deadline_s,
        brokers=brokers,
        zookeeper=server,
    )
    laid_out.save(run.cluster)
    return laid_out


def choose_ports(spec: ClusterSpec, more: int) -> list[int]:
    """A port for the clients of each broker, then `more` others. Raises `MachineError` if a fixed port is taken."""
    fixed, others = spec.fixed_ports(), _ports_of_other_runs()
    if fixed is None:
        return free_ports(spec.brokers + more, but=others)
    for port in fixed:
        if not is_free(port):
            raise MachineError(
                f"port {port} on {HOST} is taken, and listeners in cluster.config asks for it; "
                "end what listens there, choose another port, or leave listeners out"
            )
    return [*fixed, *free_ports(more, but={*fixed, *others})]


def _ports_of_other_runs() -> set[int]:
    """The ports of live runs, also of brokers that are down just now: they come back to their ports."""
    found: set[int] = set()
    for run_dir in {m.run_dir for m in find_marked()}:
        with contextlib.suppress(RunDirError):  # a run that has not come so far, or whose directory was removed
            other = state.load(Run(run_dir))
            found |= {
                port for b in other.brokers for port in (b.port, b.controller_port, *b.behind) if port is not None
            }
            found |= {other.zookeeper.port} if other.zookeeper else set()
    return found
