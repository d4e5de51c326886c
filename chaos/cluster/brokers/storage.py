"""A broker's storage as Kafka wants it before the first start.

Formatting takes a JVM, and what it makes differs between brokers in three identifiers only. So it is done once per
release, with placeholders, and copied.
"""

from __future__ import annotations

import base64
import re
import shutil
import uuid
from pathlib import Path

from chaos.cluster.brokers.jvm import Job, Kafka, log_of, start
from chaos.cluster.brokers.log import read_from, telling_lines
from chaos.cluster.settings import ClusterSpec, broker_settings, on_this_host, properties
from chaos.errors import ClusterError
from chaos.processes.process import ProcessId, wait_gone
from chaos.run.directory import Run

_TIMEOUT_S = 120


def new_id() -> str:
    """A random identifier in Kafka's form. Ids that begin with a dash are avoided: tools take them for an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def format_storage(kafka: Kafka, directory: Path, run: Run, owner: ProcessId | None) -> None:
    """Fill `directory` with formatted storage. Raises `ClusterError` with what Kafka said."""
    home = run.brokers / "format"
    home.mkdir(parents=True)
    spec = ClusterSpec(brokers=1, kafka=kafka.version)
    settings = broker_settings(spec, 1, on_this_host([9092], [9093]))  # nothing listens
    (home / "server.properties").write_text(properties(settings), encoding="ascii")
    main = ("kafka.tools.StorageTool", "format", "-t", new_id(), "-c", "server.properties")
    step = start(kafka, Job("format", home, main), run, owner)
    wait_gone([step.identity], _TIMEOUT_S)
    if step.popen.wait() != 0 or not (home / "data" / "meta.properties").exists():
        log = log_of(run, "format")
        said = "\n  ".join(telling_lines(read_from(log, 0)))
        raise ClusterError(f"Kafka {kafka.version} could not format its storage; {log} says:\n  {said}")
    for made in (home / "data").iterdir():
        if made.is_file():
            shutil.copy(made, directory)
    shutil.rmtree(home)


def copy_storage(formatted: Path, data: Path, broker: int, cluster_id: str) -> None:
    """Give a broker formatted storage with its own identifiers. `data` must not exist."""
    data.mkdir(parents=True)
    for path in formatted.iterdir():
        shutil.copy(path, data)
    meta = data / "meta.properties"
    text = meta.read_text(encoding="ascii")
    for key, value in {"node.id": str(broker), "cluster.id": cluster_id, "directory.id": new_id()}.items():
        text = re.sub(rf"^{re.escape(key)}=.*$", f"{key}={value}", text, flags=re.MULTILINE)  # older ones lack one
    meta.write_text(text, encoding="ascii")
