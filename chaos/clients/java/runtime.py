"""The Java client as a client library: any release from 2.8.2 on, compiled against at first use."""

from __future__ import annotations

from pathlib import Path

from chaos.clients.choice import Client
from chaos.clients.java.traits import NEWEST, TRAITS
from chaos.clients.jvm import SOURCES, JavaPrograms
from chaos.clients.protocol import PROGRAMS, Program
from chaos.clients.runtime import Installed, Runtime
from chaos.install.cache import Progress
from chaos.install.jars import CLIENTS, kafka_jars, resolve
from chaos.install.java import JAVA_ENVIRONMENT

FOR_TOKENS = (("com.fasterxml.jackson.core", "jackson-databind", "2.19.2"), ("org.bitbucket.b_c", "jose4j", "0.9.6"))
HEAP = 96 * 2**20
SHARE = Path(__file__).with_name("share")
"""The program of a member of a share group, which only releases with share groups compile."""


def prepare(client: Client, on_progress: Progress) -> Installed:
    """Fetch and compile what a release needs; see `Runtime`."""
    release = client.release or NEWEST
    jars = kafka_jars(release, on_progress, CLIENTS)
    more = () if TRAITS.missing("tokens", release) else _jars_of_tokens(on_progress)
    programs = JavaPrograms(TRAITS.library, release, jars, more_jars=more)
    names = list[Program](PROGRAMS)
    if not TRAITS.missing("share groups", release):
        main, names = "aftershock.ShareMain", [*names, "share_consumer"]
        programs = JavaPrograms(TRAITS.library, release, jars, main, (SOURCES, SHARE), more)
    command = programs.command(programs.compiled(on_progress), client.heap or HEAP)
    return Installed(TRAITS.library, dict.fromkeys(names, command), JAVA_ENVIRONMENT)


def _jars_of_tokens(on_progress: Progress) -> tuple[Path, ...]:
    """Return what the library needs for tokens, and its artifact does not name: it leaves that to the application."""
    found = (resolve(*artifact, on_progress).glob(f"{artifact[1].split('-')[0]}*.jar") for artifact in FOR_TOKENS)
    return tuple(sorted(jar for jars in found for jar in jars))


RUNTIME = Runtime(
    traits=TRAITS,
    default_release=lambda: NEWEST,
    prepare=prepare,
    consumer_defaults=lambda release: {},
)
