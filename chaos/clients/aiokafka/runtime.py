"""aiokafka as a client library: any release with a wheel that runs on this Python."""

from __future__ import annotations

from chaos.clients.aiokafka.traits import NEWEST, TRAITS
from chaos.clients.choice import Client
from chaos.clients.protocol import Program
from chaos.clients.python.start import ENTRY
from chaos.clients.runtime import Installed, Runtime
from chaos.clients.traits import number
from chaos.install.cache import Progress
from chaos.install.pypi import CODECS, client_environment

OWN_PROTOCOL_SINCE = (0, 9, 0)
"""Before, the library has the protocol, the errors and the assignors from kafka-python, and runs with 2.0.2 only."""

PROGRAMS: tuple[Program, ...] = ("producer", "group_consumer", "assign_consumer")


def prepare(client: Client, on_progress: Progress) -> Installed:
    """Install a release; see `Runtime`."""
    release = client.release or NEWEST
    others = [*CODECS, "async-timeout==4.0.3"]
    if number(release) < OWN_PROTOCOL_SINCE:
        others.append("kafka-python==2.0.2")
    environment = client_environment(TRAITS.library, release, "aiokafka", on_progress, others)
    return Installed(TRAITS.library, dict.fromkeys(PROGRAMS, (*ENTRY, "aiokafka")), environment)


RUNTIME = Runtime(
    traits=TRAITS,
    default_release=lambda: NEWEST,
    prepare=prepare,
    consumer_defaults=lambda release: {},
)
