"""Placeholders in the texts that a scenario gives an application, such as `{bootstrap}`, and how they are filled."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from functools import reduce
from html import escape
from typing import Annotated, Any
from urllib.parse import quote

from pydantic import AfterValidator

from chaos.kafka.security import jaas
from chaos.setup.names import nearest

PLACEHOLDERS = {
    "bootstrap": "the address of the brokers, for this instance",
    "app": "the name of the application, such as billing",
    "instance": "the number of the instance, from 1",
    "name": "the name of the instance, such as billing/1",
    "port": "a free port of this machine, the same in every incarnation of the instance",
    "data": "a folder of the instance, which stays over its restarts",
    "files": "the folder with the files that were made from templates",
    "directory": "the working directory",
    "python": "the Python that runs Aftershock",
    "group": "the group id, as it is in the cluster",
    "protocol": "the security protocol, such as SASL_SSL",
    "mechanism": "the SASL mechanism",
    "username": "the name of the login",
    "password": "the password of the login; a template file with it has mode 600, and the end of the run removes it",
    "ca": "the file with the authorities that sign the certificates of the brokers (PEM)",
    "certificate": "the file with the certificate of the client (PEM)",
    "key": "the file with its private key (PEM)",
    "key_password": "the password of that key, on an existing cluster; empty if the key is not encrypted",
    "truststore": "the same authorities as PKCS#12, for programs in Java",
    "keystore": "certificate and private key of the client as PKCS#12",
    "store_password": "the password of these two stores, drawn for each run",
}
"""The placeholders, and their meanings. Besides, `{topic.orders}` is the name of a topic as it is in the cluster,
`{http.invoices}` the address of the receiver of an effect, `{bootstrap.dr}` the address of the cluster dr and
`{password.dr}` a part of the login there, `{port.db}` the port of the first instance of another application, and
`{rows.shop}` the file of a producer of rows. A form of `FORMS` may follow: `{password|json}`."""
TOPIC, HTTP, BOOTSTRAP, PORT, ROWS = "topic.", "http.", "bootstrap.", "port.", "rows."
_NAMED = tuple(f"{kind}NAME" for kind in (TOPIC, HTTP, ROWS))
OF_MACHINE = frozenset({"python", "directory"})
"""The placeholders that mean something of this machine, which a container does not have."""
STORES = frozenset({"truststore", "keystore", "store_password"})
SECRETS = frozenset({"password", "key_password", "store_password"})
LOGIN = frozenset({"mechanism", "username", "password", "ca", "certificate", "key", "key_password"}) | STORES
"""The placeholders that only a secured cluster fills."""
OF_CLUSTER = LOGIN | {"bootstrap", "protocol"}
"""The placeholders with another value at each cluster: the application's own cluster, or with `.NAME` the named one."""
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\f": r"\f"})


def _as_property(text: str) -> str:
    """Return a value as java.util.Properties reads it, in any encoding of the file."""
    ascii_only = re.sub(r"[^\x00-\x7f]", lambda match: json.dumps(match[0])[1:-1], text.translate(_ESCAPES))
    return f"\\{ascii_only}" if ascii_only.startswith(" ") else ascii_only


FORMS: dict[str, Callable[[str], str]] = {
    "json": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "properties": _as_property,
    "jaas": jaas,
    "shell": shlex.quote,
    "xml": lambda text: escape(text, quote=True).replace("\n", "&#10;").replace("\r", "&#13;"),
    "url": lambda text: quote(text, safe=""),
    "host": lambda text: text.split(",")[0].rpartition(":")[0],
    "port": lambda text: text.split(",")[0].rpartition(":")[2],
}
"""How a value is written where a file has its own rules, because a password has quotes and line ends.

json: inside the double quotes of JSON, YAML, TOML or dotenv. properties: a value of a properties file. jaas: inside the
double quotes of a JAAS line. shell: a word of a shell, with its quotes. xml: text or attribute. url: a part of a URL.
host, port: a part of an address, of the first one of several: `{bootstrap|host}`. Several forms are applied in turn:
`{password|jaas|properties}`."""
_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([a-z][a-z_]*(?:\.[A-Za-z0-9._-]+)?)((?:\|[a-z]+)*)\}")


def placeholders(text: str) -> Iterator[str]:
    """Yield the names between single braces in a text, such as `bootstrap`."""
    yield from (match[1] for match in _PLACEHOLDER.finditer(text) if match[1])


def is_placeholder(name: str) -> bool:
    """Return whether a name has a value in an application, if the scenario has that topic or effect."""
    return base_of(name) in PLACEHOLDERS or name.startswith((TOPIC, HTTP, PORT, ROWS))


def cluster_in(name: str) -> str:
    """Return the cluster that a placeholder names, such as dr of `password.dr`; empty if it names none."""
    base, _, cluster = name.partition(".")
    return cluster if base in OF_CLUSTER else ""


def base_of(name: str) -> str:
    """Return a placeholder without the cluster that it names, such as `password` for `password.dr`."""
    return name.partition(".")[0] if cluster_in(name) else name


def names_brokers(name: str) -> bool:
    """Return whether the value of a placeholder is the address of a cluster."""
    return base_of(name) == "bootstrap"


def filled(text: str, values: dict[str, str], strict: bool = True) -> str:
    """Return a text with its placeholders replaced, and `{{` and `}}` as single braces.

    Without `strict`, what is no placeholder stays as it is, as in a template file with other braces.
    """

    def replace(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0][0] if strict else match[0]
        if not strict and match[1] not in values:
            return match[0]
        return reduce(lambda value, form: FORMS[form](value), match[2].split("|")[1:], values[match[1]])

    return _PLACEHOLDER.sub(replace, text)


def _check_text(text: str) -> str:
    for name in placeholders(text):
        if not is_placeholder(name):
            near = nearest(name, (*PLACEHOLDERS, *_NAMED))
            raise ValueError(f"{{{name}}} is no placeholder{near}; write {{{{{name}}}}} for the text itself")
    for problem in form_problems(text):
        raise ValueError(problem)
    return text


def form_problems(text: str) -> Iterator[str]:
    """Yield the forms of placeholders that do not exist."""
    for match in _PLACEHOLDER.finditer(text):
        for form in (match[2] or "").split("|")[1:]:
            if is_placeholder(match[1]) and form not in FORMS:
                yield f"{match[0]}: there is no form {form}{nearest(form, FORMS)}; there are {', '.join(FORMS)}"


Text = Annotated[str, AfterValidator(_check_text)]
"""A text with placeholders."""


def as_text(value: Any) -> Any:
    """Return numbers and truth values as an environment has them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value
