"""Where metrics are written: files of the textfile collector, and Pushgateways."""

from __future__ import annotations

import re
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from prometheus_client import push_to_gateway, pushadd_to_gateway
from prometheus_client.exposition import basic_auth_handler, default_handler

from chaos.errors import MetricsError
from chaos.history.metrics.families import Family, Test, registry, tests_of, textfile_text, up_family
from chaos.run.directory import write_atomically

JOB = "aftershock"
TIMEOUT_S = 10
_UP = re.compile(rf"^{up_family(True).name} .*$", re.MULTILINE)


class Target(ABC):
    """One target. Each method raises `MetricsError`."""

    @abstractmethod
    def write(self, families: Sequence[Family], tests: Collection[Test] | None, *, whole: bool) -> None:
        """Write families. tests: the changed tests; None for all. whole: of a history, so they replace older ones."""

    @abstractmethod
    def mark_unreachable(self) -> None:
        """Say that the history cannot be reached, and keep everything else: an alert must not end because of it."""


@dataclass(frozen=True)
class Textfile(Target):
    """A file in the folder of the textfile collector; always written as a whole, in one rename."""

    path: Path

    def write(self, families: Sequence[Family], tests: Collection[Test] | None, *, whole: bool) -> None:
        """Write all families. Raises `MetricsError` for single runs: the families of other runs would be gone."""
        if not whole:
            raise MetricsError(
                f"{self.path.name} has the metrics of a history, and these are of single runs; record the runs in a "
                "history, or name a Pushgateway"
            )
        self._replace(textfile_text(families))

    def mark_unreachable(self) -> None:
        """Set the metric of the history to 0."""
        down = textfile_text([up_family(False)])
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            text = ""
        except (OSError, UnicodeDecodeError) as e:
            raise MetricsError(f"the metrics in {self.path} cannot be read ({e}); remove the file") from None
        changed, count = _UP.subn(down.splitlines()[-1], text)
        self._replace(changed if count else text + down)

    def _replace(self, text: str) -> None:
        try:
            write_atomically(self.path, text)
        except OSError as e:
            problem = f"the metrics cannot be written to {self.path}: {e.strerror}"
            raise MetricsError(f"{problem}; create the folder, or name another file") from None


@dataclass(frozen=True)
class Pushgateway(Target):
    """A Pushgateway. Each test is a group, so that runs of different tests do not replace each other.

    What concerns this machine (its run directories, its access to the history) is a group with its host name.
    """

    url: str

    def write(self, families: Sequence[Family], tests: Collection[Test] | None, *, whole: bool) -> None:
        """Push a group for the test, or for every test, and the group of this machine."""
        for one in tests_of(families) if tests is None else tests:
            of_test = [family.only(one) for family in families if family.labels[:2] == ("scenario", "variant")]
            self._push(of_test, dict(zip(("scenario", "variant"), one, strict=True)), whole)
        if rest := [family for family in families if family.labels[:1] != ("scenario",)]:
            self._push(rest, {"instance": socket.gethostname()}, whole)

    def mark_unreachable(self) -> None:
        """Push only the metric of the history, and keep the others of the group."""
        self._push([up_family(False)], {"instance": socket.gethostname()}, whole=False)

    def _push(self, families: Sequence[Family], group: dict[str, str], whole: bool) -> None:
        parts = urlsplit(self.url)
        address = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        user, password = unquote(parts.username or ""), unquote(parts.password or "")

        def handler(**request: Any) -> Callable[[], None]:
            if user:
                return basic_auth_handler(**request, username=user, password=password)
            return default_handler(**request)

        push = push_to_gateway if whole else pushadd_to_gateway
        try:
            push(address, JOB, registry(families), group, TIMEOUT_S, handler)
        except OSError as e:  # also HTTPError
            problem = f"the metrics cannot be pushed to {address}: {e}"
            raise MetricsError(f"{problem}; later: python -m chaos history metrics --to {address}") from None


def parse_target(text: str) -> Target:
    """Return the target of a path that ends with `.prom`, or of the URL of a Pushgateway. Raises `MetricsError`."""
    if text.startswith(("http://", "https://")):
        try:
            host = urlsplit(text).hostname
        except ValueError:
            host = None
        if not host:
            raise MetricsError("the URL of the Pushgateway has no host; write it as http://pushgateway:9091")
        return Pushgateway(text.rstrip("/"))
    if "://" in text or not text.endswith(".prom"):
        shown = text.rpartition("@")[2]
        raise MetricsError(
            f"{shown!r} is no target of metrics; give a file that ends with .prom, in the folder of node_exporter's "
            "textfile collector, or the URL of a Pushgateway, such as http://pushgateway:9091"
        )
    return Textfile(Path(text).absolute())
