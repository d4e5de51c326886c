"""A user command for one broker of a cluster of the process driver.

python -m tests.support.verb kill|stop|start|pause|resume RUN_DIR BROKER
"""

from __future__ import annotations

import fcntl
import json
import sys
from pathlib import Path

from chaos.processes import process
from chaos.processes.process import ProcessId
from chaos.run.directory import Run

ACTS = {
    "kill": process.kill,
    "stop": lambda identity: process.terminate(identity, 60),
    "pause": process.pause,
    "resume": process.cont,
}


def start(run: Run, broker: int) -> None:
    """Start a broker without a wait, as `systemctl start` does: the attached driver waits."""
    from chaos.cluster.process.driver import ProcessCluster  # on use: the other verbs must be fast

    # one at a time, because each writes the whole file
    with (run.path / "verbs.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        cluster = ProcessCluster.attach(run)
        if not cluster.broker_alive(broker):
            cluster._start(broker)


def main(verb: str, run: Run, broker: int) -> None:
    if verb == "start":
        start(run, broker)
        return
    brokers = json.loads(run.cluster.read_text())["brokers"]
    (known,) = [b["process"] for b in brokers if b["id"] == broker]
    if not ACTS[verb](ProcessId(known["pid"], known["started"])):
        sys.exit(f"broker {broker} is not running")


if __name__ == "__main__":
    main(sys.argv[1], Run(Path(sys.argv[2])), int(sys.argv[3]))
