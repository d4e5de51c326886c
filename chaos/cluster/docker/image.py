"""The image of a Kafka release, built from the jars that the process driver resolves."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import requests
from docker import DockerClient
from docker.errors import APIError, DockerException

from chaos.cluster.docker.engine import asking, reason
from chaos.errors import ClusterError, MachineError
from chaos.install.cache import Progress

DOCKERFILE = Path(__file__).resolve().parents[3] / "docker" / "broker" / "Dockerfile"
LOCAL_BASE, PUBLIC_BASE = "aftershock-base:bookworm", "debian:bookworm-slim"
_BUILD_TIMEOUT_S = 900


def image_of(client: DockerClient, version: str, jars: Path, on_progress: Progress) -> str:
    """The name of the image of a release, built if it is not there.

    Its base is AFTERSHOCK_BASE_IMAGE, else the one that `docker/base-image` makes, else a slim Debian.
    Raises `MachineError` if the base cannot be had, `ClusterError` if the build fails.
    """
    base = _base(client, on_progress)
    with asking(f"image {base} cannot be looked at"):
        facts = (DOCKERFILE.read_text(encoding="utf-8"), client.images.get(base).id, jars.name)
    name = f"aftershock-kafka:{version}-{hashlib.sha256(repr(facts).encode()).hexdigest()[:12]}"
    if not _is_there(client, name):
        on_progress(f"building the image of Kafka {version} on {base}, once")
        _build(client, name, base, jars)
    return name


def _is_there(client: DockerClient, name: str) -> bool:
    with asking(f"image {name} cannot be looked at"):
        return bool(client.images.list(name))


def _build(client: DockerClient, name: str, base: str, jars: Path) -> None:
    said: list[str] = []
    with asking(f"image {name} cannot be built"):
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
            said += [text for text in str(line.get("stream", "")).splitlines() if text.strip()]
            if error := line.get("error"):
                last = "\n  ".join(text[:300] for text in said[-8:])
                raise ClusterError(f"image {name} cannot be built: {error}\n  {last}")


def _base(client: DockerClient, on_progress: Progress) -> str:
    if given := os.environ.get("AFTERSHOCK_BASE_IMAGE"):
        candidates, wanted = [given], given
    else:
        candidates, wanted = [LOCAL_BASE, PUBLIC_BASE], PUBLIC_BASE
    for name in candidates:
        if _is_there(client, name):
            return name
    on_progress(f"pulling {wanted}, once")
    try:
        client.images.pull(wanted)
    except (DockerException, requests.RequestException) as e:
        why = reason(e) if isinstance(e, APIError) else type(e).__name__
        raise MachineError(
            f"the base image {wanted} is not there and cannot be pulled ({why[:200]}); make one with "
            "docker/base-image, or name one of yours in AFTERSHOCK_BASE_IMAGE"
        ) from None
    return wanted
