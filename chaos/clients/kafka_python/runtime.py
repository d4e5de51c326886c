"""kafka-python as a client library: any release with a wheel that runs on this Python.

The platform's own release, from which it takes protocol schemas, stays as it is: client processes see another one
first on their module path.
"""

from __future__ import annotations

from chaos.clients.choice import Client
from chaos.clients.kafka_python.traits import NEWEST, TRAITS
from chaos.clients.protocol import Program
from chaos.clients.python.start import ENTRY
from chaos.clients.runtime import Installed, Runtime
from chaos.install.cache import Progress
from chaos.install.pypi import CODECS, client_environment

PROGRAMS: tuple[Program, ...] = ("producer", "group_consumer", "assign_consumer")


def prepare(client: Client, on_progress: Progress) -> Installed:
    """Install a release; see `Runtime`."""
    environment = client_environment(TRAITS.library, client.release or NEWEST, "kafka", on_progress, CODECS)
    return Installed(TRAITS.library, dict.fromkeys(PROGRAMS, (*ENTRY, "kafka_python")), environment)


RUNTIME = Runtime(
    traits=TRAITS,
    default_release=lambda: NEWEST,
    prepare=prepare,
    consumer_defaults=lambda release: {},
)
