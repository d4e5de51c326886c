"""URLs of databases, with their secrets, and what keeps the secrets out of messages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote, unquote_plus

from chaos.errors import UsageError
from chaos.kafka.security import read_secret
from chaos.processes.scrub import Scrubber

if TYPE_CHECKING:
    from sqlalchemy import Engine
    from sqlalchemy.engine import URL

ENCODED = (
    "; in a name or password, write % as %25, / as %2F, : as %3A, @ as %40, # as %23, ? as %3F, a space as %20 and a "
    "line break as %0A"
)
FOR_NOW = re.compile(
    r"did not answer within|is locked|lock wait|too many (?:clients|connections)|starting up|recovery", re.IGNORECASE
)
"""What the error of a database contains that may be over a little later."""
_PASSWORD = re.compile(r"(?:://[^/@\s]*?:|[?;&](?:password|pwd|passwd)=)([^@;&\s]+)", re.IGNORECASE)

PARAMETER = re.compile(r"(?<![:\w\\]):([A-Za-z_]\w*)")
"""A parameter of a statement, such as `:order_id`; a cast such as `::jsonb` is none."""
_QUOTED = re.compile(r"\"[^\"]*(?:\"|$)|'[^']*(?:'|$)")


def database_url(given: str, setting: str) -> str:
    """Return the URL of a database with its secret, from a URL or a reference.

    setting: the key that has it, for messages. Raises `UsageError` if the reference leads nowhere, or to no URL.
    """
    url = read_secret(given, setting) if given.startswith(("env:", "file:")) else given
    if not by_spark(url):
        from sqlalchemy import make_url
        from sqlalchemy.exc import ArgumentError

        try:
            parts = make_url(url)
        except (ArgumentError, ValueError):  # the message has the URL, or a part of it
            raise UsageError(f"{setting}: {given} is no URL of a database{ENCODED}") from None
        if problem := _login_problem(url, parts):
            raise UsageError(f"{setting}: the login in {given} {problem}{ENCODED}")
    return url


def _login_problem(url: str, parts: URL) -> str:
    """Return how a URL is read otherwise than it is meant, as far as that shows."""
    if parts.get_backend_name() == "sqlite":
        return ""
    if "@" in f"{parts.host}{parts.database}":
        return "ends at another place than its last @"
    if any(ord(char) < ord(" ") for char in url):
        return "has a line break or another control character"
    login = url.partition("://")[2].rpartition("@")[0]
    return "has a % that encodes nothing" if re.search(r"%(?![0-9A-Fa-f]{2})", login) else ""


def by_spark(url: str) -> bool:
    """Return whether Spark reads a database: the run does not look at it while it drives."""
    return url.startswith("jdbc:")


def engine_of(url: URL, connect_s: int) -> Engine:
    """Return the engine of a database, without a pool. connect_s: limit of a connection, where its driver has one."""
    from sqlalchemy import create_engine
    from sqlalchemy.pool import NullPool

    limit = {"connect_timeout": connect_s} if url.get_backend_name() in ("postgresql", "mysql") else {}
    return create_engine(url, poolclass=NullPool, connect_args=limit)


def scrubber(url: str) -> Scrubber:
    """Return what replaces the URL and the password in it, in messages."""
    return Scrubber(secrets_in(url))


def secrets_in(url: str) -> list[str]:
    """Return a URL with a password, and the password; nothing for another text."""
    written = [*_PASSWORD.findall(url), *_parsed_passwords(url)]
    passwords = {form for password in written for form in (password, unquote(password), unquote_plus(password))}
    return [*([url] if passwords else []), *passwords]


def _parsed_passwords(url: str) -> list[str]:
    """Return the passwords in a URL as SQLAlchemy reads them: they may have a character that should be encoded."""
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        parts = make_url(url)
    except (ArgumentError, ValueError):  # a URL of Spark
        return []
    named = [value for name, value in parts.query.items() if name.lower() in ("password", "pwd", "passwd")]
    texts = [text for value in named for text in ([value] if isinstance(value, str) else value)]
    return [text for text in (str(parts.password or ""), *texts) if text]


def without_values(reason: str) -> str:
    """Return the message of a database without quoted texts: a value that does not fit its type is one."""
    return _QUOTED.sub("…", reason)
