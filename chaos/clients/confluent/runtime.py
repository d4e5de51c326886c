"""confluent-kafka as a client library: the installed release, or any other release with a wheel.

The platform's own Kafka connections and the read-back of the final log always use the installed release.
"""

from __future__ import annotations

from importlib.metadata import version

from chaos.clients.choice import Client
from chaos.clients.confluent.traits import TRAITS
from chaos.clients.protocol import PROGRAMS, Config
from chaos.clients.python.start import ENTRY
from chaos.clients.runtime import Installed, Runtime
from chaos.clients.traits import number
from chaos.errors import ResolveError
from chaos.install.cache import Progress, silent
from chaos.install.pypi import client_environment

PACKAGE = "confluent-kafka"
OLDEST = (2, 0, 2)
"""First release with wheels for Python 3.11, the oldest Python that Aftershock supports."""

CONSUMER_DEFAULTS: Config = {
    # After its queue was full, librdkafka fetches nothing for this time (1000 ms by default), even if the application
    # empties the queue: a drain would mostly wait.
    "fetch.queue.backoff.ms": 10,
}
"""Settings of each consumer unless the scenario sets them."""
_CONSUMER_DEFAULTS_SINCE = (2, 2, 0)


def installed_release() -> str:
    """Return the release in this environment."""
    return version(PACKAGE)


def consumer_defaults(release: str | None) -> Config:
    """Return `CONSUMER_DEFAULTS` if the release knows them."""
    return CONSUMER_DEFAULTS if release is None or number(release) >= _CONSUMER_DEFAULTS_SINCE else {}


def prepare(client: Client, on_progress: Progress = silent) -> Installed:
    """Install a release; see `Runtime`."""
    return Installed(PACKAGE, PROGRAMS_IN_PYTHON, _environment(client.release, on_progress))


def _environment(release: str | None, on_progress: Progress) -> dict[str, str]:
    """Install a release, and return the environment variables of its programs."""
    if release is None or release == installed_release():
        return {}
    if number(release) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise ResolveError(f"{PACKAGE} {release} is too old: the first release that clients can use is {oldest}")
    return client_environment(PACKAGE, release, "confluent_kafka", on_progress)


PROGRAMS_IN_PYTHON = dict.fromkeys(PROGRAMS, (*ENTRY, "confluent"))

RUNTIME = Runtime(
    traits=TRAITS,
    default_release=installed_release,
    prepare=prepare,
    consumer_defaults=consumer_defaults,
)
