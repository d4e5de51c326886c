"""The formatted storage of a broker, as KRaft requires it before the first start.

Formatting takes a JVM, and the results for two brokers differ only in three identifiers. So each release is formatted
once, with placeholders, and the result is copied.
"""

from __future__ import annotations

import base64
import re
import shutil
import uuid
from pathlib import Path

from chaos.cluster.brokers.jvm import Job, Kafka, log_of, start
from chaos.cluster.brokers.log import errors_in
from chaos.cluster.settings import ClusterSpec, broker_settings, on_this_host, properties
from chaos.errors import ClusterError
from chaos.processes.process import ProcessId, wait_gone
from chaos.run.directory import Run

_TIMEOUT_S = 120


def new_id() -> str:
    """Return a random ID in the format of Kafka. It never begins with a dash, which tools would read as an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def format_storage(kafka: Kafka, directory: Path, run: Run, owner: ProcessId | None) -> None:
    """Fill `directory` with formatted storage. Raises `ClusterError` with the output of Kafka."""
    home = run.brokers / "format"
    home.mkdir(parents=True)
    spec = ClusterSpec(brokers=1, kafka=kafka.version)
    settings = broker_settings(spec, 1, on_this_host([9092], [9093]))  # nothing listens
    (home / "server.properties").write_text(properties(settings), encoding="ascii")
    main = ("kafka.tools.StorageTool", "format", "-t", new_id(), "-c", "server.properties")
    tool = start(kafka, Job("format", home, main), run, owner)
    wait_gone([tool.identity], _TIMEOUT_S)
    if tool.popen.wait() != 0 or not (home / "data" / "meta.properties").exists():
        raise ClusterError(f"Kafka {kafka.version} could not format its storage; {errors_in(log_of(run, 'format'))}")
    for path in (home / "data").iterdir():
        if path.is_file():
            shutil.copy(path, directory)
    shutil.rmtree(home)


def copy_storage(formatted: Path, data: Path, broker: int, cluster_id: str) -> None:
    """Copy formatted storage to `data`, which must not exist, and set the identifiers of a broker."""
    data.mkdir(parents=True)
    for path in formatted.iterdir():
        shutil.copy(path, data)
    meta = data / "meta.properties"
    text = meta.read_text(encoding="utf-8")
    for key, value in {"node.id": str(broker), "cluster.id": cluster_id, "directory.id": new_id()}.items():
        text = re.sub(rf"^{re.escape(key)}=.*$", f"{key}={value}", text, flags=re.MULTILINE)  # older ones lack a key
    meta.write_text(text, encoding="utf-8")
