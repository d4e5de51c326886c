"""The Java client as a client library: any release from 2.8.2 on, compiled against at first use."""

from __future__ import annotations

from pathlib import Path

from chaos.clients.jvm import SOURCES, JavaPrograms
from chaos.clients.protocol import PROGRAMS, Program
from chaos.clients.runtime import Installed, Runtime
from chaos.install.cache import Progress
from chaos.install.jars import kafka_client_jars, resolve
from chaos.install.java import JAVA_ENVIRONMENT
from chaos.scenario.runtimes.choice import Client
from chaos.scenario.runtimes.java import NEWEST, TRAITS

JACKSON = ("com.fasterxml.jackson.core", "jackson-databind", "2.19.2")
HEAP = 96 * 2**20
SHARE = Path(__file__).with_name("share")
"""The program of a member of a share group, which only releases with share groups compile."""


def prepare(client: Client, on_progress: Progress) -> Installed:
    """Fetch and compile what a release needs; see `Runtime`."""
    release = client.release or NEWEST
    jars = kafka_client_jars(release, on_progress)
    # the library reads the answers of an issuer of tokens with it, but its artifact does not name it
    jackson = () if TRAITS.missing("tokens", release) else tuple(sorted(resolve(*JACKSON, on_progress).glob("*.jar")))
    programs = JavaPrograms(TRAITS.library, release, jars, more_jars=jackson)
    names = list[Program](PROGRAMS)
    if not TRAITS.missing("share groups", release):
        main, names = "aftershock.ShareMain", [*names, "share_consumer"]
        programs = JavaPrograms(TRAITS.library, release, jars, main, (SOURCES, SHARE), jackson)
    command = programs.command(programs.compiled(on_progress), client.heap or HEAP)
    return Installed(TRAITS.library, dict.fromkeys(names, command), JAVA_ENVIRONMENT)


RUNTIME = Runtime(
    traits=TRAITS,
    default_release=lambda: NEWEST,
    prepare=prepare,
    consumer_defaults=lambda release: {},
)
