"""What runs an incarnation of an instance: a process of this machine, or a container in the host's network."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import psutil

from chaos.errors import ClientError, MachineError
from chaos.install.cache import Progress
from chaos.processes import process
from chaos.processes.process import ProcessId, Spawned, marks_of, spawn
from chaos.processes.scrub import Scrubber
from chaos.run.directory import Run
from chaos.wait import wait_until

if TYPE_CHECKING:
    from docker import DockerClient


CHILDREN_S = 10.0
"""Time for children of an instance to end after SIGKILL, or to be suspended after SIGSTOP."""
LOG_CONFIG = {"Type": "json-file", "Config": {"max-size": "512m", "max-file": "2"}}
"""The engine's own copy of the output of a container, which `Container` copies at once."""


class Running(Protocol):
    """An incarnation that was started."""

    @property
    def pid(self) -> int | None:
        """Its process ID on this machine; None if it is not known."""

    def signal(self, name: str) -> None:
        """Send a signal by its name to the program, as a supervisor does; nothing happens if it is gone."""

    def kill(self) -> None:
        """Kill it with all its children; nothing happens if it is gone."""

    def pause(self) -> bool:
        """Suspend it; return False if it is gone."""

    def resume(self) -> None:
        """Let it go on; nothing happens if it is gone."""

    def suspended(self) -> bool:
        """Return whether it is suspended, as the system says."""

    def wait(self) -> int:
        """Wait for its end; return the exit code, which is negative after a signal, with all its output in the log."""

    @property
    def left(self) -> int:
        """Number of processes that it left in the background, and that were ended with it; known after `wait`."""


class LocalProcess:
    """A process of this machine, with its children."""

    def __init__(self, spawned: Spawned, run_dir: Path, role: str) -> None:
        self._spawned, self._marks = spawned, (run_dir, role)
        self.pid: int | None = spawned.identity.pid
        self.left = 0

    def signal(self, name: str) -> None:
        """Send a signal to the process alone."""
        self._spawned.identity.signal(signal.Signals[name])

    def kill(self) -> None:
        """Kill the process and its children, also those in other sessions."""
        children = self._descendants()
        self._spawned.signal_group(signal.SIGKILL)
        for child in children:
            child.signal(signal.SIGKILL)

    def pause(self) -> bool:
        """Suspend the process and its children, also those in other sessions."""
        if not process.pause(self._spawned.identity, group=True):
            return False

        def suspended() -> bool:
            awake = self._awake()
            for child in awake:
                child.signal(signal.SIGSTOP)
            return not awake

        role = self._marks[1]
        wait_until(suspended, CHILDREN_S, lambda: f"children of {role} do not stop", error=ClientError)
        return self._spawned.identity.alive()

    def resume(self) -> None:
        """Let the process and its children go on."""
        self._spawned.signal_group(signal.SIGCONT)
        for child in self._children():
            child.signal(signal.SIGCONT)

    def suspended(self) -> bool:
        """Return whether the system shows the process and its children as stopped."""
        return process.is_paused(self._spawned.identity) and not self._awake()

    def _awake(self) -> list[ProcessId]:
        return [child for child in self._children() if not process.is_paused(child)]

    def _children(self) -> set[ProcessId]:
        """Return the process with what has its marks, and what it and they started: a title may replace the marks."""
        return {p.identity for p in process.find_marked() if self._has_marks(p)} | self._descendants()

    def _descendants(self) -> set[ProcessId]:
        found = set()
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(self._spawned.identity.pid).children(recursive=True):
                with contextlib.suppress(ProcessLookupError):
                    found.add(ProcessId.of(child.pid))
        return {child for child in found if child.alive()}

    def _has_marks(self, found: process.MarkedProcess) -> bool:
        return (found.run_dir, found.role) == self._marks

    def wait(self) -> int:
        """Wait for the end of the process, then kill the children that it left, also those in other sessions."""
        return self._spawned.wait(self._end_children)

    def _end_children(self) -> None:
        """Kill what has the marks of the instance: as a supervisor ends all of its control group."""
        ended = process.end(self._has_marks, CHILDREN_S)
        # a search misses a child that began during it, and whose parent ended before it was looked at (a double fork)
        self.left = len([*ended, *process.end(self._has_marks, CHILDREN_S)])


def start_process(
    argv: Sequence[str],
    *,
    run: Run,
    name: str,
    owner: ProcessId,
    log: Path,
    env: Mapping[str, str],
    directory: Path,
    scrubber: Scrubber,
) -> LocalProcess:
    """Start a process for an instance. Raises `ClientError` if the program cannot be run."""
    role = f"app {name}"
    try:
        spawned = spawn(argv, run=run, role=role, owner=owner, log=log, env=env, cwd=directory, scrubber=scrubber)
    except (OSError, ValueError) as e:  # a value with a NUL byte
        what = e.filename if isinstance(e, OSError) and isinstance(e.filename, str) else argv[0]
        raise ClientError(f"{name} cannot be started: {what}: {getattr(e, 'strerror', None) or e}") from None
    return LocalProcess(spawned, run.path, role)


Ends = Mapping[tuple[str, int], str]
"""Addresses as `host:port`, by the IP addresses and ports to which they lead."""


def ends_of(addresses: Collection[tuple[str, int]]) -> Ends:
    """Return where addresses lead; a host without an address leads nowhere."""
    return {(str(info[4][0]), port): f"{host}:{port}" for host, port in addresses for info in _resolved(host, port)}


def connected(pid: int, wanted: Ends) -> set[str]:
    """Return the addresses to which a process and its children are connected; other users' may not be visible."""
    found = set()
    with contextlib.suppress(psutil.Error):
        root = psutil.Process(pid)
        for one in (root, *root.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                ends = [connection.raddr for connection in one.net_connections("tcp") if connection.raddr]
                found |= {wanted.get((end.ip.removeprefix("::ffff:"), end.port), "") for end in ends}
    return found - {""}


def _resolved(host: str, port: int) -> list[Any]:
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return []


class Container:
    """A container, which the garbage collection finds by its labels."""

    def __init__(self, container: Any, log: Path, scrubber: Scrubber) -> None:
        self._container, self.left = container, 0
        container.reload()
        self.pid: int | None = container.attrs["State"].get("Pid") or None
        self._copier = threading.Thread(target=self._copy, args=(log, scrubber), daemon=True)
        self._copier.start()

    def _copy(self, log: Path, scrubber: Scrubber) -> None:
        """Append its output to the log until it ends."""
        rest = b""
        with log.open("ab", buffering=0) as kept, _gone():
            for piece in self._container.logs(stream=True, follow=True):
                *lines, rest = (rest + piece).split(b"\n")
                kept.write(b"".join(scrubber.raw(line + b"\n") for line in lines))
            kept.write(scrubber.raw(rest))

    def signal(self, name: str) -> None:
        """Send a signal to the first process of the container."""
        with _gone():
            self._container.kill(signal=name)

    def kill(self) -> None:
        """Kill all processes of the container."""
        with _gone():
            self._container.kill()

    def pause(self) -> bool:
        """Freeze the container."""
        from chaos.cluster.docker.container import freeze

        frozen = False
        with _gone():
            freeze(self._container)
            frozen = True
        return frozen

    def resume(self) -> None:
        """Thaw the container."""
        with _gone():
            self._container.unpause()

    def suspended(self) -> bool:
        """Return whether the engine shows the container as paused."""
        with _gone():
            self._container.reload()
        return str(self._container.status) == "paused"

    def wait(self) -> int:
        """Wait for the end, and remove the container. A shell reports a signal as a code above 128.

        Raises `ClusterError` if the engine does not answer, or somebody else removed the container.
        """
        from chaos.cluster.docker.engine import engine_errors

        with engine_errors(f"the end of the container {self._container.name} is not known"):
            code = int(self._container.wait()["StatusCode"])
        self._copier.join()
        with _gone():
            self._container.remove(force=True, v=True)
        return 128 - code if code in (128 + signal.SIGKILL, 128 + signal.SIGTERM) else code


@contextlib.contextmanager
def _gone() -> Iterator[None]:
    """Ignore the answer of the engine that a container is gone, or is not in that state."""
    from docker.errors import APIError

    with contextlib.suppress(APIError):
        yield


def find_image(client: DockerClient, image: str, on_progress: Progress) -> None:
    """Look for an image, and pull it if the engine does not have it. Raises `MachineError`."""
    from docker.errors import DockerException, ImageNotFound

    from chaos.cluster.docker.engine import engine_errors

    with engine_errors(f"the image {image} cannot be looked up"), contextlib.suppress(ImageNotFound):
        client.images.get(image)
        return
    on_progress(f"pulling the image {image}")
    try:
        client.images.pull(image)
    except DockerException as e:
        raise MachineError(
            f"the Docker engine has no image {image}, and cannot pull it: {' '.join(str(e).split())}"
        ) from None


def start_container(
    client: DockerClient,
    image: str,
    arguments: Sequence[str],
    *,
    run: Run,
    name: str,
    incarnation: int,
    owner: ProcessId,
    log: Path,
    env: Mapping[str, str],
    folder: Path,
    scrubber: Scrubber,
) -> Container:
    """Start a container for an instance, with its files and data at the same paths. Raises `ClusterError`."""
    from chaos.cluster.docker.engine import engine_errors, labels

    role, mounted = f"app {name}", [folder / part for part in ("data", "files")]
    with engine_errors(f"{name} cannot be started in a container of {image}"):
        container = client.containers.create(
            image,
            list(arguments) or None,
            name=f"{run.run_id}-{name.replace('/', '-')}-{incarnation}",
            labels=labels(run, role, owner),
            environment={**env, **marks_of(run, role, owner)},
            network_mode="host",
            log_config=LOG_CONFIG,
            volumes={str(path): {"bind": str(path), "mode": "rw"} for path in mounted},
        )
        try:
            container.start()
        except BaseException:
            with _gone():
                container.remove(force=True, v=True)
            raise
    return Container(container, log, scrubber)
