"""How long a cluster of three takes to be ready, and what it weighs. Run: python -m tests.bench.bench_cluster"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from chaos.cluster.process.driver import ProcessCluster
from chaos.cluster.settings import ClusterSpec
from chaos.processes.process import ProcessId, find_marked
from chaos.run.directory import Run

MOST_READY_S = 6.0


def measure(repeats: int = 3, kafka: str = "4.3.1", brokers: int = 3) -> dict[str, object]:
    """Seconds from deploy to ready with a warm cache, seconds to destroy, and resident bytes by role."""
    ready, ended, rss = [], [], {}
    for i in range(repeats + 1):
        with tempfile.TemporaryDirectory() as directory:
            run = Run.create(Path(directory), "bench")
            began = time.monotonic()
            cluster = ProcessCluster.deploy(run, ClusterSpec(brokers, kafka), ProcessId.current(), 300)
            is_ready = time.monotonic()
            try:
                rss = {m.role: m.rss_bytes for m in find_marked() if m.run_dir == run.path}
            finally:
                destroying = time.monotonic()
                cluster.destroy()
            if i > 0:  # the first one fills the cache
                ready.append(round(is_ready - began, 2))
                ended.append(round(time.monotonic() - destroying, 2))
    return {
        "kafka": kafka,
        "brokers": brokers,
        "ready_s": ready,
        "destroy_s": ended,
        "rss_mib": {role: round(size / 2**20) for role, size in sorted(rss.items())},
        "most_ready_s": MOST_READY_S,
        "ok": max(ready) <= MOST_READY_S,
    }


if __name__ == "__main__":
    versions = sys.argv[1:] or ["4.3.1", "3.9.2"]
    print(json.dumps([measure(kafka=version) for version in versions], indent=2))
