"""The settings that each release of Kafka and of its client libraries knows: names, releases, values.

A table in `tables/` has one setting a line: name, first release, last release (or line of releases), values; an empty
release is open. The table of brokers adds the line of releases from which a running broker changes the setting; see
`dynamic_problem`. The libraries themselves print names and values: the `ConfigDef` of Kafka's classes, librdkafka's
`rd_kafka_conf_properties_show`; settings of the other libraries are from their sources. A setting with other values in
another release has a line for each.

| values | what a setting takes |
|---|---|
| `boolean`, `flag` | true or false in any case; `flag`: also t, f, 1 and 0 |
| `int LOW HIGH`, `float LOW HIGH` | a number in this range (`-`: open); `int/all`: also `all` |
| `one a\\|b`, `list a\\|b` | one of these texts, or several with commas |
| `one/i`, `list/class` | the same in any case; the same, or a class by its full name |
| `duration` | a duration of Go, such as 500ms |
| `text`, `callback` | any text; nothing that a scenario can give |

`other` after the values: the library ignores the setting in this role.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from chaos.kafka.settings import Scalar, as_text
from chaos.units import parse_duration, parse_size

Release = tuple[int, ...]

_GO_DURATION = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))*|0")
_INTEGER = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_TRUTHS = {"boolean": ("true", "false"), "flag": ("true", "false", "t", "f", "1", "0")}
_LONGEST = 60
"""Longest value that a message repeats."""


@dataclass(frozen=True)
class Known:
    """A setting in some releases. since, until: its first and last release, or line of releases; empty if open.

    dynamic: the first line of releases in which a running broker changes it (2.8 also for earlier ones); empty if none.
    """

    since: str
    until: str
    values: str
    dynamic: str = ""

    def begins_after(self, release: str) -> bool:
        """Return whether a release is older than the first one that has it."""
        return bool(self.since) and numbers(release) < numbers(self.since)

    def ends_before(self, release: str) -> bool:
        """Return whether a release is newer than the last one that has it."""
        return bool(self.until) and numbers(release)[: self.until.count(".") + 1] > numbers(self.until)


@dataclass(frozen=True)
class Source:
    """A table with settings that a client takes; without a table, any name with the prefix.

    prefix: the beginning of each name. separator: between the words of a name in the table; a scenario may write dots.
    releases: the release of the software in the table, by the first release of the client that uses it; empty if the
    table has the releases of the client.
    """

    table: str = ""
    prefix: str = ""
    separator: str = "."
    releases: Mapping[str, str] = field(default_factory=dict)

    def release(self, of_client: str | None) -> str | None:
        """Return the release of the software in the table."""
        if not self.releases or of_client is None:
            return None if self.releases else of_client
        return self.releases[max((r for r in self.releases if numbers(r) <= numbers(of_client)), key=numbers)]

    def rows(self, name: str) -> tuple[Known, ...]:
        """Return the lines of a setting in the table; none if it has no such setting."""
        if not self.table or not name.startswith(self.prefix):
            return ()
        return table(self.table).get(name.removeprefix(self.prefix).replace(".", self.separator), ())

    def names(self) -> Iterator[str]:
        """Yield all names that the client takes."""
        yield from (self.prefix + name for name in (table(self.table) if self.table else ()))


@cache
def table(name: str) -> dict[str, tuple[Known, ...]]:
    """Return a table in `tables/`, such as `java-producer` or `topic`, by the names of the settings."""
    found: dict[str, tuple[Known, ...]] = {}
    for line in (Path(__file__).parent / "tables" / f"{name}.tsv").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            setting, *known = line.split("\t")
            found[setting] = (*found.get(setting, ()), Known(*known))
    return found


def numbers(release: str) -> Release:
    """Return a release as numbers, for comparisons."""
    return tuple(int(part) for part in re.findall(r"\d+", release))


def near(name: str, names: Iterable[str], cutoff: float = 0.75) -> str:
    """Return the most similar name, however it separates its words; empty if none is similar."""
    plain = {re.sub(r"[._\-]", ".", own.lower()): own for own in sorted(names, reverse=True)}
    found = get_close_matches(re.sub(r"[._\-]", ".", name.lower()), plain, 1, cutoff)
    return plain[found[0]] if found else ""


def setting_problem(
    sources: Sequence[Source], release: str | None, software: str, name: str, value: Scalar, passed: bool = False
) -> str:
    """Return what is wrong with a setting, as the end of a sentence that begins with its name; empty if nothing is.

    release: None for an unknown one, which may be any. software: what has the settings, for the message. passed: a
    plugin may read names that the software does not know.
    """
    known = [(source, rows) for source in sources if (rows := source.rows(name))]
    if not known:
        if any(not source.table and name.startswith(source.prefix) for source in sources):
            return ""
        found = near(name, (other for source in sources for other in source.names()), 0.93 if passed else 0.75)
        if passed and not found:
            return ""
        return f"is no setting of {software}" + (f" (did you mean {found}?)" if found else "")
    problems = [_problem(rows, s.release(release), software, value) for s, rows in known]
    return "" if "" in problems else problems[0]


def _problem(rows: Sequence[Known], release: str | None, software: str, value: Scalar) -> str:
    if release is None:
        problems = [value_problem(row.values, value) for row in rows]
        return "" if "" in problems else problems[-1]
    begun = [row for row in rows if not row.begins_after(release)]
    if not begun:
        return f"is no setting of {software}; it exists from {rows[0].since} on"
    if begun[-1].ends_before(release):
        return f"is no setting of {software}; it exists up to {begun[-1].until}"
    return value_problem(begun[-1].values, value)


_RATES = (
    *("leader.replication.throttled.rate", "follower.replication.throttled.rate"),
    "replica.alter.log.dirs.io.max.bytes.per.second",
)
"""Rates of replication throttles (KIP-73): running brokers take them, and no `ConfigDef` has them."""
_SET_BY_US = ("listener", "advertised.", "sasl.", "ssl.", "principal.builder.", "cordoned.")
_OF_A_LISTENER = re.compile(
    r"listener\.name\.[^.]+\.(max\.connections|max\.connection\.creation\.rate|num\.network\.threads)"
)


def dynamic_problem(name: str, release: str | None) -> str:
    """Return why a running broker does not change a setting (KIP-226), as the end of a sentence; empty if it does.

    The table has the settings with the update mode cluster-wide; one broker may have its own value of such a setting.
    Settings with the mode per-broker belong to listeners and their security. release: None for any.
    """
    if own := _OF_A_LISTENER.fullmatch(name):
        name = own[1]
    if name.startswith(_SET_BY_US):
        return "belongs to listeners and folders, which Aftershock sets itself"
    if name in _RATES:
        return ""
    changed = {other: rows[-1] for other, rows in table("broker").items() if rows[-1].dynamic}
    if name not in changed:
        found = get_close_matches(name, [*changed, *_RATES], 1, 0.85)
        hint = f"; did you mean {found[0]}?" if found else ", from the start"
        return f"no broker takes it while it runs (KIP-226); give it in cluster.config{hint}"
    known = changed[name]
    if release is not None and numbers(release)[:2] < numbers(known.dynamic):
        return f"brokers take it while they run from Kafka {known.dynamic} on, not in {release}"
    if release is not None and known.ends_before(release):
        return f"Kafka {release} has no such setting; it exists up to {known.until}"
    return ""


def value_problem(values: str, value: Scalar) -> str:
    """Return why `values` of a table do not contain a value; empty if they do."""
    kind, _, rest = values.removesuffix(" other").partition(" ")
    text = as_text(value).strip()
    reason = _reason(kind, rest, text, value)
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return f"is {shown!r}; {reason}" if reason else ""


def _reason(kind: str, rest: str, text: str, value: Scalar) -> str:
    base, _, mode = kind.partition("/")
    if base == "callback":
        return "it takes a function of the application, which a scenario cannot give"
    if base in _TRUTHS:
        return "" if text.lower() in _TRUTHS[base] else "it takes true or false"
    if base in ("int", "float"):
        low, high = rest.split()
        reason = "" if mode and text.lower() == mode else _number_reason(base, low, high, text)
        return reason + (f", or {mode}" if mode and reason else "")
    if base == "duration":
        plain = f": {value}ms or {value}s" if isinstance(value, int) and not isinstance(value, bool) else ""
        return "" if _GO_DURATION.fullmatch(text) else f"it takes a duration such as 500ms or 10s{plain}"
    if base in ("one", "list"):
        return _choice_reason(rest.split("|"), [text] if base == "one" else text.split(","), mode)
    return ""


def _number_reason(base: str, low: str, high: str, text: str) -> str:
    wanted = "a whole number" if base == "int" else "a number"
    limits = _limits(low, high)
    if not (_INTEGER if base == "int" else _NUMBER).fullmatch(text):
        return f"it takes {wanted}{limits}{''.join(_converted(text))}"
    found = int(text) if base == "int" else float(text)
    inside = (low == "-" or found >= float(low)) and (high == "-" or found <= float(high))
    return "" if inside else f"it takes {wanted}{limits}"


def _limits(low: str, high: str) -> str:
    bounded = [bound not in ("-", *map(str, _WIDTHS)) for bound in (low, high)]
    return {
        (True, True): f" from {low} to {high}",
        (True, False): f" from {low} on",
        (False, True): f" up to {high}",
        (False, False): "",
    }[bounded[0], bounded[1]]


_WIDTHS = {sign for bits in (16, 32, 64) for sign in (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)}
"""Ends of the types of integers, which nobody means."""


def _converted(text: str) -> Iterator[str]:
    """Yield how to write a duration or a size as a plain number."""
    try:
        days = re.fullmatch(r"(\d+)\s*d", text)
        seconds = int(days[1]) * 86_400.0 if days else parse_duration(text)
        yield f"; if it is in ms, {text} is {round(seconds * 1000)}"
    except ValueError:
        try:
            yield f"; in bytes, {text} is {parse_size(text)}"
        except ValueError:
            return


def _choice_reason(choices: Collection[str], given: Sequence[str], mode: str) -> str:
    for part in (part.strip() for part in given):
        if _is_among(part, choices, mode):
            continue
        found = near(part, choices, 0.6)
        listed = ", ".join(choice.replace(":*", ":…") for choice in choices)
        hint = f" (did you mean {found}?)" if found else ""
        named = f"; {part!r} is none of them" if len(given) > 1 else ""
        return f"the values are {listed}{named}{hint}"
    return ""


def _is_among(part: str, choices: Collection[str], mode: str) -> bool:
    if mode == "i":
        part, choices = part.lower(), {choice.lower() for choice in choices}
    if part in choices or any(c.endswith(":*") and part.startswith(c[:-1]) for c in choices):
        return True
    package, _, short = part.rpartition(".")
    return mode == "class" and (short in choices or (package != "" and not package.startswith("org.apache.kafka.")))
