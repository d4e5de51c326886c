"""What an instance is given: the values of its placeholders, among them its address, its port and its login."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from chaos.kafka.security import Access, Security
from chaos.processes.ports import free_ports
from chaos.run.directory import Run
from chaos.scenario.resolve import Resolved
from chaos.setup.apps import App
from chaos.setup.names import PRIMARY
from chaos.setup.placeholders import BOOTSTRAP, HTTP, PORT, ROWS, STORES, TOPIC


class Values:
    """The values of the placeholders of all instances of a run; the parameters are as of `Applications`.

    given: the ports that instances were given. secrets: what must not appear in a log.
    """

    def __init__(
        self,
        run: Run,
        resolved: Resolved,
        addresses: Callable[[str], str],
        access: Access | None,
        receivers: Mapping[str, str],
        beside: Mapping[str, str],
        ports: Mapping[str, int],
    ) -> None:
        self._run, self._scenario, self._prefix = run, resolved.scenario, resolved.prefix
        self._addresses, self._access = addresses, access
        self._receivers, self._beside, self._ports = receivers, beside, ports
        self._store_password = secrets.token_urlsafe(18)
        self.given = {*ports.values()}
        self.secrets = [*access.secrets, self._store_password] if access else []

    def of(self, app: App, number: int, folder: Path) -> Mapping[str, str]:
        """Return the values of an instance by placeholder; files that they name are written into its folder."""
        security = self._access.security if self._access else Security()
        names = ("mechanism", "username", "ca", "certificate", "key")
        login = {name: str(getattr(security, name) or "") for name in names}
        login |= self._stores(app, folder) | (self._copied(login, folder) if app.image else {})
        clusters = {PRIMARY: self._addresses(f"{app.name}/{number}"), **self._beside}
        port = self._ports[app.name] if number == 1 and app.name in self._ports else free_ports(1)[0]
        self.given.add(port)
        return {
            "bootstrap": clusters[app.cluster],
            **{f"{BOOTSTRAP}{name}": address for name, address in clusters.items()},
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
            "protocol": security.protocol,
            **login,
            "password": self._access.password if self._access else "",
            "key_password": self._access.key_password if self._access else "",
            **{f"{HTTP}{name}": url for name, url in self._receivers.items()},
            **{f"{TOPIC}{t.name.removeprefix(self._prefix)}": t.name for t in self._scenario.topics},
        }

    def _stores(self, app: App, folder: Path) -> dict[str, str]:
        """Write the stores of certificates if the application names one; return the values of their placeholders."""
        made: dict[str, Path] = {}
        if self._access and self._access.security.tls and not STORES.isdisjoint(app.names()):
            from chaos.cluster.secured.certificates import write_stores

            made = write_stores(folder / "files", self._store_password, self._access)
        password = self._store_password if made else ""
        return {"truststore": "", "keystore": "", "store_password": password} | {k: str(v) for k, v in made.items()}

    def _copied(self, login: Mapping[str, str], folder: Path) -> dict[str, str]:
        """Return the paths of copies of certificates and keys for a container, which does not see the originals."""
        copies = {}
        for name in ("ca", "certificate", "key"):
            if login[name]:
                copy = folder / "files" / f".{name}.pem"
                copy.parent.mkdir(parents=True, exist_ok=True)
                folder.chmod(0o700)  # below it, the user of the container may be any
                copy.write_bytes(Path(login[name]).read_bytes())
                copies[name] = str(copy)
        return copies

    def login(self) -> str:
        """Return how somebody logs in who starts an application, as the end of a sentence: files, and no secret."""
        if self._access is None:
            return ""
        s = self._access.security
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
