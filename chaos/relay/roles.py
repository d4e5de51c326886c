"""What both roles of the relay share: the names of their files, addresses, and the book of what is in force."""

from __future__ import annotations

import ssl
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from chaos.kafka.security import read_secret

T = TypeVar("T")

Role = Literal["proxy", "switch"]

Listener = Literal["clients", "peers", "quorum"]
"""The listeners of a broker, by who connects to them. The proxy is in front of `clients` only."""

StepApi = Literal[
    "Produce",
    "JoinGroup",
    "SyncGroup",
    "LeaveGroup",
    "OffsetFetch",
    "OffsetCommit",
    "InitProducerId",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "TxnOffsetCommit",
    "EndTxn",
    "ShareAcknowledge",
]
"""The requests that are steps of a client's work. A client repeats the others all the time, whatever it does."""
MomentApi = Literal[StepApi, "Fetch", "ShareFetch", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat"]
"""The requests that can be a moment of a client's work: the last step says where in the work they are."""

Payloads = Literal["none", "needed", "all"]
"""What a capture keeps of the records in Produce requests. See `chaos.relay.capture`."""

Address = tuple[str, int]
Endpoints = Mapping[int, Mapping[Listener, Address]]
"""The address of each listener of each broker."""


@dataclass(frozen=True)
class Encryption:
    """TLS at the proxy, which ends the connections of clients, and makes its own ones to the brokers. PEM files.

    store: key and certificate of the proxy. ca: authorities that sign the certificates of brokers and clients; empty:
    the system's. certificate, key: with which the proxy identifies itself at the brokers; empty if no client does.
    key_password: where the password of the key is (`chaos.kafka.security.Secret`); empty if it is not encrypted.
    asked: whether the proxy asks clients for their certificates. verify_hostname: whether the certificate of a broker
    has to have its name.
    """

    store: str
    ca: str
    certificate: str = ""
    key: str = ""
    key_password: str = ""
    asked: bool = True
    verify_hostname: bool = True

    def contexts(self) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        """Return the contexts for the connections of clients, and for those to the brokers.

        Raises `OSError`, and `UsageError` if the password of the key is not there.
        """
        clients, brokers = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
        clients.load_cert_chain(self.store)
        brokers.check_hostname = self.verify_hostname
        if self.ca:
            brokers.load_verify_locations(self.ca)
        if self.certificate and self.asked:
            clients.load_verify_locations(self.ca)
            clients.verify_mode = ssl.CERT_REQUIRED
        if self.certificate:
            password = read_secret(self.key_password or None, "cluster.security.key_password")
            brokers.load_cert_chain(self.certificate, self.key, password or None)
        return clients, brokers


def socket_name(role: Role) -> str:
    """Return the name of the control socket in the run directory."""
    return f"{role}.sock"


def address_name(role: Role) -> str:
    """Return the name of the file in the run directory that holds the relay's own addresses."""
    return f"{role}.json"


@dataclass
class Active(Generic[T]):
    """A rule or cut in force."""

    id: int
    item: T
    hits: int = 0
    """Frames that the rule matched, or pieces of data that the cut held."""
    released: int = 0
    """Frames that the rule held until another one had passed."""
    skipped: int = 0
    """Frames that matched before the first hit."""
    front: str = ""
    broker: int = -1
    """The front and the broker of the last hit of a rule."""
    outlived: int = 0
    """Frames that the rule held, and that reached the broker after their client had closed the connection."""


@dataclass
class Book(Generic[T]):
    """The rules or cuts in force, by id."""

    active: dict[int, Active[T]] = field(default_factory=dict)
    moments: dict[str, Counter[tuple[str, str]]] = field(default_factory=dict)
    """How often each moment came, by front: pairs of the last step and the moment. The switch counts none."""
    steps: dict[str, str] = field(default_factory=dict)
    """The last step of the process at each front, such as `OffsetCommit response`. The switch knows none."""
    members: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    """The dynamic members that the process at a front was, by front: group and member id. The switch knows none."""
    _last_id: int = 0

    def begin(self, front: str) -> None:
        """Count the moments of a new process at a front from the beginning. The switch counts none."""

    def add(self, item: T) -> Active[T]:
        """Put a rule or cut in force."""
        self._last_id += 1
        self.active[self._last_id] = Active(self._last_id, item)
        return self.active[self._last_id]

    def remove(self, number: int) -> bool:
        """Take a rule or cut out of force. Returns whether it was in force."""
        return self.active.pop(number, None) is not None
