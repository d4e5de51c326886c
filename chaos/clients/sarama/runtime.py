"""sarama as a client library: any supported release, compiled into one program at first use."""

from __future__ import annotations

from pathlib import Path

from chaos.clients.golang.programs import GoPrograms
from chaos.clients.protocol import Program
from chaos.clients.runtime import Installed, Runtime
from chaos.install.cache import Progress
from chaos.scenario.runtimes.choice import Client
from chaos.scenario.runtimes.error_codes import ERROR_CODES
from chaos.scenario.runtimes.sarama import COOPERATIVE_SINCE, NAMES, NEWEST, TRAITS

GO = GoPrograms(
    TRAITS,
    module="github.com/IBM/sarama",
    sources=Path(__file__).with_name("src"),
    names=NAMES,
    errors=ERROR_CODES,
    more_modules=("github.com/xdg-go/scram@v1.1.2",),
    tags={"cooperative": COOPERATIVE_SINCE},
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
