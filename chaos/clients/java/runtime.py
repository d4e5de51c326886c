"""The Java client as a client library: any release from 2.8.2 on, compiled against at first use."""

from __future__ import annotations

from chaos.clients.jvm import JavaPrograms
from chaos.clients.protocol import PROGRAMS
from chaos.clients.runtime import Installed, Runtime
from chaos.install.cache import Progress
from chaos.install.jars import kafka_client_jars
from chaos.install.java import JAVA_ENVIRONMENT
from chaos.scenario.runtimes.choice import Client
from chaos.scenario.runtimes.java import NEWEST, TRAITS

HEAP = 96 * 2**20


def prepare(client: Client, on_progress: Progress) -> Installed:
    """Fetch and compile what a release needs; see `Runtime`."""
    release = client.release or NEWEST
    programs = JavaPrograms(TRAITS.library, release, kafka_client_jars(release, on_progress))
    command = programs.command(programs.compiled(on_progress), client.heap or HEAP)
    return Installed(TRAITS.library, dict.fromkeys(PROGRAMS, command), JAVA_ENVIRONMENT)


RUNTIME = Runtime(
    traits=TRAITS,
    default_release=lambda: NEWEST,
    prepare=prepare,
    consumer_defaults=lambda release: {},
)
