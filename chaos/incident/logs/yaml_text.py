"""Text of a YAML file with comments. A YAML library quotes all values: text from logs cannot break out of one."""

from __future__ import annotations

import textwrap
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined

WIDTH = 118


def plain(text: str) -> str:
    r"""Return text as one line of printable ASCII; other characters are escaped, such as \x1b or \u2028."""
    return "".join(c if c.isascii() and c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def utc(at_us: int) -> str:
    """Return the date and time in UTC."""
    return f"{datetime.fromtimestamp(at_us / 1e6, UTC):%Y-%m-%d %H:%M:%S}"


def clock(at_us: int) -> str:
    """Return the time of day in UTC, with milliseconds."""
    return f"{datetime.fromtimestamp(at_us / 1e6, UTC):%H:%M:%S.%f}"[:-3]


def render(template: str, **values: Any) -> str:
    """Render a template in this folder."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"yaml": _flow, "comment": _comment, "todo": _todo, "source": _source}
    environment.filters |= {"utc": utc, "clock": clock}
    return environment.get_template(template).render(**values)


def _flow(data: Any) -> str:
    """Return a value in flow style, quoted and escaped where necessary."""
    text = yaml.safe_dump(data, default_flow_style=True, width=10**6, allow_unicode=False, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")


def _comment(text: str, indent: int = 0) -> str:
    margin = f"{' ' * indent}# "
    lines = textwrap.wrap(
        plain(text), WIDTH, initial_indent=margin, subsequent_indent=f"{margin}  ", break_on_hyphens=False
    )
    return "\n".join(lines)


def _todo(text: str, indent: int = 0) -> str:
    return _comment(f"TODO: {text}", indent)


def _source(source: object) -> str:
    """Return the source of a value as a comment behind it."""
    return f"  # {plain(str(source))}" if source else ""
