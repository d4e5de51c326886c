"""Prometheus, its Pushgateway and node_exporter from Debian's packages, on free ports of this machine."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.wait import wait_until

PACKAGES = ("prometheus", "prometheus-pushgateway", "prometheus-node-exporter")
MISSING = [name for name in PACKAGES if shutil.which(name) is None]
needs_prometheus = pytest.mark.skipif(bool(MISSING), reason=f"apt-get install {' '.join(MISSING)}")
START_S = 60


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())


def query(server: str, expression: str) -> list[dict[str, Any]]:
    """Return the samples of an instant query. Raises `HTTPError` if the expression is not valid."""
    answer = get(f"{server}/api/v1/query?{urllib.parse.urlencode({'query': expression})}")
    return list(json.loads(answer)["data"]["result"])


@contextlib.contextmanager
def serving(folder: Path, program: str, ready: str, *arguments: str) -> Iterator[str]:
    """Start a program with `--web.listen-address`, and yield its URL once `ready` answers; end it afterwards."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{s.getsockname()[1]}"
    log = folder / f"{program}.log"
    with log.open("wb") as sink:
        argv = [program, f"--web.listen-address={address}", *arguments]
        process = subprocess.Popen(argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink)

    def answers() -> bool:
        assert process.poll() is None, log.read_text()
        with contextlib.suppress(OSError):
            return bool(get(f"http://{address}{ready}"))
        return False

    try:
        wait_until(answers, START_S, log.read_text)
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(30)


@contextlib.contextmanager
def pushgateway(folder: Path) -> Iterator[str]:
    # in memory: the package's default is a file that all gateways of the machine share
    with serving(folder, "prometheus-pushgateway", "/-/ready", "--log.level=error", "--persistence.file=") as url:
        yield url


@contextlib.contextmanager
def prometheus(folder: Path, rules: Path, **jobs: str) -> Iterator[str]:
    """Start a server with rules that scrapes the URL of each job every second."""
    static = {
        job: {"job_name": job, "honor_labels": True, "static_configs": [{"targets": [url.removeprefix("http://")]}]}
        for job, url in jobs.items()
    }
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "scrape_configs": list(static.values()),
    }
    (folder / "prometheus.json").write_text(json.dumps(config))
    arguments = [f"--config.file={folder / 'prometheus.json'}", f"--storage.tsdb.path={folder / 'tsdb'}"]
    with serving(folder, "prometheus", "/-/ready", *arguments) as url:
        yield url
