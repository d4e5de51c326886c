"""The meter of a node: its times for requests and for flushes of logs, read from the metrics in its JVM.

`meter/DiskMeter.java` is compiled at first use. A JVM loads it as an agent. It reads the metrics that Kafka offers by
JMX, ten times a second, and writes them to a file next to the data of the node. No port is open for that.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from chaos.errors import ResolveError
from chaos.install import jars
from chaos.install.cache import Progress, cached, silent

SOURCE = Path(__file__).parent / "meter" / "DiskMeter.java"
_JAR = "meter.jar"


@dataclass(frozen=True)
class Meter:
    """How often something was measured since the start of a process, and its total time in seconds."""

    count: int = 0
    total_s: float = 0.0

    @property
    def mean_s(self) -> float:
        """The mean time in seconds; 0 without a measurement."""
        return self.total_s / self.count if self.count else 0.0


@dataclass(frozen=True)
class Reading:
    """One reading of a process: `number` counts them since its start.

    produce: the time of Produce requests in the request handler, LocalTimeMs. flush: the time of flushes of one segment
    of a log with its indexes, LogFlushRateAndTimeMs.
    """

    process: int
    number: int
    produce: Meter = Meter()
    flush: Meter = Meter()

    def since(self, earlier: Reading) -> Reading:
        """Return what was measured after an earlier reading: all of it, if the node has started again."""
        if earlier.process != self.process:
            return self
        return Reading(
            self.process, self.number, _rest(self.produce, earlier.produce), _rest(self.flush, earlier.flush)
        )


def _rest(now: Meter, earlier: Meter) -> Meter:
    return Meter(now.count - earlier.count, max(0.0, now.total_s - earlier.total_s))


def agent(on_progress: Progress = silent) -> Path:
    """Return the jar of the agent. Raises `ResolveError` or `MachineError`."""
    digest = hashlib.sha256(SOURCE.read_bytes() + " ".join((*jars.ECJ, jars.LEVEL)).encode()).hexdigest()[:12]
    waiting = f"another run compiles {SOURCE.name}; waiting for it"
    return cached(f"preload/meter-{digest}", lambda target: _compile(target, on_progress), waiting, on_progress) / _JAR


def flag(path: Path) -> str:
    """Return the flag of a JVM that writes its readings to a file. Raises as `agent`."""
    return f"-javaagent:{agent()}={path}"


def read(path: Path) -> Reading | None:
    """Return the latest reading; None if there is none."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except FileNotFoundError:
        return None
    values = {name: rest for name, *rest in map(str.split, lines)}
    number, process = map(int, values.pop("reading"))
    meters = {name: Meter(int(count), int(count) * float(mean_ms) / 1000) for name, (count, mean_ms) in values.items()}
    return Reading(process, number, **meters)


def _compile(target: Path, on_progress: Progress) -> None:
    jar = jars.compiler(on_progress)
    on_progress(f"compiling {SOURCE.name}, once")
    done = jars.compile_java(jar, [SOURCE], [], target / "classes")
    if done.returncode:
        raise ResolveError(f"{SOURCE} does not compile: {jars.first_error(done)}")
    jars.pack(target / "classes", target / _JAR, {"Manifest-Version": "1.0", "Premain-Class": SOURCE.stem})
