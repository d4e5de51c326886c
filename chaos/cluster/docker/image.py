"""The image of a Kafka release, built from the jars that the process driver also uses."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import requests
from docker import DockerClient
from docker.errors import APIError, DockerException

from chaos.cluster.docker.engine import engine_errors, reason
from chaos.errors import ClusterError, MachineError
from chaos.install.cache import Progress

DOCKERFILE = Path(__file__).resolve().parent / "Dockerfile"
LOCAL_BASE, PUBLIC_BASE = "aftershock-base:bookworm", "debian:bookworm-slim"
_BUILD_TIMEOUT_S = 900


def image_of(client: DockerClient, version: str, jars: Path, on_progress: Progress) -> str:
    """Return the name of the image of a release; build the image if it does not exist.

    Its base is AFTERSHOCK_BASE_IMAGE, else the image that `docker/base-image` makes, else a slim Debian. Raises
    `MachineError` if the base is not available, `ClusterError` if the build fails.
    """
    base = _base(client, on_progress)
    with engine_errors(f"image {base} cannot be inspected"):
        facts = (DOCKERFILE.read_text(encoding="utf-8"), client.images.get(base).id, jars.name)
    name = f"aftershock-kafka:{version}-{hashlib.sha256(repr(facts).encode()).hexdigest()[:12]}"
    if not _exists(client, name):
        on_progress(f"building the image of Kafka {version} on {base}, once")
        _build(client, name, base, jars)
    return name


def _exists(client: DockerClient, name: str) -> bool:
    with engine_errors(f"image {name} cannot be inspected"):
        return bool(client.images.list(name))


def _build(client: DockerClient, name: str, base: str, jars: Path) -> None:
    output: list[str] = []
    with engine_errors(f"image {name} cannot be built"):
        lines = client.api.build(
            path=str(jars),
            dockerfile=str(DOCKERFILE),
            tag=name,
            buildargs={"BASE": base},
            rm=True,
            forcerm=True,
            decode=True,
            timeout=_BUILD_TIMEOUT_S,
        )
        for line in lines:
            output += [text for text in str(line.get("stream", "")).splitlines() if text.strip()]
            if error := line.get("error"):
                last = "\n  ".join(text[:300] for text in output[-8:])
                raise ClusterError(f"image {name} cannot be built: {error}\n  {last}")


def _base(client: DockerClient, on_progress: Progress) -> str:
    configured = os.environ.get("AFTERSHOCK_BASE_IMAGE")
    candidates = [configured] if configured else [LOCAL_BASE, PUBLIC_BASE]
    for name in candidates:
        if _exists(client, name):
            return name
    base = candidates[-1]
    on_progress(f"pulling {base}, once")
    try:
        client.images.pull(base)
    except (DockerException, requests.RequestException) as e:
        why = reason(e) if isinstance(e, APIError) else type(e).__name__
        raise MachineError(
            f"the base image {base} is not there and cannot be pulled ({why[:200]}); make one with "
            "docker/base-image of the source tree, or name one of yours in AFTERSHOCK_BASE_IMAGE"
        ) from None
    return base
