"""What the databases of effects show before anything starts.

A database that does not answer, and a query that its tables refuse, are mistakes that a run would show only at its end.
A table that does not exist may be one that the application creates.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from chaos.databases import ENCODED, FOR_NOW, by_spark
from chaos.effects.sources import Query, SourceError, ask_jdbc, url_of
from chaos.errors import UsageError
from chaos.setup.effects import Effect

_TABLE = re.compile(
    r"no such table: (?P<sqlite>\S+)|relation \"(?P<postgres>[^\"]+)\"|Table '(?P<mysql>[^']+)'|file (?P<file>.+)$",
    re.IGNORECASE,
)
_AWAY = re.compile(r"refused|can't connect|could not connect", re.IGNORECASE)
_LOGIN = re.compile(r"authentication|access denied|login failed|password", re.IGNORECASE)


YET, READY = "yet", "although the application is ready"


def warnings(effects: Iterable[Effect], hidden: bool, since: str = YET, started: bool = False) -> list[str]:
    """Return a line for each database with rows that cannot be read now, but may be later: no table, or locked.

    Raises `UsageError` for a database that does not answer, and for a query that it refuses. Of a database that Spark
    reads only the address is tried. hidden: as for `Query`. since: YET or READY. started: whether an application of the
    run may be what starts a database.
    """
    found = (_warning(e, hidden, since, started) for e in effects if e.sql is not None and e.app is None)
    return [line for line in found if line]


def _warning(effect: Effect, hidden: bool, since: str, started: bool) -> str:
    url = url_of(effect)
    try:
        if by_spark(url):
            ask_jdbc(effect, url)
            return ""
        columns = Query(effect, hidden).columns()
    except SourceError as e:
        reason = str(e).partition(" cannot be read: ")[2]
        if e.absent:
            return f"effect {effect.name}: {_missing(reason)} does not exist {since}; the application has to create it"
        if FOR_NOW.search(reason):
            return f"{e}; the run looks again"
        if started and not e.connected and _AWAY.search(reason):
            return f"{e}; an application of the run has to start it"
        raise UsageError(_mistake(effect, e, reason)) from None
    for key in ("id", "value", "at"):
        name = getattr(effect, key)
        if name is not None and name not in columns:
            raise UsageError(
                f"effects: {effect.name}: {key}: the query has no column {name!r}; it has {', '.join(columns)}"
            )
    return ""


def _missing(reason: str) -> str:
    match = _TABLE.search(reason)
    if match is None:
        return f"a table of the query ({reason})"
    kind, name = next((kind, name) for kind, name in match.groupdict().items() if name)
    return f"{'file' if kind == 'file' else 'table'} {name}"


def _mistake(effect: Effect, error: SourceError, reason: str) -> str:
    if error.connected:
        wrong = "URL" if "not a database" in reason else "query"
        return f"effects: {effect.name}: query: the database {effect.sql} refuses it: {reason}; correct the {wrong}"
    hint = ENCODED if _LOGIN.search(reason) else ""
    return (
        f"effects: {effect.name}: sql: the database {effect.sql} cannot be read: {reason}; start it, or correct its URL"
        f"{hint}"
    )
