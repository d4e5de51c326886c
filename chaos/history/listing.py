"""Pages of the recorded runs, newest first, for a list that a person filters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, func, select

from chaos.history.tables import RUN

COLUMNS = (
    RUN.c.key,
    RUN.c.run_id,
    RUN.c.scenario,
    RUN.c.variant,
    RUN.c.title,
    RUN.c.verdict,
    RUN.c.sentence,
    RUN.c.seen,
    RUN.c.kafka,
    RUN.c.client,
    RUN.c.began_us,
    RUN.c.ended_us,
    RUN.c.run_dir,
)


@dataclass(frozen=True)
class RunFilter:
    """What a list shows; an empty value restricts nothing. since_us, until_us: of the begin, from and before."""

    scenario: str = ""
    verdict: str = ""
    kafka: str = ""
    since_us: int | None = None
    until_us: int | None = None

    @property
    def conditions(self) -> list[ColumnElement[bool]]:
        """The conditions on the table of runs."""
        equal = [(RUN.c.scenario, self.scenario), (RUN.c.verdict, self.verdict), (RUN.c.kafka, self.kafka)]
        found: list[ColumnElement[bool]] = [column == value for column, value in equal if value]
        if self.since_us is not None:
            found.append(RUN.c.began_us >= self.since_us)
        if self.until_us is not None:
            found.append(RUN.c.began_us < self.until_us)
        return found


@dataclass(frozen=True)
class ListedRun:
    """One recorded run, as a list shows it; see `chaos.history.entries.Entry`."""

    key: str
    run_id: str
    scenario: str
    variant: str
    title: str
    verdict: str
    sentence: str
    seen: str
    kafka: str
    client: str
    began_us: int
    ended_us: int
    run_dir: str

    @property
    def name(self) -> str:
        """`leader-kill`, or `retry-duplicate/idempotent` for a variant."""
        return f"{self.scenario}/{self.variant}" if self.variant else self.scenario


@dataclass(frozen=True)
class Listing:
    """One page of a list. total: number of runs that match. scenarios, releases: the values that a filter may have."""

    runs: list[ListedRun]
    total: int
    scenarios: list[str]
    releases: list[str]


def list_runs(db: Connection, wanted: RunFilter, limit: int, offset: int) -> Listing:
    """Return a page of the runs that match, the latest first."""
    rows = select(*COLUMNS).where(*wanted.conditions).order_by(RUN.c.began_us.desc(), RUN.c.key)
    total = db.execute(select(func.count()).select_from(RUN).where(*wanted.conditions)).scalar_one()
    runs = [ListedRun(**row) for row in map(dict, db.execute(rows.limit(limit).offset(offset)).mappings())]
    scenarios = db.execute(select(RUN.c.scenario).distinct().order_by(RUN.c.scenario)).scalars()
    releases = db.execute(select(RUN.c.kafka).distinct()).scalars()
    return Listing(runs, total, list(scenarios), _by_release(releases))


def recorded_dirs(db: Connection) -> list[str]:
    """Return the run directories of all recorded runs."""
    return list(db.execute(select(RUN.c.run_dir)).scalars())


def _by_release(releases: Iterable[str]) -> list[str]:
    """Return releases, the newest first: 4.10.0 before 4.9.0."""

    def numbers(release: str) -> list[int]:
        return [int(part) if part.isdecimal() else 0 for part in release.split(".")]

    return sorted((r for r in releases if r), key=numbers, reverse=True)
