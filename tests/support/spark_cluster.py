"""A Spark cluster and an HDFS on loopback, from jars only. Both end by process id, whatever happens."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from chaos.install.jars import resolve
from chaos.wait import wait_until

SPARK = Path(pyspark.__file__).parent
MINIDFS = ("org.apache.hadoop", "hadoop-client-minicluster", "3.4.1")
JAXB = ("javax.xml.bind", "jaxb-api", "2.3.1")
"""WebHDFS needs it; Java 17 has it no more."""


@dataclass
class Java:
    """A Java program and the log of its output."""

    process: subprocess.Popen[bytes]
    log: Path

    def wait_for(self, pattern: str) -> str:
        """Wait for the pattern in the log and return its first group."""

        def match() -> re.Match[str] | None:
            assert self.process.poll() is None, self.log.read_text()[-2000:]
            return re.search(pattern, self.log.read_text())

        wait_until(lambda: match() is not None, 60, lambda: f"{self.log}: {self.log.read_text()[-2000:]}")
        found = match()
        assert found is not None
        return found.group(1)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def java(log: Path, class_path: Path | str, main: str, *arguments: str, heap: str = "256m", **properties: str) -> Java:
    argv = ["java", f"-Xmx{heap}", "-XX:+UseSerialGC", *(f"-D{k.replace('_', '.')}={v}" for k, v in properties.items())]
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [*argv, "-cp", f"{class_path}/*", main, *arguments],
            env={**os.environ, "SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_SCALA_VERSION": "2.13"},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
        )
    return Java(process, log)


@dataclass
class SparkCluster:
    """A standalone master. url: its address; web: its web page."""

    url: str
    web: str
    workers: list[Java]


@contextmanager
def spark_cluster(folder: Path, workers: int = 2) -> Iterator[SparkCluster]:
    """Start a master, and workers with one core and 1 GB each."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        deploy, local = "org.apache.spark.deploy", ("--host", "127.0.0.1", "--webui-port", "0")
        master = java(folder / "master.log", SPARK / "jars", f"{deploy}.master.Master", *local, "--port", "0")
        stack.callback(master.end)
        url = master.wait_for(r"Starting Spark master at (spark://\S+)")
        web = master.wait_for(r"Bound MasterWebUI to .* (http://\S+)").replace("localhost", "127.0.0.1")
        started = []
        for n in range(workers):
            arguments = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"worker-{n}"))
            started.append(
                java(folder / f"worker-{n}.log", SPARK / "jars", f"{deploy}.worker.Worker", *local, *arguments, url)
            )
            stack.callback(started[-1].end)
        for worker in started:
            worker.wait_for(r"(Successfully registered) with master")
        yield SparkCluster(url, web, started)


@contextmanager
def hdfs(folder: Path, http_port: int = 0, data_nodes: int = 1) -> Iterator[str]:
    """Start a name node and data nodes, and yield the URI of the file system. http_port: of WebHDFS."""
    folder.mkdir(parents=True, exist_ok=True)
    details = folder / "details.json"
    details.unlink(missing_ok=True)
    ports = ("-nnport", "0", "-httpport", str(http_port))
    node = java(
        folder / "hdfs.log",
        f"{resolve(*JAXB)}/*:{resolve(*MINIDFS)}",
        "org.apache.hadoop.test.MiniDFSClusterManager",
        *("-format", "-datanodes", str(data_nodes), *ports, "-writeDetails", str(details)),
        test_build_data=str(folder / "data"),
        hadoop_tmp_dir=str(folder / "tmp"),
    )
    try:
        wait_until(details.exists, 120, lambda: node.log.read_text()[-2000:])
        wait_until(lambda: '"namenode_port"' in details.read_text(), 10, "no port of the name node")
        yield "hdfs://localhost:" + re.findall(r'"namenode_port":\s*"?(\d+)', details.read_text())[0]
    finally:
        node.end()


def shell(folder: Path) -> Callable[..., None]:
    """Return a function that runs Hadoop's file system shell, with its settings in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "core-site.xml").write_text("<configuration/>")  # required
    class_path = f"{folder}:{resolve(*MINIDFS)}/*"

    def run(*arguments: object) -> None:
        argv = ["java", "-Xmx256m", "-cp", class_path, "org.apache.hadoop.fs.FsShell", *map(str, arguments)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr

    return run
