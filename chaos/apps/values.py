"""What an instance is given: the values of its placeholders, among them its address, its port and its login."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from chaos.databases import secrets_in
from chaos.kafka.security import Access, Security
from chaos.processes.ports import free_ports
from chaos.run.directory import Run
from chaos.scenario.resolve import Resolved
from chaos.setup.apps import App
from chaos.setup.names import PRIMARY
from chaos.setup.placeholders import HTTP, PORT, ROWS, STORES, TOPIC, base_of, cluster_in

Logins = tuple[Access | None, Access | None]
"""The logins of clients and of a superuser at a cluster; None for plain connections."""
NO_PASSWORDS = {"password": "", "key_password": ""}
SECRETS = "AFTERSHOCK_SECRETS"
"""An environment variable: the names of other ones, with values that no log may show."""


def secrets_of(env: Mapping[str, str]) -> list[str]:
    """Return the secrets that an environment names, and the passwords of URLs among them."""
    named = [env[name] for name in env.get(SECRETS, "").split() if name in env]
    return [secret for value in named for secret in (value, *secrets_in(value))]


class Values:
    """The values of the placeholders of all instances of a run; the parameters are as of `Applications`.

    logins: by cluster. beside: bootstrap servers of other clusters by name. given: the ports that instances were given.
    secrets: what must not appear in a log.
    """

    def __init__(
        self,
        run: Run,
        resolved: Resolved,
        addresses: Callable[[str], str],
        logins: Mapping[str, Logins],
        receivers: Mapping[str, str],
        beside: Mapping[str, str],
        ports: Mapping[str, int],
    ) -> None:
        self._run, self._scenario, self._prefix = run, resolved.scenario, resolved.prefix
        self._addresses, self._logins = addresses, logins
        self._receivers, self._beside, self._ports = receivers, beside, ports
        self._store_password = secrets.token_urlsafe(18)
        self.given = {*ports.values()}
        used = [access for pair in logins.values() for access in pair if access]
        self.secrets = [*dict.fromkeys(text for access in used for text in access.secrets)]
        self.secrets += [self._store_password] if used else []
        self.secrets += secrets_of(os.environ)

    def of(self, app: App, number: int, folder: Path) -> Mapping[str, str]:
        """Return the values of an instance by placeholder; files that they name are written into its folder."""
        clusters = {PRIMARY: self._addresses(f"{app.name}/{number}"), **self._beside}
        port = self._ports[app.name] if number == 1 and app.name in self._ports else free_ports(1)[0]
        self.given.add(port)
        of_cluster = {name: {"bootstrap": at, **self._login(app, name, folder)} for name, at in clusters.items()}
        return {
            **of_cluster[app.cluster],
            **{f"{key}.{name}": value for name, values in of_cluster.items() for key, value in values.items()},
            "app": app.name,
            "instance": str(number),
            "name": f"{app.name}/{number}",
            "port": str(port),
            **{f"{PORT}{name}": str(port) for name, port in self._ports.items()},
            **{f"{ROWS}{name}": str(self._run.rows(file)) for name, file in self._scenario.row_files.items()},
            "data": str(folder / "data"),
            "files": str(folder / "files"),
            "directory": str(app.directory or Path.cwd()),
            "python": sys.executable,
            "group": app.groups[0] if app.groups else "",
            **{f"{HTTP}{name}": url for name, url in self._receivers.items()},
            **{f"{TOPIC}{t.name.removeprefix(self._prefix)}": t.name for t in self._scenario.topics},
        }

    def _login(self, app: App, cluster: str, folder: Path) -> dict[str, str]:
        """Return how an application logs in to a cluster, by placeholder."""
        access = self._logins[cluster][app.superuser]
        security = access.security if access else Security()
        names = ("protocol", "mechanism", "username", "ca", "certificate", "key")
        login = {name: str(getattr(security, name) or "") for name in names}
        login |= {"password": access.password, "key_password": access.key_password} if access else NO_PASSWORDS
        files = folder / "files" if cluster == app.cluster else folder / "files" / f".{cluster}"
        copies = self._copied(login, folder, files) if app.image else {}
        return login | self._stores(app, cluster, access, files) | copies

    def _stores(self, app: App, cluster: str, access: Access | None, files: Path) -> dict[str, str]:
        """Write the stores of certificates if the application names one; return the values of their placeholders."""
        made: dict[str, Path] = {}
        named = {base_of(name) for name in app.names() if (cluster_in(name) or app.cluster) == cluster}
        if access and access.security.tls and not STORES.isdisjoint(named):
            from chaos.cluster.secured.certificates import write_stores

            made = write_stores(files, self._store_password, access)
        password = self._store_password if made else ""
        return {"truststore": "", "keystore": "", "store_password": password} | {k: str(v) for k, v in made.items()}

    @staticmethod
    def _copied(login: Mapping[str, str], folder: Path, files: Path) -> dict[str, str]:
        """Return the paths of copies of certificates and keys for a container, which does not see the originals."""
        copies = {}
        for name in ("ca", "certificate", "key"):
            if login[name]:
                copy = files / f".{name}.pem"
                copy.parent.mkdir(parents=True, exist_ok=True)
                folder.chmod(0o700)  # below it, the user of the container may be any
                copy.write_bytes(Path(login[name]).read_bytes())
                copies[name] = str(copy)
        return copies

    def login(self) -> str:
        """Return how somebody logs in who starts an application, as the end of a sentence: files, and no secret."""
        access, _ = self._logins[PRIMARY]
        if access is None:
            return ""
        s = access.security
        parts = [f"{s.protocol}{f' with {s.mechanism}' if s.mechanism else ''}"]
        parts += [f"user {s.username}, password in {s.password}"] if s.sasl else []
        parts += [f"authorities in {s.ca}"] if s.ca else []
        parts += [f"certificate in {s.certificate}, key in {s.key}"] if s.certificate else []
        parts += [f"password of the key in {s.key_password}"] if s.key_password else []
        return f" ({'; '.join(parts)})"

    def use(self, app: App) -> str:
        """Return the login of an application, and its names on an existing cluster, as the end of a sentence."""
        if not self._prefix:
            return self.login()
        topics = [topic.name for topic in self._scenario.topics]
        names = f"topics {', '.join(topics)}" + (f", group {', '.join(app.groups)}" if app.groups else "")
        return f"{self.login()}; on this cluster, the names of the run are: {names}"
