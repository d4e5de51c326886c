"""franz-go as a client library: any supported release, compiled into one program at first use."""

from __future__ import annotations

from pathlib import Path

from chaos.clients.golang.programs import GoPrograms
from chaos.clients.protocol import Program
from chaos.clients.runtime import Installed, Runtime
from chaos.install.cache import Progress
from chaos.scenario.runtimes.choice import Client
from chaos.scenario.runtimes.error_codes import ERROR_CODES
from chaos.scenario.runtimes.franz_go import NAMES, NEWEST, SERVER_SIDE_SINCE, TRAITS

GO = GoPrograms(
    TRAITS,
    module="github.com/twmb/franz-go",
    sources=Path(__file__).with_name("src"),
    names=NAMES,
    errors=ERROR_CODES,
    tags={"serverside": SERVER_SIDE_SINCE},
)
PROGRAMS: tuple[Program, ...] = ("producer", "group_consumer", "assign_consumer")


def prepare(client: Client, on_progress: Progress) -> Installed:
    """Compile the programs against a release; see `Runtime`."""
    binary = GO.compiled(client.release or NEWEST, on_progress)
    return Installed(TRAITS.library, dict.fromkeys(PROGRAMS, (str(binary),)))


RUNTIME = Runtime(
    traits=TRAITS,
    default_release=lambda: NEWEST,
    prepare=prepare,
    consumer_defaults=lambda release: {},
)
