"""Publishing of metrics: what the history contains, and the states of run directories.

The targets are files of the textfile collector, and Pushgateways.
"""

from __future__ import annotations

import os
import re
import socket
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from operator import methodcaller
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from prometheus_client import push_to_gateway, pushadd_to_gateway
from prometheus_client.exposition import basic_auth_handler, default_handler

from chaos.errors import MetricsError
from chaos.history.entries import Entry
from chaos.history.metrics.families import (
    Family,
    Test,
    history_families,
    registry,
    run_families,
    state_family,
    tests_of,
    textfile_text,
    up_family,
)
from chaos.history.runs import MAX_DEPTH
from chaos.history.store import Store
from chaos.run.directory import Run, write_atomically
from chaos.run.events import read_events

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


ATTEMPTS = 20


def all_families(entries: Sequence[Entry], runs_dir: Path) -> list[Family]:
    """Return everything that is published of a history and of the folder of the runs."""
    return [up_family(True), *history_families(entries), state_family(count_states(runs_dir))]


def publish_history(
    store: Store, runs_dir: Path, targets: Sequence[Target], changed: Collection[Test] | None = None
) -> None:
    """Write the metrics of a history to every target.

    changed: the tests with groups to push; all if left out. If runs were added meanwhile, it writes again: another
    process may have written them before this one wrote its older state. Raises `HistoryError`, `MetricsError`.
    """
    for _ in range(ATTEMPTS):
        before = _content(store, runs_dir)
        families = all_families(store.entries(), runs_dir)
        _each(targets, methodcaller("write", families, changed, whole=True))
        if _content(store, runs_dir) == before:
            return
    raise MetricsError(
        f"the history changed during each of {ATTEMPTS} attempts to publish its metrics; "
        "later: python -m chaos history metrics --to TARGET"
    )


def publish_runs(entries: Sequence[Entry], targets: Sequence[Target]) -> None:
    """Write the metrics of single runs to every target. Groups of a Pushgateway keep their other metrics."""
    _each(targets, methodcaller("write", run_families(entries), None, whole=False))


def mark_unreachable(targets: Sequence[Target]) -> None:
    """Say at every target that the history cannot be reached; everything else stays."""
    _each(targets, methodcaller("mark_unreachable"))


def _each(targets: Sequence[Target], write: Callable[[Target], None]) -> None:
    errors = []
    for target in targets:
        try:
            write(target)
        except MetricsError as e:
            errors.append(str(e))  # the other targets still get theirs
    if errors:
        raise MetricsError("; ".join(errors))


def _content(store: Store, runs_dir: Path) -> Any:
    return store.digests(), count_states(runs_dir)


STATES = ("in_progress", "judged", "broken_off")
SILENCE_S = 6 * 3600.0
"""Seconds without an event after which a run without a result has broken off."""


def count_states(runs_dir: Path) -> dict[str, int]:
    """Return the number of run directories in each state below a folder; all zero if it does not exist."""
    counts = Counter(_state(run) for run in _runs(runs_dir, MAX_DEPTH))
    return {state: counts[state] for state in STATES}


def _runs(folder: Path, depth: int) -> Iterator[Run]:
    """Yield the run directories. It does not look into them: a run may have thousands of files."""
    if (folder / "resolved.json").is_file():
        yield Run(folder)
        return
    try:
        below = [Path(entry.path) for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except OSError:  # removed meanwhile, or not readable
        return
    for path in below if depth else ():
        yield from _runs(path, depth - 1)


def _state(run: Run) -> str:
    if run.result.is_file():
        return "judged"
    events = read_events(run)
    last = {event.get("stage"): event.get("state") for event in events if event.get("kind") == "stage"}
    began_us = events[-1].get("at_us", 0) if events else run.resolved.stat().st_mtime * 1e6
    silent = time.time() - began_us / 1e6 > SILENCE_S
    return "broken_off" if silent or "failed" in last.values() else "in_progress"
