"""A stand-in for kubectl that drives a local cluster of the process driver, and restarts brokers as Kubernetes does.

python -m tests.support.kubectl RUN_DIR ARGUMENT...

The pod with a name that ends with -N is the broker N. It knows the calls of the shipped examples only, refuses others:

- `exec POD -c kafka -- sh -c SCRIPT`: sends the signal of the script, which it does not run: the script looks for
  brokers in its container, and here it would find brokers of all runs. A killed broker starts again, as by a kubelet.
- `delete pod POD`: a controlled shutdown; the broker starts again, as by the controller of the StatefulSet.
- `annotate pod POD strimzi.io/manual-rolling-update=true`: notes it. `wait --for=delete` then does the same, as the
  operator's next reconciliation does.
- `wait --for=condition=Ready pod/POD`: waits until the broker accepts connections.
"""

from __future__ import annotations

import re
import socket
import sys
import time
from pathlib import Path

from chaos.run.directory import Run
from tests.support import verb

ROLLED = "strimzi.io/manual-rolling-update=true"
SIGNALS = {"KILL": "kill", "STOP": "pause", "CONT": "resume"}
KILLED = 137
"""The exit code of a command in a container that ends meanwhile."""


def broker_of(pod: str) -> int:
    found = re.fullmatch(r"(?:pod/)?[a-z-]+-(\d+)", pod)
    if found is None:
        sys.exit(f"there is no pod {pod!r}")
    return int(found[1])


def replace(run: Run, broker: int) -> None:
    """Stop a broker and start it again, as a pod that is replaced."""
    verb.main("stop", run, broker)
    verb.start(run, broker)


def signal(run: Run, broker: int, script: str) -> None:
    found = re.match(r"kill -(KILL|STOP|CONT) ", script)
    if found is None:
        sys.exit(f"not a script of the examples: {script}")
    verb.main(SIGNALS[found[1]], run, broker)
    if found[1] == "KILL":
        verb.start(run, broker)
        sys.exit(KILLED)


def wait_ready(run: Run, broker: int, timeout_s: float) -> None:
    from chaos.cluster import state  # on use: signals must be fast

    node = state.load(run).node(broker)
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        try:
            socket.create_connection((node.host, node.port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    sys.exit(f"error: timed out waiting for the condition on pods/{broker}")


def main(run: Run, arguments: list[str]) -> None:
    with (run.path / "kubectl.log").open("a") as log:
        log.write(" ".join(arguments) + "\n")
    match arguments:
        case ["-n", "kafka", "exec", pod, "-c", "kafka", "--", "sh", "-c", script]:
            signal(run, broker_of(pod), script)
        case ["-n", "kafka", "delete", "pod", pod]:
            replace(run, broker_of(pod))
        case ["-n", "kafka", "annotate", "pod", pod, annotation, "--overwrite"] if annotation == ROLLED:
            (run.path / f"rolled-{broker_of(pod)}").touch()
        case ["-n", "kafka", "wait", "--for=delete", pod, _]:
            (run.path / f"rolled-{broker_of(pod)}").unlink()  # fails unless it was annotated
            replace(run, broker_of(pod))
        case ["-n", "kafka", "wait", "--for=condition=Ready", pod, timeout]:
            wait_ready(run, broker_of(pod), float(timeout.removeprefix("--timeout=").removesuffix("s")))
        case _:
            sys.exit(f"the stand-in does not know: kubectl {' '.join(arguments)}")


if __name__ == "__main__":
    main(Run(Path(sys.argv[1])), sys.argv[2:])
