"""Kafka Streams as a client library: any release from 2.8.2 on, compiled against at first use."""

from __future__ import annotations

from pathlib import Path

from chaos.clients.choice import Client
from chaos.clients.java.traits import NEWEST
from chaos.clients.jvm import SOURCES, JavaPrograms
from chaos.clients.runtime import Installed, Runtime
from chaos.clients.streams.traits import TRAITS
from chaos.install.cache import Progress
from chaos.install.jars import STREAMS, kafka_jars
from chaos.install.java import JAVA_ENVIRONMENT

HEAP = 128 * 2**20
MAIN = "aftershock.StreamsMain"
APP_SOURCES = Path(__file__).with_name("src") / "aftershock"


def prepare(client: Client, on_progress: Progress) -> Installed:
    """Fetch and compile what a release needs; see `Runtime`."""
    release = client.release or NEWEST
    jars = kafka_jars(release, on_progress, STREAMS)
    programs = JavaPrograms(TRAITS.library, release, jars, MAIN, (SOURCES, APP_SOURCES))
    command = programs.command(programs.compiled(on_progress), client.heap or HEAP)
    return Installed(TRAITS.library, {"processor": command}, JAVA_ENVIRONMENT)


RUNTIME = Runtime(
    traits=TRAITS,
    default_release=lambda: NEWEST,
    prepare=prepare,
    consumer_defaults=lambda release: {},
)
